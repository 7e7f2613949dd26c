"""The models that people would use, fitted on the same splits as the networks, and with the weights that choosing
found.
"""

import ctypes
import math
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from metasched.comparison.splits import Split, Splits
from metasched.learners.evaluation import judged_rows
from metasched.optional import available, require
from metasched.references.grams import Grams
from metasched.references.greedy import greedy_sources
from metasched.references.model import ReferenceModel
from metasched.references.recipes import Recipe, all_recipes, fit_recipe
from metasched.runs.executors.local import cores
from metasched.tasks import TaskSet

FEW_ROWS, MOST_NUMBERS = (2000, 4000), 300_000
"""How many source rows, and numbers in them, a fit learns from if it is only judged. The final model learns from all.
"""
MOST_FINAL_ROWS = 100_000
POOLED_UNITS = 5
"""Forests and boosting on pooled rows take longest, so they are fitted for at most this many seeds."""
POOLED_REPEATS = 3
"""The same for repeats of a cross-validation."""
WIDE = 100
"""With this many features or more, linear models take long, too."""
MOST_BOOSTED = 2000
"""With more features times classes than this, boosting is not fitted on pooled rows."""
FEWEST_PARALLEL = 20
"""The number of fits that is worth starting other processes, which takes some seconds."""
LARGE = 2_000_000
"""The number of values in the rows of several fits that is worth the same."""
_PR_SET_PDEATHSIG = 1
Weights = Mapping[str, float]
"""The weight of one row of each source."""


@dataclass(frozen=True)
class References:
    """Reference models for the sources of one comparison.

    Attributes:
        recipes: the models.
        grams: sums over the rows of the sources, or None if sources cannot be pooled with the target.
        regression: whether numbers are predicted.
        lacking: the package that is not installed, so that some models are left out.
        few: the sources with at most ``FEW_ROWS`` rows, which stand for them in fits that are only judged.
        many: the sources with at most ``MOST_FINAL_ROWS`` rows.
        balanced: whether all classes weigh the same in total, as the metric wants it.
    """

    recipes: tuple[Recipe, ...]
    grams: Grams | None
    regression: bool
    lacking: str | None
    few: TaskSet
    many: TaskSet
    balanced: bool = False

    @classmethod
    def of(cls, tasks: TaskSet, *, chosen: bool, balanced: bool = False) -> "References":
        """The reference models of a task set. With ``chosen``, also those with the weights that choosing found."""
        trees = available("sklearn")
        recipes = [
            recipe
            for recipe in all_recipes(tasks, chosen=chosen)
            if (trees or recipe.estimator not in ("forest", "boosting")) and not _is_slow(recipe, tasks)
        ]
        grams = Grams.of(tasks) if tasks.shared_labels else None
        few = thinned(tasks, int(np.clip(MOST_NUMBERS // math.prod(tasks.shape), *FEW_ROWS)))
        many = thinned(tasks, MOST_FINAL_ROWS)
        lacking = None if trees else "scikit-learn"
        return cls(tuple(recipes), grams, tasks.target_size is not None, lacking, few, many, balanced)

    def title(self, recipe: Recipe) -> str:
        """The name of a model in tables."""
        return recipe.title(regression=self.regression)

    @property
    def titles(self) -> list[str]:
        """The names of all models."""
        return [self.title(recipe) for recipe in self.recipes]

    def final(self, recipe: Recipe, tasks: TaskSet, weights: Weights | None) -> "Fit":
        """The fit of a model that is kept, on all sources."""
        return Fit(recipe, _of_sources(tasks, self.many), weights, self._selection(recipe, tasks), 0, self.balanced)

    def judged(self, recipe: Recipe, split: Split, weights: Weights | None) -> "Fit":
        """The fit of a model on a split, which is only judged."""
        tasks = _of_sources(split.tasks, self.few)
        return Fit(recipe, tasks, weights, self._selection(recipe, tasks), split.seed, self.balanced)

    def _selection(self, recipe: Recipe, tasks: TaskSet) -> tuple[str, ...] | None:
        if recipe.rows != "greedy" or self.grams is None:
            return None
        return greedy_sources(self.grams, tasks.validation)


class Fit(NamedTuple):
    """Everything that a fit needs."""

    recipe: Recipe
    tasks: TaskSet
    weights: Weights | None
    selection: tuple[str, ...] | None
    seed: int
    balanced: bool = False


def model_of(fit: Fit) -> ReferenceModel:
    """The fitted model."""
    recipe, tasks, weights, selection, seed, balanced = fit
    return fit_recipe(recipe, tasks, source_weights=weights, selection=selection, seed=seed, balanced=balanced)


def predictions_of(fit: Fit) -> NDArray[np.float32]:
    """The predictions (n, k) of the fitted model for the rows that judge it."""
    return outputs_of(model_of(fit), fit.tasks)


def outputs_of(model: Any, tasks: TaskSet) -> NDArray[np.float32]:
    """Probabilities, or numbers, for the judging rows (n, k)."""
    inputs = tasks.test.inputs[judged_rows(tasks)]
    if tasks.target_size is None:
        return np.asarray(model.predict_proba(inputs), np.float32)
    return np.asarray(model.predict(inputs), np.float32).reshape(len(inputs), -1)


def seconds_of(references: References, fits: Sequence[tuple[Recipe, Split]]) -> float:
    """About how long these fits take, measured on one of each kind. Kinds differ in the estimator and in the rows."""
    by_kind: dict[tuple[str, bool], list[tuple[Recipe, Split]]] = {}
    for recipe, split in sorted(fits, key=lambda fit: fit[0].rows != "target"):
        by_kind.setdefault((recipe.estimator, recipe.rows == "target"), []).append((recipe, split))
    total = 0.0
    for (_, alone), own in by_kind.items():
        fit = references.judged(*own[0], {task.name: 1.0 for task in references.few.tasks})
        if alone:
            predictions_of(fit)  # The first one imports what it needs.
        began = time.monotonic()
        predictions_of(fit)
        total += (time.monotonic() - began) * len(own)
    return total / _processes(len(fits))


def _is_slow(recipe: Recipe, tasks: TaskSet) -> bool:
    """Whether a model is left out. Boosting on pixels takes a minute per fit, and nobody would use it there."""
    features = math.prod(tasks.shape) * max(1, len(tasks.classes))
    return recipe.estimator == "boosting" and recipe.rows != "target" and features > MOST_BOOSTED


def units_of(recipe: Recipe, splits: Splits, units: Sequence[int]) -> Sequence[int]:
    """The units in which a model is judged. Slow models are judged in fewer."""
    wide = math.prod(splits.official.shape) >= WIDE
    if recipe.rows == "target" or (recipe.estimator == "linear" and not wide):
        return units
    return units[: POOLED_REPEATS if splits.kind == "cross-validation" else POOLED_UNITS]


def thinned(tasks: TaskSet, most: int) -> TaskSet:
    """The task set with at most this many source rows. They are drawn at random, in proportion to the sizes of the
    sources.
    """
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
    """The target's rows of one set with the sources of the other."""
    if sources.tasks is tasks.tasks:
        return tasks
    own = {task.name: sources.provenance[task.name] for task in sources.tasks}
    return replace(tasks, tasks=sources.tasks, provenance={**tasks.provenance, **own}, recipe=None)


Done = TypeVar("Done")


def models_of(fits: Sequence[Fit]) -> list[ReferenceModel]:
    """Fit every model, in parallel if fits are large."""
    found: dict[int, ReferenceModel] = {}
    numbers = sum(sum(fit.tasks.sizes) * math.prod(fit.tasks.shape) for fit in fits)
    in_parallel(model_of, fits, FEWEST_PARALLEL if numbers >= LARGE else 1, found.__setitem__)
    return [found[number] for number in range(len(fits))]


def in_parallel(
    work: Callable[[Fit], Done], fits: Iterable[Fit], count: int, on_done: Callable[[int, Done], None]
) -> None:
    """Do the work of every fit. ``on_done`` is called for each, in order.

    Many fits are sent to other processes, one per core, because fitting trees holds the interpreter's lock for most of
    the time. joblib, which comes with scikit-learn, starts them without importing the user's program again.
    """
    several = _processes(count)
    if several == 1:
        for number, fit in enumerate(fits):
            on_done(number, work(fit))
        return
    joblib = require("joblib", "references")
    calls = (joblib.delayed(_in_worker)(work, fit) for fit in fits)
    # Rows are sent through pipes. Otherwise joblib would write large arrays to files.
    done = joblib.Parallel(several, return_as="generator", max_nbytes=None)(calls)
    try:
        for number, found in enumerate(done):
            on_done(number, found)
    finally:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # fits that are no longer needed, because something went wrong
            done.close()


def _processes(count: int) -> int:
    """How many processes do this many fits."""
    return cores() if count >= FEWEST_PARALLEL and available("joblib") else 1


def _in_worker(work: Callable[[Fit], Done], fit: Fit) -> Done:
    """Do the work in a process that ends when the process that started it ends, for whatever reason (on Linux)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    return work(fit)
