"""Runs in this process: those of one shape in one program, side by side on accelerators."""

from collections.abc import Sequence
from pathlib import Path

from metasched.runs import runner as engine
from metasched.runs.executors.queue import OnCounts
from metasched.runs.runner import Job, OnOutcome


class Here:
    """No other process; an exception ends the command, and the same command goes on from the last checkpoints."""

    name = "here"
    needs_folders = False

    def __init__(self, place: Path) -> None:
        self.place = place

    def run(self, jobs: Sequence[Job], on_outcome: OnOutcome, on_counts: OnCounts | None = None) -> None:
        """Bring the outcome of every job."""
        del on_counts
        engine.run(jobs, on_outcome=on_outcome)

    def close(self) -> None:
        """Nothing to let go of."""
