"""Which run is next, and what happens to a run that did not end.

:class:`Queue` only does the bookkeeping, without processes, files or clocks. :class:`Work` adds the folders of the
runs, in the same way for all executors.
"""

import time
from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from metasched.errors import RunError
from metasched.files import write_json
from metasched.runs import outcome as outcomes
from metasched.runs.executors.worker import Answer
from metasched.runs.folder import OUTCOME
from metasched.runs.jobs import Job
from metasched.runs.outcome import Outcome
from metasched.runs.runner import OnOutcome, likeness
from metasched.runs.status import FAILURE, Failure

TRIES = 3
"""A run that raised an exception this many times has failed."""
LOSSES = 10
"""A run whose worker died this many times has failed, too. It may be the cause, for example because it uses up the
memory.
"""
BUSY_SECONDS = 1.0
"""Seconds to wait before trying a run again on which another process was working."""


class Counts(NamedTuple):
    """The number of runs in each state."""

    waiting: int
    running: int
    failed: int
    done: int

    def __str__(self) -> str:
        """``38 waiting, 2 running, 1 failed``, without states that have no runs."""
        shown = [(self.waiting, "waiting"), (self.running, "running"), (self.failed, "failed")]
        return ", ".join(f"{count:,} {state}" for count, state in shown if count)


OnCounts = Callable[[Counts], None]
"""Called with the number of runs in each state."""


class Bundle(NamedTuple):
    """The numbers of runs that one worker executes together, and the compiled program that they share."""

    runs: tuple[int, ...]
    program: Hashable


class Queue:
    """Runs by number. ``programs`` has the program of each run, ``at_once`` how many runs of a program a worker takes.

    A worker stays with the program that it has compiled as long as runs of this program are waiting. So every program
    is compiled by as few workers as possible. The numbers of a run do not depend on the worker. ``on_counts`` is called
    whenever the states of runs have changed.
    """

    def __init__(self, programs: Mapping[int, Hashable], at_once: int = 1, on_counts: OnCounts | None = None) -> None:
        self._on_counts = on_counts
        self._waiting: dict[Hashable, deque[tuple[int, ...]]] = {}
        self._workers: Counter[Hashable] = Counter()
        self._tries: Counter[int] = Counter()
        self._losses: Counter[int] = Counter()
        self._running: set[int] = set()
        self._left = self._total = len(programs)
        self.failures: dict[int, Failure] = {}
        gathered: dict[Hashable, list[int]] = {}
        for run, program in programs.items():
            gathered.setdefault(program, []).append(run)
        for program, runs in gathered.items():
            for first in range(0, len(runs), at_once):
                self._wait(program, runs[first : first + at_once])

    @property
    def counts(self) -> Counts:
        """How many runs are in which state."""
        running, failed = len(self._running), len(self.failures)
        return Counts(self._left - running, running, failed, self._total - self._left - failed)

    @property
    def ended(self) -> bool:
        """Whether every run is done or has failed."""
        return not self._left

    def take(self, last: Hashable = None) -> Bundle | None:
        """The next runs for a worker that has compiled the program ``last``. None if nothing is waiting."""
        if not self._waiting:
            return None
        program = last if last in self._waiting else max(self._waiting, key=self._need)
        waiting = self._waiting[program]
        runs = waiting.popleft()
        if not waiting:
            del self._waiting[program]
        self._workers[program] += 1
        self._running.update(runs)
        self._report()
        return Bundle(runs, program)

    def _need(self, program: Hashable) -> tuple[bool, float]:
        """Programs without a worker come first, then the programs with the most runs per worker."""
        workers = self._workers[program]
        return not workers, len(self._waiting[program]) / (1 + workers)

    def done(self, bundle: Bundle) -> None:
        """All its runs have ended successfully."""
        self._stop(bundle)
        self._left -= len(bundle.runs)
        self._report()

    def again(self, bundle: Bundle) -> None:
        """Another process was working on it. It waits again, behind the other runs of its program."""
        self._stop(bundle)
        self._wait(bundle.program, bundle.runs)
        self._report()

    def lost(self, bundle: Bundle, error: str) -> None:
        """Its worker died, which may not be the fault of the runs. They come next, unless this happens too often."""
        self._stop(bundle)
        self._losses.update(bundle.runs)
        rest = [run for run in bundle.runs if self._losses[run] < LOSSES]
        for run in bundle.runs:
            if run not in rest:
                self._give_up(run, Failure(error=error, tries=LOSSES))
        if rest:
            self._wait(bundle.program, rest, first=True)
        self._report()

    def failed(self, bundle: Bundle, error: str, details: str = "") -> None:
        """It raised an exception. Each of its runs is tried again, alone, unless this happens too often."""
        self._stop(bundle)
        self._tries.update(bundle.runs)
        for run in bundle.runs:
            if self._tries[run] < TRIES:
                self._wait(bundle.program, [run])
            else:
                self._give_up(run, Failure(error=error, tries=TRIES, details=details))
        self._report()

    def _report(self) -> None:
        if self._on_counts:
            self._on_counts(self.counts)

    def _stop(self, bundle: Bundle) -> None:
        self._running.difference_update(bundle.runs)
        self._workers[bundle.program] -= 1

    def _wait(self, program: Hashable, runs: Iterable[int], first: bool = False) -> None:
        waiting = self._waiting.setdefault(program, deque())
        (waiting.appendleft if first else waiting.append)(tuple(runs))

    def _give_up(self, run: int, failure: Failure) -> None:
        self.failures[run] = failure
        self._left -= 1


class Work(Queue):
    """The jobs of one call of an executor: a queue with the folders of the runs.

    If the folder of a job has an outcome, it is delivered at once, so no finished run is executed again. On an
    accelerator up to ``side_by_side`` runs share a program, divided among the ``workers``. On a CPU every run is alone.
    """

    def __init__(
        self,
        jobs: Sequence[Job],
        on_outcome: OnOutcome,
        on_counts: OnCounts | None,
        side_by_side: int = 1,
        workers: int = 1,
    ) -> None:
        self._jobs, self._on_outcome = jobs, on_outcome
        self.pausing: deque[tuple[float, Bundle]] = deque()  # until when, and which run
        programs: dict[int, Hashable] = {}
        for number, job in enumerate(jobs):
            outcome = outcome_in(folder_of(job))
            if outcome is not None:
                on_outcome(number, outcome)
            else:
                (folder_of(job) / FAILURE).unlink(missing_ok=True)  # it is tried again
                programs[number] = likeness(job, alone=side_by_side == 1)
        share = -(-min(len(programs), side_by_side) // workers)
        super().__init__(programs, max(1, share), on_counts)

    def jobs(self, bundle: Bundle) -> list[Job]:
        """The jobs of a bundle."""
        return [self._jobs[number] for number in bundle.runs]

    def take(self, last: Hashable = None) -> Bundle | None:
        """The next runs for a worker that has compiled the program ``last``. None if nothing is waiting."""
        while self.pausing and self.pausing[0][0] <= time.monotonic():
            self.again(self.pausing.popleft()[1])
        return super().take(last)

    def busy(self, bundle: Bundle) -> None:
        """Another process is working on these runs. Try again in a moment."""
        self.pausing.append((time.monotonic() + BUSY_SECONDS, bundle))

    def answered(self, bundle: Bundle, answer: Answer) -> None:
        """Handle a worker's answer to an order."""
        if answer.ending == "refused":
            raise RunError(answer.error)
        if answer.ending == "busy":
            self.busy(bundle)
        elif answer.ending == "failed":
            self.failed(bundle, answer.error, answer.details)
        else:
            self.done(bundle)

    def done(self, bundle: Bundle) -> None:
        """Deliver the outcomes of runs that have just ended, from disk, so that everything delivered is stored."""
        super().done(bundle)
        for number, job in zip(bundle.runs, self.jobs(bundle), strict=True):
            outcome = outcome_in(folder_of(job))
            if outcome is None:
                raise RunError(f"{folder_of(job)}: ended without an outcome; run the same command again")
            self._on_outcome(number, outcome)

    def _give_up(self, run: int, failure: Failure) -> None:
        super()._give_up(run, failure)
        write_json(folder_of(self._jobs[run]) / FAILURE, msgspec.to_builtins(failure))

    def raise_failures(self) -> None:
        """Raise an error that names the first failed run, if there is one."""
        for number, failure in self.failures.items():
            others = f" and {len(self.failures) - 1} more" if len(self.failures) > 1 else ""
            raise RunError(
                f"{folder_of(self._jobs[number])}{others}: failed {failure.tries} times ({failure.error}); all other "
                "runs are kept: fix the cause and run the same command again"
            )


def folder_of(job: Job) -> Path:
    """The folder of a job that has one."""
    if job.folder is None:
        raise ValueError("a job for another process needs a folder")
    return job.folder


def outcome_in(folder: Path) -> Outcome | None:
    """The outcome in the folder of a run, or None if the run has not ended."""
    path = folder / OUTCOME
    return next(iter(outcomes.read(path)), None) if path.exists() else None
