"""The final model: a mean of the models that may be the best, each fitted on all official labelled rows."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from metasched.comparison import networks, selection
from metasched.comparison.bench import Bench
from metasched.comparison.estimate import Part
from metasched.comparison.networks import Fitted, Key
from metasched.comparison.references import References, models_of
from metasched.learners.metrics import Metric
from metasched.learners.predictor import Predictor
from metasched.references.mean import mean_of
from metasched.references.recipes import Recipe, fit_recipe
from metasched.schedulers.resolve import USEFUL

FALLBACK = Recipe("majority", "target")
"""The final model if all networks diverged and there are no other models."""


class FinalModel(NamedTuple):
    """The model, the shares of its members by name, and the predictions of each candidate for the held-out labelled
    rows.
    """

    model: Predictor
    shares: Mapping[str, float]
    candidates: Mapping[str, Part]


def final_model(
    bench: Bench,
    ours: str,
    folds: Mapping[Key, Fitted],
    references: References | None,
    held: Mapping[str, Part],
    weights: Mapping[str, float],
    metric: Metric,
) -> FinalModel:
    """Make the final model. ``held`` has the predictions of reference models on the folds, ``weights`` those of the
    sources.

    Without folds it is the networks of ``ours``.
    """
    tasks = bench.splits.official
    finals = {method.name: bench.final_networks(method) for method in bench.methods}
    candidates = {**_networks(bench, finals, folds), **held}
    alone = ours if finals[ours] else FALLBACK.title(regression=tasks.target_size is not None)
    shares = selection.weights(candidates, metric) if candidates else {alone: 1.0}
    members: list[Predictor] = []
    given: list[float] = []
    for name, own in finals.items():
        if share := shares.get(name, 0.0):
            members += own
            given += [share / len(own)] * len(own)
    if references:
        chosen = [recipe for recipe in references.recipes if references.title(recipe) in shares]
        members += models_of([references.final(recipe, tasks, weights) for recipe in chosen])
        given += [shares[references.title(recipe)] for recipe in chosen]
    if not members:
        return FinalModel(fit_recipe(FALLBACK, tasks), shares, candidates)
    return FinalModel(members[0] if len(members) == 1 else mean_of(members, given), shares, candidates)


def _networks(bench: Bench, finals: Mapping[str, Sequence[Predictor]], folds: Mapping[Key, Fitted]) -> dict[str, Part]:
    """The predictions for the held-out labelled rows, of every method that may be in the final model.

    A method is excluded if all of its final networks diverged, or if it knows the useful sources.
    """
    named = [method.name for method in bench.methods if folds and method.scheduler != USEFUL and finals[method.name]]
    return {name: next(iter(networks.by_unit(folds, bench.splits.folds, name).values())) for name in named}
