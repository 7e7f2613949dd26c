"""ClimateNet points as five tasks by region, each seen through its own five of the 16 variables.

The sources are the sites of five regions, 1996–2009. The target is the 40 sites labelled in 2011–2013: the dates of
2011 are for validation and the later ones for test. They are separated in time, because all sites of a date share the
same weather, and a random split would show it to the learner.
"""

from collections.abc import Sequence

import numpy as np

from metasched.datasets import store
from metasched.experiments.datasets import climatenet
from metasched.experiments.datasets.build import Rows, task_set
from metasched.experiments.datasets.channels import View, numbers, standardise, task_channels
from metasched.experiments.datasets.climatenet import CLASSES, VARIABLES, Points
from metasched.tasks import Labels, Provenance, RowNumbers, TaskSet

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
    shown = numbers(VARIABLES if target_features is None else target_features, VARIABLES)
    seen = [*task_channels(features, VARIABLES), shown, shown]
    source, target = (climatenet.read(store.locate(climatenet.FILES[key])) for key in ("train", "target"))
    chosen = [
        *(("train", source, (source.lon >= west) & (source.lon <= east)) for west, east in REGIONS.values()),
        ("target", target, target.time < FIRST_TEST_DATE),
        ("target", target, target.time >= FIRST_TEST_DATE),
    ]
    views = [
        View(points.values[rows][:, list(which)], which) for (_, points, rows), which in zip(chosen, seen, strict=True)
    ]
    inputs = standardise(views[:-2], views[-2], views[-1], VARIABLES)
    *sources, validation, test = (
        Rows(own, points.labels[rows], _origin(key, np.flatnonzero(rows), which), CLASSES)
        for own, (key, points, rows), which in zip(inputs, chosen, seen, strict=True)
    )
    notes = (_votes(source, target), _balance([rows.labels for rows in sources]))
    return task_set("weather-points", dict(zip(REGIONS, sources, strict=True)), validation, test, notes=notes)


def _origin(key: str, rows: RowNumbers, channels: Sequence[int]) -> Provenance:
    file = climatenet.FILES[key]
    name = file.path.rpartition("/")[2]
    seen = "all variables" if len(channels) == len(VARIABLES) else "/".join(VARIABLES[channel] for channel in channels)
    return Provenance(f"ClimateNet {name}", rows, store.checksums(file), seen)


def _votes(source: Points, target: Points) -> str:
    parts = [
        f"{np.count_nonzero((points.votes > 0).sum(axis=1) > 1):,} of {len(points):,} {name} points "
        f"({np.count_nonzero(points.tied):,} ties)"
        for name, points in (("source", source), ("target", target))
    ]
    return f"annotators disagree on {' and '.join(parts)}; the majority decides, a tie goes to the lower label"


def _balance(labels: Sequence[Labels]) -> str:
    shares = [float(np.mean(own == 0)) for own in labels]
    return (
        f"{min(shares):.0%}–{max(shares):.0%} of each source is background: look at balanced accuracy; "
        "the sites of one date are neighbours in one atmosphere, not independent rows"
    )
