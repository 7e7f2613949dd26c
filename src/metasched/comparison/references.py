"""The models that people would use, fitted on the same splits as the networks, and on the rows that choosing weighs."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from metasched.comparison.estimate import Part
from metasched.comparison.networks import answers_of
from metasched.comparison.splits import Split
from metasched.learners.evaluation import judged_rows
from metasched.optional import available
from metasched.references.grams import Grams
from metasched.references.greedy import greedy_sources
from metasched.references.model import ReferenceModel
from metasched.references.recipes import Recipe, all_recipes, fit_recipe
from metasched.references.threads import one_thread
from metasched.runs.executors.local import cores
from metasched.tasks import TaskSet

MANY_CELLS = 4e6
"""Numbers in the rows of a pooled fit, times classes for boosting, from which it is made for ``FEW_UNITS`` units."""
TOO_MANY_CELLS = 1e8
"""From here on it is made once, for the final model's rows and their folds alone."""
FEW_UNITS = 4
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
    """

    recipes: tuple[Recipe, ...]
    grams: Grams | None
    regression: bool
    lacking: str | None

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
        return cls(tuple(recipes), grams, tasks.target_size is not None, None if trees else "scikit-learn")

    def title(self, recipe: Recipe) -> str:
        """What tables call a model."""
        return recipe.title(regression=self.regression)

    def fit(self, recipe: Recipe, tasks: TaskSet, weights: Weights | None, seed: int) -> ReferenceModel:
        """A model of the sources and the target's labelled rows."""
        selection = None
        if recipe.rows == "greedy" and self.grams is not None:
            selection = greedy_sources(self.grams, tasks.validation)
        return fit_recipe(recipe, tasks, source_weights=weights, selection=selection, seed=seed)

    def part(self, recipe: Recipe, split: Split, weights: Weights | None) -> Part:
        """What a model that is fitted on a split predicts for the rows that judge it."""
        model = self.fit(recipe, split.tasks, weights, split.seed)
        return Part(outputs_of(model, split.tasks), answers_of(split), split.rows)


def outputs_of(model: Any, tasks: TaskSet) -> Any:
    """Probabilities, or numbers, for the judging rows (n, k)."""
    inputs = tasks.test.inputs[judged_rows(tasks)]
    if tasks.target_size is None:
        return model.predict_proba(inputs)
    return np.asarray(model.predict(inputs), np.float32).reshape(len(inputs), -1)


def units_of(recipe: Recipe, tasks: TaskSet, units: Sequence[int]) -> Sequence[int]:
    """The units that a model is fitted for: fewer where its fit takes long, which the size of the rows decides."""
    if recipe.rows == "target" or recipe.estimator in ("majority", "linear"):
        return units
    classes = len(tasks.classes) if recipe.estimator == "boosting" else 1
    cells = float(sum(tasks.sizes)) * float(np.prod(tasks.shape)) * max(classes, 1)
    if cells >= TOO_MANY_CELLS:
        return units[:0]
    return units[:FEW_UNITS] if cells >= MANY_CELLS else units


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
