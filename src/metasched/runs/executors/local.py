"""Executes runs in processes on this machine: one per core, or one per accelerator.

Workers write to the run folders themselves, under a lease. If a worker dies, its run loses the work since the last
checkpoint, and another worker takes over. Workers end when this process ends, for whatever reason, because their
standard input is then closed.
"""

import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Hashable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, cast

import jax
import msgspec

from metasched.files import append, make_folder
from metasched.runs.compiled import LEAST_SECONDS, compiled_folder
from metasched.runs.executors.queue import BUSY_SECONDS, Bundle, OnCounts, Work, folder_of
from metasched.runs.executors.worker import Answer, Order, RowFiles, one_thread
from metasched.runs.jobs import Job
from metasched.runs.outcome import versions
from metasched.runs.runner import CHECKPOINT_SECONDS, OnOutcome

ROWS = "rows"
LOGS = "workers"
COMMAND = (sys.executable, "-c", "from metasched.runs.executors.worker import main; main()")
FAREWELL_SECONDS = 10.0
"""How many seconds a worker has to write a checkpoint before it is killed."""
_SIDE_BY_SIDE = 128
"""The most runs, over all workers, that share a program on an accelerator."""
_LEAST = "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"


def cores() -> int:
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def environment(number: int, devices: int) -> dict[str, str]:
    """The environment of worker ``number``: its share of the machine, and the shared compiled programs."""
    share = one_thread()
    if devices:
        visible = os.environ.get("CUDA_VISIBLE_DEVICES", "")
        named = visible.split(",") if visible else [str(device) for device in range(devices)]
        share = {"CUDA_VISIBLE_DEVICES": named[number % len(named)], "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    compiled = {"JAX_COMPILATION_CACHE_DIR": compiled_folder(), _LEAST: os.environ.get(_LEAST, str(LEAST_SECONDS))}
    return {**os.environ, **compiled, **share}


class _Worker:
    """A process that executes one order at a time."""

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
                start_new_session=True,  # Ctrl-C reaches only this process, which then tells its workers
            )
        self.answers = cast(IO[bytes], self._process.stdout)
        self.bundle: Bundle | None = None
        self.program: Hashable = None

    def give(self, bundle: Bundle, order: Order) -> None:
        """Give it an order to execute these runs."""
        self.bundle, self.program = bundle, bundle.program
        orders = cast(IO[bytes], self._process.stdin)
        try:
            orders.write(msgspec.json.encode(order) + b"\n")
            orders.flush()
        except BrokenPipeError:
            pass  # It has died. Reading its answer will show this.

    def answer(self) -> Answer | None:
        """How its order ended, or None if the process ended."""
        line = self.answers.readline()
        return msgspec.json.decode(line, type=Answer) if line.endswith(b"\n") else None

    def fate(self) -> str:
        """What ended the process, in words."""
        code = self._process.wait()
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        return f"its worker ended with {how}; see {self.log}"

    def leave(self) -> None:
        """Tell it to end: at once if it is idle, otherwise after a checkpoint."""
        if self._process.poll() is None and self.bundle is not None:
            self._process.send_signal(signal.SIGINT)
        else:
            _close(self._process.stdin)

    def end(self, seconds: float) -> None:
        """Wait until it has ended."""
        try:
            self._process.wait(max(0.0, seconds))
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        _close(self._process.stdin)
        _close(self._process.stdout)


def _close(stream: IO[bytes] | None) -> None:
    """Close a pipe, even if it contains an order that came too late for its worker."""
    if stream is not None:
        with suppress(BrokenPipeError):
            stream.close()


class Local:
    """Workers on this machine, by default one per core or accelerator."""

    name = "local"
    needs_folders = True

    def __init__(
        self,
        folder: Path,
        workers: int | None = None,
        *,
        checkpoint_seconds: float = CHECKPOINT_SECONDS,
        command: Sequence[str] = COMMAND,
    ) -> None:
        self.folder = folder
        self._devices = 0 if jax.default_backend() == "cpu" else len(jax.local_devices())
        self._most = workers or self._devices or cores()
        self._seconds = checkpoint_seconds
        self._command = command
        self._versions = versions()
        self._rows = RowFiles(folder / ROWS)
        self._idle: list[_Worker] = []
        self._busy = selectors.DefaultSelector()

    def run(self, jobs: Sequence[Job], on_outcome: OnOutcome, on_counts: OnCounts | None = None) -> None:
        """Deliver the outcome of every job."""
        work = Work(jobs, on_outcome, on_counts, _SIDE_BY_SIDE if self._devices else 1, self._most)
        try:
            while not work.ended:
                self._assign(work)
                ready = self._busy.select(BUSY_SECONDS if work.pausing else None)
                for worker in [key.data for key, _ in ready]:
                    self._receive(worker, work)
        finally:
            self._rows.clear()
        work.raise_failures()

    def _assign(self, work: Work) -> None:
        """Give every idle worker something to do, and start more workers while runs are waiting."""
        while self._idle or len(self._busy.get_map()) < self._most:
            bundle = work.take(self._idle[-1].program if self._idle else None)
            if bundle is None:
                return
            jobs = work.jobs(bundle)
            worker = self._idle.pop() if self._idle else self._new()
            order = Order(
                folders=tuple(str(folder_of(job).absolute()) for job in jobs),
                rows=tuple(str(self._rows.add(job.tasks).absolute()) for job in jobs),
                versions=self._versions,
                checkpoint_seconds=self._seconds,
            )
            worker.give(bundle, order)
            self._busy.register(worker.answers, selectors.EVENT_READ, worker)

    def _new(self) -> _Worker:
        taken = {key.data.number for key in self._busy.get_map().values()}
        number = next(number for number in range(self._most) if number not in taken)
        log = self.folder / LOGS / f"{number}.log"
        make_folder(log.parent)
        append(log, b"")  # refuses a link in its place
        return _Worker(number, self._devices, log, self._command)

    def _receive(self, worker: _Worker, work: Work) -> None:
        """Handle the end of a worker's order."""
        answer = worker.answer()
        self._busy.unregister(worker.answers)
        bundle = cast(Bundle, worker.bundle)
        worker.bundle = None
        if answer is None:
            error = worker.fate()
            worker.end(0.0)
            work.lost(bundle, error)
            return
        self._idle.append(worker)
        work.answered(bundle, answer)

    def close(self) -> None:
        """Release the workers. Workers with an order write a checkpoint first."""
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
