"""Refuses data from which nothing useful could be learned, and options of the wrong type. Messages name task, row and
fix.
"""

import math
import types
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec
import numpy as np
from numpy.typing import NDArray

from metasched.errors import ConfigError, DataError, given, such_rows
from metasched.tasks.arrays import Inputs, Labels, Targets
from metasched.tasks.task import TEST, VALIDATION, Split

if TYPE_CHECKING:
    from metasched.tasks.taskset import TaskSet

MOST_CLASSES = 10_000
"""Labels that would need more classes than this are not class numbers."""
FEWEST_ROWS = 8
"""With fewer target rows than this, to learn from or to test on, results say little."""
EXAMPLES = {"noise": "such as noise={'NAME': 0.4}, a fraction for each task by name"}
"""Examples for options whose type does not show their form."""


def check(tasks: "TaskSet") -> None:
    """Raise a :class:`DataError` unless names, rows, targets and provenance fit together."""
    if not tasks.tasks:
        raise DataError(f"{tasks.name}: no tasks; give at least one")
    names = Counter(task.name for task in tasks.tasks)
    for name, count in names.items():
        if not name or name in (VALIDATION, TEST) or count > 1:
            raise DataError(f"{tasks.name}: task name '{name}' is empty, reserved or used twice; rename it")
    for name in tasks.useful or ():
        if name not in names:
            raise DataError(f"{tasks.name}: '{name}' in useful is not a task; give names of tasks, or leave useful out")
    for name, part, classes in tasks.parts():
        where = location(tasks.name, name)
        if len(classes) > MOST_CLASSES:
            raise DataError(f"{where}: {len(classes):,} classes, more than {MOST_CLASSES:,}; group them")
        for label, count in Counter(classes).items():
            if count > 1:
                raise DataError(f"{where}: {count} classes are named '{label}'; give each a different name")
        refuse_empty(tasks.name, name, len(part.labels))
        _check_rows(where, part.inputs, part.labels, classes, tasks.shape)
        if (part.targets is None) != (tasks.test.targets is None):
            raise DataError(f"{where} and the test rows must either both have targets or both have none; add them")
        if part.targets is not None:
            check_targets(where, part.inputs, part.targets)
            if part.targets.shape[1] != tasks.target_size:
                raise DataError(
                    f"{where}: a target has {part.targets.shape[1]} numbers, but in the test rows it "
                    f"has {tasks.target_size}; give the same number"
                )
    for name, part, _ in tasks.parts():
        count, known = len(part.labels), len(tasks.provenance[name].rows) if name in tasks.provenance else 0
        if known != count:
            raise DataError(
                f"{tasks.name}: '{name}' has {count} rows, but its provenance has {known}; give the origin of each row"
            )
    _check_unlabelled(tasks)
    validation, test = tasks.provenance[VALIDATION], tasks.provenance[TEST]
    if validation.source == test.source != "array" and (both := np.intersect1d(validation.rows, test.rows)).size:
        raise DataError(
            f"{tasks.name}: row {both[0]} of {test.source} is in both validation and test "
            f"({such_rows(both.size)}); keep them apart"
        )


def location(tasks: str, part: str) -> str:
    """A place in a task set: ``digits: task 'semeion-1'`` or ``digits: test``."""
    return f"{tasks}: {part}" if part in (VALIDATION, TEST) else f"{tasks}: task '{part}'"


def refuse_empty(tasks: str, part: str, rows: int) -> None:
    """Raise if a part has no rows. The test part may be empty: such a set is judged by cross-validation."""
    if not rows and part != TEST:
        raise DataError(f"{location(tasks, part)} is empty; give it rows or leave it out")


def refuse_untested(tasks: "TaskSet") -> None:
    """Raise if there are no test rows but runs must be scored on them."""
    if not len(tasks.test.labels):
        raise ConfigError(
            f"{tasks.name}: has no test rows to score a run on, because all {len(tasks.validation.labels):,} labelled "
            f"rows of the target are for validation; with {given('target_labels')} the others are for testing"
        )


def few_rows(tasks: "TaskSet") -> list[str]:
    """A warning if the target has too few rows to learn from, or to test on."""
    labelled, tested = len(tasks.validation.labels), len(tasks.test.labels)
    if min(labelled, tested or labelled) >= FEWEST_ROWS:
        return []
    if not tested:
        return [f"the target has {labelled:,} labelled rows: with fewer than {FEWEST_ROWS}, results say little"]
    counts = (
        f"{count:,} {kind} row{'' if count == 1 else 's'}" for count, kind in ((labelled, "labelled"), (tested, "test"))
    )
    return [f"the target has {' and '.join(counts)}: with fewer than {FEWEST_ROWS} of either, results say little"]


def _check_rows(where: str, inputs: Inputs, labels: Labels, classes: tuple[str, ...], shape: tuple[int, ...]) -> None:
    if labels.ndim != 1 or inputs.ndim < 2 or len(inputs) != len(labels):
        raise DataError(
            f"{where}: inputs {inputs.shape} and labels {labels.shape} do not match; "
            "give inputs (rows, …) and one label for each row"
        )
    if inputs.shape[1:] != shape:
        raise DataError(
            f"{where}: an input has shape {inputs.shape[1:]}, but in the test rows it has {shape}; give all "
            "inputs the same shape"
        )
    wrong = np.flatnonzero((labels < 0) | (labels >= len(classes)))
    if wrong.size:
        raise DataError(
            f"{where}: row {wrong[0]} has label {labels[wrong[0]]}, outside 0 … {len(classes) - 1} "
            f"({such_rows(wrong.size)}); renumber the labels or name more classes"
        )
    _refuse_infinite(where, inputs)


def _check_unlabelled(tasks: "TaskSet") -> None:
    rows = tasks.unlabelled
    if rows is None:
        return
    where = f"{tasks.name}: unlabelled rows"
    if rows.inputs.shape[1:] != tasks.shape:
        raise DataError(
            f"{where}: an input has shape {rows.inputs.shape[1:]}, but in the test rows it has {tasks.shape}; "
            "give all inputs the same shape"
        )
    if not len(rows.inputs) == len(rows.names) == len(rows.provenance.rows):
        raise DataError(
            f"{where}: there are {len(rows.inputs)}, with {len(rows.names)} names and the origin of "
            f"{len(rows.provenance.rows)}; give each row its name and its origin"
        )
    _refuse_infinite(where, rows.inputs)


def _refuse_infinite(where: str, inputs: Inputs) -> None:
    # A single sum shows whether anything is wrong, without a second array of the size of the inputs.
    if not math.isfinite(float(np.sum(inputs, dtype=np.float64))):
        bad = np.flatnonzero(~np.isfinite(inputs).reshape(len(inputs), -1).all(axis=1))
        raise DataError(
            f"{where}: row {bad[0]} contains NaN or infinity ({such_rows(bad.size)}); drop or fill those rows"
        )


def check_targets(where: str, inputs: Inputs, targets: Targets) -> None:
    """Raise unless every row has finite numbers to predict."""
    if targets.ndim != 2 or not targets.shape[1] or len(inputs) != len(targets):
        raise DataError(
            f"{where}: inputs {inputs.shape} and targets {targets.shape} do not match; "
            "give inputs (rows, …) and targets (rows,) or (rows, numbers)"
        )
    bad = np.flatnonzero(~np.isfinite(targets).all(axis=1))
    if bad.size:
        raise DataError(
            f"{where}: the target of row {bad[0]} is NaN or infinite ({such_rows(bad.size)}); drop or fill those rows"
        )


def repeated_rows(validation: tuple[Inputs, NDArray[Any]], test: tuple[Inputs, NDArray[Any]]) -> dict[int, int]:
    """The test rows with the same input and answer as a validation row, and the numbers of these validation rows."""
    known = {key: row for row, key in enumerate(row_keys(*validation))}
    return {row: known[key] for row, key in enumerate(row_keys(*test)) if key in known}


def row_keys(inputs: Inputs, answers: NDArray[Any]) -> list[tuple[bytes, bytes]]:
    """A key for every row. Rows with the same input and answer have the same key."""
    numbers = answers + 0  # so that −0 equals 0
    return [(row.tobytes(), number.tobytes()) for row, number in zip(inputs, numbers, strict=False)]


def refuse_overlap(validation: Split, test: Split) -> None:
    """Raise if a row is in both parts, with the same input and the same label or target."""
    if validation.inputs.shape[1:] != test.inputs.shape[1:]:
        return  # reported, with the shapes, when the set is checked
    first, last = (
        (split.inputs, split.labels if split.targets is None else split.targets) for split in (validation, test)
    )
    for row, twin in repeated_rows(first, last).items():
        raise DataError(
            f"test row {row} is also validation row {twin}; remove one of them, or give "
            f"{given('allow_overlap', True)} if your rows legitimately repeat"
        )


def check_options(function: Callable[..., Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options as plain values. Refuse one that does not have the type that ``function`` declares.

    >>> def load(*, rows: int = 3, shuffled: bool = False): ...
    >>> check_options(load, {"rows": 4})
    {'rows': 4}
    >>> check_options(load, {"shuffled": "no"})
    Traceback (most recent call last):
    metasched.errors.ConfigError: shuffled is 'no'; give True or False
    """
    declared = get_type_hints(getattr(function, "func", function))
    plain = {
        name: value.tolist() if isinstance(value, np.ndarray | np.generic) else value for name, value in options.items()
    }
    for name, value in plain.items():
        if not _fits(value, declared.get(name, Any)):
            raise ConfigError(f"{name} is {value!r}; give {EXAMPLES.get(name) or described(declared.get(name, Any))}")
    return plain


def described(kind: Any) -> str:
    """Describe a type in words.

    >>> described(Sequence[str] | None)
    "a list of words such as ['a', 'b'], or None"
    """
    if get_origin(kind) is Literal:
        return " or ".join(map(repr, get_args(kind)))
    if get_origin(kind) in (Union, types.UnionType):
        return ", or ".join(dict.fromkeys(map(described, get_args(kind))))
    inner = get_args(kind)
    if inner and get_origin(kind) in (Sequence, tuple):
        if get_origin(kind) is tuple:
            return f"{len(inner)} of these: {described(inner[0])}"
        return {str: "a list of words such as ['a', 'b']", float: "a list of numbers such as [0, 30]"}.get(
            inner[0], "a list of lists of words such as [['a', 'b'], ['c']]"
        )
    known: dict[Any, str] = {bool: "True or False", int: "a whole number", float: "a number", type(None): "None"}
    return known.get(kind, "a word")


def _fits(value: Any, kind: Any) -> bool:
    """Whether a value has a type. Types that cannot be checked are left to the function."""
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError:
        return False
    except TypeError:
        return True
    return True
