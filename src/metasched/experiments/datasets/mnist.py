"""MNIST (LeCun, Cortes, Burges 1998): 70,000 digits of 28 × 28 in the IDX format."""

import gzip
import math
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from metasched.datasets.store import DataFile, locate
from metasched.errors import DataError
from metasched.tasks import Labels
from metasched.untrusted import file_size

_HOMES = (
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
    "https://storage.googleapis.com/cvdf-datasets/mnist/",
)


def _file(name: str, size: int, sha256: str) -> DataFile:
    return DataFile(f"mnist/{name}", size, sha256, tuple(home + name for home in _HOMES))


FILES = {
    "train-images": _file(
        "train-images-idx3-ubyte.gz", 9912422, "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609"
    ),
    "train-labels": _file(
        "train-labels-idx1-ubyte.gz", 28881, "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c"
    ),
    "t10k-images": _file(
        "t10k-images-idx3-ubyte.gz", 1648877, "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6"
    ),
    "t10k-labels": _file(
        "t10k-labels-idx1-ubyte.gz", 4542, "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6"
    ),
}

_LARGEST_BYTES = 256 * 1024 * 1024


def files(part: str) -> tuple[DataFile, DataFile]:
    """The files of ``part``, ``"train"`` or ``"t10k"``."""
    return FILES[f"{part}-images"], FILES[f"{part}-labels"]


def read(part: str) -> tuple[NDArray[np.uint8], Labels]:
    """Images (n, 28, 28) and labels (n,) of ``part``, in file order."""
    images, labels = (read_idx(locate(file)) for file in files(part))
    if images.ndim != 3 or labels.shape != images.shape[:1]:
        raise DataError(f"MNIST {part}: images {images.shape} and labels {labels.shape} do not belong together")
    return images, labels.astype(np.int32)


def read_idx(path: Path) -> NDArray[np.uint8]:
    """Read a gzipped IDX file of unsigned bytes. It never unpacks more than its header declares.

    The header is two zero bytes, the type (8: unsigned byte), the rank, and the rank sizes as big-endian 32-bit.
    """
    file_size(path)
    try:
        with gzip.open(path, "rb") as stream:
            magic = stream.read(4)
            if len(magic) < 4 or magic[:3] != b"\x00\x00\x08" or not 1 <= magic[3] <= 4:
                raise DataError(f"{path}: is not an IDX file of bytes, which begins with 00 00 08")
            sizes = stream.read(4 * magic[3])
            shape = tuple(int(size) for size in np.frombuffer(sizes[: len(sizes) // 4 * 4], dtype=">u4"))
            count = math.prod(shape)
            if len(shape) != magic[3] or count > _LARGEST_BYTES:
                raise DataError(f"{path}: the header declares shape {shape}, more than {_LARGEST_BYTES:,} bytes")
            content = stream.read(count + 1)
    except (EOFError, zlib.error, OSError) as error:
        raise DataError(f"{path}: truncated or damaged gzip ({error}); fetch the file again") from None
    if len(content) != count:
        found = "more" if len(content) > count else f"{len(content):,}"
        raise DataError(f"{path}: the header declares {count:,} bytes, the file holds {found}; fetch it again")
    return np.frombuffer(content, np.uint8).reshape(shape)
