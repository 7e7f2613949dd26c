"""What a report is made of: cells (an experiment in one regime and variant) and the evidence on label order."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

STATIC = ("cyclic", "sequential", "uniform")
"""The static baselines, against the best of which a gain is quoted."""
TARGET_ONLY = "target-only"
SUPERVISED = "supervised"
SINGLE = "single:"
FAMILIES = ("static", "active", "control", "ceiling")
EXPERIMENTS = ("digits", "cifar", "weather", "weather-points")
REGIMES = ("paper", "few-label", "robust")
OWN_RUNS = "own runs"
"""The regime of cells made of ordinary run folders."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Method:
    """One method of a cell over its seeds; what a seed that diverged would have had is NaN."""

    name: str
    family: str
    role: str
    seeds: tuple[int, ...]
    updates: Floats
    """Meta-updates at which the test accuracy was measured (P,)."""
    samples: Floats
    """Source rows drawn up to then (S, P)."""
    test_accuracy: Floats
    """On a subset of the test rows (S, P)."""
    final: Mapping[str, Floats]
    """On all test rows (S,): test_accuracy, and where known initial_test_accuracy, balanced_accuracy, …"""
    per_class: Floats | None = None
    """Final test accuracy by class (S, C)."""
    drawn: Floats | None = None
    """Source rows drawn by task (S, N)."""
    drawn_by_label: Floats | None = None
    """Source rows drawn by task and label, mean over seeds (N, C')."""
    abstained: Floats | None = None
    schedule: Floats | None = None
    """Batches of each task, and abstained, in each meta-update of the first seed (K, N + 1)."""
    seconds: Floats | None = None
    """Wall seconds (S,)."""
    scheduling_seconds: float | None = None
    diverged: Mapping[int, str] = field(default_factory=dict)
    """Why, and when, by seed."""


@dataclass(frozen=True, eq=False)
class Cell:
    """One experiment in one regime and variant: all methods on the same data."""

    key: str
    experiment: str
    regime: str
    variant: str
    title: str
    simulated: bool
    versions: Mapping[str, str]
    device: str
    command: str
    created: str
    tasks: tuple[str, ...]
    classes: tuple[str, ...]
    target_rows: int | None
    test_rows: int | None
    source_rows: int | None
    config: Mapping[str, Any]
    tuning: Mapping[str, Any] | None
    threshold: float | None
    methods: Mapping[str, Method]

    @property
    def label(self) -> str:
        """Experiment and variant, for a row of a table."""
        return f"{self.experiment}, {self.variant}" + (" (simulated)" if self.simulated else "")

    @property
    def seeds(self) -> tuple[int, ...]:
        """Every seed that some method has."""
        return tuple(sorted({seed for method in self.methods.values() for seed in method.seeds}))


@dataclass(frozen=True, eq=False)
class Evidence:
    """Whether order matters in the tasks of an experiment, and how its reward moves."""

    experiment: str
    simulated: bool
    versions: Mapping[str, str]
    device: str
    command: str
    created: str
    order: tuple[Mapping[str, Any], ...]
    """By task: task, rows, p_permutation, p_asymptotic, p_diagonal, association."""
    transitions: Mapping[str, Floats]
    classes: tuple[str, ...]
    steps: Floats | None
    scaled_error: Mapping[str, Floats]
    """√t·e(t) by class, at ``steps``."""
    exponent: float | None

    @property
    def key(self) -> str:
        """Name among the sources of a table."""
        return f"{self.experiment}/evidence"
