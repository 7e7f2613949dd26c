"""A shuffled order that is computed row by row and never stored.

Rows 0 … n − 1 are the cells of a grid of a × b ≥ n, l·b + r. Each of a few rounds shifts every column by a number that
depends on the column, l ← l + f(r) mod a, and then every row in the same way, r ← r + g(l) mod b. This is a Feistel
network, which is one-to-one for any f and g. A cell beyond n is sent through again until it lands below n. So the u-th
row of a pass over a billion rows costs as much as that of a pass over ten, and a run resumes from two numbers.

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
BLOCK = 1024
"""How many rows are computed at once and cached. A block costs hardly more than a few rows."""
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


def shuffled_rows(begin: int, count: int, size: int, seed: int, name: str) -> NDArray[np.int64]:
    """The ``count`` rows from position ``begin`` on, counted over all passes.

    Each pass has its own order, which depends only on the seed, the name of the source and the number of the pass.
    """
    first, last = begin // BLOCK, (begin + count - 1) // BLOCK
    blocks = [_block(number, size, seed, name) for number in range(first, last + 1)]
    rows = blocks[0] if first == last else np.concatenate(blocks)
    offset = begin - first * BLOCK
    return rows[offset : offset + count].copy()


@lru_cache(maxsize=4096)
def _block(number: int, size: int, seed: int, name: str) -> NDArray[np.int64]:
    """The rows (block,) at the positions from block · number on."""
    passes, places = np.divmod(np.arange(number * BLOCK, (number + 1) * BLOCK), size)
    first = int(passes[0])
    keys = np.stack([_keys(seed, name, one) for one in range(first, int(passes[-1]) + 1)])
    return permuted(places, size, keys[passes - first])


def permuted(places: NDArray[np.int64], size: int, keys: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Permute ``places`` (n,) in 0 … size − 1, each by the permutation that its keys (n, 2·rounds) define."""
    columns = isqrt(size - 1) + 1 if size > 1 else 1
    lines = -(-size // columns)
    values = _rounds(places.astype(np.uint64), np.uint64(columns), np.uint64(lines), keys)
    while (beyond := values >= size).any():
        values[beyond] = _rounds(values[beyond], np.uint64(columns), np.uint64(lines), keys[beyond])
    rows: NDArray[np.int64] = values.astype(np.int64)
    return rows


def _rounds(values: Any, columns: Any, lines: Any, keys: NDArray[np.uint64]) -> Any:
    left, right = np.divmod(values, lines)
    for turn in range(0, 2 * ROUNDS, 2):
        left = (left + _mixed(right ^ keys[:, turn]) % columns) % columns
        right = (right + _mixed(left ^ keys[:, turn + 1]) % lines) % lines
    return left * lines + right


def _mixed(values: Any) -> Any:
    """Mix 64 bits so that each bit of the result depends on all of them."""
    values = (values ^ (values >> np.uint64(30))) * _FIRST
    values = (values ^ (values >> np.uint64(27))) * _SECOND
    return values ^ (values >> np.uint64(31))


def _keys(seed: int, name: str, number: int) -> NDArray[np.uint64]:
    """The keys (2·rounds,) of one pass through one source."""
    said = f"{seed}/{number}/{name}".encode()
    return np.frombuffer(hashlib.shake_128(said).digest(2 * ROUNDS * 8), "<u8")
