"""The paper's tables and ours, on results whose numbers are known."""

import numpy as np
import pytest

import made_up_results as made
from metasched.experiments import published
from metasched.report import orderings, own_tables, paper_tables
from metasched.report.results import load
from metasched.report.sheets import UnavailableError

TABLES = [
    paper_tables.gains,
    paper_tables.weather_accuracy,
    paper_tables.order_tests,
    paper_tables.transition_matrix,
    paper_tables.rows_used,
    paper_tables.event_accuracy,
    own_tables.few_label,
    own_tables.robust,
    own_tables.controls,
    own_tables.cost,
    own_tables.overall,
    own_tables.leaderboards,
    orderings.orderings,
]


def loaded(folder, *contents):
    for content in contents:
        made.write(folder, content)
    return load([folder])


def column(sheet, name):
    place = [column.name for column in sheet.columns].index(name)
    return [str(row[place]) for row in sheet.rows]


@pytest.fixture(scope="module")
def everything(tmp_path_factory):
    return load([made.write_all(tmp_path_factory.mktemp("results"), seeds=4)])


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.__name__)
def test_rows_are_as_wide_as_the_heading_and_numbers_name_their_cells(table, everything):
    for sheet in table(everything):
        assert sheet.rows
        assert {len(row) for row in sheet.rows} == {len(sheet.columns)}
        assert sheet.sources
        assert sheet.note


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.__name__)
def test_without_its_data_a_table_says_why(table, tmp_path):
    bare = made.cell(seeds=2, names=["sequential"], regime="other")
    for method in bare["methods"].values():
        del method["scheduling_seconds"]
    results = loaded(tmp_path, bare)
    if table is own_tables.leaderboards:
        assert len(table(results)) == 1
        return
    with pytest.raises(UnavailableError, match="no "):
        table(results)


class TestTable1:
    def test_prints_the_published_gain_when_the_runs_show_it(self, tmp_path):
        """The paper's own counts as curves: 1300 samples for cyclic, 40 for Gittins, 53 for UCB."""
        curves = {"cyclic": (0.1, 0.1, 0.9), "ucb": (0.1, 0.9, 0.9), "gittins": (0.9, 0.9, 0.9)}
        content = made.plain_cell(
            {name: [curve] * 3 for name, curve in curves.items()},
            samples=(40, 53, 1300),
            regime="paper",
            variant="B=20",
            threshold=0.8,
        )
        (sheet,) = paper_tables.gains(loaded(tmp_path, content))
        assert column(sheet, "scheduler") == ["gittins", "ucb"]
        assert column(sheet, "samples") == ["40 [40, 40]", "53 [53, 53]"]
        assert column(sheet, "gain over cyclic") == ["32.5 [32.5, 32.5]", "24.5 [24.5, 24.5]"]
        assert column(sheet, "published gain") == ["32.5", "24.5"]

    def test_a_gain_over_the_best_static_is_not_one_over_cyclic(self, tmp_path):
        curves = {"cyclic": (0.1, 0.1, 0.6), "uniform": (0.1, 0.7, 0.7), "ucb": (0.8, 0.8, 0.8)}
        content = made.plain_cell({name: [curve] * 3 for name, curve in curves.items()}, regime="paper")
        (sheet,) = paper_tables.gains(loaded(tmp_path, content))
        assert column(sheet, "gain over cyclic") == ["3.00 [3.00, 3.00]"]
        assert column(sheet, "best static") == ["uniform"]
        assert column(sheet, "gain over best static") == ["2.00 [2.00, 2.00]"]


def test_table_2_has_ours_and_the_published_one_under_each_other(everything):
    (sheet,) = paper_tables.weather_accuracy(everything)
    rows = {(str(row[0]), str(row[1])): row[2:] for row in sheet.rows}
    assert [value.value for value in rows["mdp", "published"]] == list(published.WEATHER_ACCURACY["mdp"].values())
    cell = next(cell for cell in everything.of("weather", "paper") if cell.variant == "UBOT")
    finals = np.sort(cell.methods["mdp"].final["test_accuracy"])
    assert rows["mdp", "ours"][0].value == pytest.approx(finals[1:3].mean())


def test_published_p_values_stand_beside_the_task_of_the_same_number(everything):
    (sheet,) = paper_tables.order_tests(everything)
    assert column(sheet, "p published")[:5] == ["4e-07", "0.031", "0.008", "2e-06", "1e-05"]
    assert set(column(sheet, "p published")[-5:]) == {"nearly 0"}


def test_rows_used_are_those_of_the_shown_feature(everything):
    (sheet,) = paper_tables.rows_used(everything)
    assert sheet.sources[0].variant == "U850"
    assert [str(value) for value in sheet.rows[1][-4:]] == ["10", "3,190", "0", "0"]


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
    (sheet,) = own_tables.few_label(loaded(tmp_path, content))
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
    (sheet,) = own_tables.robust(loaded(tmp_path, clean, noisy))
    assert column(sheet, "change")[0] == "-0.200 [-0.200, -0.200]"
    assert column(sheet, "against best single task")[0] == "-0.250 [-0.250, -0.250]"
    assert len(sheet.sources) == 2


def test_the_ceiling_is_a_share_of_accuracy_and_of_rows(tmp_path):
    methods = {"ucb": [(0, 0, 0.45)] * 2, "supervised": [(0, 0, 0.9)] * 2, "target-only": [(0, 0, 0.3)] * 2}
    content = made.plain_cell(methods, source_rows=970, target_rows=30)
    content["methods"]["ucb"]["drawn"] = [[10, 20, 30, 40, 0], [10, 20, 30, 40, 0]]
    (sheet,) = own_tables.controls(loaded(tmp_path, content))
    assert column(sheet, "share of its accuracy") == ["50%"]
    assert column(sheet, "share of its rows") == ["13%"]
    assert column(sheet, "less target-only") == ["+0.150 [+0.150, +0.150]"]


class TestOrderings:
    def cell(self, **levels):
        return made.plain_cell(
            {name: [(0.1, 0.1, level + 0.001 * seed) for seed in range(6)] for name, level in levels.items()},
            regime="paper",
            variant="B=20",
        )

    def test_true_false_and_the_chain(self, tmp_path):
        (sheet,) = orderings.orderings(loaded(tmp_path, self.cell(mdp=0.7, gittins=0.6, ucb=0.65, cyclic=0.5)))
        found = dict(zip(column(sheet, "claim"), column(sheet, "by accuracy"), strict=True))
        assert found == {
            "mdp ≥ gittins": "true",
            "gittins ≥ ucb": "false",
            "ucb ≥ cyclic": "true",
            "mdp ≥ gittins ≥ ucb ≥ cyclic": "false",
        }

    def test_noise_shows_nothing(self, tmp_path):
        content = self.cell(mdp=0.6, cyclic=0.6)
        for seed, curve in enumerate(content["methods"]["mdp"]["test_accuracy"]):
            curve[-1] += 0.05 * (-1) ** seed
        content["methods"]["mdp"]["final"]["test_accuracy"] = [
            c[-1] for c in content["methods"]["mdp"]["test_accuracy"]
        ]
        (sheet,) = orderings.orderings(loaded(tmp_path, content))
        assert column(sheet, "by accuracy") == ["not shown"]

    def test_the_papers_own_numbers_break_its_claim_for_weather(self, everything):
        (sheet,) = orderings.orderings(everything)
        told = {(str(row[0]), str(row[1])): row[-1] for row in sheet.rows}
        assert told["weather, all 6 cells (simulated)", "mdp ≥ gittins"] == "false in UBOT, Z100"
        assert told["weather, V850 (simulated)", "ucb ≥ cyclic"] == "false"
        assert told["cifar, own heads", "gittins ≥ ucb"] == "true"


def test_leaderboards_put_the_best_first_and_say_which_is_the_best_static(everything):
    sheet = own_tables.leaderboards(everything)[0]
    accuracies = [row[2].value for row in sheet.rows]
    assert accuracies[0] == max(accuracies)
    assert column(sheet, "verdict").count("best static") == 1
