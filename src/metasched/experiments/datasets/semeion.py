"""Semeion handwritten digits (Buscema 1998): 1593 binary images of 16 × 16, in the order they were collected."""

from pathlib import Path

import numpy as np

from metasched.datasets.store import DataFile, locate
from metasched.datasets.tables import read_table
from metasched.errors import DataError
from metasched.tasks import Inputs, Labels

FILE = DataFile(
    "semeion/semeion.data",
    2889702,
    "f43228ae3da5ea6a3c95069d53450b86166770e3b719dcc333182128fe08d4b1",
    ("https://archive.ics.uci.edu/ml/machine-learning-databases/semeion/semeion.data",),
)


def read() -> tuple[Inputs, Labels]:
    """Images (1593, 16, 16) of 0 and 1, and labels (1593,)."""
    return parse(locate(FILE))


def parse(path: Path) -> tuple[Inputs, Labels]:
    """256 pixels and ten indicator columns a row, separated by blanks."""
    table = read_table(path, columns=266)
    indicators = table[:, 256:]
    wrong = np.flatnonzero((indicators.sum(axis=1) != 1) | (indicators.max(axis=1) != 1))
    if wrong.size:
        raise DataError(f"{path}: row {wrong[0]} does not mark exactly one of its ten label columns; fetch it again")
    return table[:, :256].reshape(-1, 16, 16), indicators.argmax(axis=1).astype(np.int32)
