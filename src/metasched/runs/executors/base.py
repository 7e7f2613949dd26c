"""What an executor is: it takes jobs and brings their outcomes. What is true is on disk, never in an executor."""

from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from metasched.errors import RunError
from metasched.runs import outcome as outcomes
from metasched.runs.executors.queue import Fault, OnCounts
from metasched.runs.folder import OUTCOME
from metasched.runs.outcome import Outcome
from metasched.runs.runner import Job, OnOutcome, likeness
from metasched.runs.states import Failure, forget_failure, record_failure


class Executor(Protocol):
    """Makes runs somewhere. ``place`` is a folder of its own for what it needs meanwhile.

    An executor that works elsewhere ``needs_folders``: every job has one, made before, and its outcome is read from it.
    """

    name: str
    place: Path
    needs_folders: bool

    def run(self, jobs: Sequence[Job], on_outcome: OnOutcome, on_counts: OnCounts | None = None) -> None:
        """Bring the outcome of every job, in any order.

        Runs that have failed are written down in their folders, and named in an error when all others have ended.
        """

    def close(self) -> None:
        """Let go of the workers, once; runs under way leave checkpoints."""


def outcome_in(job: Job) -> Outcome | None:
    """The outcome that the folder of a job holds; None as long as the run has not ended."""
    path = place_of(job) / OUTCOME
    return next(iter(outcomes.read(path)), None) if path.exists() else None


def place_of(job: Job) -> Path:
    """The folder of a job that has one."""
    if job.folder is None:
        raise ValueError("a job for another process needs a folder")
    return job.folder


def unfinished(jobs: Sequence[Job], on_outcome: OnOutcome, alone: bool) -> dict[int, Hashable]:
    """The jobs whose folders hold no outcome yet, by number, each with what it may share a program by.

    The outcomes of the others are brought at once: what has ended is never made again.
    """
    lines: dict[int, Hashable] = {}
    for number, job in enumerate(jobs):
        outcome = outcome_in(job)
        if outcome is not None:
            on_outcome(number, outcome)
        else:
            forget_failure(place_of(job))
            lines[number] = likeness(job, alone)
    return lines


def bring(jobs: Sequence[Job], numbers: Sequence[int], on_outcome: OnOutcome) -> None:
    """The outcomes of jobs that have just ended."""
    for number in numbers:
        outcome = outcome_in(jobs[number])
        if outcome is None:
            raise RunError(f"{place_of(jobs[number])}: has ended without an outcome; give the same command again")
        on_outcome(number, outcome)


def write_faults(jobs: Sequence[Job], faults: Mapping[int, Fault], numbers: Sequence[int]) -> None:
    """Write down why these runs were given up."""
    for number in numbers:
        error, details, tries = faults[number]
        record_failure(place_of(jobs[number]), Failure(error=error, tries=tries, details=details))


def raise_faults(jobs: Sequence[Job], faults: Mapping[int, Fault]) -> None:
    """An error that names the first run that failed, if any did."""
    for number, fault in faults.items():
        others = f" and {len(faults) - 1} more" if len(faults) > 1 else ""
        raise RunError(
            f"{place_of(jobs[number])}{others}: failed {fault.tries} times ({fault.error}); all other runs are kept: "
            "mend the cause and give the same command again"
        )
