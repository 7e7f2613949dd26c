"""The verdict, case by case, from finals paired by seed; and what the page says first, on known differences."""

import re

import numpy as np
import pytest

import made_up_results as made
from metasched.learners.metrics import METRICS
from metasched.report import compare
from metasched.report.compare import Contrast
from metasched.report.statistics import Bounded, Interval
from metasched.report.verdict import MARGIN, decide, opening, stated


def finals(mean, spread=0.01, seeds=10, seed=0):
    noise = np.random.default_rng(seed).normal(size=seeds)
    return mean + spread * (noise - noise.mean())


def test_choosing_that_ends_above_uniform_helps_and_the_interval_is_told():
    found = decide(finals(0.77), finals(0.70, seed=1), finals(0.60, seed=2), fewer=Bounded(3.1, 2, 5, 3.1))
    assert found.case == "helps"
    assert found.sentence == (
        "Choosing helps here: +.070 [.064, .076] over uniform, 3.1 × fewer rows; +.170 [.162, .178] over target-only"
    )


@pytest.mark.parametrize(
    ("gain", "words"),
    [
        (Bounded(np.inf, 2, np.inf, 7.5), ", more than 7.5 × fewer rows"),
        (Bounded(0.0, 0, 1, 0.7), ""),
        (Bounded(np.nan, 0, np.inf, 1.0), ""),
        (None, ""),
    ],
)
def test_rows_that_were_not_saved_are_not_claimed(gain, words):
    sentence = decide(finals(0.77), finals(0.70, seed=1), fewer=gain).sentence
    assert sentence.partition(" over uniform")[2] == words


def test_a_loss_that_is_lower_helps_and_is_called_lower():
    known = [-finals(level, seed=seed) for seed, level in enumerate((0.30, 0.37, 0.47))]
    found = decide(*known, metric=METRICS["log-loss"])
    assert found.case == "helps"
    assert re.fullmatch(
        r"Choosing helps here: log-loss lower by \.070 \[\.\d+, \.\d+\] than uniform; "
        r"log-loss lower by \.170 \[\.\d+, \.\d+\] than target-only",
        found.sentence,
    )


def test_a_loss_that_is_higher_hurts():
    known = [-finals(level, seed=seed) for seed, level in enumerate((0.40, 0.35, 0.50))]
    found = decide(*known, metric=METRICS["log-loss"])
    assert found.case == "hurts"
    assert found.sentence.startswith("Choosing hurts here: log-loss higher by .050 [.0")


def test_the_metric_is_named_where_it_is_not_the_usual_one():
    sentence = decide(finals(0.77), finals(0.70, seed=1), finals(0.60, seed=2), metric=METRICS["auc"]).sentence
    assert sentence.startswith("Choosing helps here: AUC +.070 [.064, .076] over uniform; AUC +.170")
    sentence = decide(finals(0.60), finals(0.62, seed=1), finals(0.72, seed=2), metric=METRICS["mae"]).sentence
    assert sentence.startswith(
        "Sources do not help here: use target-only (uniform has mean absolute error higher by .1"
    )


def test_errors_are_alike_within_the_margin_of_their_unit():
    known = [-finals(level, 5.0, seed=seed) for seed, level in enumerate((300.0, 301.0, 400.0))]
    metric = METRICS["mae"]
    assert decide(*known, metric=metric, margin=metric.margin_of(1000.0)).case == "as good"
    assert decide(*known, metric=metric, margin=metric.margin_of(10.0)).case == "too few seeds"


def test_choosing_that_ends_below_uniform_hurts():
    found = decide(finals(0.70), finals(0.75, seed=1), finals(0.60, seed=2))
    assert found.case == "hurts"
    assert found.sentence == (
        "Choosing hurts here: −.050 [−.056, −.044] against uniform; +.100 [.092, .108] over target-only; use uniform"
    )


def test_a_narrow_interval_around_nothing_is_called_no_difference():
    found = decide(finals(0.7, 0.005), finals(0.7, 0.005, seed=1), finals(0.6, seed=2))
    assert found.case == "as good"
    assert found.sentence == (
        "Choosing does not help here: uniform is as good (.000 [−.003, +.003]); +.100 [.093, .108] over target-only"
    )


def test_all_seeds_alike_are_a_difference_of_zero_not_an_error():
    same = np.full(10, 0.7)
    assert decide(same, same, same - 0.1).sentence == (
        "Choosing does not help here: uniform is as good (.000 [.000, .000]); +.100 [.100, .100] over target-only"
    )


def test_the_same_gain_at_every_seed_helps():
    assert decide(np.full(8, 0.8), np.full(8, 0.7)).case == "helps"


def test_target_only_as_good_as_both_leaves_no_use_for_sources():
    found = decide(finals(0.7), finals(0.69, seed=1), finals(0.72, seed=2))
    assert found.case == "no use for sources"
    assert found.sentence.startswith("Sources do not help here: use target-only (ours is −.020 [")
    assert "against it); ours is +.010 [" in found.sentence
    assert found.sentence.endswith("] over uniform")


def test_where_another_kind_of_model_gains_from_sources_nobody_is_told_to_do_without_them():
    gaps = compare.gaps_of(finals(0.7), finals(0.69, seed=1), finals(0.72, seed=2))
    found = stated(compare.tested(gaps, [0.02] * 3), gaining="forest, pooled")
    assert found.case == "no use for sources"
    assert found.sentence.startswith("Sources do not help the network here (ours is −.020 [")
    assert "against target-only), but they help forest, pooled; ours is +.010 [" in found.sentence


def test_sources_are_of_use_when_uniform_alone_beats_target_only():
    assert decide(finals(0.60), finals(0.75, seed=1), finals(0.65, seed=2)).case == "hurts"


@pytest.mark.parametrize("seeds", [1, 2, 5])
def test_seeds_that_cannot_show_anything_are_too_few_even_where_all_agree(seeds):
    found = decide(np.full(seeds, 0.9), np.full(seeds, 0.1), np.full(seeds, 0.1))
    assert found.sentence == (
        "Too few seeds to tell whether choosing is better than uniform or target-only: give at least 7"
    )


def test_a_difference_that_is_neither_shown_nor_small_needs_more_seeds_and_says_how_many():
    noise = finals(0.0, 0.08)
    found = decide(0.7 + 0.03 + noise, np.full(10, 0.7), np.full(10, 0.4))
    assert found.case == "too few seeds"
    known, needed, control = re.fullmatch(
        r"Too few seeds to tell whether choosing is better than uniform \((.*)\): about (\d+) seeds might do; (.*)",
        found.sentence,
    ).groups()
    assert known.startswith("+.03 [")
    assert control.endswith("over target-only")
    needed = int(needed)
    assert 1.96 * noise.std(ddof=1) / np.sqrt(needed) <= 0.03 < 1.96 * noise.std(ddof=1) / np.sqrt(needed - 1)


def test_sources_whose_gain_is_uncertain_need_more_seeds_too():
    noise = finals(0.0, 0.1)
    found = decide(0.7 + noise, 0.69 + noise, np.full(10, 0.68))
    assert found.case == "too few seeds"
    assert found.sentence.startswith(
        "Choosing is better than uniform (+.010 [.010, .010]); too few seeds to tell whether "
    )
    assert re.search(r"whether it is better than target-only \(\+\.02 .*\): about \d+ seeds might do$", found.sentence)


def test_a_difference_that_only_the_correction_makes_open_is_explained():
    gap = Interval(0.055, 0.013, 0.097)
    alone = Interval(0.1, 0.05, 0.15)
    contrasts = [Contrast(gap, 0.03, 0.06, 10, "open", 12), *[Contrast(alone, 0.001, 0.003, 10, "better", None)] * 2]
    assert "(+.06 [.01, .10], not clear once corrected for several comparisons)" in stated(contrasts).sentence


def test_where_uniform_is_the_better_of_both_it_is_uniform_that_is_held_against_target_only():
    noise = finals(0.0, 0.1)
    sentence = decide(0.66 + noise, 0.69 + noise, np.full(10, 0.68)).sentence
    assert sentence.startswith("Choosing is worse than uniform (−.030 ")
    assert "; too few seeds to tell whether uniform is better than target-only (+.01" in sentence


def test_what_is_open_against_both_is_said_of_both():
    first, second = finals(0.72, 0.1), finals(0.70, 0.1, seed=1)
    sentence = decide(first, second, np.full(10, 0.69), subject="KenyaFirst").sentence
    assert sentence.startswith("Too few seeds to tell whether kenyaFirst is better than uniform (+.02 ")
    assert "; too few seeds to tell whether it is better than target-only (+.03 " in sentence


def test_a_static_method_is_called_by_its_name():
    assert decide(finals(0.8), finals(0.7, seed=1), subject="Cyclic").sentence.startswith("Cyclic helps here")


def test_differences_below_a_hundredth_are_told_with_three_digits():
    sentence = decide(np.full(10, 0.704), np.full(10, 0.7)).sentence
    assert "+.004 [.004, .004]" in sentence
    assert MARGIN > 0.004


NOISE = [0.004, -0.003, 0.002, -0.004, 0.003, -0.002, 0.001, -0.001, 0.002, -0.002]


def cell(variant="30 labels", experiment="digits", seeds=10, spread=1.0, exploratory=False, **levels):
    """Methods whose final accuracy lies around a level; ``ucb`` was named as ours before the runs."""
    place = made.study(experiment, variant=variant, exploratory=exploratory)
    return [
        made.run(
            name.replace("_", "-"),
            seed,
            (0.1, level + (spread * NOISE[seed] if name == "ucb" else 0.0)),
            study=place,
            about=made.about(experiment),
            role="ours" if name == "ucb" else "",
        )
        for name, level in levels.items()
        for seed in range(seeds)
    ]


def own(seeds=3, **levels):
    """Runs of one's own, none of them named before."""
    runs = [(name.replace("_", "-"), seed, level) for name, level in levels.items() for seed in range(seeds)]
    return [made.own(name, seed, curve=(0.1, level + NOISE[seed])) for name, seed, level in runs]


def told(tmp_path, *contents):
    return opening(made.loaded(tmp_path, *contents))


def own_told(tmp_path, **options):
    return told(tmp_path, *([run] for run in own(**options)))


class TestOneComparison:
    def test_the_title_is_the_verdict(self, tmp_path):
        page = told(tmp_path, cell(uniform=0.5, ucb=0.6, target_only=0.4))
        assert page.title == "Choosing helps here: +.100 [.098, .102] over uniform; +.200 [.198, .202] over target-only"

    def test_the_best_picked_after_the_fact_is_held_against_target_only_below_the_title(self, tmp_path):
        page = own_told(tmp_path, seeds=9, uniform=0.4, ucb=0.6, target_only=0.3)
        assert "Against target-only: +.300 [.300, .300]: the sources help." in map(str, page.sentences)

    def test_a_large_difference_of_three_seeds_is_never_called_none(self, tmp_path):
        page = own_told(tmp_path, uniform=0.4, ucb=0.82)
        assert page.title == (
            "Too few seeds to tell whether ucb is better than uniform (+.420 [.420, .420]): about 6 seeds might do"
        )
        assert "ucb minus uniform +.42" in str(page.sentences[0])
        assert "no difference" not in " ".join(map(str, page.sentences)).lower()

    def test_the_best_picked_after_the_fact_is_called_so_and_corrected_over_all(self, tmp_path):
        page = own_told(tmp_path, seeds=8, uniform=0.4, cyclic=0.41, ucb=0.6, thompson=0.5)
        assert page.title.startswith("Choosing helps here: +.20")
        assert "Exploratory: ucb is the best" in str(page.sentences[-1])
        assert "corrected over 3 comparisons" in str(page.sentences[-1])

    def test_sources_that_do_harm_are_said_before_anything_else(self, tmp_path):
        page = own_told(tmp_path, seeds=9, uniform=0.4, ucb=0.6, target_only=0.8)
        assert page.title.startswith("Sources do not help here: use target-only (ucb is −.20")

    def test_simulated_data_say_so(self, tmp_path):
        page = told(tmp_path, cell(experiment="weather", uniform=0.5, ucb=0.6))
        assert "Simulated data." in map(str, page.sentences)

    @pytest.mark.parametrize("levels", [{"ucb": 0.5}, {"uniform": 0.5}])
    def test_one_method_alone_is_nothing_to_compare(self, tmp_path, levels):
        page = own_told(tmp_path, **levels)
        assert page.title == f"Nothing to compare yet: {next(iter(levels))} alone"
        assert page.answers == ()

    def test_methods_without_a_seed_in_common_are_nothing_to_compare(self, tmp_path):
        page = told(tmp_path, [made.own("cyclic", 0)], [made.own("ucb", 1)])
        assert page.title.startswith("Nothing to compare yet")


class TestSeveral:
    def cells(self):
        return [
            cell("10 labels", uniform=0.5, ucb=0.6, target_only=0.4),
            cell("30 labels", uniform=0.6, ucb=0.5, target_only=0.4),
            cell("100 labels", uniform=0.5, ucb=0.6, target_only=0.9),
            cell("all labels", uniform=0.5, ucb=0.5, target_only=0.4),
            cell("two labels", uniform=0.5, ucb=0.5, target_only=0.4, spread=20),
        ]

    def test_what_hurts_comes_first_then_target_only_then_what_helps(self, tmp_path):
        page = told(tmp_path, *self.cells())
        leads = [line.lead for line in page.sentences]
        assert leads[:5] == [
            "Choosing hurts, use uniform:",
            "Sources do not help, target-only is better:",
            "Choosing helps, over uniform:",
            "Choosing is as good as uniform:",
            "Too few seeds to tell whether better than uniform:",
        ]
        assert [line.tone for line in page.sentences[:3]] == ["bad", "bad", "good"]
        assert [answer.cell.variant for answer in page.answers] == [
            "30 labels",
            "100 labels",
            "10 labels",
            "all labels",
            "two labels",
        ]
        assert page.title == (
            "Choosing helps in 1 of 5 comparisons, hurts in 1, target-only is better in 1, 1 need more seeds"
        )

    def test_every_cell_stands_with_its_difference(self, tmp_path):
        page = told(tmp_path, *self.cells())
        assert page.sentences[0].rest == "digits, 30 labels −.100 [−.102, −.098]."
        assert "might do" in page.sentences[4].rest

    def test_many_cells_of_one_experiment_are_told_together(self, tmp_path):
        cells = [cell(f"{n} labels", uniform=0.5, ucb=0.5 + 0.01 * n) for n in (10, 20, 30)]
        assert told(tmp_path, *cells).sentences[0].rest == "digits, 3 cells +.10 to +.30."

    def test_more_comparisons_than_the_seeds_can_bear_are_said_to_be_so(self, tmp_path):
        cells = [cell(f"{n} labels", uniform=0.5, ucb=0.6) for n in range(10, 40)]
        page = told(tmp_path, *cells)
        assert page.title == "Choosing helps in 0 of 30 comparisons, hurts in none, 30 need more seeds"
        assert (
            "With so many comparisons, a difference can be shown only with 11 seeds; there are 10."
            in page.sentences[-1].rest
        )

    def test_of_very_many_comparisons_the_figure_tells_the_intervals(self, tmp_path):
        cells = [cell(f"{n} labels", uniform=0.5, ucb=0.6) for n in range(10, 22)]
        page = told(tmp_path, *cells, cell("B=1", "cifar", uniform=0.5, ucb=0.4))
        assert page.sentences[0].rest == "cifar, B=1 −.100."
        assert page.sentences[1].rest == "digits, 12 cells +.10 to +.10."

    def test_exploratory_cells_are_not_corrected_for_and_told_where_ours_is_below(self, tmp_path):
        more = [cell(f"{n} labels", uniform=0.5, ucb=0.6, exploratory=True) for n in range(40, 80)]
        below = cell("80 labels", uniform=0.5, ucb=0.4, exploratory=True)
        page = told(tmp_path, cell(uniform=0.5, ucb=0.6), cell("two", uniform=0.5, ucb=0.6), *more, below)
        assert page.title == "Choosing helps in 2 of 2 comparisons, hurts in none"
        said = "Below uniform in exploratory cells, not corrected: digits, 80 labels −.100 [−.102, −.098]."
        assert str(page.sentences[0]) == said

    def test_cells_without_a_plan_are_counted_and_not_judged(self, tmp_path):
        page = told(tmp_path, *self.cells(), made.cell("cifar", names=["cyclic", "mdp"]))
        assert len(page.answers) == 5
        assert "1 more cell is exploratory" in str(page.sentences[-1])
