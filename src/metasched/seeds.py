"""Which seeds are allowed, the same everywhere: whole numbers that JAX, NumPy and a run folder all store exactly."""

from typing import Any

from metasched.errors import ConfigError, whole_number

LARGEST = 2**32 - 1
"""The largest seed. JAX keeps 32 bits, so two larger seeds could give the same run."""
MOST = 100_000
"""The most seeds of one command."""


def check_seed(seed: Any) -> int:
    """Check that ``seed`` is a whole number from 0 to 2³² − 1, and return it as an int.

    >>> check_seed(2**32)
    Traceback (most recent call last):
    metasched.errors.ConfigError: seed is 4294967296; give a whole number from 0 to 4294967295
    """
    return whole_number("seed", seed, 0, LARGEST)


def counting(count: int, first: int = 0) -> list[int]:
    """List ``count`` seeds, starting from ``first``. An absurdly large count is refused before the list is made."""
    if not 1 <= count <= MOST:
        raise ConfigError(f"seeds is {count}; give how many, from 1 to {MOST:,}, or a list of them")
    check_seed(first + count - 1)
    return list(range(check_seed(first), first + count))
