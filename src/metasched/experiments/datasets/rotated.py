"""Rotated MNIST (Ghifary et al. 2015): MNIST at twelve angles, and an angle between two of them as the target.

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
from metasched.experiments.datasets.build import Rows, task_set
from metasched.tasks import Inputs, Labels, Provenance, RowNumbers, TaskSet, from_pixels

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
    target's rows are the 10,000 of the t10k file: ``target_labels`` of them, stratified and drawn from ``seed``, are
    for validation and all others for test. The nearest angles on either side are known to be useful.
    """
    if not angles or len({angle % 360 for angle in angles}) < len(angles):
        raise ConfigError(f"angles is {list(angles)}; give at least one, and each only once")
    images, labels = mnist.read("train")
    most = len(labels) // len(angles)
    if not 1 <= rows <= most:
        raise ConfigError(f"rows is {rows}; {len(angles)} angles share {len(labels):,} digits: give 1 … {most}")
    tasks = {}
    for number, angle in enumerate(angles):
        own = np.arange(number * rows, (number + 1) * rows)
        tasks[f"angle-{angle:g}"] = _rows("train", images[own], labels[own], own, angle)
    digits, answers = mnist.read("t10k")
    target = _rows("t10k", digits, answers, np.arange(len(answers)), target_angle)
    nearest = [min(angles, key=lambda angle: side * (angle - target_angle) % 360) for side in (1, -1)]
    useful = tuple(f"angle-{angle:g}" for angle in angles if angle in nearest)
    return task_set("rotated", tasks, *target.divided(target_labels, seed), useful=useful, split="drawn")


def _rows(part: str, images: NDArray[np.uint8], labels: Labels, rows: RowNumbers, angle: float) -> Rows:
    origin = Provenance(f"MNIST {part}", rows, checksums(*mnist.files(part)), f"turned by {angle:g}°")
    return Rows(turned(images, angle), labels, origin)


def turned(images: NDArray[np.uint8], degrees: float) -> Inputs:
    """Images (n, 28, 28) turned counter-clockwise about their middle, in [0, 1]."""
    pixels = from_pixels(images)
    if degrees % 360:
        pixels = rotate(pixels, degrees, axes=(1, 2), reshape=False, order=1)
    return pixels
