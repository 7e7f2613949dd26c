"""Our own tables, on results whose numbers are known."""

import pytest

import made_up_results as made
from metasched.report.headlines import headlines
from metasched.report.page import make
from metasched.report.pieces import UnavailableError


def test_few_labels_are_told_in_one_row(tmp_path):
    curves = {
        "cyclic": (0.1, 0.3, 0.5),
        "uniform": (0.1, 0.2, 0.4),
        "target-only": (0.45, 0.45, 0.45),
        "single:2": (0.1, 0.6, 0.6),
        "ucb": (0.1, 0.55, 0.62),
        "mdp": (0.1, 0.2, 0.3),
    }
    content = made.plain_cell({name: [curve] * 8 for name, curve in curves.items()}, threshold=0.3)
    (sheet,) = make("few-label-summary", made.loaded(tmp_path, content))
    (row,) = sheet.rows
    assert [str(value) for value in row[:2]] == ["digits, 30 labels", "cyclic"]
    assert [value.value for value in row[2:5]] == pytest.approx([0.5, 0.45, 0.6])
    assert row[5] == "ucb"
    assert row[7].value == pytest.approx(0.12)
    assert row[8].value == pytest.approx(5 * 2 / 256)
    assert [str(value) for value in row[9:]] == ["1.00 [1.00, 1.00]", "1.50 [1.50, 1.50]"]


def test_spoilt_sources_are_compared_with_clean_ones_and_with_the_best_single_task(tmp_path):
    clean = made.plain_cell({"cyclic": [(0, 0, 0.6)] * 3, "single:1": [(0, 0, 0.7)] * 3})
    noisy = made.plain_cell(
        {"cyclic": [(0, 0, 0.4)] * 3, "single:1": [(0, 0, 0.65)] * 3}, regime="robust", variant="80% noisy"
    )
    (sheet,) = make("robust-summary", made.loaded(tmp_path, clean, noisy))
    assert made.column(sheet, "change")[0] == "-0.200 [-0.200, -0.200]"
    assert made.column(sheet, "against best single task")[0] == "-0.250 [-0.250, -0.250]"
    assert len(sheet.sources) == 2


def test_the_ceiling_is_a_share_of_accuracy_and_of_rows(tmp_path):
    methods = {"ucb": [(0, 0, 0.45)] * 2, "supervised": [(0, 0, 0.9)] * 2, "target-only": [(0, 0, 0.3)] * 2}
    content = made.plain_cell(methods, source_rows=970, target_rows=30)
    content = [made.changed(run, drawn=(10, 20, 30, 40, 0)) if run.method == "ucb" else run for run in content]
    (sheet,) = make("controls", made.loaded(tmp_path, content))
    assert made.column(sheet, "share of its accuracy") == ["50%"]
    assert made.column(sheet, "share of its rows") == ["13%"]
    assert made.column(sheet, "less target-only") == ["+0.150 [+0.150, +0.150]"]


def test_leaderboards_put_the_best_first_and_say_which_is_the_best_static(everything):
    sheet = make("leaderboard", everything)[0]
    accuracies = [row[2].value for row in sheet.rows]
    assert accuracies[0] == max(accuracies)
    assert made.column(sheet, "exploratory verdict").count("best static") == 1


def test_methods_without_a_seed_in_common_have_no_difference_to_tell(tmp_path):
    results = made.loaded(tmp_path, [made.run("cyclic", 0), made.run("ucb", 1)])
    (sheet,) = make("few-label-summary", results)
    assert made.column(sheet, "difference") == ["–"]
    assert headlines(results)[0].sentence == "ucb and cyclic have no seed in common."
    assert make("leaderboard", results)


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
        (sheet,) = make("planned", made.loaded(tmp_path, *cells))
        assert made.column(sheet, "ours") == ["ucb", "ucb"]
        assert made.column(sheet, "difference") == ["+0.100 [+0.100, +0.100]"] * 2
        assert made.column(sheet, "p (Holm)") == ["0.004", "0.004"]
        assert made.column(sheet, "verdict") == ["better", "better"]

    def test_says_that_everything_is_exploratory_where_no_method_was_named(self, everything):
        with pytest.raises(UnavailableError, match="every comparison is exploratory"):
            make("planned", everything)
