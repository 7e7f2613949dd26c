"""ExtremeWeather as five tasks: the first five boxes of each image, each seen through its own five variables.

Images with at least five boxes, in time order: the first 50 for validation, the next 500 for training, the rest for
test. Box slot i of the training images is task i. The test shows one variable only.
"""

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from metasched.datasets import store
from metasched.errors import ConfigError, DataError, StoreError, one_of, whole_number
from metasched.experiments.datasets.build import Rows, task_set
from metasched.experiments.datasets.channels import TASKS, View, numbers, standardise, task_channels
from metasched.experiments.datasets.extreme_weather import (
    CHANNELS,
    EVENTS,
    SLOTS,
    Boxes,
    is_simulated,
    read_boxes,
    read_windows,
)
from metasched.tasks import Provenance, RowNumbers, TaskSet

FILE = "extreme-weather/climo_2005.h5"
HOME = "https://extremeweatherdataset.github.io"
TEST_FEATURES = ("UBOT", "TMQ", "U850", "V850", "VBOT", "Z100")
"""The six variables that the paper tests one at a time."""
PAPER_SPLIT = (50, 500, 910)
"""Images for validation, training and test."""


def load(
    *,
    path: str | Path | None = None,
    test_feature: str = "U850",
    validation_images: int | None = None,
    training_images: int | None = None,
    features: Sequence[Sequence[str]] | None = None,
    validation_features: Sequence[str] | None = None,
    target_boxes: str = "all",
    size: int = 32,
) -> TaskSet:
    """Five tasks ``slot-1`` … ``slot-5``, inputs (n, size, size, 16), four event types.

    Args:
        path: an ExtremeWeather file, by default ``extreme-weather/climo_2005.h5`` of the data folders.
        test_feature: the only variable of the test rows.
        validation_images: by default 50, or in proportion when the file is too short for the paper's split.
        training_images: by default 500, or in proportion.
        features: five tuples of variables, one for each task; by default channels 3i … 3i + 4 (mod 16).
        validation_features: by default ``test_feature`` and the first four others of :data:`TEST_FEATURES`.
        target_boxes: ``"all"`` boxes of the validation and test images, or the ``"first-five"``.
        size: windows are resized to size × size.

    A variable that rows do not have is zero; the others are standardised on the training rows that have them.
    The checksum in the provenance is not the file's (82 GB): it is the SHA-256 over every box and window read, as
    :func:`read_windows` describes, task by task, then validation, then test; rows are numbered 15 · image + slot.
    """
    tested_channels = numbers([test_feature], CHANNELS)
    if validation_features is None:
        validation_features = (test_feature, *[name for name in TEST_FEATURES if name != test_feature][:4])
    channels = [*task_channels(features, CHANNELS), numbers(validation_features, CHANNELS), tested_channels]
    one_of("target_boxes", target_boxes, ("all", "first-five"))
    whole_number("size", size, 1)

    file = _locate(path)
    boxes = read_boxes(file)
    order = _order_in_image(boxes)
    usable = np.unique(boxes.image[order == TASKS - 1])
    validation_count, training_count, note = _split(len(usable), validation_images, training_images, file)
    validation, training, test = np.split(usable, [validation_count, validation_count + training_count])

    wanted = order < (SLOTS if target_boxes == "all" else TASKS)
    chosen = [np.isin(boxes.image, training) & (order == task) for task in range(TASKS)]
    chosen += [np.isin(boxes.image, images) & wanted for images in (validation, test)]
    groups = [boxes.take(np.flatnonzero(rows)) for rows in chosen]
    digest = hashlib.sha256()
    views = [
        View(read_windows(file, group, seen, size=size, digest=digest), seen)
        for group, seen in zip(groups, channels, strict=True)
    ]
    inputs = standardise(views[:-2], views[-2], views[-1], CHANNELS)
    simulated = is_simulated(file)
    source = f"{'simulated ' if simulated else ''}ExtremeWeather {file.name}"
    files = {file.name: digest.hexdigest()}
    *tasks, shown, tested = (
        Rows(
            own,
            group.labels,
            Provenance(source, group.image * SLOTS + group.slot, files, "/".join(CHANNELS[c] for c in seen)),
            EVENTS,
        )
        for own, group, seen in zip(inputs, groups, channels, strict=True)
    )
    slots = {f"slot-{number}": rows for number, rows in enumerate(tasks, 1)}
    return task_set("weather", slots, shown, tested, simulated=simulated, notes=(note,) if note else ())


def _locate(path: str | Path | None) -> Path:
    found = store.find(FILE) if path is None else Path(path).expanduser()
    if found is None:
        spots = " or ".join(str(folder / FILE) for folder in store.folders())
        raise StoreError(
            f"the ExtremeWeather year (82 GB) is not downloaded by itself; get climo_2005.h5 from {HOME} and put it at "
            f"{spots}, or run 'metasched data simulate-weather OUT.h5' and pass path='OUT.h5'"
        )
    return found


def _order_in_image(boxes: Boxes) -> RowNumbers:
    """For each box, how many boxes of its image come before it."""
    _, first, inverse = np.unique(boxes.image, return_index=True, return_inverse=True)
    return np.arange(len(boxes)) - first[inverse]


def _split(usable: int, validation: int | None, training: int | None, path: Path) -> tuple[int, int, str]:
    """Images for validation and for training, and a note if there are too few for the paper's split."""
    if usable < 3:
        raise DataError(
            f"{path}: {usable} images have {TASKS} boxes or more; at least 3 are needed, "
            "one each for validation, training and test: use a longer file"
        )
    counts = (PAPER_SPLIT[0] if validation is None else validation, PAPER_SPLIT[1] if training is None else training)
    if min(counts) >= 1 and sum(counts) < usable:
        return *counts, ""
    if validation is not None or training is not None:
        raise ConfigError(
            f"{counts[0]} validation and {counts[1]} training images leave none for test: {path} has {usable} images "
            f"with {TASKS} boxes or more; give validation_images and training_images, 1 or more each and fewer in sum"
        )
    shares = [usable * share / sum(PAPER_SPLIT) for share in PAPER_SPLIT]
    few, many = max(round(shares[0]), 1), max(round(shares[1]), 1)
    proportion = ":".join(map(str, PAPER_SPLIT))
    return few, many, (
        f"only {usable} images have {TASKS} boxes or more: split {few}/{many}/{usable - few - many} for validation, "
        f"training and test, in the paper's proportion {proportion}"
    )  # fmt: skip
