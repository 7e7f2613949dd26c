import numpy as np
import pytest

import made_up_results as made
from metasched.report import figures, page
from metasched.report.sheets import UnavailableError

pytest.importorskip("altair")


def points(panel):
    return next(rows for name, rows in panel.data.items() if name.startswith("points"))


@pytest.mark.parametrize("name", [name for name in page.FIGURES if name != "runs"])
def test_every_figure_has_words_for_those_who_cannot_see_it(name, everything):
    for figure in page.FIGURES[name](everything):
        assert figure.legend
        assert figure.sources
        for panel in figure.panels:
            assert len(panel.alt) > 40


@pytest.mark.parametrize("name", page.FIGURES)
def test_without_its_data_a_figure_says_why(name, tmp_path):
    content = made.cell(seeds=2, names=["sequential"], regime="paper", variant="x", experiment="other")
    method = content["methods"]["sequential"]
    method |= {"updates": [], "samples": [[], []], "test_accuracy": [[], []], "schedule": None, "seconds": None}
    with pytest.raises(UnavailableError, match="no "):
        page.FIGURES[name](made.loaded(tmp_path, content))


def test_lines_are_medians_over_seeds(tmp_path):
    content = made.plain_cell({"cyclic": [(0.1, 0.2, 0.3), (0.2, 0.3, 0.5), (0.3, 0.4, 0.4)]}, regime="paper")
    (figure,) = figures.digits(made.loaded(tmp_path, content))
    rows = points(figure.panels[0])
    assert [(row["x"], row["y"]) for row in rows] == [(100, 0.2), (200, 0.3), (300, 0.4)]
    assert all(row["low"] <= row["y"] <= row["high"] for row in rows)


def test_target_only_is_a_level_and_not_a_point_at_zero_samples(tmp_path):
    content = made.plain_cell({"cyclic": [(0.1, 0.2, 0.3)], "target-only": [(0.2, 0.3, 0.4)]}, regime="paper")
    (figure,) = figures.digits(made.loaded(tmp_path, content))
    assert {row["name"] for row in points(figure.panels[0])} == {"cyclic"}
    levels = next(rows for name, rows in figure.panels[0].data.items() if name.startswith("levels"))
    assert {"name": "target-only", "y": 0.4} in levels


def test_figures_draw_few_of_many_methods(everything):
    cell = everything.of("digits", "few-label")[1]
    drawn = figures.shown(cell)
    assert {"cyclic", "ucb", "gittins", "mdp", "target-only"} <= set(drawn)
    assert len(drawn) <= 8 < len(cell.methods)


def test_seeds_that_all_diverged_leave_no_line_and_no_warning(tmp_path):
    content = made.plain_cell({"cyclic": [(0.1, 0.2, 0.3)] * 2, "ucb": [(0.1, 0.2, 0.3)] * 2}, regime="paper")
    method = content["methods"]["ucb"]
    method |= {"samples": [None, None], "test_accuracy": [None, None], "diverged": {"0": {}, "1": {}}}
    method["final"]["test_accuracy"] = [None, None]
    (figure,) = figures.digits(made.loaded(tmp_path, content))
    assert {row["name"] for row in points(figure.panels[0])} == {"cyclic"}


def test_ribbons_fill_every_update(everything):
    figure = figures.schedules(everything)[0]
    slices = figure.panels[0].data["slices"]
    for method in {row["method"] for row in slices}:
        for start in {row["x"] for row in slices if row["method"] == method}:
            here = [row for row in slices if row["method"] == method and row["x"] == start]
            assert sum(row["share"] for row in here) == pytest.approx(1, abs=1e-3)


def test_long_runs_are_thinned_to_what_a_figure_can_show(tmp_path):
    count = 2000
    curve = np.linspace(0.1, 0.9, count).tolist()
    samples = tuple(range(20, 20 * count + 20, 20))
    content = made.plain_cell({"cyclic": [curve] * 2}, samples=samples, regime="paper")
    content["methods"]["cyclic"]["schedule"] = [[1, 0, 0, 0, 0, 0]] * count
    results = made.loaded(tmp_path, content)
    rows = points(figures.digits(results)[0].panels[0])
    assert len(rows) == figures.MOST_POINTS
    assert (rows[0]["x"], rows[-1]["x"]) == (20, 40000)
    assert len(figures.schedules(results)[0].panels[0].data["slices"]) <= figures.MOST_POINTS
