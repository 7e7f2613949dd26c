"""The digits experiment: five windows of Semeion and Optical Recognition rows, MNIST as the target."""

from typing import Literal

import numpy as np

from metasched.datasets.store import checksums
from metasched.errors import ConfigError
from metasched.experiments.datasets import mnist, optdigits, semeion
from metasched.experiments.datasets.pixels import centre, resize
from metasched.tasks import TEST, VALIDATION, Inputs, Provenance, Split, Task, TaskSet, from_pixels

CLASSES = tuple(str(digit) for digit in range(10))
WINDOW = 1400
SEMEION_STARTS = (0, 193)
OPTDIGITS_STARTS = (0, 1400, 2800)


def load(
    *,
    resizing: Literal["centred", "plain"] = "centred",
    validation: Literal["mnist", "sources"] = "mnist",
) -> TaskSet:
    """Five tasks of 1400 rows in file order; 60,000 MNIST rows to test on.

    Semeion has 1593 rows, so its two windows overlap (rows 0–1399 and 193–1592); the three of Optical Recognition
    (``.tra`` then ``.tes``) do not.

    Args:
        resizing: ``"centred"`` scales to 20 × 20 in the middle of 28 × 28, as MNIST does; ``"plain"`` to 28 × 28.
        validation: ``"mnist"`` takes the first 1400 rows of the t10k file; ``"sources"``, the reading of the paper's
            appendix, the Optical Recognition rows 4200–5599, which no task uses (every Semeion row is in a task).
    """
    if resizing not in ("centred", "plain"):
        raise ConfigError(f"resizing is '{resizing}'; give 'centred' or 'plain'")
    if validation not in ("mnist", "sources"):
        raise ConfigError(f"validation is '{validation}'; give 'mnist' or 'sources'")
    semeion_images, semeion_labels = semeion.read()
    optical_images, optical_labels = optdigits.read()
    test_images, test_labels = mnist.read("train")

    provenance: dict[str, Provenance] = {}
    tasks = []
    for source, images, labels, starts, files in (
        ("Semeion", semeion_images, semeion_labels, SEMEION_STARTS, (semeion.FILE,)),
        ("Optical Recognition", optical_images, optical_labels, OPTDIGITS_STARTS, tuple(optdigits.FILES.values())),
    ):
        for number, start in enumerate(starts, 1):
            rows = np.arange(start, start + WINDOW)
            name = f"{'semeion' if source == 'Semeion' else 'optical'}-{number}"
            tasks.append(Task(name, _fit(images[rows], resizing), labels[rows], CLASSES))
            provenance[name] = Provenance(source, rows, checksums(*files))

    if validation == "mnist":
        t10k_images, t10k_labels = mnist.read("t10k")
        held_out = Split(from_pixels(t10k_images[:WINDOW]), t10k_labels[:WINDOW].astype(np.int32))
        files = mnist.FILES["t10k-images"], mnist.FILES["t10k-labels"]
        provenance[VALIDATION] = Provenance("MNIST t10k", np.arange(WINDOW), checksums(*files))
    else:
        rows = np.arange(OPTDIGITS_STARTS[-1] + WINDOW, OPTDIGITS_STARTS[-1] + 2 * WINDOW)
        held_out = Split(_fit(optical_images[rows], resizing), optical_labels[rows])
        provenance[VALIDATION] = Provenance("Optical Recognition", rows, checksums(*optdigits.FILES.values()))
    provenance[TEST] = Provenance(
        "MNIST train",
        np.arange(len(test_labels)),
        checksums(mnist.FILES["train-images"], mnist.FILES["train-labels"]),
    )
    return TaskSet(
        name="digits",
        tasks=tuple(tasks),
        validation=held_out,
        test=Split(from_pixels(test_images), test_labels.astype(np.int32)),
        classes=CLASSES,
        provenance=provenance,
        useful=tuple(task.name for task in tasks),
    )


def _fit(images: Inputs, resizing: str) -> Inputs:
    return resize(images, 28, 28) if resizing == "plain" else centre(resize(images, 20, 20), 28, 28)
