"""What the planners refuse, and the messages: the argument, the wrong index, the fix."""

import math
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metasched.errors import DataError, number

Floats: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]

ROUNDING = (
    1e-6  # A row whose sum is this close to one counts as summing to one, because matrices may come from float32.
)


def as_discount(discount: Any) -> float:
    """``discount`` as a float in [0, 1)."""
    return number("discount", discount, least=0, below=1)


def as_transitions(P: ArrayLike, name: str = "P") -> Floats:
    """``P`` (…, C, C) as float64 with entries ≥ 0 and rows that sum to at most one."""
    matrix = as_floats(P, name)
    if matrix.ndim < 2 or matrix.shape[-1] != matrix.shape[-2] or matrix.size == 0:
        raise DataError(f"{name} has shape {matrix.shape}; give square matrices (…, C, C)")
    where = first_true(matrix < 0) if matrix.min() < 0 else None
    if where is not None:
        raise DataError(f"{name}[{spell(where)}] is {matrix[where]}; a probability is at least 0")
    sums = matrix.sum(axis=-1)
    where = first_true(sums > 1 + ROUNDING)
    if where is not None:
        raise DataError(f"row {name}[{spell(where)}] sums to {sums[where]:.9g}; a row sums to at most 1")
    return matrix


def as_chains(Ps: ArrayLike, name: str = "Ps") -> Floats:
    """``Ps`` (N, C, C) as stochastic matrices: rows that are all zero become self-loops, the others sum to one.

    A row of zeros belongs to a label that never occurs. No occurring label leads to it, so the self-loop changes no
    value that matters and keeps every row stochastic.
    """
    matrix = as_transitions(Ps, name)
    if matrix.ndim != 3:
        raise DataError(f"{name} has shape {matrix.shape}; give one matrix for each task, (N, C, C)")
    sums = matrix.sum(axis=-1)
    absent = sums == 0
    where = first_true(~absent & (sums < 1 - ROUNDING))
    if where is not None:
        raise DataError(
            f"row {name}[{spell(where)}] sums to {sums[where]:.9g}; "
            "a row sums to 1, or to 0 for a label that never occurs"
        )
    loops: Floats = absent[..., None] * np.eye(matrix.shape[-1])
    chains: Floats = loops + matrix / np.where(absent, 1.0, sums)[..., None]
    return chains


def as_rewards(r: ArrayLike, shape: tuple[int, ...], name: str = "r") -> Floats:
    """``r`` as finite float64 of the given shape."""
    rewards = as_floats(r, name)
    if rewards.shape != shape:
        raise DataError(f"{name} has shape {rewards.shape}; give {shape} to match the transition matrices")
    return rewards


def as_floats(values: ArrayLike, name: str, *, copy: bool = False) -> Floats:
    """``values`` as finite float64. This is the array itself if it already fits and no ``copy`` is wanted."""
    try:
        array = np.asarray(values)
    except ValueError as fault:
        raise DataError(f"{name} is ragged; give one rectangular array") from fault
    if array.dtype.kind not in "fiub":
        raise DataError(f"{name} has dtype {array.dtype}; give numbers")
    floats = array.astype(np.float64, copy=copy)
    with np.errstate(over="ignore", invalid="ignore"):
        suspect = not np.isfinite(floats.sum())
    where = first_true(~np.isfinite(floats)) if suspect else None
    if where is not None:
        at = f"{name}[{spell(where)}]" if where else name
        raise DataError(f"{at} is {floats[where]}; give finite numbers")
    return floats


def as_positive(value: Any, name: str) -> float:
    """``value`` as a float above zero; infinity is allowed."""
    return math.inf if value == math.inf else number(name, value, above=0)


def first_true(mask: NDArray[np.bool_]) -> tuple[int, ...] | None:
    """The index of the first true entry in reading order, or an empty one."""
    if not mask.any():
        return None
    return tuple(int(i) for i in np.unravel_index(int(np.argmax(mask)), mask.shape))


def spell(index: tuple[int, ...]) -> str:
    """An index as it is written in brackets: ``2, 0, 1``."""
    return ", ".join(map(str, index))
