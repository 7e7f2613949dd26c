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
    "eval_rows": 1,
    "slope_every": 1,
    "reward_folds": 0,
}
"""Settings that count something, and the least they may be."""
_POSITIVE_NUMBERS = ("inner_rate", "outer_rate", "outer_decay", "source_weight")
OPTIMISERS = ("adam", "adamw", "nadam", "rmsprop", "sgd", "lion")
"""Transformations of Optax that need no more than a rate; any other is passed to ``train`` as an object."""
_CHOICES = {
    "validation_batch": ("uniform", "all", "ucb"),
    "cursor": ("rested", "global"),
    "inner_layers": ("all", "head"),
    "inner_rates": ("scalar", "layer", "parameter"),
    "heads": ("auto", "shared"),
    "precision": ("float32", "bfloat16"),
    "optimiser": OPTIMISERS,
}
_FLAGS = ("abstain", "balanced_loss", "balanced_accuracy")
_OPTIONAL_COUNTS = ("eval_every", "reward_rows")
EVALUATION_SHARE = 0.1
"""The share of a run that measuring on test rows may take, where ``eval_every`` is left to us."""
SECOND_ORDER_COST = 8
"""Forward passes that one differentiated inner step is worth: 3 for the gradient, 5 for its derivative."""


@dataclass(frozen=True)
class TrainConfig:
    """Settings of a training run; the command line's flags are made from them.

    Two readings of the paper are two settings of ``batches_per_update`` and ``steps_per_batch``: *stream*, the
    default, is (⌊n/B⌋, 1); *per-batch* is (1, 100).

    Examples:
        >>> config = ms.TrainConfig(batch_size=10, meta_updates=5)
        >>> config.resolve(tasks).batches_per_update  # ⌊40 / 10⌋, of the smallest task
        4
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
    inner_rates: Literal["scalar", "layer", "parameter"] = "scalar"
    """One inner learning rate for all weights, for each array of them, or for each single weight."""
    inner_layers: Literal["all", "head"] = "all"
    """What the inner loop trains: everything, or the output layer alone (ANIL)."""
    gradient: str = "auto"
    """How the meta-gradient is found. Exact: scan keeps all intermediate values, remat a few and computes the others
    again, stored the weights of each step, with a Hessian-vector product on the way back. Not exact: first-order
    (FOMAML). auto is stored, or remat where that would not fit."""
    optimiser: Literal["adam", "adamw", "nadam", "rmsprop", "sgd", "lion"] = "adam"
    """Optax's, of the outer step."""
    outer_rate: float = 1e-3
    """Its rate at the first meta-update."""
    outer_decay: float = 0.1
    """Its rate at the last meta-update, as a fraction of the first; it falls geometrically."""
    outer_clip: float | None = None
    """Largest norm of the meta-gradient; a longer one is shortened to it."""
    validation_batch: Literal["uniform", "all", "ucb"] = "uniform"
    """Validation rows of one outer step: B drawn uniformly without replacement, all of them, or B of the classes with
    the highest upper confidence bound on what their rows gained so far."""
    heads: Literal["auto", "shared"] = "auto"
    """Tasks with label sets of their own get heads of their own; ``shared`` forces one head on all."""
    reward: str = "transfer"
    """What a scheduler is told after a batch: ``transfer``, how fast the target's accuracy rises when the model learns
    the batch; ``alignment``, the cosine of the batch's and the target's gradients; ``gain``, by how much the batch
    lowered the validation loss; ``accuracy`` on the validation rows; or ``scaled``, the paper's 1 − √t·(1 −
    accuracy)."""
    reward_rows: int | None = None
    """Validation rows that rewards are measured on, a fixed random subset; by default all."""
    reward_folds: int = 0
    """Folds K of the validation rows that rewards are measured on, each by a copy of the learner that never trains on
    it; a run then takes about K + 1 times as long. 0: no copies, rewards come from the rows that are trained on."""
    slope_every: int = 1
    """Batches for which ``transfer`` keeps the target's gradient; 1 finds it anew for each."""
    source_weight: float = 1.0
    """Weight of the source batch beside the target's in the loss of the joint learner."""
    cursor: Literal["rested", "global"] = "rested"
    """Whether a task's cursor moves only when the task is drawn, or all cursors with every batch."""
    abstain: bool = False
    """Whether the scheduler has one more arm, "no source this time": a batch that trains nothing and draws no rows."""
    balanced_loss: bool = False
    """Whether rows of a task's rare labels weigh more in the inner loss: each by one over its label's frequency."""
    balanced_accuracy: bool = False
    """Whether accuracy, and with it the reward, is the mean over classes of each one's accuracy."""
    precision: Literal["float32", "bfloat16"] = "float32"
    """Number type of the network's forward pass; weights, losses and updates are always float32."""
    eval_every: int | None = None
    """Meta-updates between measurements on test rows; by default so many that they take a tenth of the run."""
    eval_rows: int = 1000
    """Test rows of such a measurement, a fixed random subset; the last one uses all."""

    def resolve(self, tasks: TaskSet) -> "TrainConfig":
        """Fill in what was left open.

        Args:
            tasks: what is to be trained on.

        Returns:
            Settings with nothing left open.

        Raises:
            MetaschedError: for what cannot run on these tasks.
        """
        smallest = min(tasks.tasks, key=len)
        _whole("batch_size", self.batch_size, 1)
        filled = self
        if self.batches_per_update is None:
            filled = replace(self, batches_per_update=len(smallest) // self.batch_size)
        for name, least in _WHOLE_NUMBERS.items():
            _whole(name, getattr(filled, name), least)
        for name in _OPTIONAL_COUNTS:
            if getattr(filled, name) is not None:
                _whole(name, getattr(filled, name), 1)
        for name in (*_POSITIVE_NUMBERS, *(["outer_clip"] if self.outer_clip is not None else [])):
            _positive(name, getattr(filled, name))
        for name, choices in _CHOICES.items():
            if getattr(filled, name) not in choices:
                raise ConfigError(f"{name} is {getattr(filled, name)!r}; give {' or '.join(choices)}")
        for name in _FLAGS:
            if not isinstance(getattr(self, name), bool):
                raise ConfigError(f"{name} is {getattr(self, name)!r}; give True or False")
        if self.batch_size > len(smallest):
            raise ConfigError(
                f"batch_size is {self.batch_size}, but task '{smallest.name}' has {len(smallest)} rows; "
                f"give at most {len(smallest)}"
            )
        _check_folds(filled, len(tasks.validation.labels))
        if filled.eval_every is None:
            filled = replace(filled, eval_every=_affordable(filled, tasks))
        return filled


def _check_folds(config: TrainConfig, labelled: int) -> None:
    """Every fold has a row, and every copy of the learner too."""
    if config.reward_folds == 0:
        return
    if config.reward_folds == 1:
        raise ConfigError("reward_folds is 1; give 0 for none, or at least 2")
    if config.reward_folds > labelled:
        raise ConfigError(
            f"reward_folds is {config.reward_folds}, but the target has {labelled} labelled rows; "
            f"give at most {labelled}, or 0 for none"
        )
    if config.reward_rows is not None:
        raise ConfigError("reward_rows and reward_folds both say what rewards are measured on; leave one of them out")
    if config.validation_batch == "ucb":
        raise ConfigError("reward_folds does not go with validation_batch ucb; give uniform or all")


def _affordable(config: TrainConfig, tasks: TaskSet) -> int:
    """Meta-updates between measurements so that these are ``EVALUATION_SHARE`` of all rows passed forward.

    Two models are measured, the adapted and the initial one.
    """
    steps = (config.batches_per_update or 0) * config.steps_per_batch
    update = SECOND_ORDER_COST * steps * config.batch_size + 3 * min(config.batch_size, len(tasks.validation.labels))
    measured = 2 * min(config.eval_rows, len(tasks.test.labels))
    return min(max(1, math.ceil(measured / (EVALUATION_SHARE * update))), config.meta_updates)


def _whole(name: str, value: object, least: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ConfigError(f"{name} is {value!r}; give a whole number ≥ {least}")


def _positive(name: str, value: object) -> None:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not (number and math.isfinite(value) and value > 0):  # type: ignore[arg-type, operator]
        raise ConfigError(f"{name} is {value!r}; give a number > 0")
