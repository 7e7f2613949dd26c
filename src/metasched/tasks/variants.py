"""Controlled changes to a task set, each reproducible from a seed. The provenance records the change."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING
from zlib import crc32

import numpy as np

from metasched.errors import ConfigError, unknown
from metasched.seeds import check_seed
from metasched.tasks.arrays import Labels, RowNumbers
from metasched.tasks.task import TEST, VALIDATION, Division, Provenance, Task

if TYPE_CHECKING:
    from metasched.tasks.taskset import TaskSet


def with_target_labels(tasks: "TaskSet", count: int, seed: int) -> "TaskSet":
    """Only ``count`` validation rows, stratified by class, in order."""
    rows = stratified_rows(tasks.validation.labels, count, _generator(seed, "target labels"))
    provenance = {**tasks.provenance, VALIDATION: tasks.provenance[VALIDATION].take(rows)}
    split: Division = "given" if tasks.split == "given" else "asked"
    return replace(tasks, validation=tasks.validation.take(rows), provenance=provenance, split=split)


def with_label_noise(tasks: "TaskSet", name: str, fraction: float, seed: int) -> "TaskSet":
    """Shuffle the labels of this fraction of a task's rows, together with their targets."""
    task = task_named(tasks, name)
    if not 0 <= fraction <= 1:
        raise ConfigError(f"noise of task '{name}' is {fraction}; give a fraction from 0 to 1")
    random = _generator(seed, f"noise of {name}")
    chosen = np.sort(random.permutation(len(task))[: round(fraction * len(task))])
    origin = np.arange(len(task))
    origin[chosen] = random.permutation(chosen)
    noisy = replace(task.take(origin), inputs=task.inputs)
    return replace_task(tasks, noisy, f"labels of {len(chosen)} rows permuted", spoilt=len(chosen) > 0)


def with_shuffled_order(tasks: "TaskSet", seed: int) -> "TaskSet":
    """Shuffle the rows of every task, inputs together with labels."""
    for task in tasks.tasks:
        order = _generator(seed, f"order of {task.name}").permutation(len(task))
        tasks = replace_task(tasks, task.take(order), "order shuffled", order, spoilt=False)
    return tasks


def by_class(tasks: "TaskSet", pooled: bool) -> "TaskSet":
    """Make the classes tasks."""
    if pooled and not tasks.shared_labels:
        raise ConfigError("pooling classes over tasks needs shared labels; leave out pooled")
    pieces: dict[str, list[tuple[Task, Provenance]]] = {}
    useful = []
    for task in tasks.tasks:
        for label in np.unique(task.labels):
            rows = np.flatnonzero(task.labels == label)
            name = task.classes[label] if pooled else f"{task.name}/{task.classes[label]}"
            pieces.setdefault(name, []).append((task.take(rows), tasks.provenance[task.name].take(rows)))
            if task.name in (tasks.useful or ()):
                useful.append(name)
    names = [name for name in tasks.classes if name in pieces] if pooled else list(pieces)
    views = {name: _joined(name, pieces[name]) for name in names}
    return replace(
        tasks,
        name=f"{tasks.name} by class",
        tasks=tuple(task for task, _ in views.values()),
        provenance={
            **{name: origin for name, (_, origin) in views.items()},
            VALIDATION: tasks.provenance[VALIDATION],
            TEST: tasks.provenance[TEST],
        },
        recipe=None,
        useful=None if pooled or tasks.useful is None else tuple(useful),
    )


def _joined(name: str, pieces: Sequence[tuple[Task, Provenance]]) -> tuple[Task, Provenance]:
    """Rows of several tasks, one after another, as one task. Its provenance names each source once."""
    parts, origins = zip(*pieces, strict=True)
    targets = [part.targets for part in parts if part.targets is not None]
    task = Task(
        name,
        np.concatenate([part.inputs for part in parts]),
        np.concatenate([part.labels for part in parts]),
        parts[0].classes,
        np.concatenate(targets) if targets else None,
    )
    return task, Provenance(
        " + ".join(dict.fromkeys(origin.source for origin in origins)),
        np.concatenate([origin.rows for origin in origins]),
        {file: digest for origin in origins for file, digest in origin.files.items()},
        next((origin.note for origin in origins if origin.note), ""),
    )


def stratified_rows(labels: Labels, count: int, random: np.random.Generator) -> RowNumbers:
    """``count`` row numbers in rising order, each class in proportion to its frequency (:func:`quotas`)."""
    present, take = quotas(labels, count)
    rows = [random.permutation(np.flatnonzero(labels == label))[:n] for label, n in zip(present, take, strict=True)]
    return np.sort(np.concatenate(rows))


def quotas(labels: Labels, count: int) -> tuple[Labels, RowNumbers]:
    """The classes that occur, and how many of ``count`` rows each of them gets, in proportion to its frequency.

    Quotas are rounded by largest remainder, and ties go to the lower label. If ``count`` allows it, every class that
    occurs gets at least one row.
    """
    if not 1 <= count <= len(labels):
        raise ConfigError(f"target_labels is {count}; give 1 to {len(labels)}, the target's labelled rows")
    present, frequency = np.unique(labels, return_counts=True)
    quota = count * frequency / len(labels)
    take = np.floor(quota).astype(np.int64)
    if count >= len(present):
        take = np.maximum(take, 1)
    while take.sum() > count:  # the minimum of one row gave too many rows: take them back where the excess is largest
        take[np.argmax(np.where(take > 1, take - quota, -np.inf))] -= 1
    while take.sum() < count:
        take[np.argmax(np.where(take < frequency, quota - take, -np.inf))] += 1
    return present, take


def few_labels(labels: Labels, count: int, seed: int) -> tuple[RowNumbers, RowNumbers]:
    """Draw ``count`` rows of the target for validation, stratified by class, from ``seed``. All other rows are for
    test.

    Both are in rising order.
    """
    validation = stratified_rows(labels, count, np.random.default_rng(check_seed(seed)))
    test = np.setdiff1d(np.arange(len(labels)), validation)
    if not len(test):
        raise ConfigError(f"target_labels is {count}; leave some of the {len(labels)} rows for testing")
    return validation, test


def task_named(tasks: "TaskSet", name: str) -> Task:
    """The task with this name."""
    for task in tasks.tasks:
        if task.name == name:
            return task
    raise unknown("task", name, (task.name for task in tasks.tasks))


def replace_task(
    tasks: "TaskSet", task: Task, note: str, order: RowNumbers | None = None, spoilt: bool = True
) -> "TaskSet":
    """Replace the task with the same name by ``task``. It has the same rows, in ``order`` if they moved.

    A ``spoilt`` task is no longer known to be useful.
    """
    rows = np.arange(len(task)) if order is None else order
    return replace(
        tasks,
        tasks=tuple(task if old.name == task.name else old for old in tasks.tasks),
        provenance={**tasks.provenance, task.name: tasks.provenance[task.name].take(rows, note)},
        recipe=None,
        useful=tasks.useful and tuple(name for name in tasks.useful if not spoilt or name != task.name),
    )


def _generator(seed: int, purpose: str) -> np.random.Generator:
    """A separate random stream for each purpose, so that one option never changes the draws of another."""
    return np.random.default_rng([check_seed(seed), crc32(purpose.encode())])
