"""Two sets of handwritten digits from the UCI repository, both text tables of numbers.

Semeion (Buscema 1998) has 1593 binary images of 16 × 16 in the order in which they were collected. Optical Recognition
of Handwritten Digits (Alpaydin, Kaynak 1998) has 5620 images of 8 × 8 with 17 grey levels.
"""

from pathlib import Path

import numpy as np

from metasched.datasets.store import DataFile, locate
from metasched.errors import DataError
from metasched.tasks import Inputs, Labels

_HOME = "https://archive.ics.uci.edu/ml/machine-learning-databases/"


def _file(path: str, size: int, sha256: str) -> DataFile:
    return DataFile(path, size, sha256, (_HOME + path,))


SEMEION = (_file("semeion/semeion.data", 2889702, "f43228ae3da5ea6a3c95069d53450b86166770e3b719dcc333182128fe08d4b1"),)
OPTDIGITS = (
    _file("optdigits/optdigits.tra", 563639, "e1b683cc211604fe8fd8c4417e6a69f31380e0c61d4af22e93cc21e9257ffedd"),
    _file("optdigits/optdigits.tes", 264712, "6ebb3d2fee246a4e99363262ddf8a00a3c41bee6014c373ed9d9216ba7f651b8"),
)


def read_semeion() -> tuple[Inputs, Labels]:
    """Images (1593, 16, 16) of 0 and 1, and labels (1593,)."""
    return parse_semeion(locate(*SEMEION))


def read_optdigits() -> tuple[Inputs, Labels]:
    """Images (5620, 8, 8) in [0, 1] and labels (5620,): the rows of ``.tra``, then those of ``.tes``."""
    parts = [parse_optdigits(locate(file)) for file in OPTDIGITS]
    return np.concatenate([images for images, _ in parts]), np.concatenate([labels for _, labels in parts])


def parse_semeion(path: Path) -> tuple[Inputs, Labels]:
    """256 pixels and ten indicator columns a row, separated by blanks."""
    table = read_table(path, columns=266)
    indicators = table[:, 256:]
    wrong = np.flatnonzero((indicators.sum(axis=1) != 1) | (indicators.max(axis=1) != 1))
    if wrong.size:
        raise DataError(f"{path}: row {wrong[0]} does not mark exactly one of its ten label columns; fetch it again")
    return table[:, :256].reshape(-1, 16, 16), indicators.argmax(axis=1).astype(np.int32)


def parse_optdigits(path: Path) -> tuple[Inputs, Labels]:
    """64 grey levels 0 … 16 and the label a row, separated by commas."""
    table = read_table(path, columns=65, delimiter=",")
    wrong = np.flatnonzero((table.min(axis=1) < 0) | (table[:, :64].max(axis=1) > 16) | (table[:, 64] > 9))
    if wrong.size:
        raise DataError(f"{path}: row {wrong[0]} has a grey level outside 0 … 16 or a label outside 0 … 9")
    return table[:, :64].reshape(-1, 8, 8) / np.float32(16), table[:, 64].astype(np.int32)


def read_table(path: Path, columns: int, delimiter: str | None = None) -> Inputs:
    """A table (rows, ``columns``) of float32; an error names the file and, if it is known, the row."""
    try:
        table = np.loadtxt(path, dtype=np.float32, delimiter=delimiter, ndmin=2)
    except (ValueError, UnicodeDecodeError) as error:
        reason = str(error).splitlines()[0].split(";")[0]
        raise DataError(f"{path}: not a table of numbers ({reason}); fetch the file again") from None
    if table.shape[1] != columns:
        raise DataError(f"{path}: has {table.shape[1]} columns, expected {columns}; fetch the file again")
    return table
