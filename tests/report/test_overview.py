"""The tables of any runs, on results whose numbers are known."""

from itertools import product

import numpy as np
import pytest

import made_up_results as made
from metasched.report import overview
from metasched.report.outputs import UnavailableError
from metasched.report.page import make
from metasched.report.tables import without_gaps
from metasched.report.verdict import opening


def test_a_cell_is_told_in_one_row(tmp_path):
    curves = {
        "cyclic": (0.1, 0.3, 0.5),
        "uniform": (0.1, 0.2, 0.4),
        "target-only": (0.45, 0.45, 0.45),
        "single:2": (0.1, 0.6, 0.6),
        "ucb": (0.1, 0.55, 0.62),
        "mdp": (0.1, 0.2, 0.3),
    }
    content = made.plain_cell({name: [curve] * 8 for name, curve in curves.items()}, threshold=0.3)
    (table,) = make("summary", made.loaded(tmp_path, content))
    (row,) = table.rows
    assert [row[place] for place in (0, 4, 6)] == ["digits, 30 labels", "cyclic", "ucb"]
    assert [row[place].value for place in (2, 3, 5, 7)] == pytest.approx([0.45, 0.6, 0.5, 0.62])
    assert row[8].value == pytest.approx(0.12)
    assert row[9].value == pytest.approx(5 * 2 / 256)
    assert str(row[10]) == "1.50 [1.50, 1.50]"


def test_the_ceiling_saw_more_rows(tmp_path):
    methods = {"ucb": [(0, 0, 0.45)] * 2, "supervised": [(0, 0, 0.9)] * 2, "target-only": [(0, 0, 0.3)] * 2}
    content = made.plain_cell(methods, source_rows=970, target_rows=30)
    content = [made.changed(run, drawn=(10, 20, 30, 40, 0)) if run.method == "ucb" else run for run in content]
    (table,) = make("summary", made.loaded(tmp_path, content))
    assert made.column(table, "share of its rows") == ["13%"]
    assert made.column(table, "minus target-only") == ["+0.150 [+0.150, +0.150]"]


def test_leaderboards_put_the_best_first_and_say_which_is_the_best_static(everything):
    table = make("leaderboard", everything)[0]
    accuracies = [row[2].value for row in table.rows]
    assert accuracies[0] == max(accuracies)
    assert made.column(table, "exploratory verdict").count("best static") == 1


def test_methods_without_a_seed_in_common_have_no_difference_to_tell(tmp_path):
    results = made.loaded(tmp_path, [made.run("cyclic", 0), made.run("ucb", 1)])
    (table,) = make("summary", results)
    assert made.column(table, "minus best static") == ["–"]
    assert make("leaderboard", results)


class TestOwnRuns:
    FINALS = (0.1, 0.5, 0.5, 0.6)

    def results(self, tmp_path):
        pairs = [("uniform", 0.0), ("ucb", 0.1)]
        runs = [
            made.own(name, seed, curve=(0.1, final + more))
            for name, more in pairs
            for seed, final in enumerate(self.FINALS)
        ]
        return made.loaded(tmp_path, *([run] for run in runs))

    def test_have_no_regime(self, tmp_path):
        (table,) = make("summary", self.results(tmp_path))
        assert "regime" not in [column.name for column in without_gaps(table).columns]

    def test_are_told_by_their_mean_as_on_the_terminal_and_the_note_says_so(self, tmp_path):
        (table,) = make("leaderboard", self.results(tmp_path))
        assert [row[2].value for row in table.rows] == pytest.approx([np.mean(self.FINALS) + 0.1, np.mean(self.FINALS)])
        assert table.note.startswith("Test accuracy: mean over seeds")
        assert "p (not corrected)" in [column.name for column in table.columns]
        said = str(opening(self.results(tmp_path)).sentences[0])
        assert said.startswith("Test accuracy: ucb 0.525, uniform 0.425 (mean over 4 seeds); ")


def test_experiments_are_told_by_the_mean_of_the_middle_half(tmp_path):
    content = made.plain_cell({"ucb": [(0, 0, final) for final in (0.1, 0.5, 0.5, 0.6)]})
    (table,) = make("leaderboard", made.loaded(tmp_path, content))
    assert table.rows[0][2].value == 0.5
    assert table.note.startswith("Test accuracy: interquartile mean over seeds")


class TestPlanned:
    def test_shows_ours_against_uniform_in_every_cell(self, tmp_path):
        cells = [
            [
                made.run(name, seed, (0.1, level + 0.01 * seed), study=made.study(variant=variant), role=role)
                for name, level, role in (("uniform", 0.5, ""), ("ucb", 0.6, "ours"), ("mdp", 0.9, "field"))
                for seed in range(10)
            ]
            for variant in ("10 labels", "30 labels")
        ]
        (table,) = make("planned", made.loaded(tmp_path, *cells))
        assert made.column(table, "ours") == ["ucb", "ucb"]
        assert made.column(table, "difference") == ["+0.100 [+0.100, +0.100]"] * 2
        assert made.column(table, "p (Holm over 2 cells)") == ["0.004", "0.004"]
        assert made.column(table, "verdict") == ["better", "better"]

    def test_of_one_comparison_p_is_that_of_the_verdict(self, tmp_path):
        gains = [0.02, 0.03, 0.01, 0.02, 0.04, 0.03, -0.005, 0.02]
        place = made.study("coffee", "own runs", "joint learner")
        levels = {"uniform": [0.5] * 8, "thompson": [0.5 + gain for gain in gains], "target-only": [0.45, 0.56] * 4}
        runs = [
            made.run(name, seed, (0.1, final), study=place, role="ours" * (name == "thompson"))
            for name, finals in levels.items()
            for seed, final in enumerate(finals)
        ]
        results = made.loaded(tmp_path, runs)
        (table,) = make("planned", results)
        flips = np.array(list(product((-1, 1), repeat=8))) @ gains
        p = np.mean(np.abs(flips) >= abs(sum(gains)) - 1e-12)
        assert float(made.column(table, "p (Holm over 3 contrasts)")[0]) == pytest.approx(3 * p, abs=5e-4)
        assert made.column(table, "verdict") == ["better" if 3 * p <= 0.05 else "too few seeds to tell"]
        assert opening(results).title.startswith("Choosing is better than uniform")

    def test_says_that_everything_is_exploratory_where_no_method_was_named(self, everything):
        with pytest.raises(UnavailableError, match="every comparison is exploratory"):
            make("planned", everything)


def test_of_a_comparison_the_table_is_the_stored_one(tmp_path):
    (cell,) = made.compared(tmp_path).cells
    assert [(row[0], row[1].value) for row in overview.method_rows(cell)] == [
        ("boosting, pooled", 0.7),
        ("the final model", 0.69),
        ("thompson", 0.6),
        ("uniform", 0.5),
        ("target-only", 0.4),
    ]
    assert overview.method_headings(cell)[1] == "accuracy"


@pytest.mark.parametrize("name", ["planned", "summary", "leaderboard"])
def test_of_a_comparison_nothing_is_computed_anew(tmp_path, name):
    with pytest.raises(UnavailableError, match="a comparison has its own tables"):
        make(name, made.compared(tmp_path))


def test_errors_have_the_same_decimals_in_every_row(tmp_path):
    table = tuple(
        made.line(name, "network", -score, None if name == "uniform" else 42.17 - score, half=3)
        for name, score in (("thompson", 16.19), ("ucb", 41.4382), ("uniform", 42.17))
    )
    (cell,) = made.compared(tmp_path, metric="mae", table=table).cells
    assert [str(row[1]) for row in overview.method_rows(cell)] == ["16.19 ± 3.00", "41.44 ± 3.00", "42.17 ± 3.00"]
    assert [row[2].text for row in overview.method_rows(cell)] == ["-25.98", "-0.73", "–"]


class TestWhatSourcesAreWorth:
    def test_has_the_word_beside_the_name(self, tmp_path):
        (table,) = make("sources-worth", made.compared(tmp_path))
        assert made.column(table, "source") == ["peru", "chile", "brazil"]
        assert [column.name for column in table.columns][:2] == ["source", "verdict"]
        assert made.column(table, "verdict") == ["keep", "cannot tell", "harmful"]
        assert made.column(table, "why")[2] == "its labels look shuffled"
        assert made.column(table, "accuracy lost without it")[0] == "+0.100 [+0.080, +0.120]"

    def test_a_loss_is_added(self, tmp_path):
        (table,) = make("sources-worth", made.compared(tmp_path, metric="log-loss"))
        assert made.column(table, "log-loss added without it")[0] == "+0.100 [+0.080, +0.120]"

    def test_other_runs_do_not_tell(self, tmp_path):
        with pytest.raises(UnavailableError, match="only a comparison"):
            make("sources-worth", made.loaded(tmp_path, [made.own("ucb")]))


def test_scores_are_means_over_seeds_and_not_those_of_the_middle_half(tmp_path):
    finals = [0.1, 0.5, 0.5, 0.6]
    runs = [made.own("ucb", seed, curve=(0.1, final)) for seed, final in enumerate(finals)]
    ((_, score, _),) = overview.method_rows(made.loaded(tmp_path, *([run] for run in runs)).cells[0])
    assert score.value == np.mean(finals)
    half = (score.high - score.low) / 2
    assert score.text == f"{np.mean(finals):.3f} ± {half:.3f}"


def test_the_page_has_a_table_for_each_cell_of_own_runs(tmp_path):
    made.compared(tmp_path / "a")
    results = made.loaded(tmp_path, [made.own("ucb")], made.plain_cell({"ucb": [(0.1, 0.5)]}, samples=(1, 2)))
    tables = make("methods", results)
    assert [table.key for table in tables] == ["methods-coffee 0a joint", "methods-mine/own runs"]
    assert tables[0].strong == ("thompson",)
    assert (tables[0].note, tables[1].note) == (overview.OF_COMPARISON, overview.OF_RUNS)
