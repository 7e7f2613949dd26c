"""Rows of one source, and rows of the target."""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from metasched.tasks.arrays import Inputs, Labels, RowNumbers, Targets

VALIDATION = "validation"
TEST = "test"


class _Pair(NamedTuple):
    inputs: Inputs
    labels: Labels


class Split(_Pair):
    """Rows of the target: ``inputs`` (n, *shape) float32 and ``labels`` (n,) int32, which it unpacks to.

    ``targets`` (n, d) float32 are there when the task set is one of regression, else None.
    """

    targets: Targets | None

    def __new__(cls, inputs: Inputs, labels: Labels, targets: Targets | None = None) -> "Split":
        """A pair that carries the targets beside it."""
        split = super().__new__(cls, inputs, labels)
        split.targets = targets
        return split

    def _replace(self, **changes: Any) -> "Split":
        return Split(**{**self._asdict(), "targets": self.targets, **changes})

    def take(self, rows: RowNumbers) -> "Split":
        """Those rows, in that order."""
        return Split(self.inputs[rows], self.labels[rows], _at(self.targets, rows))


@dataclass(frozen=True, eq=False)
class Task:
    """One source: rows in order, ``inputs`` (n, *shape), ``labels`` (n,) indexing ``classes``.

    In a task set of regression ``targets`` (n, d) are what is learnt, and labels the bins that schedulers see.
    """

    name: str
    inputs: Inputs
    labels: Labels
    classes: tuple[str, ...]
    targets: Targets | None = None

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, rows: RowNumbers) -> "Task":
        """Those rows, in that order."""
        return replace(self, inputs=self.inputs[rows], labels=self.labels[rows], targets=_at(self.targets, rows))

    def relabelled(self, rows: RowNumbers) -> "Task":
        """The same inputs in the same order, each with the label, and the target, of the row given for it."""
        return replace(self.take(rows), inputs=self.inputs)

    def joined(self, other: "Task") -> "Task":
        """These rows followed by those of ``other``."""
        targets = None
        if self.targets is not None and other.targets is not None:
            targets = np.concatenate([self.targets, other.targets])
        return replace(
            self,
            inputs=np.concatenate([self.inputs, other.inputs]),
            labels=np.concatenate([self.labels, other.labels]),
            targets=targets,
        )


def _at(targets: Targets | None, rows: RowNumbers) -> Targets | None:
    return None if targets is None else targets[rows]
