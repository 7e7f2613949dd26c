"""The table that the terminal and the page share, on numbers that are known."""

import msgspec
import numpy as np

import made_up_results as made
from metasched.report import methods
from metasched.report.page import make


def test_the_linear_model_stands_among_the_methods_best_first(tmp_path):
    (cell,) = made.compared(tmp_path).cells
    assert [(row.name, row.score.value) for row in methods.rows(cell)] == [
        ("logistic regression alone", 0.7),
        ("thompson", 0.6),
        ("uniform", 0.5),
        ("target-only", 0.4),
    ]
    assert methods.headings(cell)[1] == "accuracy"


def test_scores_are_means_over_seeds_and_not_those_of_the_middle_half(tmp_path):
    finals = [0.1, 0.5, 0.5, 0.6]
    runs = [made.own("ucb", seed, curve=(0.1, final)) for seed, final in enumerate(finals)]
    (row,) = methods.rows(made.loaded(tmp_path, *([run] for run in runs)).cells[0])
    assert row.score.value == np.mean(finals)
    half = (row.score.high - row.score.low) / 2
    assert row.score.text == f"{np.mean(finals):.3f} ± {half:.3f}"


def test_numbers_to_predict_have_scores(tmp_path):
    (cell,) = made.compared(tmp_path).cells
    cell = type(cell)(**{**vars(cell), "remarks": msgspec.structs.replace(cell.remarks, measure="score")})
    assert methods.headings(cell)[1] == "score"


def test_the_page_has_a_table_for_each_cell_of_own_runs(tmp_path):
    made.compared(tmp_path / "a")
    results = made.loaded(tmp_path, [made.own("ucb")], made.plain_cell({"ucb": [(0.1, 0.5)]}, samples=(1, 2)))
    tables = make("methods", results)
    assert [table.key for table in tables] == ["methods-coffee 0a joint", "methods-mine/own runs"]
    assert "Logistic regression has the 30 labelled rows of the target alone." in tables[0].note
