"""A shuffled order that is computed row by row and never stored.

Rows 0 … n − 1 are the cells of a grid of a × b ≥ n, l·b + r. Each of a few rounds shifts every column by a number that
hangs on the column, l ← l + f(r) mod a, and then every row likewise, r ← r + g(l) mod b: a Feistel network, one-to-one
whatever f and g are. A cell beyond n is sent through again until it lands below. So the u-th row of a pass over a
billion rows costs as much as that of a pass over ten, and a run resumes from two numbers.

References: Black, Rogaway, *Ciphers with Arbitrary Finite Domains*, CT-RSA 2002; Steele, Lea, Flood, *Fast Splittable
Pseudorandom Number Generators*, OOPSLA 2014 (the mixing of 64 bits).
"""

import hashlib
from functools import lru_cache
from math import isqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

ROUNDS = 6
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


def shuffled_rows(positions: NDArray[np.int64], size: int, seed: int, name: str) -> NDArray[np.int64]:
    """The rows (B,) at ``positions`` (B,), counted over all passes through a source: each pass has an order of its own.

    The order hangs on the seed, the source's name and the number of the pass, and on nothing else.
    """
    passes, places = np.divmod(positions, size)
    first, last = int(passes.min()), int(passes.max())
    if first == last:
        return permuted(places, size, _keys(seed, name, first))
    rows = np.empty_like(places)
    for number in range(first, last + 1):
        mine = passes == number
        rows[mine] = permuted(places[mine], size, _keys(seed, name, number))
    return rows


def permuted(places: NDArray[np.int64], size: int, keys: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Where ``places`` of 0 … size − 1 go in the permutation that the keys (2·rounds,) make."""
    columns = isqrt(size - 1) + 1 if size > 1 else 1
    lines = -(-size // columns)
    values = _rounds(places.astype(np.uint64), np.uint64(columns), np.uint64(lines), keys)
    while (beyond := values >= size).any():
        values[beyond] = _rounds(values[beyond], np.uint64(columns), np.uint64(lines), keys)
    rows: NDArray[np.int64] = values.astype(np.int64)
    return rows


def _rounds(values: Any, columns: Any, lines: Any, keys: NDArray[np.uint64]) -> Any:
    left, right = np.divmod(values, lines)
    for one, other in keys.reshape(-1, 2):
        left = (left + _mixed(right ^ one) % columns) % columns
        right = (right + _mixed(left ^ other) % lines) % lines
    return left * lines + right


def _mixed(values: Any) -> Any:
    """64 bits of which each hangs on all."""
    values = (values ^ (values >> np.uint64(30))) * _FIRST
    values = (values ^ (values >> np.uint64(27))) * _SECOND
    return values ^ (values >> np.uint64(31))


@lru_cache(maxsize=4096)
def _keys(seed: int, name: str, number: int) -> NDArray[np.uint64]:
    """Keys (2·rounds,) of one pass through one source."""
    said = f"{seed}/{number}/{name}".encode()
    return np.frombuffer(hashlib.shake_128(said).digest(2 * ROUNDS * 8), "<u8")
