"""Which rows a fit learns from and which judge it: never the same, and numbered alike in all fits."""

from dataclasses import replace

import numpy as np
import pytest

from helpers import make_regression, make_tasks
from metasched.comparison.splits import FEW_ROWS, FEWEST_ROWS, FOLDS, kind_of, repeats_for, split
from metasched.errors import DataError
from tiny_comparison import divided

SEEDS = (0, 1, 7)


def keys(inputs):
    return [row.tobytes() for row in inputs]


def judged_by_number(splits):
    """The inputs of every judging row by its number; all splits have to agree on them."""
    found = {}
    for each in splits:
        for number, row in zip(each.rows.tolist(), keys(each.tasks.test.inputs), strict=True):
            assert found.setdefault(number, row) == row
    return found


def unlabelled_target(labelled=23, **options):
    """A target whose labelled rows are all for validation."""
    return make_tasks(validation=labelled - 3, test=3, **options).all_labelled()


@pytest.mark.parametrize(
    ("tasks", "kind"),
    [
        (make_tasks(), "given"),
        (divided(), "redrawn"),
        (replace(divided(rows=FEW_ROWS), split="drawn"), "cross-validation"),
        (replace(divided(rows=FEW_ROWS + 1), split="drawn"), "redrawn"),
        (unlabelled_target(), "cross-validation"),
    ],
)
def test_rows_to_spare_decide_how_methods_are_judged(tasks, kind):
    assert kind_of(tasks) == kind
    assert split(tasks, SEEDS).kind == kind


@pytest.mark.parametrize("tasks", [make_tasks(), divided(), unlabelled_target()])
def test_no_labelled_row_judges_its_own_fit(tasks):
    splits = split(tasks, SEEDS)
    for each in (*splits.judging, *splits.folds):
        assert not set(keys(each.tasks.validation.inputs)) & set(keys(each.tasks.test.inputs))
        assert each.tasks.tasks is tasks.tasks


class TestRedrawn:
    def test_every_seed_is_a_unit_with_labelled_rows_of_its_own(self):
        tasks = divided()
        splits = split(tasks, SEEDS)
        assert [(each.unit, each.seed) for each in splits.judging] == [(seed, seed) for seed in SEEDS]
        drawn = [frozenset(keys(each.tasks.validation.inputs)) for each in splits.judging]
        assert len(set(drawn)) == len(SEEDS)
        assert {len(each) for each in drawn} == {len(tasks.validation.labels)}

    def test_a_row_has_one_number_in_all_of_them(self):
        splits = split(divided(), SEEDS)
        found = judged_by_number(splits.judging)
        assert sorted(found) == list(range(splits.judges))
        assert len(set(found.values())) == splits.judges

    def test_folds_are_of_the_official_labelled_rows_alone(self):
        tasks = divided(labelled=13)
        splits = split(tasks, SEEDS)
        assert splits.official is tasks
        labelled = set(keys(tasks.validation.inputs))
        for each in splits.folds:
            held, rest = set(keys(each.tasks.test.inputs)), set(keys(each.tasks.validation.inputs))
            assert held | rest == labelled


class TestCrossValidation:
    def test_the_folds_of_a_unit_are_disjoint_and_cover_all_rows_but_those_left_over(self):
        tasks = unlabelled_target(labelled=23)
        splits = split(tasks, range(10))
        assert splits.units == repeats_for(10) == 4
        for unit in range(splits.units):
            rows = [each.rows for each in splits.judging if each.unit == unit]
            assert [len(each) for each in rows] == [23 // FOLDS] * FOLDS
            assert len(set(np.concatenate(rows).tolist())) == 23 // FOLDS * FOLDS

    def test_a_row_has_one_number_in_all_repeats(self):
        splits = split(unlabelled_target(labelled=23), range(10))
        found = judged_by_number(splits.judging)
        assert sorted(found) == list(range(splits.judges))

    def test_repeats_divide_the_rows_otherwise_and_the_first_is_the_folds(self):
        splits = split(unlabelled_target(labelled=20), SEEDS)
        first, second = ([set(each.rows) for each in splits.judging if each.unit == unit] for unit in (0, 1))
        assert first != second
        assert [each.tasks for each in splits.judging[:FOLDS]] == [each.tasks for each in splits.folds]

    def test_no_fit_has_the_seed_of_another_unit(self):
        seeds = {each.unit: each.seed for each in split(unlabelled_target(), range(10)).judging}
        assert len(set(seeds.values())) == len(seeds)

    def test_test_rows_are_labelled_rows_too(self):
        tasks = replace(divided(rows=40), split="drawn")
        assert len(split(tasks, SEEDS).official.validation.labels) == 40

    def test_fewer_than_ten_rows_are_refused_in_one_line(self):
        with pytest.raises(DataError, match=rf"has 9 labelled rows .* label at least {FEWEST_ROWS}$") as refused:
            split(unlabelled_target(labelled=9), SEEDS)
        assert "\n" not in str(refused.value)
        assert split(unlabelled_target(labelled=10), SEEDS).judges == 10

    def test_a_target_with_one_label_is_refused(self):
        tasks = make_tasks()
        alike = [part._replace(labels=np.ones_like(part.labels)) for part in (tasks.validation, tasks.test)]
        with pytest.raises(DataError, match=f"all labelled rows of the target are '{tasks.classes[1]}'"):
            split(replace(tasks, validation=alike[0], test=alike[1]), SEEDS)


@pytest.mark.parametrize("tasks", [make_tasks(), unlabelled_target(), replace(make_regression(), split="drawn")])
def test_final_networks_learn_from_all_labelled_rows_and_have_rows_to_score_themselves_on(tasks):
    splits = split(tasks, SEEDS)
    found = splits.scored
    assert keys(found.validation.inputs) == keys(splits.official.validation.inputs)
    assert len(found.test.labels)
    assert found.tasks is tasks.tasks
    assert (found is tasks) is (splits.kind == "given")
    assert ("there are no others" in found.summary()) is (splits.kind == "cross-validation")


class TestGiven:
    def test_rows_stay_as_they_are(self):
        tasks = make_tasks()
        splits = split(tasks, SEEDS)
        assert all(each.tasks is tasks for each in splits.judging)
        assert [(each.unit, each.rows.tolist()) for each in splits.judging] == [
            (seed, list(range(30))) for seed in SEEDS
        ]

    @pytest.mark.parametrize(("labelled", "folds"), [(FEWEST_ROWS - 1, 0), (FEWEST_ROWS, FOLDS)])
    def test_there_are_no_folds_of_too_few_labelled_rows(self, labelled, folds):
        assert len(split(make_tasks(validation=labelled), SEEDS).folds) == folds


def test_numbers_to_predict_are_divided_too():
    splits = split(replace(make_regression(), split="drawn"), SEEDS)
    assert splits.kind == "cross-validation"
    assert judged_by_number(splits.judging).keys() == set(range(splits.judges))
