"""Runs in processes of this machine: one for each core, or for each accelerator, with its threads limited.

Workers write to the run folders themselves, under a lease. One that dies costs its run what came after the last
checkpoint; another takes its place. They end when this process does, whatever ends it.
"""

import os
import selectors
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import IO, cast

import jax
import msgspec

from metasched.errors import RunError
from metasched.files import append, make_folder
from metasched.runs.compiled import LEAST_SECONDS, compiled_folder
from metasched.runs.executors.base import (
    bring,
    place_of,
    raise_faults,
    unfinished,
    write_faults,
)
from metasched.runs.executors.queue import Bundle, OnCounts, Queue
from metasched.runs.executors.rows import RowFiles
from metasched.runs.executors.worker import Answer, Order, one_thread
from metasched.runs.origin import versions
from metasched.runs.runner import CHECKPOINT_SECONDS, Job, OnOutcome

ROWS = "rows"
LOGS = "workers"
COMMAND = (sys.executable, "-c", "from metasched.runs.executors.worker import main; main()")
BUSY_SECONDS = 1.0
"""Before a run that was in other hands is tried again."""
FAREWELL_SECONDS = 10.0
"""That a worker has to leave a checkpoint before it is killed."""
_SIDE_BY_SIDE = 128
_LEAST = "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def accelerators() -> int:
    """Accelerators of this machine; 0 where JAX computes on its CPU."""
    return 0 if jax.default_backend() == "cpu" else len(jax.local_devices())


def environment(number: int, devices: int) -> dict[str, str]:
    """The environment of worker ``number``: its share of the machine, and the compiled programs that all share."""
    added = {
        "JAX_COMPILATION_CACHE_DIR": compiled_folder(),
        _LEAST: os.environ.get(_LEAST, str(LEAST_SECONDS)),
    }
    if devices:
        added |= {"CUDA_VISIBLE_DEVICES": _device(number, devices), "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    else:
        added |= one_thread()
    return {**os.environ, **added}


def _device(number: int, devices: int) -> str:
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    named = visible.split(",") if visible else [str(device) for device in range(devices)]
    return named[number % len(named)]


class _Worker:
    """A process that obeys one order at a time."""

    def __init__(self, number: int, devices: int, log: Path, command: Sequence[str]) -> None:
        self.number = number
        self.log = log
        with log.open("ab") as stream:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stream,
                env=environment(number, devices),
                start_new_session=True,  # Ctrl-C is this process's affair; it tells its workers
            )
        self.answers = cast(IO[bytes], self._process.stdout)
        self.bundle: Bundle | None = None
        self.line: Hashable = None

    def give(self, bundle: Bundle, order: Order) -> None:
        """Have it make those runs."""
        self.bundle, self.line = bundle, bundle.line
        orders = cast(IO[bytes], self._process.stdin)
        try:
            orders.write(msgspec.json.encode(order) + b"\n")
            orders.flush()
        except BrokenPipeError:
            pass  # it is gone; its answers, which have ended, tell

    def answer(self) -> Answer | None:
        """How its order ended; None when the process did."""
        line = self.answers.readline()
        return msgspec.json.decode(line, type=Answer) if line.endswith(b"\n") else None

    def fate(self) -> str:
        """What ended the process, in words."""
        code = self._process.wait()
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        return f"its worker ended with {how}; see {self.log}"

    def leave(self) -> None:
        """Tell it to go: at once when it is idle, else with a checkpoint."""
        if self._process.poll() is None and self.bundle is not None:
            self._process.send_signal(signal.SIGINT)
        elif self._process.stdin is not None:
            self._process.stdin.close()

    def end(self, seconds: float) -> None:
        """See it gone."""
        try:
            self._process.wait(max(0.0, seconds))
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None and not stream.closed:
                stream.close()


class Local:
    """Workers on this machine; by default one for each core, or for each accelerator."""

    name = "local"
    needs_folders = True

    def __init__(
        self,
        place: Path,
        workers: int | None = None,
        *,
        checkpoint_seconds: float = CHECKPOINT_SECONDS,
        command: Sequence[str] = COMMAND,
    ) -> None:
        self.place = place
        self._devices = accelerators()
        self._most = workers or self._devices or cores()
        self._seconds = checkpoint_seconds
        self._command = command
        self._versions = versions()
        self._rows = RowFiles(place / ROWS)
        self._idle: list[_Worker] = []
        self._busy = selectors.DefaultSelector()
        self._resting: deque[tuple[float, Bundle]] = deque()

    def run(self, jobs: Sequence[Job], on_outcome: OnOutcome, on_counts: OnCounts | None = None) -> None:
        """Bring the outcome of every job."""
        lines = unfinished(jobs, on_outcome, alone=not self._devices)
        share = -(-min(max(len(lines), 1), _SIDE_BY_SIDE) // self._most)
        queue = Queue(lines, share if self._devices else 1, on_counts)
        try:
            while not queue.ended:
                self._hire(queue, jobs)
                for worker, answer in self._answers():
                    self._hear(worker, answer, queue, jobs, on_outcome)
        finally:
            self._rows.clear()
        raise_faults(jobs, queue.faults)

    def _hire(self, queue: Queue, jobs: Sequence[Job]) -> None:
        """Give every idle worker something to do, and take on more while something waits."""
        while self._resting and self._resting[0][0] <= time.monotonic():
            queue.again(self._resting.popleft()[1])
        while self._idle or len(self._busy.get_map()) < self._most:
            bundle = queue.take(self._idle[-1].line if self._idle else None)
            if bundle is None:
                return
            worker = self._idle.pop() if self._idle else self._new()
            chosen = [jobs[number] for number in bundle.runs]
            order = Order(
                folders=tuple(str(place_of(job).absolute()) for job in chosen),
                rows=tuple(str(self._rows.add(job.tasks).absolute()) for job in chosen),
                versions=self._versions,
                checkpoint_seconds=self._seconds,
            )
            worker.give(bundle, order)
            self._busy.register(worker.answers, selectors.EVENT_READ, worker)

    def _new(self) -> _Worker:
        taken = {key.data.number for key in self._busy.get_map().values()}
        number = next(number for number in range(self._most) if number not in taken)
        log = self.place / LOGS / f"{number}.log"
        make_folder(log.parent)
        append(log, b"")  # a link in its place is refused
        return _Worker(number, self._devices, log, self._command)

    def _answers(self) -> list[tuple[_Worker, Answer | None]]:
        """Who has ended its order by now, after waiting for somebody to."""
        ready = self._busy.select(BUSY_SECONDS if self._resting else None)
        return [(key.data, key.data.answer()) for key, _ in ready]

    def _hear(
        self, worker: _Worker, answer: Answer | None, queue: Queue, jobs: Sequence[Job], on_outcome: OnOutcome
    ) -> None:
        self._busy.unregister(worker.answers)
        bundle = cast(Bundle, worker.bundle)
        worker.bundle = None
        if answer is None:
            error = worker.fate()
            worker.end(0.0)
            write_faults(jobs, queue.faults, queue.lost(bundle, error))
            return
        self._idle.append(worker)
        if answer.ending == "refused":
            raise RunError(answer.error)
        if answer.ending == "busy":
            self._resting.append((time.monotonic() + BUSY_SECONDS, bundle))
        elif answer.ending == "failed":
            write_faults(jobs, queue.faults, queue.failed(bundle, answer.error, answer.details))
        else:
            queue.done(bundle)
            bring(jobs, bundle.runs, on_outcome)

    def close(self) -> None:
        """Let the workers go; those at work leave a checkpoint first."""
        busy = [key.data for key in list(self._busy.get_map().values())]
        workers = [*self._idle, *busy]
        self._idle.clear()
        for worker in busy:
            self._busy.unregister(worker.answers)
        for worker in workers:
            worker.leave()
        until = time.monotonic() + FAREWELL_SECONDS
        for worker in workers:
            worker.end(until - time.monotonic())
