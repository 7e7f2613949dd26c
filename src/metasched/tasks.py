"""Task sets: N ordered, labelled tasks, and the target they should help with.

A task is a sequence of rows in a meaningful order. The target has two sets of rows: *validation*, whose labels the
meta-learner may use, and *test*, which only measures. Everything here is an immutable value in host memory;
:class:`TaskSet` refuses, when it is built, whatever would train garbage.
"""

import hashlib
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias
from zlib import crc32

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metasched.errors import ConfigError, DataError, unknown

Inputs: TypeAlias = NDArray[np.float32]
Labels: TypeAlias = NDArray[np.int32]
Targets: TypeAlias = NDArray[np.float32]
Rows: TypeAlias = NDArray[np.int64]

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

    def take(self, rows: Rows) -> "Split":
        """Those rows, in that order."""
        return Split(self.inputs[rows], self.labels[rows], _at(self.targets, rows))


@dataclass(frozen=True, eq=False)
class Provenance:
    """Where rows come from: the source, the SHA-256 of each file read, and the row numbers in that source."""

    source: str
    rows: Rows
    files: Mapping[str, str] = field(default_factory=dict)
    note: str = ""

    def take(self, index: Rows, note: str = "") -> "Provenance":
        """The provenance of the rows at ``index``, with ``note`` added to what was noted before."""
        notes = "; ".join(part for part in (self.note, note) if part)
        return replace(self, rows=self.rows[index], note=notes)

    def describe(self) -> str:
        """A few words for a person: ``Semeion, rows 0–1399``."""
        return f"{self.source}, {_span(self.rows)}"


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

    def take(self, rows: Rows) -> "Task":
        """Those rows, in that order."""
        return replace(self, inputs=self.inputs[rows], labels=self.labels[rows], targets=_at(self.targets, rows))


@dataclass(frozen=True, eq=False, repr=False)
class TaskSet:
    """N tasks and a target.

    ``classes`` names the target's labels. When every task has the same classes the label set is *shared*
    (:attr:`shared_labels`); otherwise label k of one task and label k of another mean different things, and a
    learner must give each task a head of its own.

    In a task set of *regression* (:meth:`regression`) rows have ``targets`` (n, d) beside their labels: a learner fits
    the targets, a scheduler sees the labels.

    ``provenance`` has one entry for each task, keyed by its name, and one each for ``"validation"`` and ``"test"``.
    ``recipe``, when there is one, are the name and options with which ``datasets.load`` builds the same set again.
    """

    name: str
    tasks: tuple[Task, ...]
    validation: Split
    test: Split
    classes: tuple[str, ...]
    provenance: Mapping[str, Provenance]
    simulated: bool = False
    notes: tuple[str, ...] = ()
    recipe: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        _check(self)

    @classmethod
    def from_arrays(
        cls,
        tasks: Mapping[str, tuple[ArrayLike, ArrayLike]],
        *,
        validation: tuple[ArrayLike, ArrayLike],
        test: tuple[ArrayLike, ArrayLike],
        classes: Sequence[str] | Mapping[str, Sequence[str]] | None = None,
        name: str = "arrays",
        allow_overlap: bool = False,
    ) -> "TaskSet":
        """Build a task set from arrays, in the order of ``tasks``.

        Each pair is (inputs (n, *shape), integer labels (n,)). Inputs become float32; ``uint8`` is taken for pixels
        and divided by 255. ``classes`` names the labels: one sequence that all tasks share, or a mapping from each
        task's name, and ``"target"``, to its own. Without it the labels are shared and named by their numbers.

        A validation row that occurs among the test rows, inputs and label alike, is refused: the test accuracy would
        measure memory. Data whose rows legitimately repeat pass ``allow_overlap=True``.
        """
        pairs = _all_rows(tasks, validation, test)
        splits = {key: Split(_as_inputs(key, x), _as_labels(key, y)) for key, (x, y) in pairs.items()}
        named = _class_names(classes, splits)
        if not allow_overlap:
            refuse_overlap(splits[VALIDATION], splits[TEST])
        return cls(
            name=name,
            tasks=tuple(Task(key, *splits[key], classes=named[key]) for key in tasks),
            validation=splits[VALIDATION],
            test=splits[TEST],
            classes=named["target"],
            provenance={key: Provenance("array", np.arange(len(split.labels))) for key, split in splits.items()},
        )

    @classmethod
    def regression(
        cls,
        tasks: Mapping[str, tuple[ArrayLike, ArrayLike]],
        *,
        validation: tuple[ArrayLike, ArrayLike],
        test: tuple[ArrayLike, ArrayLike],
        bins: int = 10,
        name: str = "regression",
        allow_overlap: bool = False,
    ) -> "TaskSet":
        """Build a task set whose rows have numbers to predict, in the order of ``tasks``.

        Each pair is (inputs (n, *shape), targets (n, d) or (n,)). A learner fits the targets. What a scheduler sees as
        a row's label, and so as the state of a task, is the bin of the *first* number of its target. Bin edges are
        quantiles of that number over the rows of all sources together: the bins hold about equally many of them, and
        the target's own rows have no part in it. Equal numbers share a bin, so many ties leave fewer than ``bins``.
        Classes are named by the range of their bin.

        Inputs are read as by :meth:`from_arrays`; a row in both validation and test, inputs and target alike, is
        refused unless ``allow_overlap``.
        """
        if bins < 2 or bins != int(bins):
            raise ConfigError(f"bins is {bins}; give a whole number ≥ 2")
        pairs = _all_rows(tasks, validation, test)
        if not tasks:
            raise DataError(f"{name}: no tasks; give at least one")
        inputs = {key: _as_inputs(key, x) for key, (x, _) in pairs.items()}
        targets = {key: as_targets(key, y) for key, (_, y) in pairs.items()}
        for key in pairs:
            where = key if key in (VALIDATION, TEST) else f"task '{key}'"
            _check_targets(f"{name}: {where}", inputs[key], targets[key])
        edges = bin_edges(np.concatenate([targets[key][:, 0] for key in tasks]), bins)
        labels = {key: np.searchsorted(edges, y[:, 0], side="right").astype(np.int32) for key, y in targets.items()}
        splits = {key: Split(inputs[key], labels[key], targets[key]) for key in pairs}
        classes = _range_names(edges)
        if not allow_overlap:
            refuse_overlap(splits[VALIDATION], splits[TEST])
        return cls(
            name=name,
            tasks=tuple(Task(key, *splits[key], classes=classes, targets=targets[key]) for key in tasks),
            validation=splits[VALIDATION],
            test=splits[TEST],
            classes=classes,
            provenance={key: Provenance("array", np.arange(len(split.labels))) for key, split in splits.items()},
        )

    @property
    def target_size(self) -> int | None:
        """How many numbers one target has; None when the task set is one of classification."""
        return None if self.test.targets is None else int(self.test.targets.shape[1])

    @property
    def sizes(self) -> tuple[int, ...]:
        """Rows of each task."""
        return tuple(len(task) for task in self.tasks)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one input."""
        return self.test.inputs.shape[1:]

    @property
    def shared_labels(self) -> bool:
        """Whether label k means the same in every task and in the target."""
        return all(task.classes == self.classes for task in self.tasks)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 over names, classes and every array: equal for equal data, whatever it was built from."""
        digest = hashlib.sha256()
        parts: list[tuple[str, tuple[str, ...], Task | Split]] = [
            *((task.name, task.classes, task) for task in self.tasks),
            (VALIDATION, self.classes, self.validation),
            (TEST, self.classes, self.test),
        ]
        for name, classes, rows in parts:
            digest.update(repr((name, classes, rows.inputs.shape)).encode())
            digest.update(np.ascontiguousarray(rows.inputs).view(np.uint8).data)
            digest.update(np.ascontiguousarray(rows.labels).view(np.uint8).data)
            if rows.targets is not None:
                digest.update(repr(rows.targets.shape).encode())
                digest.update(np.ascontiguousarray(rows.targets).view(np.uint8).data)
        return digest.hexdigest()

    def variant(
        self,
        *,
        target_labels: int | None = None,
        noise: Mapping[str, float] | None = None,
        shuffle_order: bool = False,
        seed: int = 0,
    ) -> "TaskSet":
        """A controlled variant, reproducible from ``seed``; each change draws from a stream of its own.

        Args:
            target_labels: keep this many validation rows, stratified by class, in their order.
            noise: for each named task, the fraction of its rows whose labels, with their targets if they have any,
                are permuted among themselves. The label counts stay as they were; at 1.0 inputs and labels are
                unrelated.
            shuffle_order: permute the rows of every task, inputs with their labels, so that order says nothing.
            seed: any integer ≥ 0.
        """
        result = replace(self, recipe=None)
        if target_labels is not None:
            result = _keep_target_labels(result, target_labels, seed)
        for name, fraction in (noise or {}).items():
            result = _add_noise(result, name, fraction, seed)
        if shuffle_order:
            for task in result.tasks:
                order = _generator(seed, f"order of {task.name}").permutation(len(task))
                result = _replace_task(result, task.take(order), order, "order shuffled")
        return result

    def by_class(self, *, pooled: bool = False) -> "TaskSet":
        """A view in which classes are the tasks, rows in their order; any scheduler then chooses among classes.

        Every (task, class) pair that has rows becomes a task ``task/class``; when ``pooled``, every class over all
        tasks, one task after another, becomes a task ``class``, which needs a shared label set.
        """
        if pooled and not self.shared_labels:
            raise ConfigError("pooling classes over tasks needs one label set for all; leave out pooled")
        views: dict[str, tuple[Task, Provenance]] = {}
        for task in self.tasks:
            for label in np.unique(task.labels):
                rows = np.flatnonzero(task.labels == label)
                name = task.classes[label] if pooled else f"{task.name}/{task.classes[label]}"
                part = replace(task.take(rows), name=name)
                origin = self.provenance[task.name].take(rows)
                views[name] = _joined(views[name], part, origin) if name in views else (part, origin)
        named = {name: views[name] for name in self.classes if name in views} if pooled else views
        return replace(
            self,
            name=f"{self.name} by class",
            tasks=tuple(task for task, _ in named.values()),
            provenance={
                **{name: origin for name, (_, origin) in named.items()},
                VALIDATION: self.provenance[VALIDATION],
                TEST: self.provenance[TEST],
            },
            recipe=None,
        )

    def summary(self) -> str:
        """What a person wants to know first, as a few lines of text."""
        kind = "shared" if self.shared_labels else "its own in each task"
        shape = " × ".join(map(str, self.shape))
        meaning = f"{len(self.classes)} classes ({kind})"
        if self.target_size is not None:
            count = "1 number" if self.target_size == 1 else f"{self.target_size} numbers"
            meaning = f"targets of {count}, seen by schedulers as {len(self.classes)} bins"
        head = f"{self.name}: {len(self.tasks)} tasks, {sum(self.sizes):,} rows, inputs {shape}, {meaning}"
        splits: list[tuple[str, Task | Split, tuple[str, ...]]] = [
            *((task.name, task, task.classes) for task in self.tasks),
            (VALIDATION, self.validation, self.classes),
            (TEST, self.test, self.classes),
        ]
        width = max(len(name) for name, _, _ in splits)
        bars = max(len(classes) for _, _, classes in splits)
        lines = [f"  {'':{width}}  {'rows':>7}  {'labels':{max(bars, 6)}}  source"]
        for name, split, classes in splits:
            counts = np.bincount(split.labels, minlength=len(classes))
            lines.append(
                f"  {name:{width}}  {len(split.labels):7,}  {_bars(counts):{max(bars, 6)}}  "
                f"{self.provenance[name].describe()}"
            )
        if self.shared_labels:
            lines.append(f"  classes: {', '.join(self.classes)}")
        else:
            named = [(task.name, task.classes) for task in self.tasks] + [("target", self.classes)]
            lines += [f"  classes of {name}: {', '.join(classes)}" for name, classes in named]
        files = {file: digest for item in self.provenance.values() for file, digest in item.files.items()}
        lines += [f"  sha256 {digest[:12]}…  {file}" for file, digest in files.items()]
        lines += [f"  {name}: {item.note}" for name, item in self.provenance.items() if item.note]
        if self.simulated:
            head = f"{head}\n  SIMULATED data: not observations"
        return "\n".join([head, *lines, *(f"  note: {note}" for note in self.notes)])

    def __str__(self) -> str:
        return self.summary()

    def __repr__(self) -> str:
        return f"TaskSet({self.name!r}, tasks={[task.name for task in self.tasks]}, sizes={list(self.sizes)})"


def _all_rows(
    tasks: Mapping[str, tuple[ArrayLike, ArrayLike]],
    validation: tuple[ArrayLike, ArrayLike],
    test: tuple[ArrayLike, ArrayLike],
) -> dict[str, tuple[ArrayLike, ArrayLike]]:
    pairs = {**tasks, VALIDATION: validation, TEST: test}
    if len(pairs) != len(tasks) + 2:
        raise DataError("a task may not be named 'validation' or 'test'; rename it")
    return pairs


def from_pixels(images: NDArray[np.uint8]) -> Inputs:
    """Bytes 0 … 255 as float32 in [0, 1]."""
    return images.astype(np.float32) / np.float32(255)


def _as_inputs(name: str, values: ArrayLike) -> Inputs:
    array = np.asarray(values)
    if array.dtype == np.uint8:
        return from_pixels(array)
    if array.dtype.kind not in "fiub":
        raise DataError(f"{name}: inputs have dtype {array.dtype}; give numbers")
    with np.errstate(over="ignore"):  # what overflows float32 becomes infinite and is refused with its row
        return np.ascontiguousarray(array, dtype=np.float32)


def _as_labels(name: str, values: ArrayLike) -> Labels:
    array = np.asarray(values)
    if array.dtype.kind == "f" and array.size and np.all(array == np.floor(array)):
        array = array.astype(np.int64)
    if array.dtype.kind not in "iu" and array.size:
        raise DataError(f"{name}: labels have dtype {array.dtype}; give integers 0 … C−1 and name them with classes=")
    bounds = np.iinfo(np.int32)
    if array.size and (array.min() < bounds.min or array.max() > bounds.max):
        raise DataError(f"{name}: labels do not fit 32 bits; number the classes 0 … C−1")
    return np.ascontiguousarray(array, dtype=np.int32)


def as_targets(name: str, values: ArrayLike) -> Targets:
    """Numbers as float32 (n, d); (n,) becomes (n, 1)."""
    array = np.asarray(values)
    if array.dtype.kind not in "fiub":
        raise DataError(f"{name}: targets have dtype {array.dtype}; give numbers")
    with np.errstate(over="ignore"):  # what overflows float32 becomes infinite and is refused with its row
        numbers = np.ascontiguousarray(array, dtype=np.float32)
    return numbers[:, None] if numbers.ndim == 1 else numbers


def bin_edges(values: Targets, bins: int) -> Targets:
    """At most ``bins`` − 1 rising edges, themselves among ``values``, that cut them into parts of about equal size.

    Value v is in bin #{edges ≤ v}; no bin is empty, and equal values share one.
    """
    quantiles = np.quantile(values, np.arange(1, bins) / bins, method="higher")
    return np.unique(quantiles[quantiles > values.min()]).astype(np.float32)


def _range_names(edges: Targets) -> tuple[str, ...]:
    """``("< 0.5", "0.5 … 2", "≥ 2")``: with as many digits as tell the edges apart."""
    if not edges.size:
        return ("any",)
    texts: list[str] = []
    for digits in range(3, 10):
        texts = [f"{edge:.{digits}g}" for edge in edges]
        if len(set(texts)) == len(texts):
            break
    between = [f"{low} … {high}" for low, high in pairwise(texts)]
    return (f"< {texts[0]}", *between, f"≥ {texts[-1]}")


def _at(targets: Targets | None, rows: Rows) -> Targets | None:
    return None if targets is None else targets[rows]


def _class_names(
    classes: Sequence[str] | Mapping[str, Sequence[str]] | None, splits: Mapping[str, Split]
) -> dict[str, tuple[str, ...]]:
    names = [name for name in splits if name not in (VALIDATION, TEST)] + ["target"]
    if classes is None:
        top = max((int(split.labels.max()) for split in splits.values() if split.labels.size), default=0)
        classes = [str(label) for label in range(top + 1)]
    if not isinstance(classes, Mapping):
        return dict.fromkeys(names, tuple(map(str, classes)))
    for name in names:
        if name not in classes:
            raise ConfigError(f"classes names no labels for '{name}'; add classes[{name!r}]")
    return {name: tuple(map(str, classes[name])) for name in names}


def _check(tasks: TaskSet) -> None:
    """Refuse what would train garbage; the message names the task, the row and the fix."""
    if not tasks.tasks:
        raise DataError(f"{tasks.name}: no tasks; give at least one")
    names = [task.name for task in tasks.tasks]
    for name, count in Counter(names).items():
        if not name or name in (VALIDATION, TEST) or count > 1:
            raise DataError(f"{tasks.name}: task name '{name}' is empty, reserved or used twice; rename it")
    splits: list[tuple[str, Any, tuple[str, ...]]] = [
        *((f"task '{task.name}'", task, task.classes) for task in tasks.tasks),
        (VALIDATION, tasks.validation, tasks.classes),
        (TEST, tasks.test, tasks.classes),
    ]
    for where, split, classes in splits:
        _check_rows(f"{tasks.name}: {where}", split.inputs, split.labels, classes, tasks.shape)
        if (split.targets is None) != (tasks.test.targets is None):
            raise DataError(f"{tasks.name}: {where} and the test rows must both have targets or neither; give them")
        if split.targets is not None:
            _check_targets(f"{tasks.name}: {where}", split.inputs, split.targets)
            if split.targets.shape[1] != tasks.target_size:
                raise DataError(
                    f"{tasks.name}: {where}: one target has {split.targets.shape[1]} numbers, those of the test rows "
                    f"{tasks.target_size}; give equally many"
                )
    rows = {
        **dict(zip(names, tasks.sizes, strict=True)),
        VALIDATION: len(tasks.validation[1]),
        TEST: len(tasks.test[1]),
    }
    for key, count in rows.items():
        known = len(tasks.provenance[key].rows) if key in tasks.provenance else 0
        if known != count:
            raise DataError(f"{tasks.name}: '{key}' has {count} rows, its provenance {known}; give each row its origin")
    validation, test = tasks.provenance[VALIDATION], tasks.provenance[TEST]
    if validation.source == test.source != "array":
        both = np.intersect1d(validation.rows, test.rows)
        if both.size:
            raise DataError(
                f"{tasks.name}: row {both[0]} of {test.source} is in both validation and test "
                f"({both.size} such rows); keep them apart"
            )


def _check_rows(where: str, inputs: Inputs, labels: Labels, classes: tuple[str, ...], shape: tuple[int, ...]) -> None:
    if labels.ndim != 1 or inputs.ndim < 2 or len(inputs) != len(labels):
        raise DataError(
            f"{where}: inputs {inputs.shape} and labels {labels.shape} do not match; "
            "give inputs (rows, …) and one label for each row"
        )
    if not len(labels):
        raise DataError(f"{where} is empty; give it rows or leave it out")
    if inputs.shape[1:] != shape:
        raise DataError(f"{where}: one input has shape {inputs.shape[1:]}, the test rows {shape}; resize to one shape")
    wrong = np.flatnonzero((labels < 0) | (labels >= len(classes)))
    if wrong.size:
        raise DataError(
            f"{where}: row {wrong[0]} has label {labels[wrong[0]]}, outside 0 … {len(classes) - 1} "
            f"({wrong.size} such rows); renumber the labels or name more classes"
        )
    if not math.isfinite(float(np.sum(inputs, dtype=np.float64))):
        bad = np.flatnonzero(~np.isfinite(inputs).reshape(len(inputs), -1).all(axis=1))
        raise DataError(f"{where}: row {bad[0]} holds NaN or infinity ({bad.size} such rows); drop or fill those rows")


def _check_targets(where: str, inputs: Inputs, targets: Targets) -> None:
    if targets.ndim != 2 or not targets.shape[1] or len(inputs) != len(targets):
        raise DataError(
            f"{where}: inputs {inputs.shape} and targets {targets.shape} do not match; "
            "give inputs (rows, …) and targets (rows,) or (rows, numbers)"
        )
    if not len(targets):
        raise DataError(f"{where} is empty; give it rows or leave it out")
    bad = np.flatnonzero(~np.isfinite(targets).all(axis=1))
    if bad.size:
        raise DataError(
            f"{where}: the target of row {bad[0]} is NaN or infinite ({bad.size} such rows); drop or fill those rows"
        )


def refuse_overlap(validation: Split, test: Split) -> None:
    """Raise if a row, input and label (or target) alike, is in both."""
    if validation.inputs.shape[1:] != test.inputs.shape[1:]:
        return  # reported, with the shapes, when the set is checked

    def keys(split: Split) -> list[tuple[bytes, bytes]]:
        wanted = split.labels if split.targets is None else split.targets
        return [(row.tobytes(), value.tobytes()) for row, value in zip(split.inputs, wanted, strict=False)]

    known = {key: index for index, key in enumerate(keys(validation))}
    for index, key in enumerate(keys(test)):
        twin = known.get(key)
        if twin is not None:
            raise DataError(
                f"test row {index} is also validation row {twin}; remove one of them, "
                "or pass allow_overlap=True if your rows legitimately repeat"
            )


def _generator(seed: int, purpose: str) -> np.random.Generator:
    """A stream of its own for each purpose, so that one option never changes what another draws."""
    if seed < 0:
        raise ConfigError(f"seed is {seed}; give an integer ≥ 0")
    return np.random.default_rng([seed, crc32(purpose.encode())])


def _replace_task(tasks: TaskSet, task: Task, order: Rows, note: str) -> TaskSet:
    provenance = {**tasks.provenance, task.name: tasks.provenance[task.name].take(order, note)}
    swapped = tuple(task if old.name == task.name else old for old in tasks.tasks)
    return replace(tasks, tasks=swapped, provenance=provenance)


def _joined(first: tuple[Task, Provenance], task: Task, origin: Provenance) -> tuple[Task, Provenance]:
    """Two tasks as one, rows of the first before those of the second."""
    (before, source) = first
    inputs, labels = np.concatenate([before.inputs, task.inputs]), np.concatenate([before.labels, task.labels])
    targets = None
    if before.targets is not None and task.targets is not None:
        targets = np.concatenate([before.targets, task.targets])
    names = source.source if origin.source in source.source.split(" + ") else f"{source.source} + {origin.source}"
    rows = np.concatenate([source.rows, origin.rows])
    return (
        replace(before, inputs=inputs, labels=labels, targets=targets),
        Provenance(names, rows, {**source.files, **origin.files}, source.note or origin.note),
    )


def _add_noise(tasks: TaskSet, name: str, fraction: float, seed: int) -> TaskSet:
    found = [task for task in tasks.tasks if task.name == name]
    if not found:
        raise unknown("task", name, (task.name for task in tasks.tasks))
    if not 0 <= fraction <= 1:
        raise ConfigError(f"noise of task '{name}' is {fraction}; give a fraction from 0 to 1")
    (task,) = found
    random = _generator(seed, f"noise of {name}")
    chosen = np.sort(random.permutation(len(task))[: round(fraction * len(task))])
    order = np.arange(len(task))
    given = order.copy()
    given[chosen] = random.permutation(chosen)
    noisy = replace(task, labels=task.labels[given], targets=_at(task.targets, given))
    return _replace_task(tasks, noisy, order, f"labels of {len(chosen)} rows permuted")


def _keep_target_labels(tasks: TaskSet, count: int, seed: int) -> TaskSet:
    kept = stratified_rows(tasks.validation.labels, count, _generator(seed, "target labels"))
    provenance = {**tasks.provenance, VALIDATION: tasks.provenance[VALIDATION].take(kept)}
    return replace(tasks, validation=tasks.validation.take(kept), provenance=provenance)


def stratified_rows(labels: Labels, count: int, random: np.random.Generator) -> Rows:
    """``count`` row numbers in rising order, each class in proportion to its frequency.

    Quotas are by largest remainder, ties to the lower label; when ``count`` allows, every class that occurs has at
    least one row.
    """
    if not 1 <= count <= len(labels):
        raise ConfigError(f"asked for {count} target labels; there are {len(labels)}: give 1 … {len(labels)}")
    present, frequency = np.unique(labels, return_counts=True)
    quota = count * frequency / len(labels)
    take = np.floor(quota).astype(np.int64)
    if count >= len(present):
        take = np.maximum(take, 1)
    while take.sum() > count:  # the minimum of one was too generous: give back where the excess is largest
        take[np.argmax(np.where(take > 1, take - quota, -np.inf))] -= 1
    while take.sum() < count:
        take[np.argmax(np.where(take < frequency, quota - take, -np.inf))] += 1
    rows = [random.permutation(np.flatnonzero(labels == label))[:n] for label, n in zip(present, take, strict=True)]
    return np.sort(np.concatenate(rows))


def _span(rows: Rows) -> str:
    if len(rows) and np.array_equal(rows, np.arange(rows[0], rows[0] + len(rows))):
        return f"rows {rows[0]}–{rows[-1]}"
    return f"{len(rows):,} rows of {rows.min()}–{rows.max()}" if len(rows) else "no rows"


def _bars(counts: NDArray[np.int64]) -> str:
    """A histogram in one word: a blank for no rows, a full block for the most frequent label."""
    blocks = " ▁▂▃▄▅▆▇█"
    top = max(int(counts.max()), 1)
    return "".join(blocks[math.ceil(8 * int(count) / top)] for count in counts)
