"""Other divisions of the target's rows: drawn by a seed, held out by number, or all rows labelled.

The sources are always the same objects, so one compiled program serves all of these sets.
"""

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from metasched.errors import ConfigError, DataError
from metasched.seeds import check_seed
from metasched.tasks.arrays import Labels, RowNumbers, strata_of
from metasched.tasks.checks import repeated_rows, row_keys
from metasched.tasks.task import TEST, VALIDATION, Provenance, Split
from metasched.tasks.variants import quotas

if TYPE_CHECKING:
    from metasched.tasks.taskset import TaskSet


def pooled(tasks: "TaskSet") -> tuple[Split, Provenance]:
    """All labelled rows of the target, and their origin.

    If both parts come from the same source, the rows are in the order of that source. Otherwise validation rows come
    first.
    """
    parts = tasks.validation, tasks.test
    targets = [part.targets for part in parts if part.targets is not None]
    pool = Split(
        np.concatenate([part.inputs for part in parts]),
        np.concatenate([part.labels for part in parts]),
        np.concatenate(targets) if targets else None,
    )
    first, second = tasks.provenance[VALIDATION], tasks.provenance[TEST]
    files = {**first.files, **second.files}
    note = "; ".join(dict.fromkeys(each.note for each in (first, second) if each.note))
    if not len(second.rows):
        return pool, first
    rows = np.concatenate([first.rows, second.rows])
    if first.source != second.source or len(np.unique(rows)) < len(rows):
        origin = f"{first.source} (validation), then {second.source} (test)"
        return pool, Provenance(origin, np.arange(len(rows)), files, note)
    order = np.argsort(rows, kind="stable")
    return pool.take(order), Provenance(first.source, rows[order], files, note)


def redrawn(tasks: "TaskSet", seed: int) -> "TaskSet":
    """As many validation rows as before, drawn by ``seed``. :meth:`TaskSet.redrawn` explains how."""
    if not len(tasks.test.labels):
        raise ConfigError(
            f"{tasks.name}: has no test rows, so no other labelled rows can be drawn; keep some rows for testing"
        )
    pool, origin = pooled(tasks)
    values = pool.labels if pool.targets is None else pool.targets
    together = not repeated_rows(
        (tasks.validation.inputs, _answers(tasks.validation)), (tasks.test.inputs, _answers(tasks.test))
    )
    groups = _groups(pool) if together else np.arange(len(pool.labels))
    strata, count = strata_of(values), len(tasks.validation.labels)
    validation, test = divided_by_groups(strata, groups, count, seed)
    if not len(test):  # Strata lose rows if many rows are alike. Without strata at most one group is cut.
        validation, test = divided_by_groups(np.zeros_like(strata), groups, count, seed)
    if not len(test):
        raise DataError(
            f"{tasks.name}: every test row would repeat a validation row; give other rows, or allow an overlap"
        )
    return _with_parts(tasks, pool, origin, validation, test)


def all_labelled(tasks: "TaskSet") -> "TaskSet":
    """Every labelled row of the target as a validation row, and no test rows."""
    pool, origin = pooled(tasks)
    return _with_parts(tasks, pool, origin, np.arange(len(pool.labels)), np.arange(0))


def held_out(tasks: "TaskSet", rows: RowNumbers) -> "TaskSet":
    """These validation rows as the test rows. The others stay validation rows."""
    chosen = np.asarray(rows, np.int64)
    count = len(tasks.validation.labels)
    wrong = chosen[(chosen < 0) | (chosen >= count)]
    if wrong.size:
        raise ConfigError(f"{tasks.name}: there is no validation row {wrong[0]}; give numbers from 0 to {count - 1}")
    rest = np.setdiff1d(np.arange(count), chosen)
    return _with_parts(tasks, tasks.validation, tasks.provenance[VALIDATION], rest, chosen)


def divided_by_groups(
    strata: Labels, groups: NDArray[np.int64], count: int, seed: int
) -> tuple[RowNumbers, RowNumbers]:
    """Draw ``count`` rows for validation and others for test, stratified, so that no group has rows in both parts.

    In every stratum, whole groups are drawn in random order until its quota is filled. From a group that does not fit
    completely, only as many rows are taken as are needed, and its other rows are in neither part. Their number depends
    on the seed. So the test part is cut, at random, to the number that remains in the worst case: one row less than the
    largest group of each stratum. Both parts then have the same number of rows for every seed. If every row is its own
    group, the result is the same as that of ``few_labels``.
    """
    random = np.random.default_rng(check_seed(seed))
    present, take = quotas(strata, count)
    validation, test = [], []
    for stratum, quota in zip(present, take, strict=True):
        order = random.permutation(np.flatnonzero(strata == stratum))
        own, first, number, sizes = np.unique(groups[order], return_index=True, return_inverse=True, return_counts=True)
        if len(own) == len(order):
            validation.append(order[:quota])
            test.append(order[quota:])
            continue
        order = order[np.argsort(first[number], kind="stable")]  # groups in the order of their first rows
        validation.append(order[:quota])
        cut = groups[order[quota - 1]] if quota else -1
        rest = order[quota:][groups[order[quota:]] != cut]
        kept = max(0, len(order) - quota - (int(sizes.max()) - 1 if quota else 0))
        test.append(rest[random.permutation(len(rest))[:kept]])
    return np.sort(np.concatenate(validation)), np.sort(np.concatenate(test))


def _groups(pool: Split) -> NDArray[np.int64]:
    """The number (n,) of each row's group. Rows with the same input and answer share a group."""
    known: dict[object, int] = {}
    return np.array([known.setdefault(key, len(known)) for key in row_keys(pool.inputs, _answers(pool))], np.int64)


def _answers(split: Split) -> NDArray[np.generic]:
    return split.labels if split.targets is None else split.targets


def _with_parts(
    tasks: "TaskSet", pool: Split, origin: Provenance, validation: RowNumbers, test: RowNumbers
) -> "TaskSet":
    return replace(
        tasks,
        validation=pool.take(validation),
        test=pool.take(test),
        provenance={**tasks.provenance, VALIDATION: origin.take(validation), TEST: origin.take(test)},
        recipe=None,
    )
