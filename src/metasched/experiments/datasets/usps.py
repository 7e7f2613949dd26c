"""USPS digits (Hull 1994): 11,000 images of 16 × 16 from envelopes, 1100 of each digit."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.io import loadmat, whosmat

from metasched.datasets.store import DataFile, locate
from metasched.errors import DataError
from metasched.tasks import Labels

FILE = DataFile(
    "scripts/usps/usps_all.mat",
    1484005,
    "da2c8d6e8bd743da00c67020f444e0f28250dfbd16c55d8135c50ffa7719a5f9",
    origin="GitHub marionmari/Graph_stuff",
)
_SHAPE = (256, 1100, 10)


def read() -> tuple[NDArray[np.uint8], Labels]:
    """Images (11000, 16, 16), ink bright, and labels (11000,): all of digit 1, then 2 … 9, then 0, as filed."""
    return parse(locate(FILE))


def parse(path: Path) -> tuple[NDArray[np.uint8], Labels]:
    """A MATLAB file whose ``data`` (256, 1100, 10) has a column for each image, itself column by column."""
    data = _matlab(path)
    images = data.transpose(2, 1, 0).reshape(-1, 16, 16).transpose(0, 2, 1)
    return np.ascontiguousarray(images), np.repeat(np.arange(1, 11) % 10, _SHAPE[1]).astype(np.int32)


def _matlab(path: Path) -> NDArray[np.uint8]:
    """The array, unpacked only once the file declares exactly what we expect."""
    try:
        declared = whosmat(path)
        if declared != [("data", _SHAPE, "uint8")]:
            raise DataError(f"{path}: holds {declared}, expected bytes 'data' {_SHAPE}; replace it with a good copy")
        data: Any = loadmat(path)["data"]
    except DataError:
        raise
    except Exception as error:  # SciPy raises many kinds for a damaged file
        raise DataError(f"{path}: not a readable MATLAB file ({error}); replace it with a good copy") from None
    return np.asarray(data, np.uint8)
