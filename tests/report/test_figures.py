import numpy as np
import pytest

import made_up_results as made
from metasched.report import figures, plots
from metasched.report.figures import Figure
from metasched.report.outputs import UnavailableError, outputs
from metasched.report.page import make
from metasched.report.results import load

pytest.importorskip("altair")
CURVES = [name for name, output in outputs().items() if output.curves]


def points(panel):
    return data(panel, "points")


def data(panel, kind):
    return next(rows for name, rows in panel.plot.data.items() if name.startswith(kind))


def test_every_figure_has_words_for_those_who_cannot_see_it(report):
    assert len(report.figures) > 10
    for figure in report.figures:
        assert figure.sources
        for panel in figure.panels:
            assert len(panel.alt) > 40


@pytest.mark.parametrize("name", ["contrasts", "schedules", "time", "fig2", *CURVES])
def test_without_its_data_a_figure_says_why(name, tmp_path):
    place = made.study("other", "paper", "x")
    bare = made.run("sequential", study=place, updates=(), samples=(), test_accuracy=())
    with pytest.raises(UnavailableError, match="no "):
        make(name, made.loaded(tmp_path, [bare]))


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
    assert {"name": "target-only", "y": 0.4} in data(panel, "levels")


def test_figures_draw_few_of_many_methods(everything):
    cell = everything.of("digits", "few-label")[1]
    drawn = [method.name for method in figures.shown(cell)]
    assert {"cyclic", "ucb", "gittins", "mdp", "target-only"} <= set(drawn)
    assert len(drawn) <= 8 < len(cell.methods)


def test_seeds_that_all_diverged_leave_no_line_and_no_warning(tmp_path):
    place = made.study(regime="paper")
    runs = [made.run("cyclic", study=place), *(made.diverged("ucb", seed, study=place) for seed in (0, 1))]
    assert {row["name"] for row in points(digits(tmp_path, runs).panels[0])} == {"cyclic"}


def test_lines_carry_their_names_and_no_two_names_overlap(everything):
    for panel in make("few-label", everything)[0].panels:
        names = data(panel, "names")
        drawn = {row["name"] for row in points(panel)} | {row["name"] for row in data(panel, "levels")}
        assert {row["name"] for row in names} == drawn
        low, high = panel.plot.chart.to_dict(validate=False)["layer"][1]["encoding"]["y"]["scale"]["domain"]
        heights = sorted(row["y"] for row in names)
        gaps = np.diff(heights) * plots.LINES_HEIGHT / (high - low)
        assert gaps.min() >= plots.LABEL_PIXELS - 0.1
        assert low <= heights[0]
        assert heights[-1] <= high


def test_the_axis_shows_where_the_lines_are_and_not_where_they_begin(tmp_path):
    curve = [0.1, *np.linspace(0.62, 0.9, 19).tolist()]
    runs = made.plain_cell({"cyclic": [curve]}, samples=range(100, 2100, 100), regime="paper", threshold=0.05)
    (panel,) = digits(tmp_path, runs).panels
    low, high = panel.plot.chart.to_dict(validate=False)["layer"][1]["encoding"]["y"]["scale"]["domain"]
    assert 0.5 < low < 0.65
    assert 0.9 < high < 1
    assert data(panel, "levels") == []


class TestContrasts:
    def planned(self, variant, gap):
        place = made.study(variant=variant)
        levels = (("uniform", 0.5, ""), ("ucb", 0.5 + gap, "ours"), ("cyclic", 0.45, ""))
        return [
            made.run(name, seed, (0.1, level + 0.001 * seed * (name == "ucb")), study=place, role=role)
            for name, level, role in levels
            for seed in range(8)
        ]

    def rows(self, tmp_path, *contents):
        (figure,) = make("contrasts", made.loaded(tmp_path, *contents))
        return data(figure.panels[0], "rows")

    def test_over_several_cells_are_those_of_ours(self, tmp_path):
        rows = self.rows(tmp_path, self.planned("10 labels", 0.1), self.planned("30 labels", 0.2))
        assert [(row["label"], row["name"]) for row in rows] == [
            ("digits, 30 labels", "ucb"),
            ("digits, 10 labels", "ucb"),
        ]
        assert all(row["low"] <= row["value"] <= row["high"] and row["shown"] for row in rows)

    def test_of_one_cell_are_those_of_every_method_but_the_baseline_and_lesser_single_tasks(self, tmp_path):
        singles = [made.run(f"single:{n}", seed, (0.1, 0.1 * n)) for n in (1, 2) for seed in range(8)]
        rows = self.rows(tmp_path, [*self.planned("30 labels", 0.1), *singles])
        assert [row["name"] for row in rows] == ["ucb", "cyclic", "single:2"]


class TestContrastsOfAComparison:
    def rows(self, results):
        (figure,) = make("contrasts", results)
        return data(figure.panels[0], "rows"), figure.panels[0].plot.chart.to_dict(validate=False)

    def test_are_the_stored_table_line_by_line(self, tmp_path):
        rows, chart = self.rows(made.compared(tmp_path))
        stored = [line for line in made.COMPARED if line.over]
        assert [row["label"] for row in rows] == [line.name for line in stored]
        for end in ("value", "low", "high"):
            assert [row[end] for row in rows] == pytest.approx([getattr(line.over, end) for line in stored])
        assert [row["shape"] for row in rows] == ["square", "diamond", "circle", "circle"]
        assert chart["layer"][1]["encoding"]["x"]["title"] == ["test accuracy minus that of uniform"]

    def test_of_a_loss_are_values_below_zero_where_it_is_better(self, tmp_path):
        results = made.compared(tmp_path, metric="log-loss")
        rows, chart = self.rows(results)
        assert (rows[0]["value"], rows[0]["low"], rows[0]["high"]) == pytest.approx((-0.2, -0.23, -0.17))
        assert chart["layer"][1]["encoding"]["x"]["title"][-1] == "(below 0 is better)"
        assert rows[0]["label"] == "boosting, pooled"

    def test_beside_other_cells_are_those_of_ours(self, tmp_path):
        made.compared(tmp_path / "a")
        made.write(tmp_path / "b", TestContrasts().planned("30 labels", 0.2))
        rows, _ = self.rows(load([tmp_path]))
        assert [(row["label"], row["name"]) for row in rows] == [
            ("coffee, joint learner", "thompson"),
            ("digits, 30 labels", "ucb"),
        ]

    def test_ours_has_a_colour_and_the_ceiling_has_none(self):
        assert plots.stroke("mine", ours=True).colour == plots.OURS
        assert plots.stroke("thompson", ours=True) == plots.stroke("thompson")
        assert plots.stroke("useful alone") == ("useful alone", plots.GREY, (4, 3))


def test_curves_are_values_of_the_metric_and_levels_are_of_single_networks(tmp_path):
    (figure,) = make("runs", made.compared(tmp_path, metric="log-loss"))
    (panel,) = figure.panels
    assert figure.title == "How fast log-loss falls"
    assert "single networks" in figure.note
    assert panel.plot.chart.to_dict(validate=False)["layer"][1]["encoding"]["y"]["title"] == "test log-loss"
    ends = {row["name"]: row["y"] for row in points(panel)}
    assert ends == pytest.approx({"thompson": -0.55, "uniform": -0.45})
    assert data(panel, "levels") == [{"name": "target-only", "y": pytest.approx(-0.35)}]


class TestSchedules:
    def test_shares_of_every_slice_add_up_to_one(self, everything):
        for panel in (panel for figure in make("schedules", everything) for panel in figure.panels):
            slices = data(panel, "slices")
            for start in {row["x"] for row in slices}:
                assert sum(row["share"] for row in slices if row["x"] == start) == pytest.approx(1, abs=1e-3)

    def test_rare_sources_stand_together_and_useful_ones_have_a_star(self, tmp_path):
        names = tuple(f"task {n}" for n in range(20))
        about = made.about(tasks=names, useful=("task 0",))
        schedule = ((20, *[1] * 19, 0),) * 4
        runs = [made.run(name, about=about, schedule=schedule) for name in ("ucb", "uniform")]
        (figure,) = make("schedules", made.loaded(tmp_path, runs))
        sources = list(dict.fromkeys(row["source"] for row in data(figure.panels[0], "slices")))
        assert len(sources) == plots.MOST_SOURCES
        assert (sources[0], sources[-1]) == ("★ task 0 51%", "7 others 18%")


def test_long_runs_are_thinned_to_what_a_figure_can_show(tmp_path):
    count = 2000
    curve, samples = np.linspace(0.1, 0.9, count).tolist(), range(20, 20 * count + 20, 20)
    place = made.study(regime="paper")
    results = made.loaded(tmp_path, [made.run("cyclic", 0, curve, samples, study=place)])
    rows = points(make("fig3", results)[0].panels[0])
    assert len(rows) == figures.MOST_POINTS
    assert (rows[0]["x"], rows[-1]["x"]) == (20, 40000)
