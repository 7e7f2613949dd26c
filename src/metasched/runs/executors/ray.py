"""Executes runs on a Ray cluster, an existing one or one on this machine.

Workers only need metasched in the same versions. Rows and checkpoints travel through Ray's object store, and only this
process writes to the run folders. So other nodes need not see the folders, and a worker that was given up (for example
one that outlives the connection of its node) cannot write to them. A worker executes a run in its own temporary folder.
It sends every checkpoint with the metrics that led to it, and at the end the model and the outcome.
"""

import logging
import os
import queue
import socket
import tempfile
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import lru_cache
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple

import msgspec

from metasched import untrusted
from metasched.errors import ConfigError, RunError
from metasched.files import write_whole
from metasched.learners.engine import Record
from metasched.learners.model_file import ABOUT, WEIGHTS
from metasched.optional import require
from metasched.runs import folder, runner
from metasched.runs.checkpoint import NEWEST, PREVIOUS
from metasched.runs.compiled import keep_compiled_programs
from metasched.runs.executors.queue import BUSY_SECONDS, Bundle, OnCounts, Work, folder_of
from metasched.runs.executors.worker import Answer, failed, job_of, one_thread, refusal
from metasched.runs.folder import OUTCOME, BusyError, Description
from metasched.runs.jobs import Job
from metasched.runs.lease import Lease, leased
from metasched.runs.outcome import versions
from metasched.runs.records import METRICS
from metasched.runs.runner import CHECKPOINT_SECONDS, OnOutcome
from metasched.tasks import TaskSet

CONNECT_SECONDS = 5.0
WAIT_SECONDS = 1.0
FILES = (METRICS, PREVIOUS, NEWEST, WEIGHTS, ABOUT, OUTCOME)
"""The files of a run apart from its description, in the order of writing. After a kill between two files, the run must
be able to continue. So no checkpoint comes before the metrics that led to it, and the outcome, which says that
everything is done, comes last.
"""
LARGEST_FILE = 4 * 1024**3
_SIDE_BY_SIDE = 32


class Progress(NamedTuple):
    """The progress of run ``number`` of an order: the content of each of its files."""

    number: int
    files: Mapping[str, bytes]


class _Order(NamedTuple):
    """A running order: its runs, what Ray streams from it, and the leases on their folders."""

    bundle: Bundle
    stream: Any
    leases: list[Lease]
    locks: ExitStack


class Ray:
    """The workers of a cluster: one core for each run, or one GPU for each group of runs."""

    name = "ray"
    needs_folders = True

    def __init__(
        self,
        folder: Path,
        workers: int | None = None,
        address: str | None = None,
        *,
        checkpoint_seconds: float = CHECKPOINT_SECONDS,
    ) -> None:
        self.folder = folder
        self._ray = require("ray", "ray")
        self._seconds = checkpoint_seconds
        self._own = not self._ray.is_initialized()
        if self._own:
            _connect(self._ray, workers, address)
        self._workers = workers
        self._gpus = self._ray.cluster_resources().get("GPU", 0) > 0
        self._remote = _remote(self._ray, self._gpus)
        self._versions = versions()
        self._rows: dict[int, tuple[TaskSet, Any]] = {}
        self._orders: dict[Any, _Order] = {}

    def run(self, jobs: Sequence[Job], on_outcome: OnOutcome, on_counts: OnCounts | None = None) -> None:
        """Deliver the outcome of every job."""
        work = Work(jobs, on_outcome, on_counts, _SIDE_BY_SIDE if self._gpus else 1)
        while not work.ended:
            self._assign(work)
            if not self._orders:  # other processes are working on the remaining runs
                time.sleep(BUSY_SECONDS)
                continue
            ready, _ = self._ray.wait(list(self._orders), num_returns=1, timeout=WAIT_SECONDS, fetch_local=False)
            for stream in ready:
                self._receive(self._orders[stream], work)
        self._rows.clear()
        work.raise_failures()

    def close(self) -> None:
        """Cancel running orders. A cluster that was started for this ends."""
        for order in list(self._orders.values()):
            self._ray.cancel(order.stream, force=True)
            self._end(order)
        self._rows.clear()
        if self._own:
            self._ray.shutdown()

    def _assign(self, work: Work) -> None:
        """Give orders as long as runs are waiting and the cluster has room."""
        # Nodes come and go, so the cluster is asked each time.
        units = self._ray.cluster_resources().get("GPU" if self._gpus else "CPU", 1)
        while len(self._orders) < (self._workers or max(1, int(units))):
            bundle = work.take()
            if bundle is None:
                return
            jobs = work.jobs(bundle)
            locks = ExitStack()
            try:
                leases = locks.enter_context(leased([folder_of(job) for job in jobs]))
            except BusyError:
                work.busy(bundle)
                continue
            stream = self._remote.remote(
                self._versions,
                [msgspec.json.encode(job.description) for job in jobs],
                [self._ray.put(pack(folder_of(job))) for job in jobs],
                [self._stored(job.tasks) for job in jobs],
                self._seconds,
            )
            self._orders[stream] = _Order(bundle, stream, list(leases.values()), locks)

    def _stored(self, tasks: TaskSet) -> Any:
        """Put the rows into Ray's object store, from which every node fetches them once."""
        if id(tasks) not in self._rows:
            self._rows[id(tasks)] = tasks, self._ray.put(tasks)
        return self._rows[id(tasks)][1]

    def _receive(self, order: _Order, work: Work) -> None:
        """Store what an order has sent, or handle its end."""
        bundle = order.bundle
        try:
            item = self._ray.get(next(order.stream))
        except StopIteration:
            item = None
        except self._ray.exceptions.RayError as error:
            self._end(order)
            said = " ".join(str(error).split())[:500]
            if isinstance(error, self._ray.exceptions.RayTaskError):
                work.failed(bundle, said)
            else:
                work.lost(bundle, f"its worker was lost: {said}")
            return
        if isinstance(item, Progress):
            lease = order.leases[item.number]
            try:
                lease.check()
            except BusyError:  # Somebody took the run over, so what this worker sends is ignored.
                self._ray.cancel(order.stream, force=True)
                self._end(order)
                work.busy(bundle)
            else:
                unpack(item.files, lease.folder)
            return
        self._end(order)
        if isinstance(item, str):
            raise RunError(item)
        if item is None:
            work.lost(bundle, "its worker ended without an answer")
        else:
            work.answered(bundle, item)

    def _end(self, order: _Order) -> None:
        """The order has ended, so its folders are free."""
        del self._orders[order.stream]
        order.locks.close()


def _connect(ray: Any, workers: int | None, address: str | None) -> None:
    """Join the cluster at an address, or start one on this machine."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # no usage reports to Ray's makers
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # silences a warning that is irrelevant here
    quiet = {"logging_level": logging.ERROR, "log_to_driver": False}
    if address is None:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "os.fork", RuntimeWarning)  # Ray's forks start another program at once
            ray.init(num_cpus=workers, include_dashboard=False, **quiet)
        return
    if "://" in address:
        raise ConfigError(f"address is {address!r}; run the command on a node of the cluster, and give its host:port")
    if address != "auto":
        host, _, port = address.rpartition(":")
        try:
            socket.create_connection((host, int(port)), CONNECT_SECONDS).close()
        except (OSError, ValueError) as error:
            raise ConfigError(f"no Ray cluster answers at {address} ({error}); see 'ray status'") from None
    try:
        ray.init(address=address, **quiet)
    except (ConnectionError, RuntimeError, ValueError) as error:
        said = " ".join(str(error).split())[:300]
        raise ConfigError(f"cannot join the Ray cluster at {address} ({said})") from None


def _remote(ray: Any, gpus: bool) -> Any:
    """The function for Ray's workers. It is sent by value, so that a worker without metasched can report that."""

    def obey(wanted: Any, descriptions: Any, files: Any, tasks: Any, seconds: float) -> Iterator[Any]:
        try:
            from metasched.runs.executors.ray import serve
        except ImportError as error:
            import platform

            yield f"a worker on {platform.node()} has no metasched ({error}); install the same version on every node"
            return
        yield from serve(wanted, descriptions, files, tasks, seconds)

    environment = {} if gpus else {"env_vars": one_thread()}
    return ray.remote(num_cpus=1, num_gpus=int(gpus), max_retries=0, runtime_env=environment)(obey)


def serve(
    wanted: Mapping[str, str], descriptions: Sequence[bytes], files: Sequence[Any], tasks: Sequence[Any], seconds: float
) -> Iterator[Progress | Answer]:
    """In a worker: execute the runs of an order, whose files and rows are in Ray's store.

    Yield the progress of a run at every checkpoint and at its end, and finally an answer.
    """
    refused = refusal(wanted)
    if refused:
        yield Answer(ending="refused", error=refused)
        return
    keep_compiled_programs()
    stored = require("ray", "ray").get(list(files))
    with tempfile.TemporaryDirectory(prefix="metasched-run-") as scratch:
        jobs = []
        for number, described in enumerate(descriptions):
            own = Path(scratch) / str(number)
            folder.create({own: msgspec.json.decode(described, type=Description)})
            unpack(stored[number], own)
            jobs.append(job_of(own, _fetched(tasks[number])))

        # The runs continue in a thread, which waits until each message was fetched. So the newest message is never far
        # ahead.
        messages: queue.Queue[Progress | Answer] = queue.Queue(maxsize=1)
        sent: dict[int, int] = {}

        def send(number: int, record: Record) -> None:
            own = folder_of(jobs[number])
            stamp = (own / NEWEST).stat().st_mtime_ns if (own / NEWEST).exists() else 0
            if stamp != sent.get(number, 0) or "final" in record or "diverged" in record:
                sent[number] = stamp
                messages.put(Progress(number, pack(own)))

        def make() -> None:
            try:
                runner.run(jobs, on_record=send, checkpoint_seconds=seconds)
                messages.put(Answer(ending="done"))
            except Exception as error:
                messages.put(failed(error))

        Thread(target=make, name="runs", daemon=True).start()
        message: Progress | Answer | None = None
        while not isinstance(message, Answer):
            message = messages.get()
            yield message


@lru_cache(maxsize=8)
def _fetched(reference: Any) -> TaskSet:
    """Rows from Ray's store. A worker keeps the last few sets for its next orders."""
    tasks: TaskSet = require("ray", "ray").get(reference)
    return tasks


def pack(where: Path) -> dict[str, bytes]:
    """The progress of the run in a folder."""
    fix = "start the run again in another folder"
    return {name: untrusted.read_bytes(where / name, LARGEST_FILE, fix) for name in FILES if (where / name).exists()}


def unpack(files: Mapping[str, bytes], where: Path) -> None:
    """Bring a folder to the same state. Each file is replaced completely, in the order of :data:`FILES`."""
    for name in FILES:
        if name in files:
            write_whole(where / name, files[name])
