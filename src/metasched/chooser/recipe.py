"""From what a user asks for to a scheduler over the sources that there are: made anew whenever those change."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metasched.chooser.mixture import Mixture, mixed, proportions
from metasched.chooser.sources import Source, Sources
from metasched.errors import ConfigError
from metasched.schedulers.base import Scheduler
from metasched.schedulers.resolve import TARGET_ONLY, build, needs_plan, plan_options, resolve

PRIOR = 10
"""Draws that proportions are worth under a scheduler that learns, by source, unless told otherwise."""


@dataclass(frozen=True)
class Recipe:
    """A scheduler by name or as it is, and all that decides how it is used; weights are by the names of sources."""

    scheduler: Scheduler | str
    options: Mapping[str, Any]
    batch_size: int
    abstain: bool = False
    weights: Mapping[str, float] | None = None
    temperature: float | None = None
    min_share: float = 0.0
    prior: int | None = None
    loss_weights: Mapping[str, float] | None = None
    useful: tuple[str, ...] | None = None

    @property
    def name(self) -> str:
        """The scheduler's name; ``"own"`` for one that was given as it is."""
        return self.scheduler if isinstance(self.scheduler, str) else "own"

    @property
    def abstains(self) -> bool:
        """Whether there is an arm for no source."""
        return self.abstain or self.name == TARGET_ONLY

    @property
    def looks_at_labels(self) -> bool:
        """Whether the order of rows matters to the scheduler, as far as its name tells."""
        return needs_plan(self.name)

    @property
    def remakes(self) -> bool:
        """Whether the scheduler can be made again for other sources."""
        return self.name != "own" and not self.looks_at_labels

    def weighing(self, name: str, weight: float) -> "Recipe":
        """The same with a weight for one more source, where there are weights."""
        weights, loss_weights = (given and {**given, name: weight} for given in (self.weights, self.loss_weights))
        return replace(self, weights=weights, loss_weights=loss_weights)

    def loss_weight_of(self, sources: Sources) -> NDArray[np.float64] | None:
        """The mixture w (active,) whose loss is wanted, adding up to 1; None where no loss is weighed."""
        if self.loss_weights is None:
            return None
        weights = np.array([self.loss_weights.get(sources.names[number], 0.0) for number in sources.active])
        if weights.sum() == 0:
            raise ConfigError("the loss_weights are all 0; give at least one source some weight")
        shares: NDArray[np.float64] = weights / weights.sum()
        return shares

    def make(self, sources: Sources) -> Mixture:
        """The scheduler, its arms being the active sources and, where it may abstain, none of them."""
        active = [sources.all[number] for number in sources.active]
        scheduler, steady = self._scheduler(sources, active), self.name == "uniform"
        fixed = self.weights is not None or self.temperature is not None
        if not fixed and not self.min_share and self.prior is None and self.loss_weights is None:
            return Mixture(scheduler)
        if not steady and scheduler.family != "active":
            raise ConfigError(
                f"'{self.name}' has an order of its own; weights and shares are for 'uniform' or a learner"
            )
        if self.name == "exp3" and (fixed or self.prior is not None):
            raise ConfigError("'exp3' must know the chance of every draw; of these settings it takes min_share alone")
        if self.loss_weights is not None and not steady and not self.min_share:
            raise ConfigError("loss_weights need a known chance for every source; give a min_share above 0")
        weights = None if self.weights is None else [self.weights.get(one.name, 1.0) for one in active]
        shares = np.append(proportions(active, weights, self.temperature), [0.0] * self.abstains)
        least = 1.0 if steady else 0.0 if self.name == "exp3" else self._floor(active)
        prior = PRIOR * len(active) * fixed if self.prior is None else self.prior
        mixture = mixed(scheduler, shares, least, prior)
        return mixture if self.loss_weights is not None else Mixture(mixture.scheduler)

    def facts(self) -> dict[str, Any]:
        """What a state must agree with, fit for JSON; weights, which come and go with sources, apart."""
        options = {key: value for key, value in self.options.items() if key != "plan"}
        return {
            "scheduler": self.name,
            "options": {key: _plain(value) for key, value in sorted(options.items())},
            "batch_size": self.batch_size,
            "abstain": self.abstain,
            "temperature": self.temperature,
            "min_share": self.min_share,
            "prior": self.prior,
        }

    def _scheduler(self, sources: Sources, active: Sequence[Source]) -> Scheduler:
        if isinstance(self.scheduler, Scheduler):
            return self.scheduler
        options = {key: value for key, value in self.options.items() if key != "plan"}
        if asked := plan_options(self.name, options):
            raise ConfigError(f"'{self.name}' takes a plan that is made already: give {', '.join(asked)} to ms.plan")
        if self.name == "single" and "task" in options:
            options["task"] = _active_name(sources, options["task"])
        if self.name == "uniform" and options.get("tasks") is not None:
            if self.weights is not None or self.temperature is not None:
                raise ConfigError("'uniform' takes tasks or weights, not both; give the others weight 0")
            options["tasks"] = [_active_name(sources, task) for task in options["tasks"]]
        if self.name == "exp3" and self.min_share:
            options = {"explore": self._floor(active), **options}
        spec = resolve(self.name, options, [one.name for one in active], useful=self.useful)
        sizes, plan = [one.size for one in active], self.options.get("plan")
        return build(spec, sizes, batch_size=self.batch_size, abstain=self.abstain, plan=plan)

    def _floor(self, active: Sequence[Source]) -> float:
        """The share of draws that gives each of N sources ``min_share``, where they have equal weights."""
        if self.min_share * len(active) > 1 + 1e-9:
            raise ConfigError(
                f"min_share is {self.min_share:g}; {len(active)} sources have at most {1 / len(active):g}"
            )
        return min(1.0, self.min_share * len(active))


def _active_name(sources: Sources, given: Any) -> str:
    """The name of a source that is given by name or, as in ``draw.task``, by number from 0."""
    source = sources.all[sources.number_of(given)]
    if source.removed:
        raise ConfigError(f"source '{given}' was removed; make a chooser without it")
    return source.name


def _plain(value: Any) -> Any:
    """A value as JSON has it."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, tuple | list):
        return [_plain(one) for one in value]
    return value if isinstance(value, str | int | float | bool | None) else repr(value)
