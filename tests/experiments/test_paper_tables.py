"""The paper's tables, on results whose numbers are known."""

import numpy as np
import pytest

import made_up_results as made
from metasched.experiments import published
from metasched.experiments.paper_tables import at_least, chain
from metasched.report.page import make


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
        (table,) = make("table1", made.loaded(tmp_path, content))
        assert made.column(table, "scheduler") == ["gittins", "ucb"]
        assert made.column(table, "samples") == ["40 [40, 40]", "53 [53, 53]"]
        assert made.column(table, "gain over cyclic") == ["32.5 [32.5, 32.5]", "24.5 [24.5, 24.5]"]
        assert made.column(table, "published gain") == ["32.5", "24.5"]

    def test_a_gain_over_the_best_static_is_not_one_over_cyclic(self, tmp_path):
        curves = {"cyclic": (0.1, 0.1, 0.6), "uniform": (0.1, 0.7, 0.7), "ucb": (0.8, 0.8, 0.8)}
        content = made.plain_cell({name: [curve] * 3 for name, curve in curves.items()}, regime="paper")
        (table,) = make("table1", made.loaded(tmp_path, content))
        assert made.column(table, "gain over cyclic") == ["3.00 [3.00, 3.00]"]
        assert made.column(table, "best static") == ["uniform"]
        assert made.column(table, "gain over best static") == ["2.00 [2.00, 2.00]"]


def test_table_2_has_ours_and_the_published_one_under_each_other(everything):
    (table,) = make("table2", everything)
    rows = {(str(row[0]), str(row[1])): row[2:] for row in table.rows}
    assert [value.value for value in rows["mdp", "published"]] == list(published.WEATHER_ACCURACY["mdp"].values())
    cell = next(cell for cell in everything.of("weather", "paper") if cell.variant == "UBOT")
    finals = np.sort(list(cell.methods["mdp"].finals().values()))
    assert rows["mdp", "ours"][0].value == pytest.approx(finals[1:3].mean())


def test_final_accuracies_on_cifar_stand_beside_the_published_ones(everything):
    (table,) = make("cifar-accuracy", everything)
    told = dict(zip(made.column(table, "scheduler"), made.column(table, "published"), strict=True))
    assert {told[name] for name in ("mdp", "uniform", "target-only")} == {"–"}
    assert (told["gittins"], told["ucb"], told["cyclic"]) == ("0.730", "0.580", "0.400")


def test_published_p_values_stand_beside_the_task_of_the_same_number(everything):
    (table,) = make("p-values", everything)
    assert made.column(table, "p published")[:5] == ["4e-07", "0.031", "0.008", "2e-06", "1e-05"]
    assert set(made.column(table, "p published")[-5:]) == {"nearly 0"}


def test_rows_used_are_those_of_the_shown_feature(everything):
    table, points = make("rows-used", everything)
    assert not [column for column in points.columns if "published" in column.name]
    assert table.sources[0].variant == "U850"
    assert [str(value) for value in table.rows[1][-4:]] == ["10", "3,190", "0", "0"]


def test_an_event_that_was_never_tested_is_a_gap_and_hides_no_other(tmp_path):
    place, rows = made.study("weather", "paper", "U850"), made.about("weather")
    shares = [(0.1, None, 0.3, 0.4), (0.2, None, 0.3, 0.4), None]
    finals = [made.Final(test_accuracy=0.5, test_accuracy_by_class=by_class) for by_class in shares]
    content = [made.run("mdp", k, study=place, about=rows, final=final) for k, final in enumerate(finals)]
    (table,) = make("event-accuracy", made.loaded(tmp_path, content))
    assert [str(value) for value in table.rows[0]] == ["mdp", "ours", "0.150", "–", "0.300", "0.400"]
    assert [value.value for value in table.rows[1][2:]] == list(published.EVENT_ACCURACY["mdp"])


class TestClaims:
    def test_true_false_and_not_shown(self):
        assert at_least([[0.1, 0.12, 0.09, 0.11]])[1] == "true"
        assert at_least([[-0.1, -0.12, -0.09, -0.11]])[1] == "false"
        assert at_least([[-0.1, 0.1, -0.05, 0.07]])[1] == "not shown"

    def test_equal_is_at_least(self):
        assert at_least([[0.0, 0.0, 0.0]])[1] == "true"

    def test_one_seed_shows_nothing(self):
        assert at_least([[0.5]])[1] == "not shown"

    def test_a_chain_is_as_strong_as_its_weakest_link(self):
        assert chain(["true", "true"]) == "true"
        assert chain(["true", "not shown"]) == "not shown"
        assert chain(["not shown", "false"]) == "false"
        assert chain([]) == "not shown"


class TestOrderings:
    def cell(self, **levels):
        return made.plain_cell(
            {name: [(0.1, 0.1, level + 0.001 * seed) for seed in range(6)] for name, level in levels.items()},
            regime="paper",
            variant="B=20",
        )

    def test_true_false_and_the_chain(self, tmp_path):
        (table,) = make("orderings", made.loaded(tmp_path, self.cell(mdp=0.7, gittins=0.6, ucb=0.65, cyclic=0.5)))
        found = dict(zip(made.column(table, "claim"), made.column(table, "by accuracy"), strict=True))
        assert found == {
            "mdp ≥ gittins": "true",
            "gittins ≥ ucb": "false",
            "ucb ≥ cyclic": "true",
            "mdp ≥ gittins ≥ ucb ≥ cyclic": "false",
        }

    def test_a_link_skips_what_is_absent(self, tmp_path):
        (table,) = make("orderings", made.loaded(tmp_path, self.cell(mdp=0.7, ucb=0.65, cyclic=0.5)))
        assert made.column(table, "claim") == ["mdp ≥ ucb", "ucb ≥ cyclic", "mdp ≥ ucb ≥ cyclic"]

    def test_noise_shows_nothing(self, tmp_path):
        ups = {"mdp": 0.05, "cyclic": 0.0}
        content = made.plain_cell(
            {name: [(0.1, 0.1, 0.6 + up * (-1) ** seed) for seed in range(6)] for name, up in ups.items()},
            regime="paper",
        )
        (table,) = make("orderings", made.loaded(tmp_path, content))
        assert made.column(table, "by accuracy") == ["not shown"]

    def test_the_papers_own_numbers_break_its_claim_for_weather(self, everything):
        (table,) = make("orderings", everything)
        told = {(str(row[0]), str(row[1])): row[-1] for row in table.rows}
        assert told["weather, all 6 cells (simulated)", "mdp ≥ gittins"] == "false in UBOT, Z100"
        assert told["weather, V850 (simulated)", "ucb ≥ cyclic"] == "false"
        assert told["cifar, own heads", "gittins ≥ ucb"] == "true"
