"""Task sets from arrays: with labels, or with numbers to predict."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from metasched.errors import ConfigError, DataError
from metasched.tasks.arrays import as_inputs, as_labels, as_targets
from metasched.tasks.bins import bin_edges, bin_names
from metasched.tasks.checks import MOST_CLASSES, check_targets, place, refuse_overlap
from metasched.tasks.provenance import Provenance
from metasched.tasks.task import TEST, VALIDATION, Split, Task

if TYPE_CHECKING:
    from metasched.tasks.taskset import TaskSet

Arrays: TypeAlias = tuple[ArrayLike, ArrayLike]
"""Inputs (n, *shape) and, for each row, its label or its target."""
ClassNames: TypeAlias = Sequence[str] | Mapping[str, Sequence[str]]


def labelled(
    kind: "type[TaskSet]", name: str, parts: Mapping[str, Arrays], classes: ClassNames | None, allow_overlap: bool
) -> "TaskSet":
    """A set of classification from the arrays of every part (:func:`all_parts`)."""
    splits = {key: Split(as_inputs(key, x), as_labels(key, y)) for key, (x, y) in parts.items()}
    return _built(kind, name, splits, _class_names(classes, splits), allow_overlap)


def regression(
    kind: "type[TaskSet]", name: str, parts: Mapping[str, Arrays], bins: int, allow_overlap: bool
) -> "TaskSet":
    """A set of regression from the arrays of every part (:func:`all_parts`); labels are bins of the first number."""
    if bins < 2 or bins != int(bins):
        raise ConfigError(f"bins is {bins}; give a whole number ≥ 2")
    sources = [key for key in parts if key not in (VALIDATION, TEST)]
    if not sources:
        raise DataError(f"{name}: no tasks; give at least one")
    inputs = {key: as_inputs(key, x) for key, (x, _) in parts.items()}
    targets = {key: as_targets(key, y) for key, (_, y) in parts.items()}
    for key in parts:
        check_targets(place(name, key), inputs[key], targets[key])
    edges = bin_edges(np.concatenate([targets[key][:, 0] for key in sources]), bins)
    labels = {key: np.searchsorted(edges, y[:, 0], side="right").astype(np.int32) for key, y in targets.items()}
    splits = {key: Split(inputs[key], labels[key], targets[key]) for key in parts}
    return _built(kind, name, splits, dict.fromkeys([*sources, "target"], bin_names(edges)), allow_overlap)


def all_parts(tasks: Mapping[str, Arrays], validation: Arrays, test: Arrays) -> dict[str, Arrays]:
    """The arrays of every part by name: the tasks in their order, then validation and test."""
    parts = {**tasks, VALIDATION: validation, TEST: test}
    if len(parts) != len(tasks) + 2:
        raise DataError("a task may not be named 'validation' or 'test'; rename it")
    return parts


def _built(
    kind: "type[TaskSet]",
    name: str,
    splits: Mapping[str, Split],
    classes: Mapping[str, tuple[str, ...]],
    allow_overlap: bool,
) -> "TaskSet":
    if not allow_overlap:
        refuse_overlap(splits[VALIDATION], splits[TEST])
    return kind(
        name=name,
        tasks=tuple(
            Task(key, *split, classes=classes[key], targets=split.targets)
            for key, split in splits.items()
            if key not in (VALIDATION, TEST)
        ),
        validation=splits[VALIDATION],
        test=splits[TEST],
        classes=classes["target"],
        provenance={key: Provenance("array", np.arange(len(split.labels))) for key, split in splits.items()},
    )


def _class_names(classes: ClassNames | None, splits: Mapping[str, Split]) -> dict[str, tuple[str, ...]]:
    """The class names of every task and, under ``"target"``, of the target."""
    names = [name for name in splits if name not in (VALIDATION, TEST)] + ["target"]
    if classes is None:
        top = max((int(split.labels.max()) for split in splits.values() if split.labels.size), default=0)
        if top >= MOST_CLASSES:
            where = next(key for key, split in splits.items() if split.labels.size and split.labels.max() == top)
            row = int(splits[where].labels.argmax())
            raise DataError(
                f"{where}: row {row} has label {top:,}, so that there were {top + 1:,} classes, more than "
                f"{MOST_CLASSES:,}; number the classes 0 … C−1"
            )
        classes = [str(label) for label in range(top + 1)]
    if not isinstance(classes, Mapping):
        return dict.fromkeys(names, tuple(map(str, classes)))
    for name in names:
        if name not in classes:
            raise ConfigError(f"classes names no labels for '{name}'; add classes[{name!r}]")
    return {name: tuple(map(str, classes[name])) for name in names}
