"""Reads ExtremeWeather files (Racah et al., NeurIPS 2017): only the windows of the boxes, never a whole image.

One HDF5 file holds one simulated year of the atmosphere, four images a day:

- ``images`` (n, 16, height, width): the channels of :data:`CHANNELS` on a grid of latitude × longitude;
- ``boxes`` (n, 15, 5): ymin, xmin, ymax, xmax and event type of up to 15 boxes an image; unused rows are all −1.

Neither dtype is documented, so both are cast. A box may reach past the grid: it is clipped at the poles and goes on
round the globe in longitude. Files come from outside and are not trusted: a link, external storage or virtual data
set, which would make HDF5 open other files of this machine, is refused, and so is any dtype but plain numbers.
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from metasched.errors import DataError, StoreError
from metasched.experiments.datasets.pixels import resize_matrix
from metasched.optional import require
from metasched.tasks import Inputs, Labels, RowNumbers

CHANNELS = (
    *("PRECT", "PS", "PSL", "QREFHT", "T200", "T500", "TMQ", "TREFHT"),
    *("TS", "U850", "UBOT", "V850", "VBOT", "Z100", "Z200", "ZBOT"),
)
EVENTS = ("tropical depression", "tropical cyclone", "extratropical cyclone", "atmospheric river")
SLOTS = 15

MAX_IMAGES = 1 << 17
"""Ninety years with four images a day. A larger number means a damaged or hostile header."""
MAX_GRID = 1 << 24
"""Grid points of one channel; the published files have 768 × 1152, about 2²⁰."""
MAX_CHUNK_BYTES = 1 << 28
CACHE_BYTES = 1 << 24

_HDF5_FAULTS = (OSError, RuntimeError, ValueError, KeyError, TypeError)


class Digest(Protocol):
    """An object like those of :mod:`hashlib`."""

    def update(self, data: bytes, /) -> None:
        """Add ``data``."""


@dataclass(frozen=True)
class Boxes:
    """n boxes in file order.

    ``image`` (n,) and ``slot`` (n,) index the file's ``boxes``; ``corners`` (n, 4) are top, left, bottom, right with
    0 ≤ top < bottom ≤ height, 0 ≤ left < width and left < right ≤ left + width; ``labels`` (n,) index :data:`EVENTS`.
    """

    image: RowNumbers
    slot: RowNumbers
    corners: NDArray[np.int64]
    labels: Labels

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, index: RowNumbers) -> "Boxes":
        """The boxes at ``index``."""
        return Boxes(self.image[index], self.slot[index], self.corners[index], self.labels[index])


def import_h5py() -> Any:
    """Import h5py, which only weather files need."""
    return require("h5py", "weather")


def is_simulated(path: Path) -> bool:
    """Whether the file says that it is simulated."""
    with _opened(path) as file:
        try:
            value = np.asarray(file.attrs.get("simulated", False))
        except _HDF5_FAULTS as error:
            raise DataError(
                f"{path}: attribute 'simulated' cannot be read ({_reason(error)}); set it or remove it"
            ) from None
    return bool(value.ravel().tolist() != [False])


def read_boxes(path: Path) -> Boxes:
    """Read all boxes of a file, image by image, in the order of the slots."""
    with _opened(path) as file:
        _, _, height, width = _images(file, path).shape
        table = _table(file, path)
    used = ~np.all(table == -1, axis=-1)
    image, slot = np.nonzero(used)
    if not image.size:
        raise DataError(f"{path}: has no box, because every row of boxes is −1; use a labelled year")
    rows = table[used]

    def refuse(wrong: NDArray[np.bool_], fault: str) -> None:
        if wrong.any():
            first = int(np.argmax(wrong))
            values = ", ".join(f"{value:g}" for value in rows[first])
            raise DataError(
                f"{path}: boxes[{image[first]}, {slot[first]}] = ({values}) {fault} ({int(wrong.sum())} such boxes); "
                "correct the row or mark it unused with five times −1"
            )

    refuse(~(np.abs(rows) < 2**31).all(axis=1), "has a number that is not a grid position")
    refuse(~np.isin(rows[:, 4], range(len(EVENTS))), f"has a class outside 0 … {len(EVENTS) - 1}")
    corners = np.concatenate([np.floor(rows[:, :2]), np.ceil(rows[:, 2:4])], axis=1).astype(np.int64)
    corners[:, [0, 2]] = corners[:, [0, 2]].clip(0, height)
    extent = corners[:, 3] - corners[:, 1]
    refuse(corners[:, 0] >= corners[:, 2], f"covers no row of the grid, 0 … {height - 1}")
    refuse(extent <= 0, "covers no column, xmin ≥ xmax")
    refuse(extent > width, f"is wider than the grid, {width} columns")
    corners[:, 1] %= width
    corners[:, 3] = corners[:, 1] + extent
    return Boxes(image, slot, corners, rows[:, 4].astype(np.int32))


def read_windows(
    path: Path, boxes: Boxes, channels: Sequence[int], *, size: int = 32, digest: Digest | None = None
) -> Inputs:
    """Read the windows of ``boxes``, resized to (n, size, size, len(channels)), in the units of the file.

    One window is in memory at a time. ``digest`` takes in, box by box, what was read: image, slot, corners and class
    as little-endian int64, then the window (channels, h, w) as little-endian float32, before resizing.
    """
    result = np.empty((len(boxes), size, size, len(channels)), np.float32)
    with _opened(path) as file:
        images = _images(file, path)
        for row, (image, slot) in enumerate(zip(boxes.image.tolist(), boxes.slot.tolist(), strict=True)):
            try:
                window = _window(images, image, boxes.corners[row], channels)
            except _HDF5_FAULTS as error:
                raise DataError(
                    f"{path}: images[{image}] cannot be read inside boxes[{image}, {slot}] ({_reason(error)}); "
                    "the file is damaged, fetch it again"
                ) from None
            broken = np.flatnonzero(~np.isfinite(window).all(axis=(1, 2)))
            if broken.size:
                channel = channels[broken[0]]
                raise DataError(
                    f"{path}: images[{image}, {channel}] ({CHANNELS[channel]}) holds NaN or infinity inside "
                    f"boxes[{image}, {slot}]; fill the field or mark the box unused with five times −1"
                )
            if digest is not None:
                head = np.array([image, slot, *boxes.corners[row], boxes.labels[row]], "<i8")
                digest.update(head.tobytes() + window.astype("<f4", copy=False).tobytes())
            rows, columns = (resize_matrix(old, size) for old in window.shape[1:])
            result[row] = np.moveaxis(rows @ (window @ columns.T), 0, -1)
    return result


def _window(images: Any, image: int, corners: NDArray[np.int64], channels: Sequence[int]) -> Inputs:
    """Read one window (channels, h, w) in at most two pieces per channel: up to the date line and from it on."""
    top, left, bottom, right = map(int, corners)
    width = images.shape[3]
    seam = min(right, width) - left
    window = np.empty((len(channels), bottom - top, right - left), np.float32)
    with np.errstate(over="ignore"):  # values that overflow float32 become infinite, and the caller refuses them
        for place, channel in enumerate(channels):
            window[place, :, :seam] = images[image, channel, top:bottom, left : left + seam]
            if right > width:
                window[place, :, seam:] = images[image, channel, top:bottom, : right - width]
    return window


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    h5py = import_h5py()
    if not path.is_file():
        raise StoreError(f"{path}: no such file; give the path of an ExtremeWeather HDF5 file")
    try:
        file = h5py.File(path, "r", rdcc_nbytes=CACHE_BYTES)
    except _HDF5_FAULTS as error:
        raise DataError(
            f"{path}: cannot be opened as HDF5 ({_reason(error)}); it is another kind of file or was cut off, "
            "fetch it again"
        ) from None
    with file:
        yield file


def _images(file: Any, path: Path) -> Any:
    """The data set ``images``, its header checked."""
    images = _dataset(file, path, "images", ("n", len(CHANNELS), "height", "width"))
    if images.shape[0] > MAX_IMAGES or images.shape[2] * images.shape[3] > MAX_GRID:
        raise DataError(f"{path}: images claims the shape {images.shape}; no year is that large, fetch the file again")
    return images


def _table(file: Any, path: Path) -> NDArray[np.float64]:
    """The data set ``boxes`` (n, 15, 5), for as many images as there are."""
    boxes = _dataset(file, path, "boxes", ("n", SLOTS, 5))
    count = file["images"].shape[0]
    if len(boxes) != count:
        raise DataError(f"{path}: boxes has {len(boxes)} images, images has {count}; the two must be of one year")
    try:
        return np.asarray(boxes[()], np.float64)
    except _HDF5_FAULTS as error:
        raise DataError(
            f"{path}: boxes cannot be read ({_reason(error)}); the file is damaged, fetch it again"
        ) from None


def _dataset(file: Any, path: Path, name: str, shape: tuple[int | str, ...]) -> Any:
    """A data set of plain numbers that is stored in this very file, with the documented shape."""
    try:
        return _checked(file, path, name, shape)
    except DataError:
        raise
    except _HDF5_FAULTS as error:
        raise DataError(f"{path}: '{name}' cannot be read ({_reason(error)}); fetch the file again") from None


def _checked(file: Any, path: Path, name: str, shape: tuple[int | str, ...]) -> Any:
    h5py = import_h5py()
    links = file.id.links  # The high-level interface would follow a link to see where it leads.
    if not links.exists(name.encode()):
        raise DataError(f"{path}: has no data set '{name}'; ExtremeWeather files hold 'boxes' and 'images'")
    if links.get_info(name.encode()).type != h5py.h5l.TYPE_HARD:
        raise DataError(f"{path}: '{name}' is a link, which could lead to another file; store the data set itself")
    dataset = file[name]
    if not isinstance(dataset, h5py.Dataset):
        raise DataError(
            f"{path}: '{name}' is not a data set; ExtremeWeather files hold the arrays 'boxes' and 'images'"
        )
    if dataset.is_virtual or dataset.external:
        raise DataError(f"{path}: '{name}' is stored in other files; copy it into one file")
    if dataset.dtype.kind not in "fiu":
        raise DataError(f"{path}: '{name}' has dtype {dataset.dtype}; store plain numbers")
    found = dataset.shape or ()
    if len(found) != len(shape) or any(isinstance(b, int) and a != b for a, b in zip(found, shape, strict=True)):
        wanted = ", ".join(map(str, shape))
        raise DataError(f"{path}: '{name}' has shape {found}, expected ({wanted}); see the layout of ExtremeWeather")
    chunk_bytes = math.prod(dataset.chunks or (0,)) * dataset.dtype.itemsize
    if chunk_bytes > MAX_CHUNK_BYTES:
        raise DataError(f"{path}: {name} has chunks of {chunk_bytes:,} bytes; rewrite it with chunks of one image")
    return dataset


def _reason(error: Exception) -> str:
    lines = str(error).splitlines()
    return lines[0] if lines else type(error).__name__
