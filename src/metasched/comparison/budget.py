"""How long a comparison may take, and about how long it will take."""

import math
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from metasched.errors import ConfigError, number
from metasched.learners.settings import LearnerSettings

_WORDS = re.compile(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s?)?")
FEWEST_STEPS = 50
"""A run with fewer steps shows nothing."""
FOR_NETWORKS = 0.5
"""The share of a budget for networks. The rest is for reference models, tables and figures."""
WITHOUT_TREES = 0.8
"""The same share if forests and boosting are left out."""
SPARE = 1.2
"""A proposed budget is longer than the measured time by this factor, because the speed of machines varies."""


def seconds_of(budget: str | float | None) -> float | None:
    """A budget in seconds.

    >>> [seconds_of(budget) for budget in ("2m", "1h30m", "45s", 90, None)]
    [120.0, 5400.0, 45.0, 90.0, None]
    """
    if budget is None:
        return None
    if not isinstance(budget, str):
        return number("budget", budget, above=0)
    found = _WORDS.fullmatch(budget.strip().lower())
    if found is None or not any(found.groups()):
        raise ConfigError(f"budget is '{budget}'; give a time such as 90s, 2m or 1h30m")
    hours, minutes, seconds = (float(part or 0) for part in found.groups())
    return number("budget", 3600 * hours + 60 * minutes + seconds, above=0)


class Pace(NamedTuple):
    """How long runs take on this machine.

    Attributes:
        update: seconds of one update of one run.
        workers: how many runs are made at once.
        compiling: seconds until all programs are compiled.
    """

    update: float
    workers: int
    compiling: float = 0.0

    def seconds(self, runs: int, updates: int) -> float:
        """The seconds for this many runs."""
        return self.compiling + self.update * updates * runs / max(self.workers, 1)


class Cut(NamedTuple):
    """What a budget leaves of a comparison: the steps, the number of seeds, and whether forests and boosting are
    fitted.
    """

    learner: LearnerSettings
    seeds: int
    trees: bool


def within(learner: LearnerSettings, pace: Pace, runs: Mapping[int, int], seconds: float) -> Cut:
    """Plan as much as fits. ``runs`` has the number of runs for each possible number of seeds.

    First, each update gets fewer steps, while the number of updates stays. If that is not enough, forests and boosting
    are left out, and then seeds.
    """
    falling = sorted(runs, reverse=True)
    for seeds, share in ((falling[0], FOR_NETWORKS), *((seeds, WITHOUT_TREES) for seeds in falling)):
        shorter = _shortened(learner, pace, runs[seeds], share * seconds)
        if shorter is not None:
            return Cut(shorter, seeds, share == FOR_NETWORKS)
    fewest, wanted = falling[-1], learner.updates * (learner.batches_per_update or 1)
    training = pace.seconds(runs[fewest], learner.updates) - pace.compiling
    least = (training * min(1.0, FEWEST_STEPS / wanted) + pace.compiling) / WITHOUT_TREES
    raise ConfigError(
        f"a budget of {seconds:,.0f} s is too short even for {runs[fewest]} runs ({fewest} seeds) of "
        f"{min(FEWEST_STEPS, wanted)} steps; give {proposed(SPARE * least)} or more, or fewer methods (--methods)"
    )


def _shortened(learner: LearnerSettings, pace: Pace, runs: int, seconds: float) -> LearnerSettings | None:
    """The settings with as many steps as this many runs can make in this time. None if that is too few."""
    batches = learner.batches_per_update or 1
    training = max(pace.seconds(runs, learner.updates) - pace.compiling, 1e-9)
    share = (seconds - pace.compiling) / training
    if share >= 1:
        return learner
    steps = int(share * batches * learner.updates)
    if steps < FEWEST_STEPS:
        return None
    updates = min(learner.updates, steps)
    return replace(learner, updates=updates, batches_per_update=max(1, steps // updates))


def proposed(seconds: float) -> str:
    """A budget of at least this many seconds, written as a user would give it.

    >>> [proposed(seconds) for seconds in (0.1, 31, 61, 4000, 20000)]
    ['10s', '40s', '2m', '67m', '6h']
    """
    if seconds <= 60:
        return f"{max(1, math.ceil(seconds / 10)) * 10}s"
    return f"{math.ceil(seconds / 60)}m" if seconds <= 7200 else f"{math.ceil(seconds / 3600)}h"


def in_words(seconds: float) -> str:
    """A time as people say it.

    >>> [in_words(seconds) for seconds in (7, 61, 150, 4000, 20000)]
    ['10 seconds', '1 minute', '3 minutes', '1.1 hours', '5.6 hours']
    """
    if seconds < 55:
        return f"{max(10, round(seconds / 10) * 10)} seconds"
    if seconds < 3600:
        minutes = max(1, round(seconds / 60))
        return f"{minutes} minute{'s' * (minutes > 1)}"
    return f"{seconds / 3600:.1f} hours"
