"""What a scheduler hears of a reward: the reward, or the edge of what is plausible.

One reward of −1e20 among rewards near 0 (a loss that overflowed, a unit forgotten) would fix the mean of its source for
ever. So a reward may lie outside the recent ones by ten times their range; what lies further is heard as lying there.
Rewards whose scale really changes are followed within a few tells, each of which widens the range.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metasched.errors import ConfigError

RECENT = 100
"""Rewards that the next is held against."""
FIRST = 10
"""Rewards before which nothing is known of their scale; when the last of them comes all are judged together."""
LARGEST = float(np.finfo(np.float32).max)
"""Rewards are float32 to a scheduler."""
REACH = 10.0
"""How far outside, in ranges."""


def plausible(recent: Sequence[float]) -> tuple[float, float]:
    """The lowest and the highest reward that is heard as it is, given recent ones.

    [low − 10·w, high + 10·w], where low and high leave out the lowest and the highest reward, and w = high − low; where
    those are all equal, w is their size, and at least 1.
    """
    ordered = np.sort(np.asarray(recent, np.float64))[1:-1]
    low, high = float(ordered[0]), float(ordered[-1])
    width = high - low if high > low else max(abs(high), 1.0)
    return low - REACH * width, high + REACH * width


def heard(recent: Sequence[float], reward: float) -> float:
    """What a scheduler that has heard ``recent`` hears of one more reward."""
    if len(recent) < FIRST:
        return reward
    low, high = plausible(recent)
    return min(max(reward, low), high)


def judged(first: Sequence[float]) -> NDArray[np.float64]:
    """The first rewards, held against one another."""
    return np.clip(np.asarray(first, np.float64), *plausible(first))


def finite(reward: Any) -> float:
    """The reward as a number; what is none is refused."""
    try:
        value = math.nan if isinstance(reward, str) else float(reward)
    except (TypeError, ValueError, OverflowError):
        value = math.nan
    if not abs(value) <= LARGEST:
        raise ConfigError(f"the reward is {reward!r}; give a finite number")
    return value
