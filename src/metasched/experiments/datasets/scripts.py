"""Other handwriting and other scripts: twelve collections of digits and letters, with USPS digits as the target.

Three sources write the same digits as the target (Semeion, Optical Recognition, MNIST). Kannada, Bangla, Devanagari,
Telugu, Thai, Tibetan and Farsi share the meaning of labels but not the shapes, or only a few of them; notMNIST shares
neither.
"""

from collections.abc import Collection, Sequence
from typing import Any, Literal
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from metasched.datasets.store import DataFile, checksums
from metasched.errors import ConfigError, one_of, unknown
from metasched.experiments.datasets import glyphs, mnist, uci
from metasched.experiments.datasets.build import Rows, task_set
from metasched.experiments.datasets.pixels import fit_ink
from metasched.tasks import Labels, Provenance, RowNumbers, TaskSet, stratified_rows

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
"""Every source, and where its rows are numbered: in its files, one after another."""
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

    ``target_labels`` of the 11,000 USPS rows, stratified and drawn from ``seed``, are for validation and all others for
    test.

    Args:
        sources: which tasks, in which order.
        rows: the rows of each source, stratified by class. They are always the same ones. Blank images are never among
            them.
        order: most of the files list one digit after another, which is not how they were written. So by default the
            rows of a task are in random order; ``"file"`` keeps the order of the files. In both cases the provenance
            has the number of each row in its files.
        target_labels: rows of the target with labels.
        seed: the seed that draws these rows, and nothing else.
    """
    one_of("order", order, ("shuffled", "file"))
    for name in sources:
        if name not in SOURCES:
            raise unknown("source", name, SOURCES, of="'scripts'")
    tasks, notes = {}, [f"rows are in {'a random order' if order == 'shuffled' else 'file order'}"]
    for name in sources:
        images, labels, files = _read(name)
        inked = _inked(images)
        chosen = inked[drawn_rows(labels[inked], rows, SOURCES[name], order == "shuffled")]
        origin = Provenance(SOURCES[name], chosen, checksums(*files))
        tasks[name] = Rows(fit_ink([images[row] for row in chosen]), labels[chosen], origin)
        if len(inked) < len(labels):
            notes.append(f"{len(labels) - len(inked)} blank images of {SOURCES[name]} left out")
    images, labels, files = _read("usps")
    target = Rows(fit_ink(images), labels, Provenance("USPS", np.arange(len(labels)), checksums(*files)))
    useful = tuple(name for name in USEFUL if name in sources)
    parts = target.divided(target_labels, seed)
    return task_set("scripts", tasks, *parts, notes=tuple(notes), useful=useful, split="drawn")


def _read(name: str) -> tuple[Any, Labels, tuple[DataFile, ...]]:
    """Images with bright ink, one array or a list of them, labels and files of a source or the target."""
    if name == "semeion":
        return *uci.read_semeion(), uci.SEMEION
    if name == "optical":
        return *uci.read_optdigits(), uci.OPTDIGITS
    if name == "mnist":
        return *mnist.read("t10k"), mnist.files("t10k")
    return *glyphs.read(name), glyphs.FILES[name]


def drawn_rows(labels: Labels, count: int, source: str, shuffled: bool) -> RowNumbers:
    """``count`` rows of a source, stratified by class: always the same ones, in file order or in a random order."""
    if not 1 <= count <= len(labels):
        raise ConfigError(f"rows is {count}; {source} has {len(labels)}: give 1 … {len(labels)}")
    random = np.random.default_rng(crc32(source.encode()))
    rows = stratified_rows(labels, count, random)
    return random.permutation(rows) if shuffled else rows


def _inked(images: Collection[NDArray[Any]]) -> RowNumbers:
    """Rows whose image has both ink and paper."""
    contrast = [np.ptp(image) / (255 if image.dtype == np.uint8 else 1) for image in images]
    return np.flatnonzero(np.array(contrast) >= LEAST_CONTRAST)
