"""Task sets from arrays, and from the rows of all sources, one of which is the target."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from msgspec import structs
from numpy.typing import ArrayLike, NDArray

from metasched.errors import ConfigError, DataError, given, such_rows, unknown, whole_number
from metasched.seeds import check_seed
from metasched.tasks.arrays import (
    Inputs,
    RowNumbers,
    as_inputs,
    as_labels,
    as_targets,
    bin_edges,
    bin_names,
    strata_of,
)
from metasched.tasks.checks import MOST_CLASSES, check_targets, location, refuse_empty, refuse_overlap, repeated_rows
from metasched.tasks.labels import Labelling, label
from metasched.tasks.preparation import Cells, Preparation, RowName, as_texts
from metasched.tasks.task import TEST, VALIDATION, Division, Provenance, Split, Task, Unlabelled
from metasched.tasks.taskset import TaskSet
from metasched.tasks.variants import few_labels, stratified_rows

Arrays: TypeAlias = tuple[ArrayLike, ArrayLike]
"""Inputs (n, *shape) and the label or target of each row."""
ClassNames: TypeAlias = Sequence[str] | Mapping[str, Sequence[str]]

MOST_LABELS = 100
"""If you do not divide the target yourself, half of its rows are for validation, but at most this many."""


@dataclass(frozen=True)
class SourceRows:
    """Rows of one source or of the target: inputs (n, *shape), labels as they were written, and their origin."""

    inputs: Inputs
    labels: Cells
    row_name: RowName
    provenance: Provenance

    def take(self, rows: RowNumbers) -> "SourceRows":
        """These rows, in this order."""
        return SourceRows(
            self.inputs[rows],
            np.asarray(self.labels)[rows],
            lambda row: self.row_name(int(rows[row])),
            self.provenance.take(rows),
        )


@dataclass(frozen=True)
class Goal:
    """What to predict, and for which target. The arguments of ``TaskSet.from_frame`` explain the fields."""

    target: str | None = None  # None if sources are named validation and test
    target_labels: int | None = None
    seed: int = 0
    label: str = "label"
    regression: bool | None = None
    bins: int = 10
    allow_overlap: bool = False
    order: tuple[str, ...] = ()  # the order of the classes; other classes follow, sorted


def all_parts(tasks: Mapping[str, Arrays], validation: Arrays, test: Arrays) -> dict[str, Arrays]:
    """The arrays of every part by name: the tasks in order, then validation and test."""
    if VALIDATION in tasks or TEST in tasks:
        raise DataError("a task may not be named 'validation' or 'test'; rename it")
    return {**tasks, VALIDATION: validation, TEST: test}


def classification(
    name: str, parts: Mapping[str, Arrays], classes: ClassNames | None, allow_overlap: bool = False
) -> TaskSet:
    """A task set whose rows have labels, from the arrays of :func:`all_parts`."""
    splits = {key: Split(as_inputs(key, x), as_labels(key, y)) for key, (x, y) in parts.items()}
    return _build(name, splits, _class_names(classes, splits), allow_overlap)


def regression(name: str, parts: Mapping[str, Arrays], bins: int, allow_overlap: bool = False) -> TaskSet:
    """A task set whose rows have numbers to predict, from the arrays of :func:`all_parts`."""
    whole_number("bins", bins, 2)
    sources = [key for key in parts if key not in (VALIDATION, TEST)]
    if not sources:
        raise DataError(f"{name}: no tasks; give at least one")
    inputs = {key: as_inputs(key, x) for key, (x, _) in parts.items()}
    targets = {key: as_targets(key, y) for key, (_, y) in parts.items()}
    for key in parts:
        check_targets(location(name, key), inputs[key], targets[key])
        refuse_empty(name, key, len(targets[key]))
    # The target's own rows must not influence the bins. Otherwise a scheduler would know something about them.
    edges = bin_edges(np.concatenate([targets[key][:, 0] for key in sources]), bins)
    labels = {key: np.searchsorted(edges, y[:, 0], side="right").astype(np.int32) for key, y in targets.items()}
    splits = {key: Split(inputs[key], labels[key], targets[key]) for key in parts}
    return _build(name, splits, dict.fromkeys([*sources, "target"], bin_names(edges)), allow_overlap)


def _build(
    name: str, splits: Mapping[str, Split], classes: Mapping[str, tuple[str, ...]], allow_overlap: bool
) -> TaskSet:
    if not allow_overlap:
        refuse_overlap(splits[VALIDATION], splits[TEST])
    return TaskSet(
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
        highest = {key: int(split.labels.max()) for key, split in splits.items() if split.labels.size}
        top = max(highest.values(), default=0)
        if top >= MOST_CLASSES:
            where = next(key for key in highest if highest[key] == top)
            raise DataError(
                f"{where}: row {splits[where].labels.argmax()} has label {top:,}, so there would be {top + 1:,} "
                f"classes, more than {MOST_CLASSES:,}; number the classes 0 … C−1"
            )
        classes = [str(number) for number in range(top + 1)]
    if not isinstance(classes, Mapping):
        return dict.fromkeys(names, tuple(map(str, classes)))
    for name in names:
        if name not in classes:
            raise ConfigError(f"classes names no labels for '{name}'; add classes[{name!r}]")
    return {name: tuple(map(str, classes[name])) for name in names}


def target_parts(names: Sequence[str], target: str | None, where: str) -> tuple[str, ...]:
    """The sources that belong to the target: ``(target,)``, or validation and test if the user has divided it."""
    divided = [name for name in (VALIDATION, TEST) if name in names]
    if not names:
        raise DataError(f"{where}: has no sources; give at least one, and a target")
    if len(divided) == 1:
        raise DataError(f"{where}: has '{divided[0]}' but not {({VALIDATION, TEST} - {*divided}).pop()!r}; give both")
    if divided and target is not None:
        raise ConfigError(f"{where}: has '{VALIDATION}' and '{TEST}', which are the target's rows; leave out target")
    if target is None and not divided:
        raise ConfigError(f"{where}: which is the target? Give {given('target')}, one of {', '.join(names)}")
    if target is not None and target not in names:
        raise unknown("target", target, names)
    own = tuple(divided) if target is None else (target,)
    if len(names) == len(own):
        raise DataError(f"{where}: has no source apart from the target; give at least one")
    return own


def assemble(
    name: str,
    sources: Mapping[str, SourceRows],
    goal: Goal,
    notes: Sequence[str] = (),
    preparation: Preparation | None = None,
    unlabelled: SourceRows | None = None,
) -> TaskSet:
    """A task set whose target is divided into validation and test as ``goal`` says. Rows keep their order.

    Rows of the target without a label, and those in ``unlabelled``, become the unlabelled rows of the task set.
    """
    own = target_parts(list(sources), goal.target, name)
    sources, without = _set_apart(sources, own, goal.label)
    blank = _unlabelled([*without, *([] if unlabelled is None else [unlabelled])])
    labels = label(
        {key: source.labels for key, source in sources.items()},
        own,
        {key: source.row_name for key, source in sources.items()},
        title=goal.label,
        regression=goal.regression,
        order=goal.order,
    )
    validation, test, division = _target_rows(sources, own, labels, goal, 0 if blank is None else len(blank))
    chosen = {key: (key, np.arange(len(source.inputs))) for key, source in sources.items() if key not in own}
    chosen |= {VALIDATION: (own[0], validation), TEST: (own[-1], test)}
    _refuse_unlearnable(sources, chosen, labels, goal.label)
    arrays: dict[str, Any] = {
        # If these are all rows of a source, do not make a second array of that size.
        key: (sources[source].inputs[rows] if source in own else sources[source].inputs, labels.values[source][rows])
        for key, (source, rows) in chosen.items()
    }
    if labels.classes is None:
        result = regression(name, arrays, goal.bins, allow_overlap=True)
    else:
        classes = {key: names for key, names in labels.classes.items() if key not in own}
        result = classification(name, arrays, classes | {"target": labels.classes[own[0]]}, allow_overlap=True)
    return replace(
        result,
        provenance={key: sources[source].provenance.take(rows) for key, (source, rows) in chosen.items()},
        notes=(*division, *labels.notes, *notes),
        label_warnings=labels.warnings,
        preparation=preparation and structs.replace(preparation, text_labels=labels.text),
        split=split_of(goal.target, goal.target_labels),
        unlabelled=blank,
    )


def _set_apart(
    sources: Mapping[str, SourceRows], own: tuple[str, ...], title: str
) -> tuple[dict[str, SourceRows], list[SourceRows]]:
    """The sources with only the labelled rows of the target, and the target's other rows."""
    labelled, without = dict(sources), []
    for part in own:
        gaps = np.array([text is None for text in as_texts(sources[part].labels)], bool)
        if gaps.any():
            labelled[part] = sources[part].take(np.flatnonzero(~gaps))
            without.append(sources[part].take(np.flatnonzero(gaps)))
    if without and not len(labelled[own[0]].inputs):
        raise DataError(
            f"{sources[own[0]].row_name(0)}: '{title}' is empty here and in all {len(sources[own[0]].inputs):,} "
            "rows of "
            f"'{own[0]}'; give some of these rows a label to learn from"
        )
    return labelled, without


def _unlabelled(parts: Sequence[SourceRows]) -> Unlabelled | None:
    if not parts:
        return None
    origins = [part.provenance for part in parts]
    return Unlabelled(
        np.concatenate([part.inputs for part in parts]),
        Provenance(
            " + ".join(dict.fromkeys(origin.source for origin in origins)),
            np.concatenate([origin.rows for origin in origins]),
            {file: digest for origin in origins for file, digest in origin.files.items()},
        ),
        tuple(part.row_name(row) for part in parts for row in range(len(part.inputs))),
    )


def split_of(target: str | None, count: int | None) -> Division:
    """How the target's rows are divided (``TaskSet.split``). ``target`` and ``count`` are what the user gave."""
    return "given" if target is None else "drawn" if count is None else "asked"


def divide(
    values: NDArray[Any], target: str, count: int | None, seed: int, unlabelled: int = 0
) -> tuple[RowNumbers, RowNumbers, str]:
    """The labelled rows of the target for validation and for test, both in order, and a sentence about the choice.

    A target that also has ``unlabelled`` rows has few labels, so all of them are for validation unless the user gives a
    number.
    """
    if unlabelled and count is None:
        rows = "labelled row is" if len(values) == 1 else f"{len(values):,} labelled rows are"
        note = f"target '{target}': its {rows} for validation, none for testing; {given('target_labels')} changes that"
        return np.arange(len(values)), np.arange(0), note
    if len(values) < 2:
        raise DataError(f"target '{target}' has {len(values)} row; give rows to learn from and rows to test")
    wanted = min(MOST_LABELS, len(values) // 2) if count is None else count
    validation, test = few_labels(strata_of(values), wanted, seed)
    default = "" if count is not None else f"; {given('target_labels')} changes that"
    return (
        validation,
        test,
        f"target '{target}': {len(validation):,} of {len(values):,} rows are for validation, drawn at random "
        f"(seed {seed}) in proportion to the labels; the others are for testing{default}",
    )


def _target_rows(
    sources: Mapping[str, SourceRows], own: tuple[str, ...], labels: Labelling, goal: Goal, unlabelled: int
) -> tuple[RowNumbers, RowNumbers, list[str]]:
    """The rows for validation and for test, and a description.

    A test row that repeats a validation row would measure memory. If we divide the target, we leave such a row out. If
    the user divided it, we refuse the row, because we cannot know which of the two is meant.
    """
    notes = []
    if goal.target is not None:
        values = labels.values[goal.target]
        validation, test, note = divide(values, goal.target, goal.target_labels, goal.seed, unlabelled)
        notes.append(note)
    else:
        validation, test = (np.arange(len(sources[part].inputs)) for part in own)
        if goal.target_labels is not None:
            notes.append(f"{goal.target_labels:,} of {len(validation):,} validation rows are used (seed {goal.seed})")
            random = np.random.default_rng(check_seed(goal.seed))
            validation = stratified_rows(strata_of(labels.values[VALIDATION]), goal.target_labels, random)
    if goal.allow_overlap:
        return validation, test, notes
    first, last = (
        (sources[part].inputs[rows], labels.values[part][rows].astype(np.float32))
        for part, rows in ((own[0], validation), (own[-1], test))
    )
    twins = repeated_rows(first, last)
    if goal.target is None:
        for row, twin in twins.items():
            raise DataError(
                f"{sources[TEST].row_name(int(test[row]))}: repeats "
                f"{sources[VALIDATION].row_name(int(validation[twin]))}; remove one of them, or give "
                f"{given('allow_overlap', True)} if your rows legitimately repeat"
            )
    if twins and len(twins) == len(test):
        raise DataError(
            f"target '{goal.target}': every test row repeats a validation row; give other rows, or "
            f"{given('allow_overlap', True)}"
        )
    if twins:
        notes.append(
            f"{len(twins):,} test rows that repeat a validation row are left out; to keep them: "
            f"{given('allow_overlap', True)}"
        )
    return validation, np.delete(test, [*twins]), notes


def _refuse_unlearnable(
    sources: Mapping[str, SourceRows], chosen: Mapping[str, tuple[str, RowNumbers]], labels: Labelling, title: str
) -> None:
    """Refuse a label that no row to learn from has. It could only be predicted wrongly."""
    if labels.classes is None:
        return
    target, tested = chosen[TEST]
    classes = labels.classes[target]
    learnt = [
        labels.values[source][rows]
        for key, (source, rows) in chosen.items()
        if key != TEST and labels.classes[source] == classes
    ]
    lost = tested[~np.isin(labels.values[target][tested], np.concatenate(learnt))]
    if lost.size:
        raise DataError(
            f"{sources[target].row_name(int(lost[0]))}: {title} '{classes[labels.values[target][lost[0]]]}' occurs "
            f"only in test rows ({such_rows(len(lost))}), so no model can learn it; add validation or source rows "
            "with this label, or leave it out"
        )
