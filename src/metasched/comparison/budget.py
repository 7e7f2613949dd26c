"""How long a comparison may take, and about how long it will."""

import re
from dataclasses import replace
from typing import NamedTuple

from metasched.errors import ConfigError, number
from metasched.learners.settings import LearnerSettings

_WORDS = re.compile(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s?)?")
FEWEST_STEPS = 50
"""A run with fewer steps says nothing."""
FOR_NETWORKS = 0.5
"""The share of a budget that goes into networks; the rest is for reference models, tables and figures."""


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
    """What runs cost on this machine.

    Attributes:
        update: seconds of one update of one run.
        workers: how many runs are made at once.
        compiling: seconds until all programs are compiled.
    """

    update: float
    workers: int
    compiling: float = 0.0

    def seconds(self, runs: int, updates: int) -> float:
        """Of so many runs."""
        return self.compiling + self.update * updates * runs / max(self.workers, 1)


def within(learner: LearnerSettings, pace: Pace, runs: int, seconds: float) -> LearnerSettings:
    """The settings with as many steps as fit, fewer in each update; the number of updates stays."""
    batches = learner.batches_per_update or 1
    training = max(pace.seconds(runs, learner.updates) - pace.compiling, 1e-9)
    share = (FOR_NETWORKS * seconds - pace.compiling) / training
    if share >= 1:
        return learner
    wanted = batches * learner.updates
    steps = int(share * wanted)
    if steps < FEWEST_STEPS:
        least = (training * min(1.0, FEWEST_STEPS / wanted) + pace.compiling) / FOR_NETWORKS
        raise ConfigError(
            f"a budget of {seconds:,.0f} s is too short for {runs} runs; give about {in_words(least)}, or fewer seeds "
            "(--seeds) or methods (--methods)"
        )
    updates = min(learner.updates, steps)
    return replace(learner, updates=updates, batches_per_update=max(1, steps // updates))


def in_words(seconds: float) -> str:
    """A time for people.

    >>> [in_words(seconds) for seconds in (7, 61, 150, 4000, 20000)]
    ['10 seconds', '1 minute', '3 minutes', '1.1 hours', '5.6 hours']
    """
    if seconds < 55:
        return f"{max(10, round(seconds / 10) * 10)} seconds"
    if seconds < 3600:
        minutes = max(1, round(seconds / 60))
        return f"{minutes} minute{'s' * (minutes > 1)}"
    return f"{seconds / 3600:.1f} hours"
