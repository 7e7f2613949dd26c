"""The models that people would use, fitted on the same splits as the networks, and on the rows that choosing weighs."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from metasched.comparison.estimate import Part
from metasched.comparison.networks import answers_of
from metasched.comparison.splits import Split, Splits
from metasched.learners.evaluation import judged_rows
from metasched.optional import available
from metasched.references.grams import Grams
from metasched.references.greedy import greedy_sources
from metasched.references.model import ReferenceModel
from metasched.references.recipes import Recipe, all_recipes, fit_recipe
from metasched.references.threads import one_thread
from metasched.runs.executors.local import cores
from metasched.tasks import TaskSet

MOST_ROWS = 4000
"""Rows of sources that a fit which is only judged learns from; the final model learns from all."""
MOST_FINAL_ROWS = 100_000
POOLED_UNITS = 5
"""Forests and boosting of pooled rows take longest, so they are fitted for this many seeds at most."""
POOLED_REPEATS = 2
"""Of a cross-validation."""
Weights = Mapping[str, float]
"""The weight of one row of each source."""


@dataclass(frozen=True)
class References:
    """Reference models for the sources of one comparison.

    Attributes:
        recipes: which models.
        grams: sums over the rows of the sources; None where sources cannot be pooled with the target.
        regression: whether numbers are predicted.
        lacking: what is not installed, so that some models are left out.
        few: the sources with at most ``MOST_ROWS`` rows, which stand for them in fits that are only judged.
        many: the sources with at most ``MOST_FINAL_ROWS`` rows.
    """

    recipes: tuple[Recipe, ...]
    grams: Grams | None
    regression: bool
    lacking: str | None
    few: TaskSet
    many: TaskSet

    @classmethod
    def of(cls, tasks: TaskSet, *, chosen: bool) -> "References":
        """Those of a task set; with ``chosen`` also models with the weights that choosing found."""
        trees = available("sklearn")
        recipes = [
            recipe
            for recipe in all_recipes(tasks, chosen=chosen)
            if trees or recipe.estimator not in ("forest", "boosting")
        ]
        grams = Grams.of(tasks) if tasks.shared_labels else None
        few, many = thinned(tasks, MOST_ROWS), thinned(tasks, MOST_FINAL_ROWS)
        lacking = None if trees else "scikit-learn"
        return cls(tuple(recipes), grams, tasks.target_size is not None, lacking, few, many)

    def title(self, recipe: Recipe) -> str:
        """What tables call a model."""
        return recipe.title(regression=self.regression)

    def fit(self, recipe: Recipe, tasks: TaskSet, weights: Weights | None, seed: int) -> ReferenceModel:
        """A model of the sources and the target's labelled rows."""
        return self._fit(recipe, _of_sources(tasks, self.many), weights, seed)

    def _fit(self, recipe: Recipe, tasks: TaskSet, weights: Weights | None, seed: int) -> ReferenceModel:
        selection = None
        if recipe.rows == "greedy" and self.grams is not None:
            selection = greedy_sources(self.grams, tasks.validation)
        return fit_recipe(recipe, tasks, source_weights=weights, selection=selection, seed=seed)

    def part(self, recipe: Recipe, split: Split, weights: Weights | None) -> Part:
        """What a model that is fitted on a split predicts for the rows that judge it."""
        model = self._fit(recipe, _of_sources(split.tasks, self.few), weights, split.seed)
        return Part(outputs_of(model, split.tasks), answers_of(split), split.rows)


def outputs_of(model: Any, tasks: TaskSet) -> Any:
    """Probabilities, or numbers, for the judging rows (n, k)."""
    inputs = tasks.test.inputs[judged_rows(tasks)]
    if tasks.target_size is None:
        return model.predict_proba(inputs)
    return np.asarray(model.predict(inputs), np.float32).reshape(len(inputs), -1)


def units_of(recipe: Recipe, splits: Splits, units: Sequence[int]) -> Sequence[int]:
    """The units that a model is judged in: fewer where its fit takes long."""
    if recipe.rows == "target" or recipe.estimator == "linear":
        return units
    return units[: POOLED_REPEATS if splits.kind == "cross-validation" else POOLED_UNITS]


def thinned(tasks: TaskSet, most: int) -> TaskSet:
    """The task set with at most so many source rows, drawn at random, as many of each source as its share."""
    total = sum(tasks.sizes)
    if total <= most:
        return tasks
    random = np.random.default_rng(0)
    fewer, provenance = [], dict(tasks.provenance)
    for task in tasks.tasks:
        rows = np.sort(random.permutation(len(task))[: max(1, len(task) * most // total)])
        fewer.append(task.take(rows))
        provenance[task.name] = tasks.provenance[task.name].take(rows)
    return replace(tasks, tasks=tuple(fewer), provenance=provenance, recipe=None)


def _of_sources(tasks: TaskSet, sources: TaskSet) -> TaskSet:
    """The target's rows of the one with the sources of the other."""
    if sources.tasks is tasks.tasks:
        return tasks
    own = {task.name: sources.provenance[task.name] for task in sources.tasks}
    return replace(tasks, tasks=sources.tasks, provenance={**tasks.provenance, **own}, recipe=None)


def in_parallel(work: Sequence[Callable[[], Any]], on_done: Callable[[int, Any], None]) -> None:
    """Call every function, as many at once as there are cores; ``on_done`` is told of each in their order.

    Fits of trees let go of the interpreter, so threads are enough.
    """
    with one_thread(), ThreadPoolExecutor(max(1, cores())) as pool:
        futures = [pool.submit(each) for each in work]
        try:
            for number, future in enumerate(futures):
                on_done(number, future.result())
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
