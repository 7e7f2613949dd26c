"""All numbers that the paper prints about its experiments, with their places.

Wang, Koppel, Krishnamurthy: A Markov Decision Process Approach to Active Meta Learning, AAAI 2021. Schedulers and
experiments have our names (``mdp``, ``gittins``, ``ucb``, ``cyclic``; ``digits``, ``cifar``, ``weather``).
"""

from collections.abc import Mapping
from typing import NamedTuple

ByExperiment = Mapping[str, Mapping[str, float]]


class Published(NamedTuple):
    """A number and where the paper prints it."""

    value: float
    place: str


WEATHER_FEATURES = ("UBOT", "TMQ", "U850", "V850", "VBOT", "Z100")
WEATHER_EVENTS = ("tropical depression", "tropical cyclone", "extratropical cyclone", "atmospheric river")
SHOWN_FEATURE = "U850"
"""The test feature whose details appendix D prints."""
SUBSETS = 5
"""Meta-training subsets of the weather experiment."""

GAIN_PLACE = "Table 1 (relative sample efficiency gain compared to cyclic sampling)"
GAIN: ByExperiment = {
    "digits": {"ucb": 24.5, "gittins": 32.5},
    "cifar": {"ucb": 2.5, "gittins": 3.57},
    "weather": {"ucb": 1.25, "gittins": 2.42, "mdp": 3.33},
}
"""Samples of cyclic divided by samples of the scheduler. The text gives 1.50 and 2.57 for CIFAR: the same, minus one.
"""

SAMPLES_PLACE = "text of the section on experiments"
SAMPLES_THRESHOLD: Mapping[str, float] = {"digits": 0.80, "cifar": 0.40}
SAMPLES: ByExperiment = {
    "digits": {"gittins": 40, "ucb": 53, "cyclic": 1300},
    "cifar": {"gittins": 1400, "ucb": 2000, "cyclic": 5000},
}
"""Samples until the test accuracy of ``SAMPLES_THRESHOLD`` is obtained."""

DIGITS_STEPS = Published(200, "caption of Figure 3 (steps of bandit scheduling, digits)")

CIFAR_FINAL_PLACE = "caption of Figure 4"
CIFAR_FINAL: Mapping[str, float] = {"gittins": 0.73, "ucb": 0.58, "cyclic": 0.40}

WEATHER_ACCURACY_PLACE = "Table 2 (overall test classification accuracy)"
WEATHER_ACCURACY: Mapping[str, Mapping[str, float]] = {
    "mdp": {"UBOT": 0.901, "TMQ": 0.873, "U850": 0.917, "V850": 0.870, "VBOT": 0.774, "Z100": 0.842},
    "gittins": {"UBOT": 0.904, "TMQ": 0.836, "U850": 0.845, "V850": 0.653, "VBOT": 0.738, "Z100": 0.877},
    "ucb": {"UBOT": 0.673, "TMQ": 0.649, "U850": 0.684, "V850": 0.421, "VBOT": 0.600, "Z100": 0.619},
    "cyclic": {"UBOT": 0.352, "TMQ": 0.043, "U850": 0.304, "V850": 0.480, "VBOT": 0.592, "Z100": 0.448},
}

P_VALUES_PLACE = "Table 3 (appendix A: p-values of meta-training subsets)"
P_VALUES: Mapping[str, tuple[float, ...]] = {
    "digits": (4.36e-7, 0.0314, 0.00836, 2.33e-6, 1.20e-5),
    "cifar": (0.0302, 0.00986, 0.00215, 0.00351),
}
"""By subset, in order. Those of the weather subsets "are all nearly 0"; no numbers are printed."""
P_VALUES_WEATHER = "nearly 0"

TRANSITIONS_PLACE = "appendix D (a sample transition matrix of the weather subsets)"
TRANSITIONS: tuple[tuple[float, ...], ...] = (
    (0.721, 0.256, 0.020, 0.003),
    (0.052, 0.901, 0.033, 0.014),
    (0.004, 0.037, 0.939, 0.020),
    (0.000, 0.017, 0.454, 0.529),
)
"""From the event of the row to the event of the column, in the order of ``WEATHER_EVENTS``."""

ROWS_USED_PLACE = "Table 5 (appendix D: examples used in meta-training subsets; test feature U850)"
ROWS_USED: Mapping[str, tuple[tuple[int, ...], ...]] = {
    "mdp": ((140, 0, 0, 0), (10, 3190, 0, 0), (230, 0, 1150, 0), (0, 0, 20, 0), (0, 0, 0, 260)),
    "gittins": ((440, 20, 0, 0), (0, 1870, 0, 0), (0, 10, 2450, 0), (0, 10, 0, 0), (0, 0, 0, 210)),
    "ucb": ((120, 830, 50, 0), (170, 650, 180, 0), (90, 430, 490, 0), (90, 140, 670, 100), (40, 90, 700, 160)),
}
"""Rows by subset and event. They add up to 5,000 for mdp and ucb, and to 5,010 for gittins."""

EVENT_ACCURACY_PLACE = "Table 6 (appendix D: accuracy of each weather type; feature U850)"
EVENT_ACCURACY: Mapping[str, tuple[float, ...]] = {
    "mdp": (0.789, 0.961, 0.947, 0.658),
    "gittins": (0.421, 0.836, 0.963, 0.395),
    "ucb": (0.368, 0.698, 0.788, 0.421),
}
"""By event, in the order of ``WEATHER_EVENTS``; cyclic is not printed."""

SUPERVISED_PLACE = "text of the section on experiments, against the binary classifiers of Liu et al., 2016"
SUPERVISED_SHARE = (0.70, 0.90)
"""The share of the supervised networks' accuracy that the paper claims …"""
SUPERVISED_FEWER = 0.90
"""… with this share of examples fewer."""

ORDER = ("mdp", "gittins", "ucb", "cyclic")
"""The order that the paper claims: each is at least as good as the next."""

MERIT: Mapping[str, ByExperiment] = {
    "digits": {"samples": {name: -value for name, value in SAMPLES["digits"].items()}},
    "cifar": {"final accuracy": CIFAR_FINAL},
    "weather": {
        feature: {name: row[feature] for name, row in WEATHER_ACCURACY.items()} for feature in WEATHER_FEATURES
    },
}
"""What the printed numbers say about that order, by experiment and place. More is better."""
