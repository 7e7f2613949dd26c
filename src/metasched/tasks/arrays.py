"""The arrays of rows, and how the values that callers give become such arrays."""

from itertools import pairwise
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metasched.errors import DataError

Inputs: TypeAlias = NDArray[np.float32]
Labels: TypeAlias = NDArray[np.int32]
Targets: TypeAlias = NDArray[np.float32]
RowNumbers: TypeAlias = NDArray[np.int64]


def from_pixels(images: NDArray[np.uint8]) -> Inputs:
    """Bytes 0 … 255 as float32 in [0, 1]."""
    return images.astype(np.float32) / np.float32(255)


def as_inputs(name: str, values: ArrayLike) -> Inputs:
    """Numbers as float32. Bytes are pixels."""
    array = np.asarray(values)
    return from_pixels(array) if array.dtype == np.uint8 else _as_float32(name, "inputs", array)


def as_labels(name: str, values: ArrayLike) -> Labels:
    """Whole numbers of any type as int32."""
    array = np.asarray(values)
    if array.dtype.kind == "f" and array.size and np.all(array == np.floor(array)):
        array = array.astype(np.int64)
    if array.dtype.kind not in "iu" and array.size:
        raise DataError(f"{name}: labels have dtype {array.dtype}; give integers 0 … C−1 and name them with classes=")
    bounds = np.iinfo(np.int32)
    if array.size and (array.min() < bounds.min or array.max() > bounds.max):
        raise DataError(f"{name}: labels do not fit 32 bits; number the classes 0 … C−1")
    return np.ascontiguousarray(array, dtype=np.int32)


def as_targets(name: str, values: ArrayLike) -> Targets:
    """Numbers as float32 (n, d); (n,) becomes (n, 1)."""
    numbers = _as_float32(name, "targets", np.asarray(values))
    return numbers[:, None] if numbers.ndim == 1 else numbers


def bin_edges(values: Targets, bins: int) -> Targets:
    """At most ``bins`` − 1 rising edges, taken from ``values``, that cut them into parts of about equal size.

    Value v is in bin #{edges ≤ v}. No bin is empty, and equal values share a bin.
    """
    quantiles = np.quantile(values, np.arange(1, bins) / bins, method="higher")
    return np.unique(quantiles[quantiles > values.min()]).astype(np.float32)


def strata_of(values: NDArray[np.generic]) -> Labels:
    """The groups by which rows are divided: their labels, or tenths of the first number to predict."""
    if values.dtype.kind in "iu":
        return values.astype(np.int32)
    first = values.reshape(len(values), -1)[:, 0].astype(np.float32)
    return np.searchsorted(bin_edges(first, 10), first, side="right").astype(np.int32)


def bin_names(edges: Targets) -> tuple[str, ...]:
    """``("< 0.5", "0.5 … 2", "≥ 2")``, with just enough digits to distinguish the edges."""
    if not edges.size:
        return ("any",)
    texts: list[str] = []
    for digits in range(3, 10):
        texts = [f"{edge:.{digits}g}" for edge in edges]
        if len(set(texts)) == len(texts):
            break
    return (f"< {texts[0]}", *(f"{low} … {high}" for low, high in pairwise(texts)), f"≥ {texts[-1]}")


def _as_float32(name: str, kind: str, array: NDArray[np.generic]) -> NDArray[np.float32]:
    if array.dtype.kind not in "fiub":
        raise DataError(f"{name}: {kind} have dtype {array.dtype}; give numbers")
    with np.errstate(
        over="ignore"
    ):  # values that overflow float32 become infinite, and are refused later with their row
        return np.ascontiguousarray(array, dtype=np.float32)
