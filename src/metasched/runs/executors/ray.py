"""Runs on a Ray cluster, an existing one or one of this machine: Ray places the work, disk has the truth.

Workers need metasched, in the same versions, and nothing else: rows go out and checkpoints come back through Ray's
object store, and this process alone writes to the run folders. So nobody else has to see them, and a worker that was
given up, as one that outlives its raylet is, has nowhere to write.
"""

import logging
import os
import socket
import time
import warnings
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from metasched.errors import ConfigError, RunError
from metasched.optional import require
from metasched.runs.executors.base import (
    bring,
    place_of,
    raise_faults,
    unfinished,
    write_faults,
)
from metasched.runs.executors.queue import Bundle, OnCounts, Queue
from metasched.runs.executors.remote import Message, pack, unpack
from metasched.runs.executors.worker import Answer, one_thread
from metasched.runs.folder import BusyError
from metasched.runs.lease import Lease, leased
from metasched.runs.origin import versions
from metasched.runs.runner import CHECKPOINT_SECONDS, Job, OnOutcome
from metasched.tasks import TaskSet

CONNECT_SECONDS = 5.0
BUSY_SECONDS = 1.0
WAIT_SECONDS = 1.0
_SIDE_BY_SIDE = 32


class _Flight(NamedTuple):
    """An order under way: the runs, what Ray streams of it, and the leases on their folders."""

    bundle: Bundle
    stream: Any
    leases: list[Lease]
    locks: ExitStack


class Ray:
    """Workers of a cluster: one core for each run, or one GPU for each group of runs."""

    name = "ray"
    needs_folders = True

    def __init__(
        self,
        place: Path,
        workers: int | None = None,
        address: str | None = None,
        *,
        checkpoint_seconds: float = CHECKPOINT_SECONDS,
    ) -> None:
        self.place = place
        self._ray = require("ray", "ray")
        self._seconds = checkpoint_seconds
        self._own = not self._ray.is_initialized()
        if self._own:
            _connect(self._ray, workers, address)
        self._workers = workers
        self._gpus = self._ray.cluster_resources().get("GPU", 0) > 0
        self._work = _remote(self._ray, self._gpus)
        self._versions = versions()
        self._rows: dict[int, tuple[TaskSet, Any]] = {}
        self._flights: dict[Any, _Flight] = {}
        self._resting: deque[tuple[float, Bundle]] = deque()

    def run(self, jobs: Sequence[Job], on_outcome: OnOutcome, on_counts: OnCounts | None = None) -> None:
        """Bring the outcome of every job."""
        lines = unfinished(jobs, on_outcome, alone=not self._gpus)
        queue = Queue(lines, _SIDE_BY_SIDE if self._gpus else 1, on_counts)
        while not queue.ended:
            self._send(queue, jobs)
            for flight in self._ready():
                self._hear(flight, queue, jobs, on_outcome)
        self._rows.clear()
        raise_faults(jobs, queue.faults)

    def close(self) -> None:
        """Call off what is under way; a cluster that was started for this goes down."""
        for flight in self._flights.values():
            self._ray.cancel(flight.stream, force=True)
            flight.locks.close()
        self._flights.clear()
        self._rows.clear()
        if self._own:
            self._ray.shutdown()

    def _most(self) -> int:
        """Orders that may be under way; nodes come and go."""
        if self._workers is not None:
            return self._workers
        return max(1, int(self._ray.cluster_resources().get("GPU" if self._gpus else "CPU", 1)))

    def _send(self, queue: Queue, jobs: Sequence[Job]) -> None:
        """Give orders as long as something waits and the cluster may take more."""
        while self._resting and self._resting[0][0] <= time.monotonic():
            queue.again(self._resting.popleft()[1])
        room = self._most() - len(self._flights)
        while room > 0:
            bundle = queue.take()
            if bundle is None:
                return
            chosen = [jobs[number] for number in bundle.runs]
            locks = ExitStack()
            try:
                leases = locks.enter_context(leased([place_of(job) for job in chosen]))
            except BusyError:
                self._resting.append((time.monotonic() + BUSY_SECONDS, bundle))
                continue
            stream = self._work.remote(
                self._versions,
                [msgspec.json.encode(job.description) for job in chosen],
                [self._ray.put(pack(place_of(job))) for job in chosen],
                [self._stored(job.tasks) for job in chosen],
                self._seconds,
            )
            self._flights[stream] = _Flight(bundle, stream, list(leases.values()), locks)
            room -= 1

    def _stored(self, tasks: TaskSet) -> Any:
        """The rows in Ray's object store, where every node fetches them once."""
        if id(tasks) not in self._rows:
            self._rows[id(tasks)] = tasks, self._ray.put(tasks)
        return self._rows[id(tasks)][1]

    def _ready(self) -> list[_Flight]:
        """Orders of which there is news, after waiting for some."""
        if not self._flights:
            time.sleep(BUSY_SECONDS)
            return []
        ready, _ = self._ray.wait(list(self._flights), num_returns=1, timeout=WAIT_SECONDS, fetch_local=False)
        return [self._flights[stream] for stream in ready]

    def _hear(self, flight: _Flight, queue: Queue, jobs: Sequence[Job], on_outcome: OnOutcome) -> None:
        """Keep what an order has brought, or see to its runs when it has ended."""
        bundle = flight.bundle
        try:
            item = self._ray.get(next(flight.stream))
        except StopIteration:
            item = None
        except self._ray.exceptions.RayError as error:
            self._land(flight)
            told = " ".join(str(error).split())[:500]
            if isinstance(error, self._ray.exceptions.RayTaskError):
                write_faults(jobs, queue.faults, queue.failed(bundle, told))
            else:
                write_faults(jobs, queue.faults, queue.lost(bundle, f"its worker was lost: {told}"))
            return
        if isinstance(item, Message):
            try:
                flight.leases[item.number].check()
            except BusyError:
                self._ray.cancel(flight.stream, force=True)
                self._land(flight)
                self._resting.append((time.monotonic() + BUSY_SECONDS, bundle))
                return
            unpack(item.luggage, flight.leases[item.number].place)
            return
        self._land(flight)
        if isinstance(item, str) or (isinstance(item, Answer) and item.ending == "refused"):
            raise RunError(item if isinstance(item, str) else item.error)
        if isinstance(item, Answer) and item.ending == "done":
            queue.done(bundle)
            bring(jobs, bundle.runs, on_outcome)
        elif isinstance(item, Answer):
            write_faults(jobs, queue.faults, queue.failed(bundle, item.error, item.details))
        else:
            write_faults(jobs, queue.faults, queue.lost(bundle, "its worker ended without an answer"))

    def _land(self, flight: _Flight) -> None:
        """The order has ended: its folders are free."""
        del self._flights[flight.stream]
        flight.locks.close()


def _connect(ray: Any, workers: int | None, address: str | None) -> None:
    """Join the cluster at an address, or start one of this machine."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # a run of ours tells nobody that it runs
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # Ray warns of a change that is none for us
    quiet = {"logging_level": logging.ERROR, "log_to_driver": False}
    if address is None:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "os.fork", RuntimeWarning)  # what Ray forks becomes another program
            ray.init(num_cpus=workers, include_dashboard=False, **quiet)
        return
    if "://" in address:
        raise ConfigError(f"address is {address!r}; give host:port of the cluster, and the command on one of its nodes")
    if address != "auto":
        host, _, port = address.rpartition(":")
        try:
            socket.create_connection((host, int(port)), CONNECT_SECONDS).close()
        except (OSError, ValueError) as error:
            raise ConfigError(f"no Ray cluster answers at {address} ({error}); see 'ray status'") from None
    try:
        ray.init(address=address, **quiet)
    except (ConnectionError, RuntimeError, ValueError) as error:
        told = " ".join(str(error).split())[:300]
        raise ConfigError(f"cannot join the Ray cluster at {address} ({told})") from None


def _remote(ray: Any, gpus: bool) -> Any:
    """What Ray runs in its workers; it goes there by value, so that a worker without metasched can say so."""

    def obey(wanted: Any, descriptions: Any, luggage: Any, tasks: Any, seconds: float) -> Iterator[Any]:
        try:
            from metasched.runs.executors.ray_worker import serve
        except ImportError as error:
            import platform

            yield f"a worker on {platform.node()} has no metasched ({error}); install the same version on every node"
            return
        yield from serve(wanted, descriptions, luggage, tasks, seconds)

    environment = {} if gpus else {"env_vars": one_thread()}
    return ray.remote(num_cpus=1, num_gpus=int(gpus), max_retries=0, runtime_env=environment)(obey)
