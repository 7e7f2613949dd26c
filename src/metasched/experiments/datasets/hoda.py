"""Hoda (Khosravi, Kabir 2007): 20,000 handwritten Farsi digits, black and white, each of its own size."""

import struct
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from metasched.datasets.store import DataFile, locate
from metasched.errors import DataError
from metasched.tasks import Labels

FILE = DataFile(
    "scripts/hoda_farsi/Test_20000.cdb",
    2184440,
    "f947c38071c886677ec212fe5000863fafae0b4ed349d97d51c33abe3c8e2b07",
    origin="GitHub amir-saniyan/HodaDatasetReader",
)
_HEADER = 1024
_RECORD = struct.Struct("<BBBBH")
"""A byte of 255, the label, width, height, and how many bytes of pixels follow."""


def read() -> tuple[list[NDArray[np.uint8]], Labels]:
    """The test part: 20,000 images (h, w) of 0 and 255 (ink), and labels: all of digit 0, then 1 … 9, as filed."""
    return parse(locate(FILE))


def parse(path: Path) -> tuple[list[NDArray[np.uint8]], Labels]:
    """A ``.cdb`` file: 1024 bytes that say, at 6, how many records follow; each has its own width and height."""
    content = path.read_bytes()
    if len(content) < _HEADER:
        raise DataError(f"{path}: has no header of {_HEADER} bytes; replace it with a good copy")
    (count,) = struct.unpack_from("<I", content, 6)
    images: list[NDArray[np.uint8]] = []
    labels, place = [], _HEADER
    while place < len(content):
        where = f"{path}: record {len(images)}"
        if place + _RECORD.size > len(content):
            raise DataError(f"{where} is cut off; replace the file with a good copy")
        start, label, width, height, size = _RECORD.unpack_from(content, place)
        runs = content[place + _RECORD.size : place + _RECORD.size + size]
        if start != 255 or label > 9 or len(runs) < size:
            raise DataError(f"{where} is damaged or cut off; replace the file with a good copy")
        images.append(unpack(runs, width, height, where))
        labels.append(label)
        place += _RECORD.size + size
    if len(images) != count:
        raise DataError(f"{path}: holds {len(images)} records, its header says {count}; replace it with a good copy")
    return images, np.array(labels, np.int32)


def unpack(runs: bytes, width: int, height: int, where: str = "") -> NDArray[np.uint8]:
    """An image (height, width) from lengths of runs: in every row paper, ink, paper, … until it is full."""
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
