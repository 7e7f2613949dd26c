"""Reference models on the splits of a comparison: which, on how many rows, and how often."""

import gc
from dataclasses import replace

import numpy as np
import pytest

from helpers import Stop, make_own_label_tasks, make_regression, make_tasks
from metasched.comparison import references
from metasched.comparison.references import (
    POOLED_REPEATS,
    POOLED_UNITS,
    References,
    in_parallel,
    model_of,
    models_of,
    predictions_of,
    thinned,
    units_of,
)
from metasched.comparison.splits import split
from metasched.references.greedy import greedy_sources
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


class TestFit:
    @pytest.mark.parametrize("tasks", [divided(), make_regression()])
    def test_it_is_what_a_model_of_the_splits_own_rows_says(self, tasks):
        each = split(tasks, [3, 4]).judging[1]
        found = predictions_of(References.of(tasks, chosen=False).judged(Recipe("linear", "target"), each, None))
        model = fit_recipe(Recipe("linear", "target"), each.tasks, seed=each.seed)
        inputs = each.tasks.test.inputs
        own = model.predict(inputs) if tasks.target_size else model.predict_proba(inputs)
        assert len(found) == len(each.rows)
        assert found == pytest.approx(own, abs=1e-5)

    def test_fits_that_are_only_judged_learn_from_fewer_rows_than_the_final_one(self, monkeypatch):
        monkeypatch.setattr(references, "FEW_ROWS", (20, 20))
        monkeypatch.setattr(references, "MOST_FINAL_ROWS", 30)
        tasks = divided(sizes=(40, 20))
        found = References.of(tasks, chosen=False)
        each = split(tasks, [3, 4]).judging[0]
        judged, final = (
            found.judged(Recipe("linear", "pooled"), each, None),
            found.final(Recipe("linear", "pooled"), tasks, None),
        )
        assert (judged.tasks.sizes, judged.seed) == ((13, 6), 3)
        assert (final.tasks.sizes, final.seed) == ((20, 10), 0)
        assert judged.tasks.validation is each.tasks.validation
        assert final.tasks.validation is tasks.validation

    def test_weights_reach_it(self):
        tasks = divided()
        each = split(tasks, [3, 4]).judging[0]
        kept = [{"task-0": 3.0, "task-1": 0.0, "task-2": 0.0}, {"task-0": 0.0, "task-1": 2.0, "task-2": 0.0}]
        fits = [References.of(tasks, chosen=True).judged(Recipe("linear", "chosen"), each, one) for one in kept]
        first, other = map(predictions_of, fits)
        assert not np.allclose(first, other)

    def test_greedy_sources_are_chosen_with_the_labelled_rows_of_the_split(self):
        tasks = divided()
        found = References.of(tasks, chosen=False)
        each = split(tasks, [3, 4]).judging[0]
        fit = found.judged(Recipe("forest", "greedy"), each, None)
        assert fit.selection == greedy_sources(found.grams, each.tasks.validation)
        assert found.judged(Recipe("forest", "pooled"), each, None).selection is None


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
    @pytest.fixture
    def fits(self):
        splits = split(divided(), range(4)).judging
        found = References.of(divided(), chosen=False)
        return [found.judged(Recipe("linear", "target"), each, None) for each in splits]

    @pytest.mark.parametrize("fewest", [1, 100])
    def test_everything_is_told_in_its_order(self, fits, fewest, monkeypatch):
        monkeypatch.setattr(references, "FEWEST_PARALLEL", fewest)
        told = []
        in_parallel(predictions_of, iter(fits), len(fits), lambda *each: told.append(each))
        assert [number for number, _ in told] == [0, 1, 2, 3]
        for (_, outputs), fit in zip(told, fits, strict=True):
            assert np.array_equal(outputs, predictions_of(fit))

    @pytest.mark.parametrize("fewest", [1, 100])
    def test_a_stop_ends_it_without_a_word(self, fits, fewest, monkeypatch, recwarn):
        monkeypatch.setattr(references, "FEWEST_PARALLEL", fewest)

        def stop(number, _):
            if number == 1:
                raise Stop

        with pytest.raises(Stop):
            in_parallel(predictions_of, iter(3 * fits), 3 * len(fits), stop)
        gc.collect()
        assert not recwarn.list


def test_wide_rows_are_fewer_in_fits_that_are_only_judged(monkeypatch):
    monkeypatch.setattr(references, "FEW_ROWS", (10, 40))
    monkeypatch.setattr(references, "MOST_NUMBERS", 48)
    tasks = divided(sizes=(40, 20))
    width = int(np.prod(tasks.shape))
    assert sum(References.of(tasks, chosen=False).few.sizes) == max(10, 48 // width) < 40


@pytest.mark.parametrize("large", [1, 10**9])
def test_large_fits_of_final_models_are_made_side_by_side_with_the_same_numbers(large, monkeypatch):
    monkeypatch.setattr(references, "LARGE", large)
    tasks = divided()
    found = References.of(tasks, chosen=False)
    fits = [found.final(recipe, tasks, None) for recipe in found.recipes]
    here = [model_of(fit).predict_proba(tasks.test.inputs) for fit in fits]
    for model, expected in zip(models_of(fits), here, strict=True):
        np.testing.assert_array_equal(model.predict_proba(tasks.test.inputs), expected)


def test_every_draw_of_the_target_has_the_same_sources(monkeypatch):
    monkeypatch.setattr(references, "FEW_ROWS", (10, 10))
    tasks = replace(divided(), recipe=None)
    found = References.of(tasks, chosen=False)
    sets = [references._of_sources(each.tasks, found.few) for each in split(tasks, range(3)).judging]
    assert {id(each.tasks) for each in sets} == {id(found.few.tasks)}
    assert len({each.validation.inputs.tobytes() for each in sets}) == 3
