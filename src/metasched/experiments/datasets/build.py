"""Builds task sets from the rows of their sources and of their target, as the readers in this folder return them."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from metasched.tasks import TEST, VALIDATION, Inputs, Labels, Provenance, RowNumbers, Split, Task, TaskSet, few_labels

DIGITS = tuple(str(digit) for digit in range(10))
"""The classes of all sets of digits."""


class Rows(NamedTuple):
    """Rows of one source or of the target: inputs (n, *shape), labels (n,), their origin, and their classes."""

    inputs: Inputs
    labels: Labels
    provenance: Provenance
    classes: tuple[str, ...] = DIGITS

    def take(self, rows: RowNumbers) -> "Rows":
        """Some of the rows, in this order."""
        return self._replace(inputs=self.inputs[rows], labels=self.labels[rows], provenance=self.provenance.take(rows))

    def divided(self, target_labels: int, seed: int) -> "tuple[Rows, Rows]":
        """Divide rows: ``target_labels`` of them, stratified and drawn from ``seed``, for validation, and all others
        for test.
        """
        validation, test = few_labels(self.labels, target_labels, seed)
        return self.take(validation), self.take(test)


def task_set(name: str, sources: Mapping[str, Rows], validation: Rows, test: Rows, **more: Any) -> TaskSet:
    """A task set. ``more`` has other fields, such as notes. A set that divides one pool says ``split="drawn"``."""
    return TaskSet(
        name=name,
        tasks=tuple(Task(key, rows.inputs, rows.labels, rows.classes) for key, rows in sources.items()),
        validation=Split(validation.inputs, validation.labels),
        test=Split(test.inputs, test.labels),
        classes=test.classes,
        provenance={key: rows.provenance for key, rows in {**sources, VALIDATION: validation, TEST: test}.items()},
        **more,
    )
