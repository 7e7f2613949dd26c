"""What the page says first, on differences that are known."""

import pytest

import made_up_results as made
from metasched.report.answers import opening, points
from metasched.report.statistics import Interval

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
        assert page.title == "Choosing helps here: +.10 [.10, .10] over uniform; +.20 [.20, .20] over target-only"

    def test_the_best_picked_after_the_fact_is_held_against_target_only_below_the_title(self, tmp_path):
        page = own_told(tmp_path, seeds=9, uniform=0.4, ucb=0.6, target_only=0.3)
        assert "Against target-only: +.300 [.300, .300]: the sources help." in map(str, page.lines)

    def test_a_large_difference_of_three_seeds_is_never_called_none(self, tmp_path):
        page = own_told(tmp_path, uniform=0.4, ucb=0.82)
        assert page.title == (
            "Too few seeds to tell whether ucb is better than uniform (+.420 [.420, .420]): about 6 might do"
        )
        assert "ucb less uniform +.42" in str(page.lines[0])
        assert "no difference" not in " ".join(map(str, page.lines)).lower()

    def test_the_best_picked_after_the_fact_is_called_so_and_corrected_over_all(self, tmp_path):
        page = own_told(tmp_path, seeds=8, uniform=0.4, cyclic=0.41, ucb=0.6, thompson=0.5)
        assert page.title.startswith("Choosing helps here: +.20")
        assert "Exploratory: ucb is the best" in str(page.lines[-1])
        assert "corrected over 3 comparisons" in str(page.lines[-1])

    def test_sources_that_do_harm_are_said_before_anything_else(self, tmp_path):
        page = own_told(tmp_path, seeds=9, uniform=0.4, ucb=0.6, target_only=0.8)
        assert page.title.startswith("Sources do not help here: use target-only (ucb is −.20")

    def test_simulated_data_say_so(self, tmp_path):
        page = told(tmp_path, cell(experiment="weather", uniform=0.5, ucb=0.6))
        assert "Simulated data." in map(str, page.lines)

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
        leads = [line.lead for line in page.lines]
        assert leads[:5] == [
            "Choosing hurts, use uniform:",
            "Sources do not help, target-only is better:",
            "Choosing helps, over uniform:",
            "Choosing makes no difference to uniform:",
            "Too few seeds to tell whether better than uniform:",
        ]
        assert [line.tone for line in page.lines[:3]] == ["bad", "bad", "good"]
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
        assert page.lines[0].rest == "digits, 30 labels −.100 [−.102, −.098]."
        assert "might do" in page.lines[4].rest

    def test_many_cells_of_one_experiment_are_told_together(self, tmp_path):
        cells = [cell(f"{n} labels", uniform=0.5, ucb=0.5 + 0.01 * n) for n in (10, 20, 30)]
        assert told(tmp_path, *cells).lines[0].rest == "digits, 3 cells +.10 to +.30."

    def test_more_comparisons_than_the_seeds_can_bear_are_said_to_be_so(self, tmp_path):
        cells = [cell(f"{n} labels", uniform=0.5, ucb=0.6) for n in range(10, 40)]
        page = told(tmp_path, *cells)
        assert page.title == "Choosing helps in 0 of 30 comparisons, hurts in none, 30 need more seeds"
        assert "So many take at least 11 seeds for any one of them to be shown; there are 10." in page.lines[-1].rest

    def test_of_very_many_comparisons_the_figure_tells_the_intervals(self, tmp_path):
        cells = [cell(f"{n} labels", uniform=0.5, ucb=0.6) for n in range(10, 22)]
        page = told(tmp_path, *cells, cell("B=1", "cifar", uniform=0.5, ucb=0.4))
        assert page.lines[0].rest == "cifar, B=1 −.100."
        assert page.lines[1].rest == "digits, 12 cells +.10 to +.10."

    def test_exploratory_cells_are_not_corrected_for_and_told_where_ours_is_below(self, tmp_path):
        more = [cell(f"{n} labels", uniform=0.5, ucb=0.6, exploratory=True) for n in range(40, 80)]
        below = cell("80 labels", uniform=0.5, ucb=0.4, exploratory=True)
        page = told(tmp_path, cell(uniform=0.5, ucb=0.6), cell("two", uniform=0.5, ucb=0.6), *more, below)
        assert page.title == "Choosing helps in 2 of 2 comparisons, hurts in none"
        said = "Below uniform in cells that explore, not corrected: digits, 80 labels −.100 [−.102, −.098]."
        assert str(page.lines[0]) == said

    def test_cells_without_a_plan_are_counted_and_not_judged(self, tmp_path):
        page = told(tmp_path, *self.cells(), made.cell("cifar", names=["cyclic", "mdp"]))
        assert len(page.answers) == 5
        assert "1 more cell, which only explores" in str(page.lines[-1])


@pytest.mark.parametrize(
    ("interval", "text"),
    [
        ((0.07, 0.04, 0.1), "+.07 [.04, .10]"),
        ((-0.05, -0.08, -0.02), "−.05 [−.08, −.02]"),
        ((-0.001, -0.006, 0.005), "−.001 [−.006, +.005]"),
        ((0.003, -0.074, 0.064), "+.003 [−.074, +.064]"),
        ((0.42, float("nan"), float("nan")), "+.420"),
        ((1.0, 0.9, 1.1), "+1.00 [.90, 1.10]"),
    ],
)
def test_differences_as_people_say_them(interval, text):
    assert points(Interval(*interval)) == text
