"""The digits experiment: five windows of Semeion and Optical Recognition rows, with MNIST as the target."""

from typing import Literal

import numpy as np

from metasched.datasets.store import DataFile, checksums
from metasched.errors import one_of
from metasched.experiments.datasets import mnist, uci
from metasched.experiments.datasets.build import Rows, task_set
from metasched.experiments.datasets.pixels import centre, resize
from metasched.tasks import Inputs, Labels, Provenance, TaskSet, from_pixels

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
        resizing: ``"centred"`` scales to 20 × 20 in the middle of 28 × 28, like MNIST. ``"plain"`` scales to 28 × 28.
        validation: ``"mnist"`` takes the first 1400 rows of the t10k file; ``"sources"``, as the paper's appendix
            suggests, takes the Optical Recognition rows 4200–5599, which no task uses. (Every Semeion row is in a
            task.)
    """
    one_of("resizing", resizing, ("centred", "plain"))
    one_of("validation", validation, ("mnist", "sources"))
    sources: dict[str, Rows] = {}

    def window(images: Inputs, labels: Labels, start: int, source: str, files: tuple[DataFile, ...]) -> Rows:
        rows = np.arange(start, start + WINDOW)
        own = images[rows]
        inputs = resize(own, 28, 28) if resizing == "plain" else centre(resize(own, 20, 20), 28, 28)
        return Rows(inputs, labels[rows], Provenance(source, rows, checksums(*files)))

    semeion, optical = uci.read_semeion(), uci.read_optdigits()
    for number, start in enumerate(SEMEION_STARTS, 1):
        sources[f"semeion-{number}"] = window(*semeion, start, "Semeion", uci.SEMEION)
    for number, start in enumerate(OPTDIGITS_STARTS, 1):
        sources[f"optical-{number}"] = window(*optical, start, "Optical Recognition", uci.OPTDIGITS)
    if validation == "mnist":
        held_out = _mnist("t10k", WINDOW)
    else:
        held_out = window(*optical, OPTDIGITS_STARTS[-1] + WINDOW, "Optical Recognition", uci.OPTDIGITS)
    return task_set("digits", sources, held_out, _mnist("train"), useful=tuple(sources))


def _mnist(part: str, count: int | None = None) -> Rows:
    """The first rows of a part of MNIST, or all."""
    images, labels = mnist.read(part)
    origin = Provenance(f"MNIST {part}", np.arange(len(labels[:count])), checksums(*mnist.files(part)))
    return Rows(from_pixels(images[:count]), labels[:count], origin)
