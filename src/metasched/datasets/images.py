"""Task sets from a folder tree of images: ``task/class/image``.

The folders ``validation`` and ``test`` hold the target, or one of the tasks is the target and is divided. Rows of a
task are in the natural order of their file names across its classes (``frame2`` before ``frame10``), so name files by
time when time matters.
"""

import hashlib
import math
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metasched.errors import ConfigError, DataError, given
from metasched.files import natural_order
from metasched.optional import require
from metasched.tasks import TEST, VALIDATION, Provenance, TaskSet
from metasched.tasks.assemble import divide, split_of, target_parts
from metasched.untrusted import file_size

SUFFIXES = (".bmp", ".gif", ".jpeg", ".jpg", ".png", ".ppm", ".tif", ".tiff", ".webp")
FORMATS = ("BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP")
"""The formats that are read, whatever the name of the file says. Pillow knows formats that run other programs."""
LARGEST_FILE = 256 * 1024**2
LARGEST_BYTES = 8 * 1024**3


def from_images(
    root: str | os.PathLike[str],
    *,
    size: tuple[int, int] | None = None,
    colour: bool = True,
    target: str | None = None,
    target_labels: int | None = None,
    seed: int = 0,
    allow_overlap: bool = False,
    limit: int = LARGEST_BYTES,
) -> TaskSet:
    """Read ``root/<task>/<class>/<image>``, with the target in ``root/validation`` and ``root/test``. Needs the extra
    ``images``.

    If every task has the class folders of the target, they share one set of labels. Otherwise each task has its own
    labels. Links that lead out of ``root`` are refused.

    Args:
        root: the folder.
        size: (height, width) to resize images to. By default they keep their size, which must be the same for all.
        colour: if true, images become (height, width, 3) in [0, 1], otherwise (height, width).
        target: the task that is the target, if there are no folders ``validation`` and ``test``.
        target_labels: how many of its rows are for validation, in proportion to the classes. By default half, but at
            most 100.
        seed: the seed that draws these rows.
        allow_overlap: allow rows that are both validation and test rows.
        limit: the most bytes that the images may take in memory.

    Returns:
        The task set.

    Examples:
        >>> from pathlib import Path
        >>> from PIL import Image
        >>> for number in range(16):
        ...     folder = Path("pictures", ["photos", "sketches"][number % 2], ["day", "night"][number // 8])
        ...     folder.mkdir(parents=True, exist_ok=True)
        ...     Image.new("L", (4, 4), 9 * number).save(folder / f"{number}.png")
        >>> ms.datasets.from_images("pictures", target="sketches", colour=False)
        TaskSet('pictures', tasks=['photos'], sizes=[8])
    """
    root = Path(root)
    if not root.is_dir():
        raise DataError(f"{root}: no such folder")
    if size is not None and (len([*size]) != 2 or min(size) < 1):
        raise ConfigError(f"size is {size}; give (height, width)")
    parts = {path.name: path for path in _inside(root) if path.is_dir()}
    own = target_parts(list(parts), target, str(root))
    classes = {name: [one.name for one in _inside(path) if one.is_dir()] for name, path in parts.items()}
    wanted = sorted({name for part in own for name in classes[part]})
    shared = all(set(names) <= set(wanted) for names in classes.values())
    label_names = {name: wanted if shared or name in own else classes[name] for name in parts}
    files = {name: _files(path, label_names[name]) for name, path in parts.items()}
    with _opened(root, next(iter(files.values()))[0][0]) as first:
        shape = (*(size or (first.height, first.width)), *([3] if colour else []))
    taken = 4 * math.prod(shape) * sum(map(len, files.values()))
    if taken > limit:
        raise DataError(
            f"{root}: images of {shape[0]} × {shape[1]} take {taken:,} bytes, more than the limit of {limit:,}; give a "
            f"smaller {given('size', (32, 32))}, or raise the limit with {given('limit', taken)}"
        )
    pairs = {}
    provenance = {}
    for name in parts:
        images, labels, digest = _read(root, files[name], shape, size)
        pairs[name] = images, labels
        provenance[name] = Provenance(f"images in {name}", np.arange(len(labels)), {name: digest})
    notes: tuple[str, ...] = ()
    if target is not None:
        (images, labels), origin = pairs.pop(target), provenance.pop(target)
        validation, test, note = divide(labels, target, target_labels, seed)
        pairs |= {VALIDATION: (images[validation], labels[validation]), TEST: (images[test], labels[test])}
        provenance |= {VALIDATION: origin.take(validation), TEST: origin.take(test)}
        notes = (note,)
    goal = {VALIDATION: pairs.pop(VALIDATION), TEST: pairs.pop(TEST)}
    tasks = TaskSet.from_arrays(
        pairs,
        **goal,
        classes=wanted if shared else {**{name: label_names[name] for name in pairs}, "target": wanted},
        name=root.name,
        allow_overlap=allow_overlap,
    )
    tasks = replace(tasks, provenance=provenance, notes=notes, split=split_of(target, target_labels))
    if target is None and target_labels is not None:
        return tasks.variant(target_labels=target_labels, seed=seed)
    return tasks


def _inside(folder: Path) -> list[Path]:
    """The content of a folder by name, except hidden entries."""
    try:
        return sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    except OSError as error:
        raise DataError(f"{folder}: cannot be listed ({error.strerror}); check its permissions") from None


def _files(part: Path, names: list[str]) -> list[tuple[Path, int]]:
    """The images of a part with their labels, in natural order of their names."""
    files = [
        (path, label)
        for label, name in enumerate(names)
        if (part / name).is_dir()
        for path in _inside(part / name)
        if path.suffix.lower() in SUFFIXES
    ]
    if not files:
        raise DataError(f"{part}: has no images in class folders; expected {part}/<class>/<image>")
    return sorted(files, key=lambda item: (natural_order(item[0].name), item[1]))


def _read(
    root: Path, files: list[tuple[Path, int]], shape: tuple[int, ...], size: tuple[int, int] | None
) -> tuple[NDArray[np.uint8], NDArray[np.int64], str]:
    """Images (n, *shape) uint8, labels (n,) and a checksum over the files."""
    digest = hashlib.sha256()
    images = np.empty((len(files), *shape), np.uint8)
    for row, (path, _) in enumerate(files):
        with _opened(root, path) as image:
            if size is None and (image.height, image.width) != shape[:2]:
                raise DataError(
                    f"{path}: is {image.height} × {image.width}, others {shape[0]} × {shape[1]}; to resize all "
                    "of them, give "
                    f"{given('size', shape[:2])}"
                )
            images[row] = _pixels(image, shape)
        digest.update(path.read_bytes())
    return images, np.array([label for _, label in files]), digest.hexdigest()


def read_image(root: Path, path: Path, shape: tuple[int, ...]) -> NDArray[np.uint8]:
    """One image below ``root``, resized to ``shape`` (height, width[, 3])."""
    with _opened(root, path) as image:
        return _pixels(image, shape)


@contextmanager
def _opened(root: Path, path: Path) -> Iterator[Any]:
    """An image opened by Pillow. Damage, too many pixels and links out of ``root`` become a :class:`DataError`."""
    pillow = require("PIL.Image", "images")
    file_size(path, LARGEST_FILE)
    if not path.resolve().is_relative_to(root.resolve()):
        raise DataError(f"{path}: is a link that leads out of {root}; copy the image instead")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pillow.DecompressionBombWarning)
            with pillow.open(path, formats=FORMATS) as image:
                yield image
    except DataError:
        raise
    except Exception as error:  # Pillow raises many kinds of errors for a damaged or oversized image
        raise DataError(f"{path}: cannot be read as an image ({error}); replace or remove it") from None


def _pixels(image: Any, shape: tuple[int, ...]) -> NDArray[np.uint8]:
    converted = image.convert("RGB" if len(shape) == 3 else "L")
    if converted.size != (shape[1], shape[0]):
        converted = converted.resize((shape[1], shape[0]), require("PIL.Image", "images").Resampling.BILINEAR)
    return np.asarray(converted, dtype=np.uint8)
