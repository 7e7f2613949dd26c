"""What the user asked a comparison for, checked."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from metasched.comparison import networks
from metasched.comparison.methods import plain
from metasched.errors import ConfigError
from metasched.learners.evaluation import MOST_JUDGED
from metasched.learners.metrics import Metric, metric_of
from metasched.learners.settings import Joint, LearnerSettings
from metasched.runs.jobs import plain_settings
from metasched.runs.sweep import Method, Setup
from metasched.seeds import check_seed, counting
from metasched.tasks import TaskSet

EVALUATIONS = 10
"""How often a run is evaluated during training."""


class Asked(NamedTuple):
    """What was asked for. ``batch_size`` is the size before it was reduced to the smallest source, and ``left_out`` are
    seeds for which the budget has no time.
    """

    tasks: TaskSet
    setup: Setup
    methods: Sequence[Method]
    seeds: Sequence[int]
    tune: bool
    references: bool
    budget: float | None
    batch_size: int
    left_out: Sequence[int] = ()

    def as_json(self) -> dict[str, Any]:
        """The content of ``comparison.json``."""
        setup = self.setup
        all_seeds = {"seeds asked": [*self.seeds, *self.left_out]} if self.left_out else {}
        return {
            "data": self.tasks.fingerprint,
            "learner": setup.learner.name,
            "network": setup.network if isinstance(setup.network, str) else "own",
            "methods": {method.name: plain(method) for method in self.methods},
            "seeds": list(self.seeds),
            "tuned": self.tune,
            "references": self.references,
            "budget": self.budget,
            "settings": plain_settings(setup.learner),
            **all_seeds,
        }

    def going_on(self, known: Mapping[str, Any]) -> "Asked":
        """A comparison that continues, with the same budget or a longer one, keeps its number of steps.

        With a budget, the speed of a machine decided this number. The budget may also have left out seeds. The same
        budget then leaves them out again, and a longer one does not.
        """
        settings, before = known.get("settings"), known.get("budget")
        if self.budget is None or not isinstance(before, float | int) or before > self.budget:
            return self
        if not isinstance(settings, dict):
            return self
        length = {key: settings[key] for key in ("updates", "batches_per_update") if isinstance(settings.get(key), int)}
        found = self._replace(setup=self.setup._replace(learner=replace(self.setup.learner, **length)))
        if before == self.budget and known.get("seeds asked") == list(self.seeds):
            found = found.with_seeds(len(known["seeds"]))
        return found

    def with_seeds(self, count: int) -> "Asked":
        """The same with only the first seeds, up to this number."""
        return self._replace(seeds=self.seeds[:count], left_out=self.seeds[count:])


def check_seeds(seeds: Any) -> tuple[int, ...]:
    """Make the list of seeds from a number or a list. Refuse too few."""
    if not isinstance(seeds, int | np.integer):
        if not isinstance(seeds, Iterable) or isinstance(seeds, str):
            raise ConfigError(f"seeds is {seeds!r}; give a number of seeds, at least 2, or a list of seeds")
        found = tuple(check_seed(seed) for seed in seeds)
        if len(found) < 2 or len(set(found)) < len(found):
            raise ConfigError(f"seeds are {list(found)}; give at least 2 different whole numbers ≥ 0")
        return found
    if isinstance(seeds, bool) or seeds < 2:
        raise ConfigError(f"seeds is {seeds}; a comparison needs at least 2, and about 10 for a clear answer")
    return tuple(counting(int(seeds)))


def fitted_to(settings: LearnerSettings, tasks: TaskSet) -> LearnerSettings:
    """The settings with values that depend on the rows: the length of a run, and how often it is evaluated."""
    if settings.batching == "per_source":
        settings = replace(settings, batch_size=min(settings.batch_size, *tasks.sizes))
    if settings.batches_per_update is None and isinstance(settings, Joint):
        steps = networks.length(tasks, settings.batch_size)
        settings = replace(settings, batches_per_update=-(-steps // settings.updates))
    if settings.eval_every is None:
        settings = replace(settings, eval_every=max(1, settings.updates // EVALUATIONS))
    # Curves use the rows that judge, so that a curve ends at the score of these rows.
    return replace(settings, eval_rows=max(settings.eval_rows, MOST_JUDGED))


def scored_by(learner: LearnerSettings, tasks: TaskSet) -> Metric:
    """The metric of a comparison."""
    return metric_of(learner.metric, balanced=learner.balanced_accuracy, regression=tasks.target_size is not None)
