"""Reads ClimateNet points: 16 atmospheric variables at fixed sites, labelled by several people.

Derived from ClimateNet (Prabhat et al., GMD 14, 107–124, 2021). One date is one snapshot of the atmosphere. Its rows at
a site repeat the same values, one row for each annotator, whose labels may differ. Here a point, which is a date at a
site, is one row with the label that most annotators chose.
"""

import gzip
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from metasched.datasets.store import DataFile
from metasched.errors import DataError, such_rows
from metasched.tasks import Labels

VARIABLES = (
    *("TMQ", "U850", "V850", "UBOT", "VBOT", "QREFHT", "PS", "PSL"),
    *("T200", "T500", "PRECT", "TS", "TREFHT", "Z1000", "Z200", "ZBOT"),
)
CLASSES = ("background", "tropical cyclone", "atmospheric river")
FILES = {
    "train": DataFile(
        path="climatenet/train_1996_2009.csv.gz",
        size=2187936,
        sha256="14e2c05efb4b130f33440292d4e127f054db03c1e3dadff6e0d5d184d50837e8",
    ),
    "target": DataFile(
        path="climatenet/labeled_2011_2013_40sites.csv.gz",
        size=164827,
        sha256="110aff075364ad04f1e0849111631e77650dc00daa64a52c41c76ba21cffafa5",
    ),
    "unlabelled": DataFile(
        path="climatenet/test_2010_2013_unlabeled.csv.gz",
        size=519423,
        sha256="ec6803f538929161ea286b9b20ad33d1d55849a3c9b7ecd1eda19331227c9774",
    ),
}
MAX_BYTES = 1 << 26
"""The most bytes that a file may unpack to. The largest real file has 10 MB."""


@dataclass(frozen=True)
class Points:
    """n points in order of (time, lat, lon).

    ``time`` (n,) is the date as YYYYMMDD, ``lat`` and ``lon`` (n,) are degrees north and east, ``values`` (n, 16)
    hold :data:`VARIABLES`, and ``votes`` (n, 3) count the annotators who chose each of :data:`CLASSES`.
    """

    time: NDArray[np.int64]
    lat: NDArray[np.float64]
    lon: NDArray[np.float64]
    values: NDArray[np.float64]
    votes: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.time)

    @property
    def labels(self) -> Labels:
        """The class with the most votes (n,). A tie goes to the lower label, so an event must win outright."""
        return np.asarray(self.votes.argmax(axis=1), np.int32)

    @property
    def tied(self) -> NDArray[np.bool_]:
        """Whether two classes share the most votes (n,)."""
        top = self.votes == self.votes.max(axis=1, keepdims=True)
        return np.asarray(top.sum(axis=1) > 1)


def read(path: Path) -> Points:
    """Read the points of a labelled ClimateNet file, with its annotators merged."""
    table = _parse(path, _unpack(path))
    lat, lon, values = table[:, 1], table[:, 2], table[:, 3:19]
    time, labels = table[:, 19].astype(np.int64), table[:, 20].astype(np.int64)
    order = np.lexsort((lon, lat, time))
    keys = np.column_stack([time, lat, lon])[order]
    first = np.append(True, np.any(keys[1:] != keys[:-1], axis=1))
    point = np.cumsum(first) - 1
    kept = order[first]
    differs = np.any(values[order] != values[kept][point], axis=1)
    if differs.any():
        line = order[np.argmax(differs)] + 2
        raise DataError(f"{path}: line {line} has other values than an earlier row of its date and site; remove one")
    votes = np.bincount(point * len(CLASSES) + labels[order], minlength=len(kept) * len(CLASSES))
    return Points(time[kept], lat[kept], lon[kept], values[kept], votes.reshape(-1, len(CLASSES)))


def _unpack(path: Path) -> list[str]:
    """Lines of a gzip file, header first."""
    try:
        with gzip.open(path) as stream:
            content = stream.read(MAX_BYTES + 1)
        if len(content) > MAX_BYTES:
            raise DataError(f"{path}: unpacks to more than {MAX_BYTES:,} bytes; it is not a ClimateNet file")
        return content.decode("ascii").splitlines()
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise DataError(
            f"{path}: cannot be unpacked ({error}); it is damaged or incomplete; replace it with a good copy"
        ) from None


def _parse(path: Path, lines: list[str]) -> NDArray[np.float64]:
    """The numbers (rows, 21): row number, lat, lon, the variables, time, label."""
    header = lines[0].split(",") if lines else []
    if header[1:-1] != ["lat", "lon", *VARIABLES, "time"] or header[-1].upper() not in ("LABEL", "LABELS"):
        raise DataError(
            f"{path}: line 1 does not name the columns lat, lon, {', '.join(VARIABLES)}, time, Label; "
            "use a labelled ClimateNet file"
        )
    if len(lines) < 2:
        raise DataError(f"{path}: has no rows after its header; replace it with a good copy")
    try:
        table = np.loadtxt(lines[1:], delimiter=",", comments=None, ndmin=2)
    except ValueError as error:
        raise DataError(f"{path}: a row after the header is not numbers ({error}); correct or remove it") from None
    if table.shape[1] != len(header):
        raise DataError(f"{path}: line 2 has {table.shape[1]} columns, the header {len(header)}; correct the file")
    for wrong, fault in (
        (~np.isfinite(table).all(axis=1), "holds NaN or infinity"),
        (~np.isin(table[:, -1], range(len(CLASSES))), f"has a label outside 0 … {len(CLASSES) - 1}"),
    ):
        if wrong.any():
            raise DataError(f"{path}: line {np.argmax(wrong) + 2} {fault} ({such_rows(int(wrong.sum()))}); remove it")
    return table
