"""The paper's experiments and ours, as definitions."""

from collections.abc import Mapping

from metasched.experiments.cifar import CIFAR
from metasched.experiments.definition import REGIMES, Cell, Experiment
from metasched.experiments.digits import DIGITS
from metasched.experiments.methods import Method, paper_methods, source_methods
from metasched.experiments.sources import ACTIVITY, GAS, MANY, NOISY, REVIEWS, ROTATED, SCRIPTS
from metasched.experiments.weather import WEATHER
from metasched.experiments.weather_points import WEATHER_POINTS

__all__ = [
    "EXPERIMENTS",
    "REGIMES",
    "WEATHER",
    "WEATHER_POINTS",
    "Cell",
    "Experiment",
    "Method",
    "paper_methods",
    "source_methods",
]

EXPERIMENTS: Mapping[str, Experiment] = {
    experiment.name: experiment
    for experiment in (
        *(DIGITS, CIFAR, WEATHER, WEATHER_POINTS),
        *(SCRIPTS, ROTATED, MANY, NOISY, REVIEWS, GAS, ACTIVITY),
    )
}
