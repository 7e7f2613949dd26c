"""The lines beside the verdict."""

from dataclasses import replace

import numpy as np
import pytest

from helpers import make_tasks
from metasched.comparison.estimate import RESAMPLES, Part, Scores
from metasched.comparison.splits import split
from metasched.comparison.wording import final_line, first_line, judged_line
from metasched.learners.metrics import METRICS
from metasched.report.remarks import Between, MethodLine
from tiny_comparison import LEARNER, divided

ACCURACY, LOSS = METRICS["accuracy"], METRICS["log-loss"]


def scores(*own):
    return {unit: Scores(score, np.full(RESAMPLES, np.mean(own))) for unit, score in enumerate(own)}


def line(name, kind, value):
    return MethodLine(name=name, kind=kind, score=Between(value), over=None, units=4)


def first(table, metric=ACCURACY, **by_method):
    return first_line(table, {name.replace("_", " "): own for name, own in by_method.items()}, "thompson", 30, metric)


OURS = scores(0.5, 0.52, 0.48, 0.5)


class TestFirstLine:
    def test_a_reference_model_that_is_clearly_best_comes_first(self):
        table = [line("the final model", "final", 0.9), line("forest, pooled", "reference", 0.7)]
        found = first_line(
            table, {"forest, pooled": scores(0.7, 0.7, 0.7, 0.7), "thompson": OURS}, "thompson", 30, ACCURACY
        )
        assert found.startswith("Forest, pooled is best here (0.700): +.20 [.")
        assert found.endswith("] over thompson")

    def test_a_difference_that_is_not_clear_is_called_so(self):
        found = first([line("forest", "reference", 0.51)], forest=scores(0.6, 0.42, 0.5, 0.52), thompson=OURS)
        assert found.endswith(", which is not a clear difference")

    def test_losses_are_shown_as_people_know_them(self):
        mine, best = scores(-0.6, -0.61, -0.6, -0.59), scores(-0.4, -0.4, -0.41, -0.4)
        found = first([line("forest", "reference", -0.4)], LOSS, forest=best, thompson=mine)
        assert found.startswith("Forest is best here (0.400): log-loss lower by .20 [.")

    @pytest.mark.parametrize("table", [[line("ucb", "network", 0.9)], [line("the final model", "final", 0.9)]])
    def test_where_a_network_is_best_there_is_none(self, table):
        assert first(table, ucb=OURS, thompson=OURS) == ""

    def test_without_a_common_unit_there_is_none(self):
        table = [line("forest", "reference", 0.9)]
        assert first(table, forest={7: OURS[0]}, thompson=OURS) == ""


PARTS = {
    name: Part(np.tile([right, 1 - right], (20, 1)), np.zeros(20, int), np.arange(20))
    for name, right in (("a", 0.9), ("b", 0.2), ("c", 0.6), ("d", 0.6))
}


class TestFinalLine:
    def test_one_model_is_named_with_its_score(self):
        assert final_line({"b": 1.0}, PARTS, ACCURACY, None) == (
            "The final model is b; its cross-validated accuracy on 20 labelled rows is 0.000"
        )

    def test_several_are_a_mean_and_three_of_them_are_named(self):
        found = final_line({"a": 0.4, "b": 0.3, "c": 0.2, "d": 0.1}, PARTS, LOSS, None)
        mean = 0.4 * 0.9 + 0.3 * 0.2 + 0.2 * 0.6 + 0.1 * 0.6
        assert found == (
            "The final model is the mean of a (40%), b (30%), c (20%) and 1 more; its cross-validated log-loss on 20 "
            f"labelled rows is {-np.log(mean):.3f}"
        )

    def test_without_held_out_rows_there_is_no_score_and_no_full_stop_that_others_add(self):
        assert final_line({"thompson": 1.0}, {}, ACCURACY, None) == "The final model is thompson"


@pytest.mark.parametrize(
    ("tasks", "words"),
    [
        (divided(), "4 seeds, each with 12 labelled rows of its own and 28 test rows"),
        (make_tasks(), "4 seeds on your 10 labelled rows and 30 test rows"),
        (replace(divided(), split="drawn"), "2 times 5-fold cross-validation on 40 labelled rows"),
    ],
)
def test_which_rows_judged(tasks, words):
    found = judged_line(split(tasks, range(4)), LEARNER, [(0.001,), (0.003,)], LEARNER)
    assert found == f"{words}; networks: 4 steps, the mean of 2 learning rates (0.001, 0.003)"


def test_that_training_stopped_early():
    splits = split(make_tasks(), range(2))
    asked = replace(LEARNER, updates=600)
    assert judged_line(splits, replace(asked, updates=300), [(0.01, 3)], asked).endswith(
        "networks: 600 steps (stopped early, of 1,200), learning rate 0.01"
    )
