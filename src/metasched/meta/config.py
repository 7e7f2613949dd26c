"""The settings of a training run, in one place: the command line's flags are made from them."""

import math
from dataclasses import dataclass, replace
from typing import Literal

from metasched.errors import ConfigError
from metasched.tasks import TaskSet

_WHOLE_NUMBERS = {
    "batch_size": 1,
    "meta_updates": 1,
    "batches_per_update": 0,
    "steps_per_batch": 1,
    "eval_every": 1,
    "eval_rows": 1,
}
"""Settings that count something, and the least they may be."""
_POSITIVE_NUMBERS = ("inner_rate", "outer_rate", "outer_decay")
_CHOICES = {
    "validation_batch": ("uniform", "all"),
    "reward": ("scaled", "accuracy", "gain"),
    "cursor": ("rested", "global"),
}


@dataclass(frozen=True)
class TrainConfig:
    """Settings of Algorithm 1.

    Two readings of the paper are two settings of ``batches_per_update`` and ``steps_per_batch``: *stream*, the
    default, is (⌊n/B⌋, 1); *per-batch* is (1, 100).
    """

    batch_size: int = 20
    """Rows of one scheduled batch (B)."""
    meta_updates: int = 30
    """Outer steps (K)."""
    batches_per_update: int | None = None
    """Scheduled batches in one meta-update (m); by default ⌊n/B⌋ for the smallest task."""
    steps_per_batch: int = 1
    """SGD steps on each batch (R)."""
    inner_rate: float = 0.01
    """Initial inner learning rate; it is meta-learned from there, as its logarithm."""
    outer_rate: float = 1e-3
    """Adam's rate at the first meta-update."""
    outer_decay: float = 0.1
    """Adam's rate at the last meta-update, as a fraction of the first; it falls geometrically."""
    validation_batch: Literal["uniform", "all"] = "uniform"
    """Validation rows of one outer step: B drawn uniformly without replacement, or all of them."""
    reward: Literal["scaled", "accuracy", "gain"] = "scaled"
    """What a scheduler is told after a batch: the paper's 1 − √t·(1 − validation accuracy), the accuracy itself, or by
    how much the batch lowered the validation loss."""
    cursor: Literal["rested", "global"] = "rested"
    """Whether a task's cursor moves only when the task is drawn, or all cursors with every batch."""
    abstain: bool = False
    """Whether the scheduler has one more arm, "no source this time": a batch that trains nothing and draws no rows."""
    eval_every: int = 1
    """Meta-updates between measurements on test rows."""
    eval_rows: int = 1000
    """Test rows of such a measurement, a fixed random subset; the last one uses all."""

    def resolve(self, tasks: TaskSet) -> "TrainConfig":
        """Fill in ``batches_per_update`` and refuse what cannot run on these tasks."""
        smallest = min(tasks.tasks, key=len)
        filled = self
        if self.batches_per_update is None:
            filled = replace(self, batches_per_update=len(smallest) // max(int(self.batch_size), 1))
        for name, least in _WHOLE_NUMBERS.items():
            value = getattr(filled, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise ConfigError(f"{name} is {value!r}; give a whole number ≥ {least}")
        for name in _POSITIVE_NUMBERS:
            value = getattr(filled, name)
            if not (isinstance(value, int | float) and math.isfinite(value) and value > 0):
                raise ConfigError(f"{name} is {value!r}; give a number > 0")
        for name, choices in _CHOICES.items():
            if getattr(filled, name) not in choices:
                raise ConfigError(f"{name} is {getattr(filled, name)!r}; give {' or '.join(choices)}")
        if not isinstance(self.abstain, bool):
            raise ConfigError(f"abstain is {self.abstain!r}; give True or False")
        if self.batch_size > len(smallest):
            raise ConfigError(
                f"batch_size is {self.batch_size}, but task '{smallest.name}' has {len(smallest)} rows; "
                f"give at most {len(smallest)}"
            )
        return filled
