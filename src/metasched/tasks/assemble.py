"""Task sets from the rows of every source, of which one is the target."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from metasched.errors import ConfigError, DataError, given, unknown
from metasched.seeds import check_seed
from metasched.tasks import builders
from metasched.tasks.arrays import Inputs, Labels, RowNumbers
from metasched.tasks.bins import bin_edges
from metasched.tasks.labelling import Labelling, label
from metasched.tasks.preparation import Cells, Place, Preparation
from metasched.tasks.provenance import Provenance
from metasched.tasks.task import TEST, VALIDATION
from metasched.tasks.variants import few_labels, stratified_rows

if TYPE_CHECKING:
    from metasched.tasks.taskset import TaskSet

MOST_LABELS = 100
"""Validation rows of a target that the user has not divided: half of its rows, and at most so many."""


@dataclass(frozen=True)
class Part:
    """Rows of one source or of the target: inputs (n, *shape), what each is labelled as, and where it is from."""

    inputs: Inputs
    labels: Cells
    place: Place
    provenance: Provenance


@dataclass(frozen=True, kw_only=True)
class Goal:
    """What to predict, and for whom.

    Args:
        target: the source that is the target; None where parts are named ``validation`` and ``test``.
        target_labels: how many of the target's rows are for validation; None: half, at most 100.
        seed: decides which.
        label: what the labels are called.
        order: of the classes; others follow, sorted.
        regression: whether to predict numbers; None: where they are not all whole.
        bins: of these numbers, which schedulers see as labels.
        allow_overlap: let a validation row be a test row too.
    """

    target: str | None = None
    target_labels: int | None = None
    seed: int = 0
    label: str = "label"
    order: tuple[str, ...] = ()
    regression: bool | None = None
    bins: int = 10
    allow_overlap: bool = False


def target_parts(names: Sequence[str], target: str | None, where: str) -> tuple[str, ...]:
    """Which parts are the target's: ``(target,)``, or validation and test where the user has divided it."""
    divided = [name for name in (VALIDATION, TEST) if name in names]
    if not names:
        raise DataError(f"{where}: holds no sources; give at least one, and a target")
    if len(divided) == 1:
        raise DataError(f"{where}: has '{divided[0]}' but not {({VALIDATION, TEST} - {*divided}).pop()!r}; give both")
    if divided and target is not None:
        raise ConfigError(f"{where}: has '{VALIDATION}' and '{TEST}', which are the target's rows; leave out target")
    if target is None and not divided:
        raise ConfigError(f"{where}: which is the target? Give {given('target')}, one of {', '.join(names)}")
    if target is not None and target not in names:
        raise unknown("target", target, names)
    parts = tuple(divided) if target is None else (target,)
    if len(names) == len(parts):
        raise DataError(f"{where}: has no source besides the target; give at least one")
    return parts


def assemble(
    kind: "type[TaskSet]",
    name: str,
    parts: Mapping[str, Part],
    goal: Goal,
    notes: Sequence[str] = (),
    preparation: Preparation | None = None,
) -> "TaskSet":
    """A task set whose target is divided into validation and test as ``goal`` says; rows keep their order."""
    own = target_parts(list(parts), goal.target, name)
    labelling = label(
        {key: part.labels for key, part in parts.items()},
        own,
        {key: part.place for key, part in parts.items()},
        title=goal.label,
        regression=goal.regression,
        order=goal.order,
    )
    origin, said = _divided(parts, own, labelling, goal)
    _refuse_unlearnable(parts, origin, labelling, goal.label)
    arrays: dict[str, Any] = {
        key: (parts[part].inputs[rows], labelling.values[part][rows]) for key, (part, rows) in origin.items()
    }
    if labelling.classes is None:
        result = builders.regression(kind, name, arrays, goal.bins, goal.allow_overlap)
    else:
        classes = {key: labelling.classes[key] for key in parts if key not in own} | {
            "target": labelling.classes[own[0]]
        }
        result = builders.labelled(kind, name, arrays, classes, goal.allow_overlap)
    return replace(
        result,
        provenance={key: parts[part].provenance.take(rows) for key, (part, rows) in origin.items()},
        notes=(*said, *labelling.notes, *notes),
        doubts=labelling.doubts,
        preparation=preparation and structs.replace(preparation, text_labels=labelling.text),
    )


def strata(values: NDArray[Any]) -> Labels:
    """What rows are divided by: their labels, or tenths of the first number to predict."""
    if values.dtype.kind in "iu":
        return values.astype(np.int32)
    first = values.reshape(len(values), -1)[:, 0].astype(np.float32)
    return np.searchsorted(bin_edges(first, 10), first, side="right").astype(np.int32)


def divide(values: NDArray[Any], target: str, count: int | None, seed: int) -> tuple[RowNumbers, RowNumbers, str]:
    """Rows of the target for validation and for test, both in their order, and how they were chosen, in words."""
    if len(values) < 2:
        raise DataError(f"target '{target}' has {len(values)} row; give rows to learn from and rows to test")
    chosen = min(MOST_LABELS, len(values) // 2) if count is None else count
    validation, test = few_labels(strata(values), chosen, seed)
    default = "" if count is not None else f"; {given('target_labels')} changes that"
    return (
        validation,
        test,
        f"target '{target}': {len(validation):,} of {len(values):,} rows, drawn at random (seed {seed}) in proportion "
        f"to the labels, are for validation, the rest for test{default}",
    )


def _divided(
    parts: Mapping[str, Part], own: tuple[str, ...], labelling: Labelling, goal: Goal
) -> tuple[dict[str, tuple[str, RowNumbers]], list[str]]:
    """For every task, validation and test: the part and the rows it is made of; and what was done, in words."""
    origin = {key: (key, np.arange(len(part.inputs))) for key, part in parts.items() if key not in own}
    if goal.target is None:
        validation, test, notes = _divided_by_user(parts, labelling, goal)
        return origin | {VALIDATION: (VALIDATION, validation), TEST: (TEST, test)}, notes
    validation, test, notes = _divided_by_us(parts[goal.target], labelling.values[goal.target], goal.target, goal)
    return origin | {VALIDATION: (goal.target, validation), TEST: (goal.target, test)}, notes


def _divided_by_user(
    parts: Mapping[str, Part], labelling: Labelling, goal: Goal
) -> tuple[RowNumbers, RowNumbers, list[str]]:
    """All rows of both parts, or as many of the first as are asked for; a row in both is refused."""
    validation, test = (np.arange(len(parts[part].inputs)) for part in (VALIDATION, TEST))
    notes = []
    if goal.target_labels is not None:
        notes = [f"{goal.target_labels:,} of {len(validation):,} validation rows are used (seed {goal.seed})"]
        labels = strata(labelling.values[VALIDATION])
        validation = stratified_rows(labels, goal.target_labels, np.random.default_rng(check_seed(goal.seed)))
    if not goal.allow_overlap:
        learnt = parts[VALIDATION], labelling.values[VALIDATION], validation
        for row, twin in _repeated(learnt, (parts[TEST], labelling.values[TEST], test)).items():
            raise DataError(
                f"{parts[TEST].place(row)}: repeats {parts[VALIDATION].place(twin)}; remove one of them, or give "
                f"{given('allow_overlap', True)} if your rows legitimately repeat"
            )
    return validation, test, notes


def _divided_by_us(
    part: Part, values: NDArray[Any], target: str, goal: Goal
) -> tuple[RowNumbers, RowNumbers, list[str]]:
    """Rows drawn for validation, and the others, but for those that repeat one of the first."""
    validation, test, note = divide(values, target, goal.target_labels, goal.seed)
    twins = {} if goal.allow_overlap else _repeated((part, values, validation), (part, values, test))
    if len(twins) == len(test):
        raise DataError(
            f"target '{target}': every test row repeats a validation row; give other rows, or "
            f"{given('allow_overlap', True)}"
        )
    if not twins:
        return validation, test, [note]
    left_out = (
        f"{len(twins):,} test rows that repeat a validation row are left out; to keep them: "
        f"{given('allow_overlap', True)}"
    )
    return validation, np.setdiff1d(test, [*twins]), [note, left_out]


def _repeated(
    learnt: tuple[Part, NDArray[Any], RowNumbers], tested: tuple[Part, NDArray[Any], RowNumbers]
) -> dict[int, int]:
    """Rows to test that are also to be learnt from, inputs and label alike, and which those are."""

    def keys(part: Part, values: NDArray[Any], rows: RowNumbers) -> list[tuple[tuple[bytes, float], int]]:
        return [((part.inputs[row].tobytes(), float(np.float32(values[row]))), int(row)) for row in rows]

    known = dict(keys(*learnt))
    return {row: known[key] for key, row in keys(*tested) if key in known}


def _refuse_unlearnable(
    parts: Mapping[str, Part], origin: Mapping[str, tuple[str, RowNumbers]], labelling: Labelling, title: str
) -> None:
    """A label that no row to learn from has can only be predicted wrongly."""
    if labelling.classes is None:
        return
    part, rows = origin[TEST]
    classes = labelling.classes[part]
    learnt = {
        int(value)
        for key, (source, chosen) in origin.items()
        if key != TEST and labelling.classes[source] == classes
        for value in np.unique(labelling.values[source][chosen])
    }
    lost = [row for row in rows if int(labelling.values[part][row]) not in learnt]
    if lost:
        name = classes[labelling.values[part][lost[0]]]
        raise DataError(
            f"{parts[part].place(int(lost[0]))}: {title} '{name}' occurs only in test rows ({len(lost):,} such rows), "
            "so nothing can teach it; give it validation or source rows, or leave it out"
        )
