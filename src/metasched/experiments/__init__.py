"""The paper's experiments, as definitions."""

from collections.abc import Mapping

from metasched.experiments.base import REGIMES, Cell, Experiment
from metasched.experiments.cifar import CIFAR
from metasched.experiments.digits import DIGITS
from metasched.experiments.methods import Method, methods
from metasched.experiments.weather import WEATHER
from metasched.experiments.weather_points import WEATHER_POINTS

__all__ = ["EXPERIMENTS", "REGIMES", "WEATHER", "WEATHER_POINTS", "Cell", "Experiment", "Method", "methods"]

EXPERIMENTS: Mapping[str, Experiment] = {
    experiment.name: experiment for experiment in (DIGITS, CIFAR, WEATHER, WEATHER_POINTS)
}
