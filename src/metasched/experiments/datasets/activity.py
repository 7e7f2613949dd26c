"""Activity recognition with phones (WISDM v1.1; Kwapisz, Weiss, Moore 2010): every user is a source, one is the target.

Rows are windows of ten seconds in the order they were recorded. Someone who walks usually keeps walking: 83–95 % of
rows have the label of the row before, so the order carries information.
"""

from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from metasched.datasets.store import DataFile, checksums, locate
from metasched.errors import ConfigError, DataError, unknown
from metasched.experiments.datasets.build import Rows, task_set
from metasched.experiments.datasets.channels import standardise_all
from metasched.tasks import Labels, Provenance, TaskSet

FILE = DataFile(
    "activity/WISDM_ar_v1.1_transformed.arff",
    1197772,
    "8cb3fbbad6398ac4b817cc7b98f387efa89ac24b26d1270a5e7a1049a8f9c31a",
    origin="GitHub bhumeshchopda/WISDM_Challenge",
)
CLASSES = ("Walking", "Jogging", "Upstairs", "Downstairs", "Sitting", "Standing")
FEATURES = 43


class Windows(NamedTuple):
    """n windows in file order: ``users`` (n,), ``values`` (n, 43) with NaN for missing values, ``labels`` (n,)."""

    users: NDArray[np.int64]
    values: NDArray[np.float64]
    labels: Labels


def load(*, target: int = 33, users: int = 24, target_labels: int = 30, seed: int = 0) -> TaskSet:
    """Tasks ``user-1`` … of the ``users`` other users with the most rows; inputs (43,), six activities.

    A user's rows are in file order, which is the order of recording; for users with the same number of rows, the lower
    number comes first. Features are standardised over the rows of all sources together, and missing values (a peak that
    was not found) become zero, the mean. ``target_labels`` of the target's rows, stratified and drawn from ``seed``,
    are for validation and all others for test.

    Args:
        target: number of the user to learn.
        users: the number of other users.
        target_labels: rows of the target with labels.
        seed: the seed that draws these rows.
    """
    windows = parse(locate(FILE))
    numbers, counts = np.unique(windows.users, return_counts=True)
    if target not in numbers:
        raise unknown("user", target, map(str, numbers), of="'activity'")
    others = [int(number) for number in numbers[np.lexsort((numbers, -counts))] if number != target]
    if not 1 <= users <= len(others):
        raise ConfigError(
            f"users is {users}, but there are {len(others)} apart from the target; give 1 … {len(others)}"
        )
    rows = {f"user-{user}": np.flatnonzero(windows.users == user) for user in sorted(others[:users])}
    missing = np.isnan(windows.values)
    means = np.nanmean(windows.values[np.concatenate(list(rows.values()))], axis=0)
    filled = np.where(missing, means, windows.values)
    rows["target"] = np.flatnonzero(windows.users == target)
    sources = {
        name: Rows(inputs, windows.labels[own], Provenance("WISDM v1.1", own, checksums(FILE)), CLASSES)
        for (name, own), inputs in zip(
            rows.items(), standardise_all([filled[own] for own in rows.values()]), strict=True
        )
    }
    validation, test = sources.pop("target").divided(target_labels, seed)
    notes = (
        f"windows of the target, user {target}, follow one another, so test windows are next to validation windows",
        f"{missing.any(axis=1).sum()} of {len(windows.labels):,} windows lack a peak; it is set to the sources' mean",
    )
    return task_set("activity", sources, validation, test, notes=notes, split="drawn")


def parse(path: Path) -> Windows:
    """The rows after ``@data``: number, user, 43 features (``?`` for a missing one) and activity."""
    lines = path.read_text("ascii", "replace").splitlines()
    if "@data" not in lines:
        raise DataError(f"{path}: has no line '@data'; replace it with a good copy")
    first = lines.index("@data") + 1
    rows = [line.split(",") for line in lines[first:]]
    for number, row in enumerate(rows, first + 1):
        if len(row) != FEATURES + 3 or row[-1] not in CLASSES or not row[1].isdigit():
            raise DataError(
                f"{path}: line {number} is not a number, a user, {FEATURES} features and one of {', '.join(CLASSES)}; "
                "replace it with a good copy"
            )
    if not rows:
        raise DataError(f"{path}: has no rows after '@data'; replace it with a good copy")
    try:
        values = np.array([["nan" if value == "?" else value for value in row[2:-1]] for row in rows], np.float64)
    except ValueError as error:
        raise DataError(f"{path}: holds something other than numbers ({error}); replace it with a good copy") from None
    bad = np.flatnonzero(np.isinf(values).any(axis=1))
    if bad.size:
        raise DataError(f"{path}: line {first + bad[0] + 1} holds infinity; replace it with a good copy")
    return Windows(
        np.array([int(row[1]) for row in rows]), values, np.array([CLASSES.index(row[-1]) for row in rows], np.int32)
    )
