"""What a seed may be, the same everywhere: a whole number that JAX, NumPy and a run folder all hold without loss."""

from typing import Any

from metasched.errors import ConfigError, whole_number

LARGEST = 2**32 - 1
"""JAX keeps 32 bits of a seed: beyond this two seeds would be the same run."""
MOST = 100_000
"""Seeds of one command."""


def check_seed(seed: Any) -> int:
    """``seed`` as an int from 0 to 2³² − 1; anything else is refused.

    >>> check_seed(2**32)
    Traceback (most recent call last):
    metasched.errors.ConfigError: seed is 4294967296; give a whole number from 0 to 4294967295
    """
    return whole_number("seed", seed, 0, LARGEST)


def counting(count: int, first: int = 0) -> list[int]:
    """``count`` seeds from ``first`` on; more than anybody runs is refused before a list of them is made."""
    if not 1 <= count <= MOST:
        raise ConfigError(f"seeds is {count}; give how many, from 1 to {MOST:,}, or a list of them")
    check_seed(first + count - 1)
    return list(range(check_seed(first), first + count))
