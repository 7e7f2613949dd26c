"""Which run is next, and what becomes of one that did not end: bookkeeping without processes, files or clocks.

Runs that share a compiled program form a line of their own. A worker stays with the line it is at, so that every
program is compiled by as few workers as possible; which worker makes a run changes nothing of its numbers.
"""

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import NamedTuple

TRIES = 3
"""A run that ended in an exception so often has failed."""
LOSSES = 10
"""A run that took so many workers with it has failed too."""


class Counts(NamedTuple):
    """How many runs are in which state."""

    waiting: int
    running: int
    failed: int
    done: int

    def __str__(self) -> str:
        """``38 waiting, 2 running, 1 failed``: what is not there is left out."""
        told = [(self.waiting, "waiting"), (self.running, "running"), (self.failed, "failed")]
        return ", ".join(f"{count:,} {state}" for count, state in told if count)


OnCounts = Callable[[Counts], None]
"""Called with how many runs are in which state."""


class Fault(NamedTuple):
    """Why a run was given up, and how often it was tried."""

    error: str
    details: str
    tries: int


class Bundle(NamedTuple):
    """Runs, by number, that one worker makes at once, and the line they stand in."""

    runs: tuple[int, ...]
    line: Hashable


class Queue:
    """Runs by number; ``lines`` tells the line of each, ``at_once`` how many of a line a worker takes.

    ``on_counts`` is called whenever runs have changed their states.
    """

    def __init__(self, lines: Mapping[int, Hashable], at_once: int = 1, on_counts: OnCounts | None = None) -> None:
        self._on_counts = on_counts
        self._at_once = at_once
        self._waiting: dict[Hashable, deque[tuple[int, ...]]] = {}
        self._at_work: dict[Hashable, int] = {}
        self._left = len(lines)
        self._tries: dict[int, int] = {}
        self._losses: dict[int, int] = {}
        self._running: set[int] = set()
        self.faults: dict[int, Fault] = {}
        self.total = len(lines)
        gathered: dict[Hashable, list[int]] = {}
        for run, line in lines.items():
            gathered.setdefault(line, []).append(run)
        for line, runs in gathered.items():
            parts = [tuple(runs[first : first + at_once]) for first in range(0, len(runs), at_once)]
            self._waiting[line] = deque(parts)

    @property
    def counts(self) -> Counts:
        """Where all runs stand."""
        running, failed = len(self._running), len(self.faults)
        return Counts(self._left - running, running, failed, self.total - self._left - failed)

    @property
    def ended(self) -> bool:
        """Whether every run is done or has failed."""
        return not self._left

    def take(self, last: Hashable = None) -> Bundle | None:
        """What a worker that was at the line ``last`` does next; None when nothing waits."""
        line = last if last in self._waiting else self._emptiest()
        if line is None:
            return None
        waiting = self._waiting[line]
        runs = waiting.popleft()
        if not waiting:
            del self._waiting[line]
        self._at_work[line] = self._at_work.get(line, 0) + 1
        self._running.update(runs)
        self._tell()
        return Bundle(runs, line)

    def done(self, bundle: Bundle) -> None:
        """All its runs have ended well."""
        self._leave(bundle)
        self._left -= len(bundle.runs)
        self._tell()

    def again(self, bundle: Bundle) -> None:
        """It was in other hands: it waits again, behind the others of its line."""
        self._leave(bundle)
        self._wait(bundle.line, bundle.runs, soon=False)
        self._tell()

    def lost(self, bundle: Bundle, error: str) -> list[int]:
        """Its worker is gone, which is no fault of the runs: they come next; those given up."""
        self._leave(bundle)
        for run in bundle.runs:
            self._losses[run] = self._losses.get(run, 0) + 1
        lost = [run for run in bundle.runs if self._losses[run] >= LOSSES]
        for run in lost:
            self._give_up(run, Fault(error, "", LOSSES))
        rest = tuple(run for run in bundle.runs if run not in lost)
        if rest:
            self._wait(bundle.line, rest, soon=True)
        self._tell()
        return lost

    def failed(self, bundle: Bundle, error: str, details: str = "") -> list[int]:
        """An exception: each of its runs is tried again, alone, unless it had its chances; those given up."""
        self._leave(bundle)
        given_up = []
        for run in bundle.runs:
            self._tries[run] = self._tries.get(run, 0) + 1
            if self._tries[run] >= TRIES:
                self._give_up(run, Fault(error, details, self._tries[run]))
                given_up.append(run)
            else:
                self._wait(bundle.line, (run,), soon=False)
        self._tell()
        return given_up

    def _tell(self) -> None:
        if self._on_counts:
            self._on_counts(self.counts)

    def _emptiest(self) -> Hashable:
        """A line that nobody is at, else the one with the most left for each worker at it."""

        def need(line: Hashable) -> tuple[bool, float]:
            workers = self._at_work.get(line, 0)
            return not workers, len(self._waiting[line]) / (1 + workers)

        return max(self._waiting, key=need, default=None)

    def _leave(self, bundle: Bundle) -> None:
        self._running.difference_update(bundle.runs)
        self._at_work[bundle.line] -= 1
        if not self._at_work[bundle.line]:
            del self._at_work[bundle.line]

    def _wait(self, line: Hashable, runs: Iterable[int], soon: bool) -> None:
        waiting = self._waiting.setdefault(line, deque())
        (waiting.appendleft if soon else waiting.append)(tuple(runs))

    def _give_up(self, run: int, fault: Fault) -> None:
        self.faults[run] = fault
        self._left -= 1
