import numpy as np
import pytest

import made_up_results as made
from metasched.report import compare
from metasched.report.parse import cell_from

EARLY, LATE, NEVER = (0.6, 0.7, 0.7), (0.1, 0.1, 0.6), (0.1, 0.2, 0.3)


def read(methods, **changes):
    return cell_from(made.plain_cell(methods, **changes))


def test_the_best_static_baseline_is_never_a_single_task_or_a_scheduler():
    cell = read({"cyclic": [NEVER], "uniform": [LATE], "single:1": [EARLY], "ucb": [EARLY]})
    assert compare.best_static(cell) == "uniform"
    assert compare.best_single(cell) == "single:1"
    assert compare.best_active(cell) == "ucb"


def test_samples_are_counted_until_accuracy_stays():
    cell = read({"cyclic": [(0.6, 0.4, 0.6)], "ucb": [EARLY]})
    assert compare.arrivals(cell, "cyclic", 0.5) == {0: (300, 300)}
    assert compare.arrivals(cell, "ucb", 0.5) == {0: (100, 300)}
    assert compare.arrivals(cell, "ucb", 0.9) == {0: (np.inf, 300)}


def test_gain_is_samples_of_the_baseline_over_samples_of_the_scheduler():
    cell = read({"cyclic": [LATE] * 3, "ucb": [EARLY] * 3})
    assert compare.gain_over(cell, "cyclic", "ucb", 0.5)[:3] == (3, 3, 3)


def test_seeds_are_paired_by_number_and_not_by_place():
    content = made.plain_cell({"cyclic": [(0, 0, 0.1), (0, 0, 0.2), (0, 0, 0.3)], "ucb": [(0, 0, 0.5), (0, 0, 0.4)]})
    content["methods"]["ucb"]["seeds"] = [2, 0]
    assert compare.differences(cell_from(content), "ucb", "cyclic") == pytest.approx([0.3, 0.2])


def test_a_seed_that_diverged_counts_as_chance_and_never_arrives():
    content = made.plain_cell({"cyclic": [LATE, LATE], "ucb": [EARLY, EARLY]})
    method = content["methods"]["ucb"]
    method["diverged"] = {"1": {"update": 2, "cause": "loss"}}
    method["test_accuracy"][1] = [0.6, None, None]
    method["final"]["test_accuracy"][1] = None
    cell = cell_from(content)
    assert compare.finals(cell, "ucb") == {0: 0.7, 1: 0.1}
    assert compare.arrivals(cell, "ucb", 0.5)[1] == (np.inf, 300)


def test_a_seed_that_was_not_measured_is_left_out():
    content = made.plain_cell({"cyclic": [LATE, LATE], "ucb": [EARLY, EARLY]})
    content["methods"]["ucb"]["final"]["test_accuracy"][1] = None
    assert compare.finals(cell_from(content), "ucb") == {0: 0.7}


class TestThresholds:
    def test_few_labels_also_have_the_final_accuracy_of_the_best_static(self):
        cell = read({"cyclic": [LATE] * 3, "ucb": [EARLY] * 3})
        assert [tuple(mark) for mark in compare.thresholds(cell)] == [
            (0.5, "fixed before the run"),
            (0.6, "final accuracy of cyclic"),
        ]

    def test_the_papers_regime_has_only_the_fixed_one(self):
        assert len(compare.thresholds(read({"cyclic": [LATE], "ucb": [EARLY]}, regime="paper"))) == 1

    def test_a_cell_without_a_fixed_one_has_the_other(self):
        (mark,) = compare.thresholds(read({"cyclic": [LATE]}, regime="own runs", threshold=None))
        assert mark.value == 0.6


class TestVerdicts:
    def final(self, *values):
        return [(0.1, 0.1, value) for value in values]

    def test_better_worse_and_no_difference(self):
        ups = [0.60, 0.61, 0.62, 0.63, 0.64, 0.65, 0.66, 0.67]
        cell = read(
            {
                "cyclic": self.final(*ups),
                "ucb": self.final(*(value + 0.1 for value in ups)),
                "gittins": self.final(*(value - 0.1 for value in ups)),
                "mdp": self.final(*(value + 0.01 * (-1) ** k for k, value in enumerate(ups))),
                "supervised": self.final(*[0.9] * 8),
            }
        )
        found = compare.against_best_static(cell)
        assert {name: test.outcome for name, test in found.items()} == {
            "ucb": "better",
            "gittins": "worse",
            "mdp": "no difference shown",
        }
        assert found["ucb"].p_value == 2 / 256
        assert found["ucb"].p_holm == pytest.approx(3 * 2 / 256)
        assert found["ucb"].difference == pytest.approx((0.1, 0.1, 0.1))

    def test_three_seeds_cannot_tell(self):
        cell = read({"cyclic": self.final(0.1, 0.1, 0.1), "ucb": self.final(0.9, 0.9, 0.9)})
        assert compare.against_best_static(cell)["ucb"].outcome == "too few seeds to tell"

    def test_without_a_static_baseline_there_is_nothing_to_compare_with(self):
        assert compare.against_best_static(read({"ucb": [EARLY]})) == {}
