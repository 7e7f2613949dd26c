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
    """Rows of the target, which it unpacks to.

    Attributes:
        inputs: ``(n, *shape)`` float32.
        labels: ``(n,)`` int32.
        targets: ``(n, d)`` float32 when the task set is one of regression, else None.

    Examples:
        >>> inputs, labels = tasks.test
        >>> inputs.shape, labels.shape
        ((50, 4), (50,))
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
        """Some of the rows.

        Args:
            rows: their numbers.

        Returns:
            Those rows, in that order.

        Examples:
            >>> len(tasks.test.take(np.array([3, 1])).labels)
            2
        """
        return Split(self.inputs[rows], self.labels[rows], _at(self.targets, rows))


@dataclass(frozen=True, eq=False)
class Task:
    """One source: rows in order.

    Attributes:
        name: of the source.
        inputs: ``(n, *shape)``.
        labels: ``(n,)``, indexing ``classes``.
        classes: names of the labels.
        targets: ``(n, d)`` in a task set of regression: what is learnt. Labels are then the bins that schedulers see.

    Examples:
        >>> north = tasks.tasks[0]
        >>> north.name, len(north), north.classes
        ('north', 40, ('calm', 'storm'))
    """

    name: str
    inputs: Inputs
    labels: Labels
    classes: tuple[str, ...]
    targets: Targets | None = None

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, rows: RowNumbers) -> "Task":
        """Some of the rows.

        Args:
            rows: their numbers.

        Returns:
            A task of those rows, in that order.

        Examples:
            >>> len(tasks.tasks[0].take(np.arange(10)))
            10
        """
        return replace(self, inputs=self.inputs[rows], labels=self.labels[rows], targets=_at(self.targets, rows))

    def relabelled(self, rows: RowNumbers) -> "Task":
        """The same inputs in the same order, with other labels.

        Args:
            rows: for each row the number of the row whose label, and target, it gets.

        Returns:
            A task of as many rows.

        Examples:
            >>> north = tasks.tasks[0]
            >>> backwards = north.relabelled(np.arange(len(north))[::-1])
            >>> bool(backwards.labels[0] == north.labels[-1])
            True
        """
        return replace(self.take(rows), inputs=self.inputs)

    def joined(self, other: "Task") -> "Task":
        """These rows followed by those of another task.

        Args:
            other: a task with inputs of the same shape.

        Returns:
            A task with the name and classes of this one.

        Examples:
            >>> len(tasks.tasks[0].joined(tasks.tasks[1]))
            100
        """
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
