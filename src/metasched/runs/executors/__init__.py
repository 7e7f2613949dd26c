"""Where runs are made: ``here``, in this process; ``local``, in others of this machine; ``ray``, on a Ray cluster."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import jax

from metasched.errors import ConfigError, unknown
from metasched.runs.executors.base import Executor
from metasched.runs.executors.in_process import Here
from metasched.runs.executors.local import Local, cores
from metasched.runs.executors.queue import Counts

__all__ = ["AUTO", "NAMES", "Counts", "Executor", "Machines", "executing"]

AUTO = "auto"
NAMES = (AUTO, "here", "local", "ray")
FEWEST_NUMBERS = 8e7
"""Rows drawn × numbers in a row, over all runs, from which several processes are worth their start: about 20 seconds of
one core (docs/machines.md has the measurements)."""


class Machines(NamedTuple):
    """Where runs are made: the executor's name, how many workers at most, and the address of a Ray cluster.

    ``auto`` is ``local`` where that is faster, else ``here``.
    """

    executor: str = AUTO
    workers: int | None = None
    address: str | None = None

    def check(self, own: bool = False) -> None:
        """Refuse what does not fit together, before anything is written.

        ``own`` says that something was made in Python, which no other process can have.
        """
        if self.executor not in NAMES:
            raise unknown("executor", self.executor, NAMES)
        if self.workers is not None and (type(self.workers) is not int or self.workers < 1):
            raise ConfigError(f"workers is {self.workers!r}; give a whole number ≥ 1")
        if self.workers is not None and self.executor == "here":
            raise ConfigError("executor 'here' has no workers; leave workers out, or take executor 'local'")
        if self.address is not None and self.executor != "ray":
            raise ConfigError(f"address is for executor 'ray', not '{self.executor}'; leave one of them out")
        if own and self.executor not in (AUTO, "here"):
            raise ConfigError(
                f"what was made in Python cannot go to other processes: leave executor '{self.executor}' out"
            )


@contextmanager
def executing(machines: Machines, place: Path | None, numbers: float, own: bool = False) -> Iterator[Executor]:
    """The executor that is asked for; its workers are let go at the end.

    ``auto`` decides by the ``numbers`` that the runs will learn from, all together: rows drawn × numbers in a row.

    ``place`` is a folder for its files, by default a temporary one.
    """
    machines.check(own)
    with ExitStack() as stack:
        if place is None:
            place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="metasched-")))
        executor = _make(machines, place, numbers, own)
        stack.callback(executor.close)
        yield executor


def _make(machines: Machines, place: Path, numbers: float, own: bool) -> Executor:
    name = machines.executor
    if name == AUTO:
        several = machines.workers != 1 and cores() > 1 and jax.default_backend() == "cpu"
        name = "local" if several and not own and numbers >= FEWEST_NUMBERS and os.name == "posix" else "here"
    if name == "here":
        return Here(place)
    if name == "local":
        return Local(place, machines.workers)
    from metasched.runs.executors.ray import Ray

    return Ray(place, machines.workers, machines.address)
