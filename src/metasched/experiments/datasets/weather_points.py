"""ClimateNet points as five tasks by region, each seen through its own five of the 16 variables.

The sources are the sites of five regions, 1996–2009. The target is the 40 sites labelled in 2011–2013: the dates of
2011 validate and the later ones test. They are apart in time because one date is one atmosphere: its sites are
neighbours, and a random split would show the test rows' weather to the learner.
"""

from collections.abc import Sequence

import numpy as np

from metasched.datasets import store
from metasched.experiments.datasets import climatenet
from metasched.experiments.datasets.channels import TASKS, Part, numbers, standardise, task_channels
from metasched.experiments.datasets.climatenet import CLASSES, VARIABLES, Points
from metasched.tasks import TEST, VALIDATION, Provenance, RowNumbers, Split, Task, TaskSet

REGIONS = {
    "south-pacific-west": (229, 231),
    "south-pacific-east": (241, 243),
    "mexican-pacific": (243.5, 254),
    "caribbean": (275, 278),
    "south-atlantic": (353, 355),
}
"""Degrees east from which and up to which a region's sites lie."""
FIRST_TEST_DATE = 20120101


def load(*, features: Sequence[Sequence[str]] | None = None, target_features: Sequence[str] | None = None) -> TaskSet:
    """Five tasks of points in (time, lat, lon) order, inputs (n, 16), three classes.

    Args:
        features: five tuples of variables, one for each region; by default variables 3i … 3i + 4 (mod 16).
        target_features: the variables of validation and test; by default all 16.

    A variable that rows do not have is zero; the others are standardised on the training rows that have them. Rows in
    the provenance number the merged points of a file in their order.
    """
    seen = task_channels(features, VARIABLES)
    shown = numbers(VARIABLES if target_features is None else target_features, VARIABLES)
    source, target = (climatenet.read(store.locate(climatenet.FILES[key])) for key in ("train", "target"))
    regions = [np.flatnonzero((source.lon >= west) & (source.lon <= east)) for west, east in REGIONS.values()]
    validation = np.flatnonzero(target.time < FIRST_TEST_DATE)
    test = np.flatnonzero(target.time >= FIRST_TEST_DATE)
    inputs = standardise(
        [_part(source, rows, which) for rows, which in zip(regions, seen, strict=True)],
        _part(target, validation, shown),
        _part(target, test, shown),
        VARIABLES,
    )
    tasks = tuple(
        Task(name, part, source.labels[rows], CLASSES)
        for name, part, rows in zip(REGIONS, inputs[:TASKS], regions, strict=True)
    )
    origins = {name: _origin("train", rows, which) for name, rows, which in zip(REGIONS, regions, seen, strict=True)}
    origins |= {VALIDATION: _origin("target", validation, shown), TEST: _origin("target", test, shown)}
    return TaskSet(
        name="weather-points",
        tasks=tasks,
        validation=Split(inputs[TASKS], target.labels[validation]),
        test=Split(inputs[TASKS + 1], target.labels[test]),
        classes=CLASSES,
        provenance=origins,
        notes=(_votes(source, target), _balance(tasks)),
    )


def _part(points: Points, rows: RowNumbers, channels: tuple[int, ...]) -> Part:
    return Part(points.values[rows][:, list(channels)], channels)


def _origin(key: str, rows: RowNumbers, channels: Sequence[int]) -> Provenance:
    file = climatenet.FILES[key]
    name = file.path.rpartition("/")[2]
    seen = "all variables" if len(channels) == len(VARIABLES) else "/".join(VARIABLES[channel] for channel in channels)
    return Provenance(f"ClimateNet {name}", rows, {file.path: file.sha256}, seen)


def _votes(source: Points, target: Points) -> str:
    parts = [
        f"{np.count_nonzero((points.votes > 0).sum(axis=1) > 1):,} of {len(points):,} {name} points "
        f"({np.count_nonzero(points.tied):,} ties)"
        for name, points in (("source", source), ("target", target))
    ]
    return f"annotators disagree on {' and '.join(parts)}; the majority decides, a tie goes to the lower label"


def _balance(tasks: Sequence[Task]) -> str:
    shares = [float(np.mean(task.labels == 0)) for task in tasks]
    return (
        f"{min(shares):.0%}–{max(shares):.0%} of each source is background: look at balanced accuracy; "
        "the sites of one date are neighbours in one atmosphere, not independent rows"
    )
