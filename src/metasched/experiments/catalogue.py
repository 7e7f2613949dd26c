"""Every experiment by name: those of the paper, and ours."""

from collections.abc import Mapping

from metasched.experiments.definition import Experiment
from metasched.experiments.paper_sets import CIFAR, DIGITS, WEATHER, WEATHER_POINTS
from metasched.experiments.sources import ACTIVITY, GAS, MANY, NINETEEN, NOISY, REVIEWS, ROTATED, SCRIPTS

PAPER: Mapping[str, Experiment] = {each.name: each for each in (DIGITS, CIFAR, WEATHER, WEATHER_POINTS)}
"""The experiments of the paper, and one on real weather data."""
OURS = {each.name: each for each in (SCRIPTS, ROTATED, MANY, NOISY, REVIEWS, GAS, ACTIVITY, NINETEEN)}
"""Our experiments: task sets whose sources differ."""
EXPERIMENTS: Mapping[str, Experiment] = {**PAPER, **OURS}
