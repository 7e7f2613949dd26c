"""The cursors of the tasks: the label at a cursor, the rows of a batch, and the next position.

The rows of N tasks lie end to end: task i has n_i = ``sizes[i]`` of them, from row ``starts[i]`` on, and its cursor u_i
is one of its own row numbers 0 … n_i − 1. A batch has B rows from the cursor on, and wraps around. All functions are
pure and accept arrays of NumPy and JAX, traced or not.
"""

from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = Any
"""Whole numbers, int64 of NumPy or int32 of JAX. The functions return the type that they get."""

CURSORS = ("rested", "global")
"""Whether a task's cursor moves only when the task is drawn, or all cursors move with every draw."""


def starts_of(sizes: Array) -> Array:
    """The first row (N,) of each task among all rows."""
    return sizes.cumsum() - sizes


def labels_at(labels: Array, starts: Array, cursors: Array) -> Array:
    """The labels at the cursors (N,), from the labels of all rows."""
    return labels[starts + cursors]


def batch_rows(cursor: Array, size: Array, batch_size: int) -> Array:
    """A task's own row numbers (B,) from its cursor on: (u + 0) mod n, …, (u + B − 1) mod n."""
    return (cursor + _count(batch_size)) % size


def advance(cursors: Array, sizes: Array, task: Array, batch_size: int, cursor: str) -> Array:
    """The cursors (N,) after a draw of ``task``: u_i ← (u_i + B) mod n_i, for this task or, if global, for all.

    If ``task`` is N, the scheduler abstained and nothing moves.
    """
    count = len(sizes)
    if isinstance(cursors, np.ndarray) and cursor == "rested":  # one item instead of N, because a chooser waits for it
        moved = cursors.copy()
        if task < count:
            moved[task] = (moved[task] + batch_size) % sizes[task]
        return moved
    moves = _count(count) == task if cursor == "rested" else task < count
    return (cursors + batch_size * moves) % sizes


def positions_after(draws: NDArray[np.int64], number: int, batch_size: int, cursor: str) -> NDArray[np.int64]:
    """How many rows (N,) the cursors of ``number`` tasks have moved after these draws, not wrapped. −1 means that none
    was drawn.
    """
    drawn = draws[draws >= 0]
    if cursor == "global":
        return np.full(number, len(drawn) * batch_size, np.int64)
    return np.bincount(drawn, minlength=number).astype(np.int64) * batch_size


@lru_cache(maxsize=64)
def _count(number: int) -> NDArray[np.int32]:
    """0, 1, …, number − 1. It is cached, because a chooser needs it at every draw."""
    numbers = np.arange(number, dtype=np.int32)
    numbers.flags.writeable = False
    return numbers
