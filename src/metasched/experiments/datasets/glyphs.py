"""Digits of several scripts and the letters A … J, from the files of several collections.

USPS (Hull 1994), Hoda (Khosravi, Kabir 2007; Farsi), Kannada-MNIST and Dig-MNIST (Prabhu, arXiv:1908.01242), CMATERdb 3
(Das et al. 2012; Bangla, Devanagari, Telugu), Thai drawings, TibetanMNIST and notMNIST (Bulatov 2011). Every reader
returns images of bytes with bright ink on a dark background, and labels (n,), in file order.
"""

import struct
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.io import loadmat, whosmat

from metasched.datasets.npz import open_npz, read_npy
from metasched.datasets.store import listed, locate
from metasched.errors import DataError
from metasched.experiments.datasets import mnist
from metasched.tasks import Labels

_LARGEST_BYTES = 1 << 26
_USPS_SHAPE = (256, 1100, 10)
_HODA_HEADER = 1024
_HODA_RECORD = struct.Struct("<BBBBH")
"""A byte of 255, the label, width, height, and the number of bytes of pixels that follow."""

FILES = {
    "usps": listed(
        "scripts/usps",
        "GitHub marionmari/Graph_stuff",
        """
        da2c8d6e8bd743da00c67020f444e0f28250dfbd16c55d8135c50ffa7719a5f9 1484005 usps_all.mat
        """,
    ),
    "farsi": listed(
        "scripts/hoda_farsi",
        "GitHub amir-saniyan/HodaDatasetReader",
        """
        f947c38071c886677ec212fe5000863fafae0b4ed349d97d51c33abe3c8e2b07 2184440 Test_20000.cdb
        """,
    ),
    "kannada": listed(
        "scripts/kannada",
        "GitHub vinayprabhu/Kannada_MNIST",
        """
        4628f3fa7b1d32137449dd356be4601da0c28c420b79f1b745a5134504ca35ca 1120203 X_kannada_MNIST_test-idx3-ubyte.gz
        30f2711ac2b2325c6e1a1da3606f5f76691289c030e602278b221b8c91daffe8   10128 y_kannada_MNIST_test.npy
        """,
    ),
    "dig-mnist": listed(
        "scripts/kannada",
        "GitHub vinayprabhu/Kannada_MNIST",
        """
        abda37c59d3d65ef89505860c18e7b7f7e80bfb2ba361ec1df68949e0c630aaa 1395287 X_dig_MNIST-idx3-ubyte.gz
        7540b55622addaf6f737e39c77b4ddbb6a351daeda5536821b96fb74ccd48635   10368 y_dig_MNIST.npy
        """,
    ),
    "bangla": listed(
        "scripts/cmaterdb",
        "GitHub prabhuomkar/CMATERdb",
        """
        502957392649eecad013ac425b54fecc6d06dbc06bc647a46b0cfc6b96e2c130  489289 bangla-training.npz
        d1c9780ba5decc135175a021bd29961cd7316db009f428d8c04b84ba36a6d67a   98295 bangla-testing.npz
        """,
    ),
    "devanagari": listed(
        "scripts/cmaterdb",
        "GitHub prabhuomkar/CMATERdb",
        """
        e690d54f7c82e12e3c5ba99221672dc3fc7b6ad493e495077f7e26332558ae86  234882 devanagari-training.npz
        1636fa10484100486b96a3e938cee4c6adeddcfb1e91c9dbb5166fb9a260216d   47017 devanagari-testing.npz
        """,
    ),
    "telugu": listed(
        "scripts/cmaterdb",
        "GitHub prabhuomkar/CMATERdb",
        """
        32f9b5b135c8084f0cf646bc6a70358767653b1f8c6d19bd64ad5d5cbf1d9467  241764 telugu-training.npz
        182806a45091da53b4ad98d4425130c0ebbf9bc1bf50fb58b3e5ea65ee33c7c6   48946 telugu-testing.npz
        """,
    ),
    "thai": listed(
        "scripts/thai",
        "GitHub kittinan/thai-handwriting-number, reduced to 28 × 28",
        """
        b145214a98b1fb2a66e85f8a316c169a10570332871252e950ca21f04f13836e  609707 thai28.npz
        """,
    ),
    "tibetan": listed(
        "scripts/tibetan",
        "GitHub bat67/TibetanMNIST, reduced to 28 × 28",
        """
        630f4817e0cdfad3895aa3335aa7d9be1ce763e4ac23eb99eeed8afd919a7352 4447114 tibetan28.npz
        """,
    ),
    "notmnist": listed(
        "scripts/notmnist",
        "GitHub davidflanagan/notMNIST-to-MNIST",
        """
        70ae9e06201f2827e5b0a3781a3169d735dd2efc69996b9eeaee7f10ed4044d7 3172375 t10k-images-idx3-ubyte.gz
        1fa03836e01c862542f8eb83463bb951bebec6fcb3efa28dad748c6b38a9021b    5118 t10k-labels-idx1-ubyte.gz
        """,
    ),
}


def read(name: str) -> tuple[NDArray[np.uint8] | list[NDArray[np.uint8]], Labels]:
    """The images and labels of one of :data:`FILES`. Those of ``farsi`` differ in size; all others are one array."""
    paths = [locate(file) for file in FILES[name]]
    if name == "farsi":
        return hoda(paths[0])
    if name == "usps":
        return usps(paths[0])
    if name in ("bangla", "devanagari", "telugu"):
        parts = [photographs(path) for path in paths]
        images, labels = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    elif name in ("thai", "tibetan"):
        images, labels = drawings(paths[0], dark_ink=name == "thai")
    else:
        images, labels = mnist.read_idx(paths[0]), _labels(paths[1])
    return images, checked(f"scripts/{name}", images, labels)


def photographs(path: Path) -> tuple[NDArray[np.uint8], Labels]:
    """A ``.npz`` file of ``images`` (n, 32, 32, 3), dark ink on a light background, and ``labels``: CMATERdb."""
    with open_npz(path, _LARGEST_BYTES) as content:
        images, labels = content["images"], content["labels"]
    if images.dtype != np.uint8 or images.ndim != 4 or images.shape[3] != 3:
        raise DataError(f"{path}: images are {images.dtype} {images.shape}, expected bytes (n, h, w, 3); replace it")
    return 255 - images[..., 0], labels  # black and white, so one channel is enough


def drawings(path: Path, dark_ink: bool) -> tuple[NDArray[np.uint8], Labels]:
    """A ``.npz`` file of ``x`` (n, 28, 28) and ``y``."""
    with open_npz(path, _LARGEST_BYTES) as content:
        images, labels = content["x"], content["y"]
    return 255 - images if dark_ink else images, labels


def _labels(path: Path) -> NDArray[np.uint8]:
    return read_npy(path) if path.suffix == ".npy" else mnist.read_idx(path)


def checked(where: str, images: NDArray[np.uint8], labels: NDArray[np.integer]) -> Labels:
    """The labels as int32, if they fit the images."""
    fit = images.dtype == np.uint8 and labels.dtype.kind in "iu" and images.ndim == 3
    if not fit or labels.shape != images.shape[:1]:
        raise DataError(
            f"{where}: images {images.dtype} {images.shape} and labels {labels.dtype} {labels.shape} "
            "do not belong together; replace the files with good copies"
        )
    wrong = np.flatnonzero((labels < 0) | (labels > 9))
    if wrong.size:
        raise DataError(f"{where}: row {wrong[0]} has label {labels[wrong[0]]}, outside 0 … 9; replace the file")
    return labels.astype(np.int32)


def usps(path: Path) -> tuple[NDArray[np.uint8], Labels]:
    """11,000 images (16, 16) from envelopes: all of digit 1, then 2 … 9, then 0.

    The file is MATLAB's; its ``data`` (256, 1100, 10) has a column for each image, itself column by column.
    """
    data = _matlab(path)
    images = data.transpose(2, 1, 0).reshape(-1, 16, 16).transpose(0, 2, 1)
    return np.ascontiguousarray(images), np.repeat(np.arange(1, 11) % 10, _USPS_SHAPE[1]).astype(np.int32)


def _matlab(path: Path) -> NDArray[np.uint8]:
    """The array, which is only unpacked if the file declares exactly the expected one."""
    try:
        declared = whosmat(path)
        if declared != [("data", _USPS_SHAPE, "uint8")]:
            raise DataError(
                f"{path}: holds {declared}, expected bytes 'data' {_USPS_SHAPE}; replace it with a good copy"
            )
        data: Any = loadmat(path)["data"]
    except DataError:
        raise
    except Exception as error:  # SciPy raises many kinds of errors for a damaged file
        raise DataError(f"{path}: cannot be read as a MATLAB file ({error}); replace it with a good copy") from None
    return np.asarray(data, np.uint8)


def hoda(path: Path) -> tuple[list[NDArray[np.uint8]], Labels]:
    """Images (h, w) of 0 and 255 (ink), each with its own size: all of digit 0, then 1 … 9.

    A ``.cdb`` file starts with 1024 bytes that have, at 6, the number of records. Each record has its own width and
    height.
    """
    content = path.read_bytes()
    if len(content) < _HODA_HEADER:
        raise DataError(f"{path}: has no header of {_HODA_HEADER} bytes; replace it with a good copy")
    (count,) = struct.unpack_from("<I", content, 6)
    images: list[NDArray[np.uint8]] = []
    labels, position = [], _HODA_HEADER
    while position < len(content):
        where = f"{path}: record {len(images)}"
        if position + _HODA_RECORD.size > len(content):
            raise DataError(f"{where} is cut off; replace the file with a good copy")
        start, label, width, height, size = _HODA_RECORD.unpack_from(content, position)
        runs = content[position + _HODA_RECORD.size : position + _HODA_RECORD.size + size]
        if start != 255 or label > 9 or len(runs) < size:
            raise DataError(f"{where} is damaged or cut off; replace the file with a good copy")
        images.append(unpack_runs(runs, width, height, where))
        labels.append(label)
        position += _HODA_RECORD.size + size
    if len(images) != count:
        raise DataError(f"{path}: has {len(images)} records, but its header says {count}; replace it with a good copy")
    return images, np.array(labels, np.int32)


def unpack_runs(runs: bytes, width: int, height: int, where: str = "") -> NDArray[np.uint8]:
    """An image (height, width) from the lengths of runs: in every row paper, ink, paper, … until it is full."""
    pixels = bytearray()
    ink, left = 0, width
    for length in runs:
        pixels += bytes((ink,)) * length
        ink, left = 255 - ink, left - length
        if left == 0:
            ink, left = 0, width
    if len(pixels) != width * height or left != width or not pixels:
        raise DataError(f"{where}: its runs do not fill {height} rows of {width} pixels; replace the file")
    return np.frombuffer(bytes(pixels), np.uint8).reshape(height, width)
