"""Optical Recognition of Handwritten Digits (Alpaydin, Kaynak 1998): 5620 images of 8 × 8 with 17 grey levels."""

from pathlib import Path

import numpy as np

from metasched.datasets.store import DataFile, locate
from metasched.datasets.tables import read_table
from metasched.errors import DataError
from metasched.tasks import Inputs, Labels

_HOME = "https://archive.ics.uci.edu/ml/machine-learning-databases/optdigits/"
FILES = {
    "tra": DataFile(
        "optdigits/optdigits.tra",
        563639,
        "e1b683cc211604fe8fd8c4417e6a69f31380e0c61d4af22e93cc21e9257ffedd",
        (_HOME + "optdigits.tra",),
    ),
    "tes": DataFile(
        "optdigits/optdigits.tes",
        264712,
        "6ebb3d2fee246a4e99363262ddf8a00a3c41bee6014c373ed9d9216ba7f651b8",
        (_HOME + "optdigits.tes",),
    ),
}


def read() -> tuple[Inputs, Labels]:
    """Images (5620, 8, 8) in [0, 1] and labels (5620,): the rows of ``.tra``, then those of ``.tes``."""
    parts = [parse(locate(file)) for file in FILES.values()]
    return np.concatenate([images for images, _ in parts]), np.concatenate([labels for _, labels in parts])


def parse(path: Path) -> tuple[Inputs, Labels]:
    """64 grey levels 0 … 16 and the label a row, separated by commas."""
    table = read_table(path, columns=65, delimiter=",")
    wrong = np.flatnonzero((table.min(axis=1) < 0) | (table[:, :64].max(axis=1) > 16) | (table[:, 64] > 9))
    if wrong.size:
        raise DataError(f"{path}: row {wrong[0]} has a grey level outside 0 … 16 or a label outside 0 … 9")
    return table[:, :64].reshape(-1, 8, 8) / np.float32(16), table[:, 64].astype(np.int32)
