"""Where runs are executed: ``in-process``; ``local``, in other processes on this machine; ``ray``, on a Ray cluster.

An executor takes jobs and delivers their outcomes. The state of a run is always on disk, in its folder, and never only
in an executor. So you can kill any of the processes at any moment and run the same command again.
"""

import os
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple, Protocol

import jax

from metasched.errors import ConfigError, unknown, whole_number
from metasched.runs import runner
from metasched.runs.executors.local import Local, cores
from metasched.runs.executors.queue import Counts, OnCounts
from metasched.runs.jobs import Job
from metasched.runs.runner import OnOutcome

__all__ = ["AUTO", "IN_PROCESS", "NAMES", "Counts", "Executor", "Machines", "executing"]

AUTO, IN_PROCESS = "auto", "in-process"
NAMES = (AUTO, IN_PROCESS, "local", "ray")
OLD_NAME = "here"
"""The name of ``in-process`` in the last version."""
FEWEST_SECONDS = 20.0
"""If all runs together take fewer seconds than this on one core, starting several processes takes longer than it saves
(docs/machines.md has the timings).
"""


class Executor(Protocol):
    """Executes runs. ``folder`` is its own, for temporary files.

    An executor that uses other processes ``needs_folders``: the caller makes a folder for every job, and the outcome is
    read from there.
    """

    name: str
    folder: Path
    needs_folders: bool

    def run(self, jobs: Sequence[Job], on_outcome: OnOutcome, on_counts: OnCounts | None = None) -> None:
        """Deliver the outcome of every job, in any order.

        Failures are written to the folders of their runs. When all other runs have ended, an error names the first
        failure.
        """

    def close(self) -> None:
        """Release the workers, once. Runs that have not ended leave checkpoints."""


class InProcess:
    """Uses no other process. Runs of one shape share a compiled program, side by side on accelerators.

    An exception ends the command. The same command then continues from the last checkpoints.
    """

    name = IN_PROCESS
    needs_folders = False

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def run(self, jobs: Sequence[Job], on_outcome: OnOutcome, on_counts: OnCounts | None = None) -> None:
        """Deliver the outcome of every job."""
        del on_counts
        runner.run(jobs, on_outcome=on_outcome)

    def close(self) -> None:
        """There is nothing to release."""


class Machines(NamedTuple):
    """Where runs are executed: the name of the executor, the most workers, and the address of a Ray cluster.

    ``auto`` is ``local`` if that is faster, otherwise ``in-process``.
    """

    executor: str = AUTO
    workers: int | None = None
    address: str | None = None

    @property
    def name(self) -> str:
        """The name of the executor; the new name if the old one was given."""
        return IN_PROCESS if self.executor == OLD_NAME else self.executor

    def check(self, own: bool = False) -> None:
        """Refuse settings that do not fit together, before anything is written.

        ``own`` says that something was made in Python, which cannot be sent to another process.
        """
        name = self.name
        if name not in NAMES:
            raise unknown("executor", name, NAMES)
        if self.workers is not None:
            whole_number("workers", self.workers, 1)
        if self.workers is not None and name == IN_PROCESS:
            raise ConfigError(f"executor '{IN_PROCESS}' has no workers; leave workers out, or use executor 'local'")
        if self.address is not None and name != "ray":
            raise ConfigError(f"address is for executor 'ray', not '{name}'; leave out one of them")
        if own and name not in (AUTO, IN_PROCESS):
            raise ConfigError(f"objects made in Python cannot be sent to other processes: leave out executor '{name}'")


@contextmanager
def executing(machines: Machines, folder: Path | None, seconds: float, own: bool = False) -> Iterator[Executor]:
    """Yield the requested executor, and release its workers at the end.

    ``auto`` decides by the ``seconds`` that all runs together take on one core, without compiling. ``folder`` is for
    the executor's files, by default a temporary folder.
    """
    machines.check(own)
    if machines.executor == OLD_NAME:
        warnings.warn(f"executor '{OLD_NAME}' is now called '{IN_PROCESS}'; give that", FutureWarning, stacklevel=2)
    with ExitStack() as stack:
        if folder is None:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="metasched-")))
        name = machines.name
        if name == AUTO:
            several = machines.workers != 1 and cores() > 1 and jax.default_backend() == "cpu"
            name = "local" if several and not own and seconds >= FEWEST_SECONDS and os.name == "posix" else IN_PROCESS
        executor: Executor
        if name == IN_PROCESS:
            executor = InProcess(folder)
        elif name == "local":
            executor = Local(folder, machines.workers)
        else:
            from metasched.runs.executors.ray import Ray

            executor = Ray(folder, machines.workers, machines.address)
        stack.callback(executor.close)
        yield executor
