"""Rows of a source, rows of the target, and where rows come from."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from metasched.tasks.arrays import Inputs, Labels, RowNumbers, Targets

VALIDATION = "validation"
TEST = "test"
Division: TypeAlias = Literal["given", "drawn", "asked"]
"""Who divided the target's rows. ``TaskSet.split`` explains the words."""


class _Pair(NamedTuple):
    inputs: Inputs
    labels: Labels


class Split(_Pair):
    """Rows of the target. It unpacks to inputs and labels.

    Attributes:
        inputs: ``(n, *shape)`` float32.
        labels: ``(n,)`` int32.
        targets: ``(n, d)`` float32 in a task set of regression, else None.

    Examples:
        >>> inputs, labels = tasks.test
        >>> inputs.shape, labels.shape
        ((50, 4), (50,))
    """

    targets: Targets | None

    def __new__(cls, inputs: Inputs, labels: Labels, targets: Targets | None = None) -> "Split":
        """Make a pair that also carries the targets."""
        split = super().__new__(cls, inputs, labels)
        split.targets = targets
        return split

    def _replace(self, **changes: Any) -> "Split":
        return Split(**{**self._asdict(), "targets": self.targets, **changes})

    def take(self, rows: RowNumbers) -> "Split":
        """Some of the rows.

        Args:
            rows: the numbers of the rows.

        Returns:
            These rows, in this order.

        Examples:
            >>> len(tasks.test.take(np.array([3, 1])).labels)
            2
        """
        return Split(self.inputs[rows], self.labels[rows], None if self.targets is None else self.targets[rows])


@dataclass(frozen=True, eq=False)
class Task:
    """One source: rows in order.

    Attributes:
        name: the name of the source.
        inputs: ``(n, *shape)``.
        labels: ``(n,)``, indexing ``classes``.
        classes: names of the labels.
        targets: ``(n, d)`` in regression: the numbers to learn. Labels are then the bins that schedulers see.

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
            rows: the numbers of the rows.

        Returns:
            A task with these rows, in this order.

        Examples:
            >>> len(tasks.tasks[0].take(np.arange(10)))
            10
        """
        targets = None if self.targets is None else self.targets[rows]
        return replace(self, inputs=self.inputs[rows], labels=self.labels[rows], targets=targets)


@dataclass(frozen=True, eq=False)
class Provenance:
    """Where rows come from.

    Attributes:
        source: a name or description.
        rows: the row numbers in that source.
        files: the SHA-256 of each file read.
        note: what was done to the rows since then.

    Examples:
        >>> ms.Provenance("shops.csv", np.arange(200)).take(np.arange(10, 30)).describe()
        'shops.csv, rows 10–29'
    """

    source: str
    rows: RowNumbers
    files: Mapping[str, str] = field(default_factory=dict)
    note: str = ""

    def take(self, index: RowNumbers, note: str = "") -> "Provenance":
        """The provenance of some of the rows.

        Args:
            index: the positions of the rows.
            note: text to add to the earlier note.

        Returns:
            The provenance of these rows, in this order.
        """
        return replace(self, rows=self.rows[index], note="; ".join(part for part in (self.note, note) if part))

    def describe(self) -> str:
        """A short description.

        Returns:
            Such as ``Semeion, rows 0–1399``.
        """
        rows = self.rows
        if not len(rows):
            return f"{self.source}, no rows"
        if np.array_equal(rows, np.arange(rows[0], rows[0] + len(rows))):
            return f"{self.source}, rows {rows[0]}–{rows[-1]}"
        return f"{self.source}, {len(rows):,} rows of {rows.min()}–{rows.max()}"


@dataclass(frozen=True, eq=False)
class Unlabelled:
    """Rows of the target without a label. Nothing is learned from them, but a model can predict them.

    Attributes:
        inputs: ``(n, *shape)``, prepared like those of all other rows.
        provenance: where they come from.
        names: a readable name of each row, such as ``shop3.csv line 7``.

    Examples:
        >>> rows = ms.Unlabelled(np.zeros((2, 4), np.float32), ms.Provenance("new", np.arange(2)), ("row 1", "row 2"))
        >>> len(rows)
        2
    """

    inputs: Inputs
    provenance: Provenance
    names: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.inputs)
