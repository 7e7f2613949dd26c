"""Task sets from a folder tree of images: ``task/class/image``.

The folders ``validation`` and ``test`` hold the target. Rows of a task are in the natural order of their file names
across its classes (``frame2`` before ``frame10``), so name files by time when time matters.
"""

import hashlib
import os
import re
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from metasched.errors import DataError
from metasched.optional import require
from metasched.tasks import TEST, VALIDATION, Provenance, TaskSet

SUFFIXES = (".bmp", ".gif", ".jpeg", ".jpg", ".png", ".ppm", ".tif", ".tiff", ".webp")


def from_images(
    root: str | os.PathLike[str], *, size: tuple[int, int] = (32, 32), colour: bool = True, allow_overlap: bool = False
) -> TaskSet:
    """Read ``root/<task>/<class>/<image>`` with the target in ``root/validation`` and ``root/test``.

    Images are resized to ``size`` (height, width) and become (height, width, 3) in [0, 1], or (height, width) when
    ``colour`` is false. If every task has the class folders of the target the label set is shared; otherwise each
    has its own. Links that lead out of ``root`` are refused.
    """
    root = Path(root)
    if not root.is_dir():
        raise DataError(f"{root}: no such folder")
    folders = sorted(path for path in root.iterdir() if path.is_dir() and not path.name.startswith("."))
    parts = {path.name: path for path in folders}
    for part in (VALIDATION, TEST):
        if part not in parts:
            raise DataError(f"{root}: has no folder '{part}'; put the target's images there, one folder for each class")
    classes = {name: _class_folders(path) for name, path in parts.items()}
    target = sorted({*classes[VALIDATION], *classes[TEST]})
    shared = all(set(names) <= set(target) for names in classes.values())
    label_names = {name: target if shared or name in (VALIDATION, TEST) else classes[name] for name in parts}

    pairs: dict[str, tuple[NDArray[np.uint8], NDArray[np.int64]]] = {}
    provenance = {}
    for name, path in parts.items():
        images, labels, digest = _read_folder(root, path, label_names[name], size, colour)
        pairs[name] = images, labels
        provenance[name] = Provenance(f"images in {name}", np.arange(len(labels)), {name: digest})
    validation, test = pairs.pop(VALIDATION), pairs.pop(TEST)
    tasks = TaskSet.from_arrays(
        pairs,
        validation=validation,
        test=test,
        classes=target if shared else {**{name: label_names[name] for name in pairs}, "target": target},
        name=root.name,
        allow_overlap=allow_overlap,
    )
    return replace(tasks, provenance=provenance)


def _class_folders(part: Path) -> list[str]:
    return sorted(path.name for path in part.iterdir() if path.is_dir() and not path.name.startswith("."))


def _read_folder(
    root: Path, part: Path, names: list[str], size: tuple[int, int], colour: bool
) -> tuple[NDArray[np.uint8], NDArray[np.int64], str]:
    """Images (n, height, width[, 3]) uint8, labels (n,) and a checksum over the files, in natural order of names."""
    files = [
        (path, label)
        for label, name in enumerate(names)
        if (part / name).is_dir()
        for path in (part / name).iterdir()
        if path.suffix.lower() in SUFFIXES
    ]
    files.sort(key=lambda item: (_natural(item[0].name), item[1]))
    if not files:
        raise DataError(f"{part}: holds no images in class folders; expected {part}/<class>/<image>")
    digest = hashlib.sha256()
    images = []
    for path, _ in files:
        if not path.resolve().is_relative_to(root.resolve()):
            raise DataError(f"{path}: is a link that leads out of {root}; copy the image instead")
        digest.update(path.read_bytes())
        images.append(_read_image(path, size, colour))
    return np.stack(images), np.array([label for _, label in files]), digest.hexdigest()


def _read_image(path: Path, size: tuple[int, int], colour: bool) -> NDArray[np.uint8]:
    pillow = require("PIL.Image", "images")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pillow.DecompressionBombWarning)
            with pillow.open(path) as image:
                converted = image.convert("RGB" if colour else "L")
                resized = converted.resize((size[1], size[0]), pillow.Resampling.BILINEAR)
                return np.asarray(resized, dtype=np.uint8)
    except Exception as error:  # Pillow raises many kinds for a damaged or oversized image
        raise DataError(f"{path}: not a readable image ({error}); replace or remove it") from None


def _natural(name: str) -> tuple[tuple[int, int, str], ...]:
    """A key that sorts numbers inside names by value: frame2 before frame10."""
    return tuple((0, int(part), "") if part.isdigit() else (1, 0, part) for part in re.split(r"(\d+)", name) if part)
