import numpy as np
import pytest

import made_up_results as made
from metasched.experiments import outputs
from metasched.report import figures
from metasched.report.figures import Figure
from metasched.report.page import make
from metasched.report.pieces import UnavailableError

pytest.importorskip("altair")


def points(panel):
    return next(rows for name, rows in panel.data.items() if name.startswith("points"))


def test_every_figure_has_words_for_those_who_cannot_see_it(report):
    assert len(report.figures) > 10
    for figure in report.figures:
        assert figure.legend
        assert figure.sources
        for panel in figure.panels:
            assert len(panel.alt) > 40


@pytest.mark.parametrize("output", [*outputs.OUTPUTS.values()][:9], ids=lambda output: output.name)
def test_without_its_data_a_figure_says_why(output, tmp_path):
    place = made.study("other", "paper", "x")
    bare = made.run("sequential", study=place, updates=(), samples=(), test_accuracy=())
    with pytest.raises(UnavailableError, match="no "):
        make(output.name, made.loaded(tmp_path, [bare]))


def digits(folder, runs) -> Figure:
    (figure,) = make("fig3", made.loaded(folder, runs))
    return figure


def test_lines_are_medians_over_seeds(tmp_path):
    runs = made.plain_cell({"cyclic": [(0.1, 0.2, 0.3), (0.2, 0.3, 0.5), (0.3, 0.4, 0.4)]}, regime="paper")
    rows = points(digits(tmp_path, runs).panels[0])
    assert [(row["x"], row["y"]) for row in rows] == [(100, 0.2), (200, 0.3), (300, 0.4)]
    assert all(row["low"] <= row["y"] <= row["high"] for row in rows)


def test_target_only_is_a_level_and_not_a_point_at_zero_samples(tmp_path):
    runs = made.plain_cell({"cyclic": [(0.1, 0.2, 0.3)], "target-only": [(0.2, 0.3, 0.4)]}, regime="paper")
    (panel,) = digits(tmp_path, runs).panels
    assert {row["name"] for row in points(panel)} == {"cyclic"}
    levels = next(rows for name, rows in panel.data.items() if name.startswith("levels"))
    assert {"name": "target-only", "y": 0.4} in levels


def test_figures_draw_few_of_many_methods(everything):
    cell = everything.of("digits", "few-label")[1]
    drawn = [method.name for method in figures.shown(cell)]
    assert {"cyclic", "ucb", "gittins", "mdp", "target-only"} <= set(drawn)
    assert len(drawn) <= 8 < len(cell.methods)


def test_seeds_that_all_diverged_leave_no_line_and_no_warning(tmp_path):
    place = made.study(regime="paper")
    runs = [made.run("cyclic", study=place), *(made.diverged("ucb", seed, study=place) for seed in (0, 1))]
    assert {row["name"] for row in points(digits(tmp_path, runs).panels[0])} == {"cyclic"}


def test_ribbons_fill_every_update(everything):
    slices = make("schedules", everything)[0].panels[0].data["slices"]
    for method in {row["method"] for row in slices}:
        for start in {row["x"] for row in slices if row["method"] == method}:
            here = [row for row in slices if row["method"] == method and row["x"] == start]
            assert sum(row["share"] for row in here) == pytest.approx(1, abs=1e-3)


def test_long_runs_are_thinned_to_what_a_figure_can_show(tmp_path):
    count = 2000
    curve, samples = np.linspace(0.1, 0.9, count).tolist(), range(20, 20 * count + 20, 20)
    schedule = ((1, 0, 0, 0, 0, 0),) * count
    place = made.study(regime="paper")
    results = made.loaded(tmp_path, [made.run("cyclic", 0, curve, samples, study=place, schedule=schedule)])
    rows = points(make("fig3", results)[0].panels[0])
    assert len(rows) == figures.MOST_POINTS
    assert (rows[0]["x"], rows[-1]["x"]) == (20, 40000)
    assert len(make("schedules", results)[0].panels[0].data["slices"]) <= figures.MOST_POINTS
