"""The settings of the learners, each a frozen dataclass. The flags of the command line are made from their fields."""

import math
import statistics
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, TypeAlias, get_args, get_origin

import optax

from metasched.errors import ConfigError, flag, number, unknown, whole_number
from metasched.learners.metrics import METRICS, MetricName
from metasched.learners.renamed import check_names
from metasched.tasks import TaskSet

if TYPE_CHECKING:
    from metasched.learners.gradients import Estimator

OPTIMISERS = ("adam", "adamw", "nadam", "rmsprop", "sgd", "lion")
"""Optax optimisers that need only a rate."""
EVALUATION_SHARE = 0.1
"""The largest share of a run that evaluation on test rows may take, if ``eval_every`` is left open."""
SECOND_ORDER_COST = 8
"""The cost of one differentiated inner step in forward passes: 3 for the gradient, 5 for its derivative."""
Batching: TypeAlias = Literal["mixed", "per_source"]
_MAY_BE_ZERO = ("batches_per_update", "reward_folds")


@dataclass(frozen=True, kw_only=True)
class LearnerSettings:
    """The settings that all learners share."""

    name: ClassVar[str]
    """The name of the learner: ``learner="joint"`` is ``learner=Joint()``."""
    title: ClassVar[str]
    """The name of the learner in messages."""
    rate_names: ClassVar[tuple[str, ...]]
    """The learning rates among the settings. Runs that differ only in these share a compiled program."""
    logged_rate: ClassVar[str]
    """The name of the learning rate in the records of updates."""

    updates: int = 30
    """Number of updates in a run (K). There is one record per update."""
    batch_size: int = 20
    """Rows in one scheduled batch (B)."""
    batching: Batching = "mixed"
    """mixed: a batch holds rows of many sources, each chosen separately; per_source: rows of one source."""
    batches_per_update: int | None = None
    """Scheduled batches in one update (m). By default ⌊n/B⌋, where n is the size of the median task, or of the smallest
    task if each batch comes from one task."""
    optimiser: str | optax.GradientTransformation = "adam"
    """The optimiser: adam, adamw, nadam, rmsprop, sgd or lion; in Python also any Optax transformation."""
    rate_decay: float = 0.1
    """The learning rate at the end of the run, as a fraction of the first; it falls geometrically."""
    clip_norm: float | None = None
    """Largest norm of a gradient; longer ones are scaled down to it."""
    target_batch: Literal["uniform", "all", "ucb"] = "uniform"
    """Which labelled target rows an optimiser step uses: uniform, B of them at random without replacement; or all. With
    Algorithm 1 also ucb, B rows of the classes with the highest upper confidence bound on what their rows gained."""
    heads: Literal["auto", "shared"] = "auto"
    """By default, tasks with different label sets have separate output layers; ``shared`` makes them share one."""
    cursor: Literal["rested", "global"] = "rested"
    """rested: a task moves on only when it is drawn. global: all tasks move on with every batch."""
    reward_rows: int | None = None
    """How many labelled target rows rewards are computed on (a fixed random subset); by default all."""
    reward_folds: int = 0
    """Number of folds K of the labelled target rows. The rewards of a fold come from a copy of the learner that never
    trains on it, and a run takes about K + 1 times as long. 0: no copies; rewards use the rows that are trained on."""
    slope_every: int = 1
    """For how many batches the rewards ``transfer`` and ``adam_transfer`` keep the target's gradient."""
    balanced_loss: bool = False
    """Weigh source rows in the loss by one over the frequency of their label in their task."""
    balanced_accuracy: bool = False
    """Average accuracy over classes, also in rewards, so that every class counts the same."""
    metric: MetricName | None = None
    """The score on test rows: accuracy, balanced-accuracy, auc, f1 or log-loss; for numbers r2 or mae. By default
    accuracy (balanced with balanced_accuracy), and r2 for numbers. Rewards do not depend on it."""
    precision: Literal["float32", "bfloat16"] = "float32"
    """Number type of the network's forward pass; weights, losses and updates are always float32."""
    eval_every: int | None = None
    """Updates between evaluations on test rows; by default evaluation takes less than a tenth of the run."""
    eval_rows: int = 1000
    """Test rows in each evaluation (a fixed random subset); the last one uses all rows."""

    def __new__(cls, **given: Any) -> Self:
        """Refuse a setting that the learner does not have, in one line."""
        check_names(cls.__name__, given, (field.name for field in fields(cls)))
        return super().__new__(cls)

    @property
    def rates(self) -> tuple[float, ...]:
        """The values of ``rate_names``."""
        return tuple(getattr(self, name) for name in self.rate_names)

    def with_rates(self, rates: tuple[float, ...]) -> Self:
        """Copy the settings with other learning rates.

        Args:
            rates: in the order of ``rate_names``.

        Returns:
            New settings.
        """
        return replace(self, **dict[str, Any](zip(self.rate_names, rates, strict=True)))

    @property
    def probe_rate(self) -> float:
        """The rate of the SGD steps that probe the initial model for a plan: the inner rate, if there is one."""
        return getattr(self, "inner_rate", 0.01)

    @property
    def rows_per_choice(self) -> int:
        """How many rows a scheduler chooses at a time: one in mixed batches, otherwise all."""
        return 1 if self.batching == "mixed" else self.batch_size

    @property
    def inner_steps(self) -> int:
        """The number of SGD steps on one scheduled batch."""
        return getattr(self, "steps_per_batch", 1)

    def resolve(self, tasks: TaskSet) -> Self:
        """Check every setting against the tasks, and fill in the defaults that depend on them.

        Args:
            tasks: the task set to train on.

        Returns:
            Complete settings, except for ``gradient``, which depends on the network.
        """
        settings = self._checked()
        smallest = min(tasks.tasks, key=len)
        if settings.batching == "per_source" and settings.batch_size > len(smallest):
            raise ConfigError(
                f"batch_size is {settings.batch_size}, but task '{smallest.name}' has {len(smallest)} rows; "
                f"give at most {len(smallest)}, leave the task out, or mix batches"
            )
        if settings.batches_per_update is None:
            # A single small source among larger ones must not shorten a run of mixed batches.
            rows = len(smallest) if settings.batching == "per_source" else int(statistics.median_low(tasks.sizes))
            settings = replace(settings, batches_per_update=max(1, rows // settings.batch_size))
        settings._check_folds(len(tasks.validation.labels))
        settings._check_metric("classification" if tasks.target_size is None else "regression")
        if settings.eval_every is None:
            settings = replace(settings, eval_every=settings._affordable(tasks))
        return settings

    def _checked(self) -> Self:
        """Check every value against the type of its field."""
        checked: dict[str, Any] = {}
        for field in fields(self):
            name, hint, value = field.name, field.type, getattr(self, field.name)
            if value is None and type(None) in get_args(hint):
                continue
            words = [get_args(part) for part in (hint, *get_args(hint)) if get_origin(part) is Literal]
            if words:
                if value not in words[0]:
                    raise ConfigError(f"{name} is {value!r}; give {' or '.join(words[0])}")
            elif hint is bool:
                flag(name, value)
            elif int in (hint, *get_args(hint)):
                checked[name] = whole_number(name, value, 0 if name in _MAY_BE_ZERO else 1)
            elif float in (hint, *get_args(hint)):
                checked[name] = number(name, value, above=0)
        if not isinstance(self.optimiser, optax.GradientTransformation) and self.optimiser not in OPTIMISERS:
            raise ConfigError(f"optimiser is {self.optimiser!r}; give {' or '.join(OPTIMISERS)}")
        return replace(self, **checked)

    def _check_folds(self, labelled: int) -> None:
        """Check that every fold has a row, and so has every copy of the learner."""
        if self.reward_folds == 0:
            return
        if self.reward_folds == 1:
            raise ConfigError("reward_folds is 1; give 0 for none, or at least 2")
        if self.reward_folds > labelled:
            raise ConfigError(
                f"reward_folds is {self.reward_folds}, but the target has {labelled} labelled rows; "
                f"give at most {labelled}, or 0 for none"
            )
        if self.reward_rows is not None:
            raise ConfigError("reward_rows and reward_folds both say which rows give rewards; leave one of them out")
        if self.target_batch == "ucb":
            raise ConfigError("reward_folds cannot be used with target_batch ucb; give uniform or all")

    def _check_metric(self, kind: str) -> None:
        """Check that a metric for classes does not judge numbers, and the other way round."""
        if self.metric is not None and METRICS[self.metric].kind != kind:
            fitting = " or ".join(metric.name for metric in METRICS.values() if metric.kind == kind)
            have = "classes" if kind == "classification" else "numbers to predict"
            raise ConfigError(f"metric is {self.metric}, but these tasks have {have}; give {fitting}")

    def _affordable(self, tasks: TaskSet) -> int:
        """The updates between evaluations for which these are ``EVALUATION_SHARE`` of all rows passed forward.

        Each evaluation scores two models, the one before the update and the one after it.
        """
        steps = (self.batches_per_update or 0) * self.inner_steps
        update = SECOND_ORDER_COST * steps * self.batch_size + 3 * min(self.batch_size, len(tasks.validation.labels))
        scored = 2 * min(self.eval_rows, len(tasks.test.labels))
        return min(max(1, math.ceil(scored / (EVALUATION_SHARE * update))), self.updates)


@dataclass(frozen=True, kw_only=True)
class Joint(LearnerSettings):
    """Joint training: one model, and each step uses a batch of source rows and a batch of target rows.

    Examples:
        >>> learner = ms.Joint(batch_size=10, updates=2, learning_rate=3e-3)
        >>> ms.train(tasks, learner=learner).records[-1]["update"]
        2
        >>> learner.resolve(tasks).batches_per_update  # ⌊40 / 10⌋, of the median task
        4
        >>> learner.with_rates((0.01,)).learning_rate
        0.01
    """

    name: ClassVar[str] = "joint"
    title: ClassVar[str] = "the joint learner"
    rate_names: ClassVar[tuple[str, ...]] = ("learning_rate",)
    logged_rate: ClassVar[str] = "learning_rate"

    learning_rate: float = 1e-3
    """The learning rate at the first step."""
    source_weight: float = 1.0
    """Weight of the source batch in the loss; the target batch has weight 1."""

    def _checked(self) -> Self:
        if self.target_batch == "ucb":
            raise ConfigError("target_batch ucb is for Algorithm 1; give uniform or all, or use learner meta")
        return super()._checked()


@dataclass(frozen=True, kw_only=True)
class AlgorithmOne(LearnerSettings):
    """Algorithm 1: adapt to scheduled batches by SGD, then update the initial weights and the inner rate on the target.

    The paper can be read in two ways, which are two settings of ``batches_per_update`` and ``steps_per_batch``:
    *stream*, the default, is (⌊n/B⌋, 1); *per-batch* is (1, 100).

    Examples:
        >>> learner = ms.AlgorithmOne(batch_size=10, updates=2, inner_rate=0.1)
        >>> ms.train(tasks, learner=learner).records[-1]["update"]
        2
        >>> learner.with_rates((0.03, 3e-3)).resolve(tasks).rates
        (0.03, 0.003)
    """

    name: ClassVar[str] = "meta"
    title: ClassVar[str] = "Algorithm 1"
    rate_names: ClassVar[tuple[str, ...]] = ("inner_rate", "outer_rate")
    logged_rate: ClassVar[str] = "inner_rate"

    inner_rate: float = 0.01
    """The inner learning rate at the start; its logarithm is then learned."""
    outer_rate: float = 1e-3
    """The outer learning rate at the first step."""
    steps_per_batch: int = 1
    """SGD steps on each batch (R)."""
    gradient: "str | Estimator" = "auto"
    """How the meta-gradient is computed. Exact: stored keeps the weights of each step, scan keeps all intermediate
    values, remat keeps a few and recomputes the others. Approximate: first-order (FOMAML). auto is stored, or remat if
    stored would not fit into memory. In Python you can also pass your own estimator."""


LEARNERS: dict[str, type[Joint] | type[AlgorithmOne]] = {kind.name: kind for kind in (AlgorithmOne, Joint)}
"""The learners by name."""


def settings_of(learner: str | LearnerSettings) -> LearnerSettings:
    """The settings that ``learner`` stands for: a name with default settings, or the object itself."""
    if isinstance(learner, LearnerSettings):
        return learner
    if not isinstance(learner, str):
        raise ConfigError(f"learner is {learner!r}; give joint, meta, ms.Joint(…) or ms.AlgorithmOne(…)")
    if learner not in LEARNERS:
        raise unknown("learner", learner, LEARNERS)
    return LEARNERS[learner]()


def why_diverged(settings: LearnerSettings, inner: float, outer: float, rate: float) -> str:
    """The likely reason for a loss that is no longer finite at ``rate``, and what to do about it.

    ``inner`` and ``outer`` are the rates at the start of the run.
    """
    if isinstance(settings, Joint):
        what = f" at learning rate {rate:.3g}; lower learning_rate (now starts at {outer:g})"
    elif not math.isfinite(rate) or rate > 2 * inner:
        what = f": the inner rate grew from {inner:g} to {rate:.3g}; lower outer_rate (now {outer:g})"
    else:
        what = f": the inner loop overflowed at rate {rate:.3g}; lower inner_rate (now starts at {inner:g})"
    return f"the loss is no longer finite{what} or give clip_norm"
