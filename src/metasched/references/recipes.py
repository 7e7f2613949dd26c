"""Which estimator is fitted on which rows with which weights, and its name in tables."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from metasched.errors import ConfigError, DataError
from metasched.learners.losses import unit_of
from metasched.references.fit import Estimator, fit
from metasched.references.grams import TARGET_WEIGHT, Grams
from metasched.references.greedy import greedy_sources
from metasched.references.model import ReferenceModel
from metasched.references.model_file import About, RowsName
from metasched.references.rows import FitRows, class_balanced, fit_rows
from metasched.seeds import check_seed
from metasched.tasks import TaskSet

_WORDS: dict[RowsName, str] = {
    "target": "target only",
    "pooled": "pooled",
    "weighted": f"target × {TARGET_WEIGHT:.0f}",
    "greedy": "greedy sources",
    "chosen": "weights by choosing",
}


@dataclass(frozen=True)
class Recipe:
    """A reference model to fit.

    Attributes:
        estimator: ``"majority"``, ``"linear"``, ``"forest"`` or ``"boosting"``.
        rows: ``"target"``: the target's labelled rows alone. ``"pooled"``: these and all rows of all sources, each with
            weight 1. ``"weighted"``: the same, but target rows have weight 10. ``"greedy"``: target rows have weight
            10, and sources are chosen one after another. ``"chosen"``: all rows of all sources, with given weights by
            source that are scaled to a mean of 1; target rows have weight 10.
    """

    estimator: Estimator
    rows: RowsName

    def title(self, *, regression: bool = False) -> str:
        """Its name in tables.

        >>> Recipe("linear", "weighted").title()
        'logistic regression, target × 10'
        """
        if self.estimator == "majority":
            return "mean of the labels" if regression else "majority class"
        linear = "ridge regression" if regression else "logistic regression"
        return f"{linear if self.estimator == 'linear' else self.estimator}, {_WORDS[self.rows]}"


def all_recipes(tasks: TaskSet, *, chosen: bool) -> list[Recipe]:
    """All reference models for a task set. Those of rows ``"chosen"`` are included only if there are weights of
    sources.

    If the labels of sources mean something else than those of the target, they cannot be pooled. Then there are only
    models of the target's rows.
    """
    kinds = [rows for rows in _WORDS if rows == "target" or tasks.shared_labels]
    if not chosen and "chosen" in kinds:
        kinds.remove("chosen")
    estimators: tuple[Estimator, ...] = ("linear", "forest", "boosting")
    recipes = [Recipe(estimator, rows) for rows in kinds for estimator in estimators]
    # Boosting gains little from a choice made by a linear model, and its fit takes longest.
    return [Recipe("majority", "target"), *(each for each in recipes if each != Recipe("boosting", "greedy"))]


def fit_recipe(
    recipe: Recipe,
    tasks: TaskSet,
    *,
    source_weights: Mapping[str, float] | None = None,
    seed: int = 0,
    selection: Sequence[str] | None = None,
    balanced_accuracy: bool = False,
    balanced: bool = False,
) -> ReferenceModel:
    """Fit a model on the sources and the target's labelled rows. The test rows are never used.

    ``source_weights`` are for rows ``"chosen"``: the weight of one row of each source, by name. A source without a name
    there has weight 0. ``selection`` are the sources for rows ``"greedy"``. Without it they are chosen here. To choose
    once for several recipes, or from the same sums for several draws of the target, call
    :func:`~metasched.references.greedy.greedy_sources`. With ``balanced_accuracy`` the model scores itself by it. With
    ``balanced`` all classes have the same total weight, in addition to the weights of sources and of the target.
    """
    check_seed(seed)
    unit = unit_of(tasks)
    variance = None if unit is None else float(unit.variance)
    if variance == 0:
        raise DataError(f"{tasks.name}: the validation targets are all equal, so errors have no unit; give more rows")
    rows = recipe_rows(recipe, tasks, source_weights, selection)
    if balanced and recipe.estimator != "majority":
        rows = class_balanced(rows)
    about = About(
        data=tasks.name,
        shape=tasks.shape,
        classes=tasks.classes if variance is None else (),
        variance=variance,
        balanced_accuracy=balanced_accuracy,
        preparation=tasks.preparation,
        estimator=recipe.estimator,
        rows=recipe.rows,
    )
    return ReferenceModel(about, fit(recipe.estimator, rows, seed))


def recipe_rows(
    recipe: Recipe, tasks: TaskSet, source_weights: Mapping[str, float] | None, selection: Sequence[str] | None
) -> FitRows:
    """The rows and weights of a recipe."""
    names = [task.name for task in tasks.tasks]
    if recipe.rows == "target":
        return fit_rows(tasks, [0.0] * len(names), 1.0)
    if not tasks.shared_labels:
        raise ConfigError(f"{tasks.name}: sources have their own labels; fit only the target's rows")
    if recipe.rows == "pooled":
        return fit_rows(tasks, [1.0] * len(names), 1.0)
    if recipe.rows == "weighted":
        return fit_rows(tasks, [1.0] * len(names), TARGET_WEIGHT)
    if recipe.rows == "greedy":
        taken = greedy_sources(Grams.of(tasks), tasks.validation) if selection is None else tuple(selection)
        _refuse_unknown("selection", taken, names)
        return fit_rows(tasks, [float(name in taken) for name in names], TARGET_WEIGHT)
    return fit_rows(tasks, _by_source(source_weights, tasks), TARGET_WEIGHT)


def _by_source(weights: Mapping[str, float] | None, tasks: TaskSet) -> list[float]:
    """Weights in the order of the sources, with a mean of 1 over source rows, or all 0."""
    if weights is None:
        raise ConfigError("rows 'chosen' need source_weights; give a weight for each source")
    _refuse_unknown("source_weights", weights, [task.name for task in tasks.tasks])
    for name, weight in weights.items():
        if not 0 <= weight < float("inf"):
            raise ConfigError(f"source_weights: '{name}' has weight {weight}; give numbers of 0 or more")
    given = [float(weights.get(task.name, 0.0)) for task in tasks.tasks]
    total = sum(weight * size for weight, size in zip(given, tasks.sizes, strict=True))
    return [weight * sum(tasks.sizes) / total for weight in given] if total > 0 else given


def _refuse_unknown(option: str, given: Sequence[str] | Mapping[str, float], names: Sequence[str]) -> None:
    unknown = [name for name in given if name not in names]
    if unknown:
        raise ConfigError(f"{option}: there is no source '{unknown[0]}', only {', '.join(names)}")
