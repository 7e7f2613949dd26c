"""What a scheduler gets of a reward: the reward, or the edge of what is plausible.

One reward of −1e20 among rewards near 0 (a loss that overflowed, a unit forgotten) would fix the mean of its source for
ever. So a reward may lie outside the recent ones by ten times their range, and is clipped to that. When the scale of
the rewards really changes, the range follows within a few tells, because each of them widens it.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metasched.errors import ConfigError

RECENT = 100
"""Rewards that the next one is compared with."""
FIRST = 10
"""Before so many rewards nothing is known of their scale; when the last of them comes, all are judged together."""
LARGEST = float(np.finfo(np.float32).max)
"""Rewards are float32 to a scheduler."""
REACH = 10.0
"""How far outside a reward may lie, in ranges."""


def clip(recent: Sequence[float], reward: float) -> float:
    """A reward as the scheduler gets it, given the recent ones, themselves clipped."""
    if len(recent) < FIRST:
        return reward
    low, high = _plausible(recent)
    return min(max(reward, low), high)


def clip_first(rewards: Sequence[float]) -> NDArray[np.float64]:
    """The first rewards, each compared with all of them."""
    return np.clip(np.asarray(rewards, np.float64), *_plausible(rewards))


def _plausible(recent: Sequence[float]) -> tuple[float, float]:
    """[low − 10·w, high + 10·w], where low and high leave out the lowest and the highest reward, and w = high − low.

    Where those are all equal, w is their size, and at least 1.
    """
    ordered = np.sort(np.asarray(recent, np.float64))[1:-1]
    low, high = float(ordered[0]), float(ordered[-1])
    width = high - low if high > low else max(abs(high), 1.0)
    return low - REACH * width, high + REACH * width


def finite(reward: Any) -> float:
    """The reward as a number; anything else, and what float32 cannot hold, is refused."""
    try:
        value = math.nan if isinstance(reward, str) else float(reward)
    except (TypeError, ValueError, OverflowError):
        value = math.nan
    if not abs(value) <= LARGEST:
        raise ConfigError(f"the reward is {reward!r}; give a finite number")
    return value
