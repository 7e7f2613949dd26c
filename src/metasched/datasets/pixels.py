"""Resizing stacks of images, as two small matrix products."""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from metasched.tasks import Inputs


@lru_cache(maxsize=256)
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
    matrix.flags.writeable = False  # shared by every caller through the cache
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
