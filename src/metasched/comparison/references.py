"""The models that people would use, fitted on the same splits as the networks, and on the rows that choosing weighs."""

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
"""Rows of sources that a fit which is only judged learns from, and numbers in them; the final model learns from all."""
MOST_FINAL_ROWS = 100_000
POOLED_UNITS = 5
"""Forests and boosting of pooled rows take longest, so they are fitted for this many seeds at most."""
POOLED_REPEATS = 3
"""Of a cross-validation."""
WIDE = 100
"""Features from which linear models take long, too."""
MOST_BOOSTED = 2000
"""Features times classes up to which boosting is fitted on pooled rows."""
FEWEST_PARALLEL = 20
"""Fits that are worth starting other processes, which takes some seconds."""
LARGE = 2_000_000
"""Numbers in the rows of several fits that are worth the same."""
_PR_SET_PDEATHSIG = 1
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
        """Those of a task set; with ``chosen`` also models with the weights that choosing found."""
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
        """What tables call a model."""
        return recipe.title(regression=self.regression)

    @property
    def titles(self) -> list[str]:
        """Of all models."""
        return [self.title(recipe) for recipe in self.recipes]

    def final(self, recipe: Recipe, tasks: TaskSet, weights: Weights | None) -> "Fit":
        """The fit of a model that is to be kept, on all sources."""
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
    """Everything that a fit takes."""

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
    """What the fitted model predicts for the rows that judge it (n, k)."""
    return outputs_of(model_of(fit), fit.tasks)


def outputs_of(model: Any, tasks: TaskSet) -> NDArray[np.float32]:
    """Probabilities, or numbers, for the judging rows (n, k)."""
    inputs = tasks.test.inputs[judged_rows(tasks)]
    if tasks.target_size is None:
        return np.asarray(model.predict_proba(inputs), np.float32)
    return np.asarray(model.predict(inputs), np.float32).reshape(len(inputs), -1)


def seconds_of(references: References, fits: Sequence[tuple[Recipe, Split]]) -> float:
    """About how long these fits take, from one of each kind; kinds differ in the estimator and in the rows."""
    by_kind: dict[tuple[str, bool], list[tuple[Recipe, Split]]] = {}
    for recipe, split in sorted(fits, key=lambda fit: fit[0].rows != "target"):
        by_kind.setdefault((recipe.estimator, recipe.rows == "target"), []).append((recipe, split))
    total = 0.0
    for (_, alone), own in by_kind.items():
        fit = references.judged(*own[0], {task.name: 1.0 for task in references.few.tasks})
        if alone:
            predictions_of(fit)  # the first one imports what it needs
        began = time.monotonic()
        predictions_of(fit)
        total += (time.monotonic() - began) * len(own)
    return total / _processes(len(fits))


def _is_slow(recipe: Recipe, tasks: TaskSet) -> bool:
    """Whether a model is left out: boosting on pixels takes a minute a fit, and nobody would use it there."""
    features = math.prod(tasks.shape) * max(1, len(tasks.classes))
    return recipe.estimator == "boosting" and recipe.rows != "target" and features > MOST_BOOSTED


def units_of(recipe: Recipe, splits: Splits, units: Sequence[int]) -> Sequence[int]:
    """The units that a model is judged in: fewer where its fit takes long."""
    wide = math.prod(splits.official.shape) >= WIDE
    if recipe.rows == "target" or (recipe.estimator == "linear" and not wide):
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


Done = TypeVar("Done")


def models_of(fits: Sequence[Fit]) -> list[ReferenceModel]:
    """Every fitted model, side by side where fits are large."""
    found: dict[int, ReferenceModel] = {}
    numbers = sum(sum(fit.tasks.sizes) * math.prod(fit.tasks.shape) for fit in fits)
    in_parallel(model_of, fits, FEWEST_PARALLEL if numbers >= LARGE else 1, found.__setitem__)
    return [found[number] for number in range(len(fits))]


def in_parallel(
    work: Callable[[Fit], Done], fits: Iterable[Fit], count: int, on_done: Callable[[int, Done], None]
) -> None:
    """Do the work of every fit; ``on_done`` is told of each in their order.

    Many fits go to other processes, one for each core: much of a fit of trees holds the interpreter's lock. joblib,
    which comes with scikit-learn, starts them without importing the user's program again.
    """
    several = _processes(count)
    if several == 1:
        for number, fit in enumerate(fits):
            on_done(number, work(fit))
        return
    joblib = require("joblib", "references")
    calls = (joblib.delayed(_in_worker)(work, fit) for fit in fits)
    # Rows go through pipes: joblib would put large arrays into files otherwise.
    done = joblib.Parallel(several, return_as="generator", max_nbytes=None)(calls)
    try:
        for number, found in enumerate(done):
            on_done(number, found)
    finally:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of fits that nobody waits for any more, where something went wrong
            done.close()


def _processes(count: int) -> int:
    """How many processes make so many fits."""
    return cores() if count >= FEWEST_PARALLEL and available("joblib") else 1


def _in_worker(work: Callable[[Fit], Done], fit: Fit) -> Done:
    """The work, in a process that ends with the one that asked for it, however that ends (on Linux)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    return work(fit)
