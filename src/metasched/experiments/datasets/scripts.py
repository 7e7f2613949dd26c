"""Other hands and other scripts: twelve collections of digits and letters teach USPS digits.

Three sources write the same digits as the target (Semeion, Optical Recognition, MNIST). Kannada, Bangla, Devanagari,
Telugu, Thai, Tibetan and Farsi share the meaning of labels but not the shapes, or only a few of them; notMNIST shares
neither.
"""

from collections.abc import Collection, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from metasched.datasets.store import DataFile, checksums
from metasched.errors import ConfigError, unknown
from metasched.experiments.datasets import glyphs, hoda, mnist, optdigits, semeion, usps
from metasched.experiments.datasets.pixels import fit_ink
from metasched.experiments.datasets.sampling import drawn_rows
from metasched.tasks import TEST, VALIDATION, Labels, Provenance, RowNumbers, Split, Task, TaskSet, few_labels

CLASSES = tuple(str(digit) for digit in range(10))
SOURCES = {
    "semeion": "Semeion",
    "optical": "Optical Recognition",
    "mnist": "MNIST t10k",
    "kannada": "Kannada-MNIST test",
    "dig-mnist": "Dig-MNIST",
    "bangla": "CMATERdb Bangla",
    "devanagari": "CMATERdb Devanagari",
    "telugu": "CMATERdb Telugu",
    "thai": "Thai drawings",
    "tibetan": "TibetanMNIST",
    "farsi": "Hoda test",
    "notmnist": "notMNIST t10k",
}
"""Every source and where its rows are numbered: in its files, one after another."""
USEFUL = ("semeion", "optical", "mnist")
LEAST_CONTRAST = 0.25


def load(
    *,
    sources: Sequence[str] = tuple(SOURCES),
    rows: int = 1400,
    order: Literal["shuffled", "file"] = "shuffled",
    target_labels: int = 30,
    seed: int = 0,
) -> TaskSet:
    """Up to twelve tasks of ``rows`` rows; inputs (28, 28) in [0, 1], the ink set as in MNIST (:func:`.fit_ink`).

    ``target_labels`` of the 11,000 USPS rows, stratified and drawn from ``seed``, validate, and all others test.

    Args:
        sources: which tasks, in which order.
        rows: of each source, stratified by class; always the same ones. Blank images are never among them.
        order: most of the files list one digit after another, which says nothing of how they were written, so that by
            default the rows of a task are in a random order; ``"file"`` keeps theirs. Either way the provenance has
            the number that a row has in its files.
        target_labels: rows of the target with labels.
        seed: draws those rows, nothing else.
    """
    if order not in ("shuffled", "file"):
        raise ConfigError(f"order is '{order}'; give 'shuffled' or 'file'")
    for name in sources:
        if name not in SOURCES:
            raise unknown("source", name, SOURCES, of="'scripts'")
    tasks, provenance, blank = [], {}, {}
    for name in sources:
        images, labels, files = _read(name)
        inked = _inked(images)
        chosen = inked[drawn_rows(labels[inked], rows, SOURCES[name], order == "shuffled")]
        tasks.append(Task(name, fit_ink([images[row] for row in chosen]), labels[chosen], CLASSES))
        provenance[name] = Provenance(SOURCES[name], chosen, checksums(*files))
        blank[name] = len(labels) - len(inked)
    images, labels = usps.read()
    target = fit_ink(images)
    validation, test = few_labels(labels, target_labels, seed)
    provenance[VALIDATION], provenance[TEST] = (
        Provenance("USPS", part, checksums(usps.FILE)) for part in (validation, test)
    )
    return TaskSet(
        name="scripts",
        tasks=tuple(tasks),
        validation=Split(target[validation], labels[validation]),
        test=Split(target[test], labels[test]),
        classes=CLASSES,
        provenance=provenance,
        notes=(
            f"rows are in {'a random order' if order == 'shuffled' else 'file order'}",
            *(f"{count} blank images of {SOURCES[name]} left out" for name, count in blank.items() if count),
        ),
        useful=tuple(name for name in USEFUL if name in sources),
    )


def _read(name: str) -> tuple[Any, Labels, tuple[DataFile, ...]]:
    """Images with bright ink, one array or a list of them, labels and files of a source."""
    if name == "semeion":
        return *semeion.read(), (semeion.FILE,)
    if name == "optical":
        return *optdigits.read(), tuple(optdigits.FILES.values())
    if name == "mnist":
        images, labels = mnist.read("t10k")
        return images, labels.astype(np.int32), (mnist.FILES["t10k-images"], mnist.FILES["t10k-labels"])
    if name == "farsi":
        return *hoda.read(), (hoda.FILE,)
    return *glyphs.read(name), glyphs.FILES[name]


def _inked(images: Collection[NDArray[Any]]) -> RowNumbers:
    """Rows whose image has both ink and paper."""
    contrast = [np.ptp(image) / (255 if image.dtype == np.uint8 else 1) for image in images]
    return np.flatnonzero(np.array(contrast) >= LEAST_CONTRAST)
