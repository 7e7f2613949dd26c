"""Reference models on the splits of a comparison: which, on how many rows, and how often."""

from dataclasses import replace

import numpy as np
import pytest

from helpers import make_own_label_tasks, make_regression, make_tasks
from metasched.comparison import references
from metasched.comparison.references import (
    FEWEST_PARALLEL,
    POOLED_REPEATS,
    POOLED_UNITS,
    References,
    in_parallel,
    model_of,
    predictions_of,
    thinned,
    units_of,
)
from metasched.comparison.splits import split
from metasched.errors import ConfigError
from metasched.references.recipes import Recipe, fit_recipe
from tiny_comparison import divided


class TestWhich:
    def test_weights_by_choosing_are_for_methods_that_choose(self):
        for chosen in (True, False):
            kinds = {recipe.rows for recipe in References.of(make_tasks(), chosen=chosen).recipes}
            assert ("chosen" in kinds) is chosen

    def test_sources_with_labels_of_their_own_are_not_pooled(self):
        found = References.of(make_own_label_tasks(), chosen=True)
        assert {recipe.rows for recipe in found.recipes} == {"target"}
        assert found.grams is None

    def test_without_scikit_learn_trees_are_left_out(self, monkeypatch):
        monkeypatch.setattr(references, "available", lambda module: False)
        found = References.of(make_tasks(), chosen=True)
        assert {recipe.estimator for recipe in found.recipes} == {"majority", "linear"}
        assert found.lacking == "scikit-learn"

    def test_titles_say_what_is_predicted(self):
        linear = Recipe("linear", "pooled")
        assert References.of(make_tasks(), chosen=False).title(linear) == "logistic regression, pooled"
        assert References.of(make_regression(), chosen=False).title(linear) == "ridge regression, pooled"


class TestPart:
    @pytest.mark.parametrize("tasks", [divided(), make_regression()])
    def test_it_is_what_a_model_of_the_splits_own_rows_says(self, tasks):
        each = split(tasks, [3, 4]).judging[1]
        found = predictions_of(References.of(tasks, chosen=False).judged(Recipe("linear", "target"), each, None))
        model = fit_recipe(Recipe("linear", "target"), each.tasks, seed=each.seed)
        inputs = each.tasks.test.inputs
        own = model.predict(inputs) if tasks.target_size else model.predict_proba(inputs)
        assert len(found) == len(each.rows) == len(inputs)
        assert found == pytest.approx(own, abs=1e-5)

    def test_fits_that_are_only_judged_learn_from_fewer_rows_than_the_final_one(self, monkeypatch):
        monkeypatch.setattr(references, "MOST_ROWS", 20)
        monkeypatch.setattr(references, "MOST_FINAL_ROWS", 30)
        seen = []
        real = references.fit_recipe

        def fit_recipe(recipe, tasks, **how):
            seen.append((tasks.sizes, len(tasks.validation.labels)))
            return real(recipe, tasks, **how)

        monkeypatch.setattr(references, "fit_recipe", fit_recipe)
        tasks = divided(sizes=(40, 20))
        found = References.of(tasks, chosen=False)
        each = split(tasks, [3, 4]).judging[0]
        recipe = Recipe("linear", "pooled")
        for fit in (found.judged(recipe, each, None), found.final(recipe, tasks, None)):
            model_of(fit)
        assert seen == [((13, 6), 12), ((20, 10), 12)]

    def test_weights_reach_the_fit(self):
        tasks = divided()
        found = References.of(tasks, chosen=True)
        each = split(tasks, [3, 4]).judging[0]
        recipe = Recipe("linear", "chosen")
        weights = ({"task-0": 3.0, "task-1": 0.0, "task-2": 0.0}, {"task-0": 0.0, "task-1": 2.0, "task-2": 0.0})
        first, other = (predictions_of(found.judged(recipe, each, own)) for own in weights)
        assert not np.allclose(first, other)


class TestThinned:
    def test_shares_are_kept(self):
        tasks = make_tasks(sizes=(600, 300, 100))
        found = thinned(tasks, 100)
        assert found.sizes == (60, 30, 10)
        for task, fewer in zip(tasks.tasks, found.tasks, strict=True):
            rows = found.provenance[task.name].rows
            assert len(set(rows.tolist())) == len(fewer)
            assert np.array_equal(task.inputs[rows], fewer.inputs)
            assert np.array_equal(task.labels[rows], fewer.labels)

    def test_a_small_source_keeps_a_row(self):
        assert thinned(make_tasks(sizes=(600, 3)), 50).sizes == (49, 1)

    def test_few_rows_are_left_alone(self):
        tasks = make_tasks(sizes=(6, 4))
        assert thinned(tasks, 10) is tasks


@pytest.mark.parametrize(
    ("recipe", "kind", "count"),
    [
        (Recipe("forest", "target"), "redrawn", 20),
        (Recipe("linear", "pooled"), "redrawn", 20),
        (Recipe("forest", "pooled"), "redrawn", POOLED_UNITS),
        (Recipe("boosting", "chosen"), "cross-validation", POOLED_REPEATS),
    ],
)
def test_what_takes_long_is_judged_in_fewer_units(recipe, kind, count):
    splits = split(divided(), range(20))._replace(kind=kind)
    assert units_of(recipe, splits, range(20)) == range(count)


class TestInParallel:
    def fits(self, count):
        tasks = divided()
        found, each = References.of(tasks, chosen=False), split(tasks, [3, 4]).judging[0]
        return [found.judged(Recipe("linear", "target"), each, None)._replace(seed=seed) for seed in range(count)]

    @pytest.mark.parametrize("count", [3, FEWEST_PARALLEL])
    def test_everything_is_told_in_its_order_and_equals_what_one_process_says(self, count):
        told = []
        fits = self.fits(count)
        in_parallel(predictions_of, iter(fits), count, lambda *each: told.append(each))
        assert [number for number, _ in told] == list(range(count))
        assert np.array_equal(told[-1][1], predictions_of(fits[-1]))

    @pytest.mark.parametrize("count", [3, FEWEST_PARALLEL])
    def test_a_fault_ends_it(self, count):
        fits = self.fits(count)
        fits[1] = fits[1]._replace(recipe=Recipe("linear", "chosen"))  # which needs weights
        told = []
        with pytest.raises(ConfigError, match="source_weights"):
            in_parallel(predictions_of, iter(fits), count, lambda number, _: told.append(number))
        assert told in ([], [0])  # what other processes had done may be lost


def test_every_draw_of_the_target_has_the_same_sources(monkeypatch):
    monkeypatch.setattr(references, "MOST_ROWS", 10)
    tasks = replace(divided(), recipe=None)
    found = References.of(tasks, chosen=False)
    sets = [references._of_sources(each.tasks, found.few) for each in split(tasks, range(3)).judging]
    assert {id(each.tasks) for each in sets} == {id(found.few.tasks)}
    assert len({each.validation.inputs.tobytes() for each in sets}) == 3
