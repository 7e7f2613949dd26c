"""Rotated MNIST (Ghifary et al. 2015): MNIST at twelve angles teaches an angle between two of them.

As in DomainBed (Gulrajani, Lopez-Paz 2021) no digit is in two domains: a source shows other digits, not the same ones
turned.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import rotate

from metasched.datasets.store import checksums
from metasched.errors import ConfigError
from metasched.experiments.datasets import mnist
from metasched.tasks import (
    TEST,
    VALIDATION,
    Inputs,
    Provenance,
    RowNumbers,
    Split,
    Task,
    TaskSet,
    few_labels,
    from_pixels,
)

CLASSES = tuple(str(digit) for digit in range(10))
ANGLES = tuple(range(0, 360, 30))


def load(
    *,
    angles: Sequence[float] = ANGLES,
    target_angle: float = 15,
    rows: int = 1400,
    target_labels: int = 30,
    seed: int = 0,
) -> TaskSet:
    """Tasks ``angle-0`` and so on, counter-clockwise in degrees; inputs (28, 28) in [0, 1], bilinear, black corners.

    The first task has the first ``rows`` rows of the training file, the second the next, and so on, in file order. The
    target's rows are the 10,000 of the t10k file: ``target_labels`` of them, stratified and drawn from ``seed``,
    validate and all others test. Known to be useful are the nearest angle on either side.
    """
    if not angles or len({angle % 360 for angle in angles}) < len(angles):
        raise ConfigError(f"angles is {list(angles)}; give at least one, and each only once")
    images, labels = mnist.read("train")
    most = len(labels) // len(angles)
    if not 1 <= rows <= most:
        raise ConfigError(f"rows is {rows}; {len(angles)} angles share {len(labels):,} digits: give 1 … {most}")
    tasks, provenance = [], {}
    for number, angle in enumerate(angles):
        own = np.arange(number * rows, (number + 1) * rows)
        tasks.append(Task(_name(angle), turned(images[own], angle), labels[own].astype(np.int32), CLASSES))
        provenance[_name(angle)] = _origin("train", own, angle)
    digits, goal = mnist.read("t10k")
    inputs, goal_labels = turned(digits, target_angle), goal.astype(np.int32)
    validation, test = few_labels(goal_labels, target_labels, seed)
    provenance[VALIDATION], provenance[TEST] = (_origin("t10k", part, target_angle) for part in (validation, test))
    nearest = [min(angles, key=lambda angle: side * (angle - target_angle) % 360) for side in (1, -1)]
    return TaskSet(
        name="rotated",
        tasks=tuple(tasks),
        validation=Split(inputs[validation], goal_labels[validation]),
        test=Split(inputs[test], goal_labels[test]),
        classes=CLASSES,
        provenance=provenance,
        useful=tuple(_name(angle) for angle in angles if angle in nearest),
    )


def turned(images: NDArray[np.uint8], degrees: float) -> Inputs:
    """Images (n, 28, 28) turned counter-clockwise about their middle, in [0, 1]."""
    pixels = from_pixels(images)
    if degrees % 360:
        pixels = rotate(pixels, degrees, axes=(1, 2), reshape=False, order=1)
    return pixels


def _name(angle: float) -> str:
    return f"angle-{angle:g}"


def _origin(part: str, rows: RowNumbers, angle: float) -> Provenance:
    files = mnist.FILES[f"{part}-images"], mnist.FILES[f"{part}-labels"]
    return Provenance(f"MNIST {part}", rows, checksums(*files), f"turned by {angle:g}°")
