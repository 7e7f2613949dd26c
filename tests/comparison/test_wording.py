"""The lines beside the verdict."""

from dataclasses import replace

import numpy as np
import pytest
from msgspec.structs import replace as replace_struct

from helpers import make_tasks
from metasched.comparison.estimate import RESAMPLES, Scores
from metasched.comparison.sources import BETTER_WITHOUT, ROWS_HARM, SHUFFLED
from metasched.comparison.splits import split
from metasched.comparison.wording import below_line, final_line, first_line, judged_line, suspicious_lines
from metasched.learners.metrics import METRICS
from metasched.report.remarks import Between, MethodLine, SourceLine
from tiny_comparison import LEARNER, divided

ACCURACY, LOSS = METRICS["accuracy"], METRICS["log-loss"]


def scores(*own):
    return {unit: Scores(score, np.full(RESAMPLES, np.mean(own))) for unit, score in enumerate(own)}


def line(name, kind, value):
    return MethodLine(name=name, kind=kind, score=Between(value), over=None, units=4)


def first(table, metric=ACCURACY, **by_method):
    table = [*table, line("thompson", "network", table[-1].score.value - 0.01)]
    return first_line(table, {name.replace("_", " "): own for name, own in by_method.items()}, "thompson", 30, metric)


OURS = scores(0.5, 0.52, 0.48, 0.5)


class TestFirstLine:
    def test_a_reference_model_that_is_clearly_best_comes_first(self):
        table = [line("the final model", "final", 0.9), line("forest, pooled", "reference", 0.7)]
        table.append(line("thompson", "network", 0.5))
        found = first_line(
            table, {"forest, pooled": scores(0.7, 0.7, 0.7, 0.7), "thompson": OURS}, "thompson", 30, ACCURACY
        )
        assert found.startswith("Forest, pooled is the best single model here (0.700): +.20 [.")
        assert found.endswith("] over thompson")

    def test_a_difference_that_is_not_clear_is_called_so(self):
        found = first([line("forest", "reference", 0.51)], forest=scores(0.6, 0.42, 0.5, 0.52), thompson=OURS)
        assert found.endswith(", which is not a clear difference")

    def test_a_model_that_was_judged_once_is_called_so(self):
        found = first([line("forest", "reference", 0.8)], forest={0: scores(0.8)[0]}, thompson=OURS)
        assert found.endswith(", but it was judged only once")

    def test_losses_are_shown_as_people_know_them(self):
        mine, best = scores(-0.6, -0.61, -0.6, -0.59), scores(-0.4, -0.4, -0.41, -0.4)
        found = first([line("forest", "reference", -0.4)], LOSS, forest=best, thompson=mine)
        assert found.startswith("Forest is the best single model here (0.400): log-loss lower by .20 [.")

    @pytest.mark.parametrize("table", [[line("ucb", "network", 0.9)], [line("the final model", "final", 0.9)]])
    def test_where_a_network_is_best_there_is_none(self, table):
        assert first(table, ucb=OURS, thompson=OURS) == ""

    def test_a_model_without_sources_that_is_better_than_ours_is_named_in_plain_words(self):
        table = [
            line("forest, pooled", "reference", 0.8),
            line("forest, target only", "reference", 0.6),
            line("boosting, target only", "reference", 0.55),
            line("thompson", "network", 0.5),
        ]
        known = {"forest, pooled": scores(*[0.8] * 4), "forest, target only": scores(*[0.6] * 4), "thompson": OURS}
        alone = {"forest, target only", "boosting, target only"}
        both = first_line(table, known, "thompson", 30, ACCURACY, alone)
        best, without = both.split(". F")
        assert best.startswith("Forest, pooled is the best single model here (0.800): +.30 ")
        assert without.startswith("orest, target only is better than thompson, without any source (0.600): +.10 ")
        network = [line("ucb", "network", 0.9), *table[1:]]
        found = first_line(network, known, "thompson", 30, ACCURACY, alone)
        assert found.startswith("Forest, target only is better than thompson, without any source (0.600): +.10 ")
        found = first_line(table[1:], known, "thompson", 30, ACCURACY, alone)
        assert found.startswith("Forest, target only is the best single model here, without any source (0.600): +.10 ")
        assert first_line([table[-1], *table[:-1]], known, "thompson", 30, ACCURACY, alone) == ""

    def test_without_a_common_unit_there_is_none(self):
        table = [line("forest", "reference", 0.9)]
        assert first(table, forest={7: OURS[0]}, thompson=OURS) == ""


class TestBelowLine:
    TABLE = (line("forest", "reference", 0.7), line("the final model", "final", 0.5))

    def said(self, best, final, table=TABLE):
        return below_line(table, {"forest": best}, final, 30, ACCURACY)

    def test_a_final_model_that_is_clearly_below_a_single_one_is_named(self):
        (found,) = self.said(scores(0.7, 0.71, 0.69, 0.7), OURS)
        assert found == (
            "the final model (0.500) is clearly below forest (0.700): there were too few labelled rows to "
            "choose its members well; label more rows"
        )

    @pytest.mark.parametrize(
        "best", [OURS, scores(0.4, 0.41, 0.4, 0.39), scores(0.9, 0.3, 0.5, 0.6), {0: scores(0.9)[0]}, {7: OURS[0]}]
    )
    def test_what_is_not_clear_is_not_said(self, best):
        assert self.said(best, OURS) == []

    def test_a_model_that_the_budget_cut_short_is_not_the_best(self):
        cut = replace_struct(self.TABLE[0], planned=9)
        assert self.said(scores(0.7, 0.71, 0.69, 0.7), OURS, (cut, self.TABLE[1])) == []


class TestFinalLine:
    def test_one_model_is_named_with_its_score_in_the_table(self):
        table = [line("b", "reference", 0.7), line("the final model", "final", 0.8)]
        assert final_line({"b": 1.0}, table, ACCURACY) == "The final model is b; its accuracy in the table is 0.800"

    def test_several_are_a_mean_and_three_of_them_are_named(self):
        found = final_line({"a": 0.4, "b": 0.3, "c": 0.2, "d": 0.1}, [line("the final model", "final", -0.5)], LOSS)
        assert found == (
            "The final model is the mean of a (40%), b (30%), c (20%) and 1 more; its log-loss in the table is 0.500"
        )

    def test_where_the_table_lacks_it_there_is_no_score_and_no_full_stop_that_others_add(self):
        assert final_line({"thompson": 1.0}, [], ACCURACY) == "The final model is thompson"


def source(name, why, word="cannot tell"):
    return SourceLine(name=name, rows=9, share=0.5, transfer=None, lost=None, word=word, why=why)


class TestSuspiciousLines:
    def test_either_measure_alone_is_enough(self):
        assert suspicious_lines([source("west", ROWS_HARM), source("east", BETTER_WITHOUT)]) == [
            "'west' may be harmful: learning its rows lowers the score, but leaving it out does not clearly raise the "
            "score; check how it was labelled",
            "'east' may be harmful: leaving it out raises the score, but learning its rows does not clearly lower the "
            "score; check how it was labelled",
        ]

    def test_several_are_one_line(self):
        found = suspicious_lines([source(name, why) for why in (ROWS_HARM, BETTER_WITHOUT) for name in "ab"])
        assert found == [
            "'a' and 'b' may be harmful: learning their rows lowers the score, but leaving out one of them does not "
            "clearly raise the score; check how they were labelled",
            "'a' and 'b' may be harmful: leaving out one of them raises the score, but learning their rows does not "
            "clearly lower the score; check how they were labelled",
        ]

    def test_what_is_unclear_or_already_called_harmful_has_no_line(self):
        unclear = source("a", "the two measures disagree"), source("b", "neither measure is clear")
        assert suspicious_lines([*unclear, source("c", SHUFFLED, "harmful")]) == []


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
