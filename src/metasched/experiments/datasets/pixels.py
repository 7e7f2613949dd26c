"""Resizes images, as two small matrix products, and places them as MNIST does."""

from collections.abc import Collection
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metasched.tasks import Inputs, from_pixels

INK = 0.1
"""From this brightness on, a pixel is ink."""


@lru_cache(maxsize=2048)
def resize_matrix(old: int, new: int) -> NDArray[np.float32]:
    """Weights (new, old) of triangle-filter resampling with half-pixel centres; each row sums to one.

    Growing interpolates linearly; shrinking widens the triangle by ``old / new``, so that every old pixel counts
    (no aliasing). The same filter as Pillow's ``BILINEAR``.
    """
    scale = old / new
    support = max(scale, 1.0)
    centres = (np.arange(new) + 0.5) * scale
    distance = np.abs(np.arange(old) + 0.5 - centres[:, None]) / support
    weights = np.clip(1.0 - distance, 0.0, None)
    matrix: NDArray[np.float32] = (weights / weights.sum(axis=1, keepdims=True)).astype(np.float32)
    matrix.flags.writeable = False  # shared by all callers through the cache
    return matrix


def resize(images: Inputs, height: int, width: int) -> Inputs:
    """Resize (n, h, w) or (n, h, w, channels) to (n, height, width[, channels])."""
    rows, columns = resize_matrix(images.shape[1], height), resize_matrix(images.shape[2], width)
    planes = images if images.ndim == 3 else np.moveaxis(images, -1, 1)
    resized = rows @ (planes @ columns.T)
    return np.ascontiguousarray(resized if images.ndim == 3 else np.moveaxis(resized, 1, -1), dtype=np.float32)


def centre(images: Inputs, height: int, width: int) -> Inputs:
    """Place (n, h, w) in the middle of an empty (n, height, width), as MNIST places its 20 × 20 digits."""
    top, left = (height - images.shape[1]) // 2, (width - images.shape[2]) // 2
    canvas = np.zeros((len(images), height, width), np.float32)
    canvas[:, top : top + images.shape[1], left : left + images.shape[2]] = images
    return canvas


def fit_ink(images: Collection[NDArray[Any]], side: int = 20, size: int = 28) -> Inputs:
    """Bright ink on a dark background as (n, size, size) in [0, 1]: cropped, the longer side scaled to ``side``,
    centred.

    Images (h, w), bytes or floats in [0, 1], may differ in size; each must have ink. MNIST places its digits like this,
    except that it centres them by mass (LeCun, Bottou, Bengio, Haffner 1998).
    """
    canvas = np.zeros((len(images), size, size), np.float32)
    for image, place in zip(images, canvas, strict=True):
        grey = from_pixels(image) if image.dtype == np.uint8 else image
        ink = grey >= INK
        down, across = np.flatnonzero(ink.any(axis=1)), np.flatnonzero(ink.any(axis=0))
        crop = grey[down[0] : down[-1] + 1, across[0] : across[-1] + 1]
        height, width = (max(1, round(side * length / max(crop.shape))) for length in crop.shape)
        top, left = (size - height) // 2, (size - width) // 2
        resized = resize_matrix(crop.shape[0], height) @ crop @ resize_matrix(crop.shape[1], width).T
        place[top : top + height, left : left + width] = resized
    return np.clip(canvas, 0, 1, out=canvas)
