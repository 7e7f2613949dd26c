import csv
import io
import math

import pytest
from rich.console import Console

import made_up_results as made
from helpers import make_tasks
from metasched.learners.metrics import METRICS
from metasched.report import tables
from metasched.report.outputs import outputs
from metasched.report.statistics import Bounded, Interval
from metasched.report.tables import Column, Table

INF, NAN = math.inf, math.nan


def table(*rows, columns=("method", "accuracy"), sources=()):
    heads = tuple(Column(name, words=place == 0) for place, name in enumerate(columns))
    return Table("key", "A title", "A note", heads, tuple(rows), sources)


class TestNumbers:
    @pytest.mark.parametrize(
        ("median", "text"),
        [
            (Bounded(1400, 1300, 1500, 1400), "1,400 [1,300, 1,500]"),
            (Bounded(INF, 900, INF, 21_000), "> 21,000 [900, ∞)"),
            (Bounded(INF, INF, INF, 700), "> 700 [never]"),
            (Bounded(INF, INF, INF, 0), "never"),
            (Bounded(0, 0, 0, 0), "0 [0, 0]"),
            (Bounded(1400, NAN, NAN, 1400), "1,400"),
            (None, "–"),
        ],
    )
    def test_samples(self, median, text):
        assert str(tables.samples(median)) == text

    @pytest.mark.parametrize(
        ("gain", "text"),
        [
            (Bounded(32.5, 24.5, 40, 32.5), "32.5 [24.5, 40.0]"),
            (Bounded(3.571, 2, INF, 3.571), "3.57 [2.00, ∞)"),
            (Bounded(INF, INF, INF, 9), "> 9.00"),
            (Bounded(INF, 3, INF, INF), "∞ [3.00, ∞)"),
            (Bounded(0, 0, 0.5, 1 / 9), "< 0.11 [0.000, 0.50]"),
            (Bounded(0, 0, 0, INF), "–"),
            (Bounded(NAN, 0, INF, 1), "–"),
        ],
    )
    def test_gains(self, gain, text):
        assert str(tables.ratio(gain)) == text

    def test_differences_have_a_sign(self):
        assert str(tables.signed(Interval(0.1, -0.05, 0.2))) == "+0.100 [-0.050, +0.200]"

    @pytest.mark.parametrize(
        ("name", "interval", "text"),
        [
            ("accuracy", (0.9, 0.88, 0.92), "0.900 ± 0.020"),
            ("accuracy", (0.994, 0.974, 1.014), "0.994 [0.974, 1.000]"),
            ("accuracy", (0.01, -0.02, 0.04), "0.010 [0.000, 0.040]"),
            ("r2", (-0.2, -0.6, 0.2), "-0.200 ± 0.400"),
            ("r2", (0.99, 0.96, 1.02), "0.990 [0.960, 1.000]"),
            ("log-loss", (-1.2, -1.5, -0.9), "1.200 ± 0.300"),
            ("log-loss", (-0.1, -0.3, 0.1), "0.100 [0.000, 0.300]"),
        ],
    )
    def test_an_interval_ends_where_the_metric_does(self, name, interval, text):
        assert str(tables.spread(Interval(*interval), METRICS[name])) == text

    def test_scores_of_losses_are_shown_as_losses(self):
        loss, error = METRICS["log-loss"], METRICS["mae"]
        assert str(tables.scored(Interval(-0.4, -0.5, -0.3), loss)) == "0.400 [0.300, 0.500]"
        assert str(tables.signed(Interval(0.1, -0.05, 0.2), loss)) == "-0.100 [-0.200, +0.050]"
        assert str(tables.scored(Interval(-123456.7, NAN, NAN), error)) == "123,457"
        assert str(tables.scored(Interval(-0.00012345, NAN, NAN), error)) == "0.0001234"
        assert tables.scored(None, loss) == tables.signed(None, loss) == tables.MISSING

    @pytest.mark.parametrize(
        ("interval", "text"),
        [
            (Interval(1234.5, 1100.2, 1340.9), "mean absolute error lower by 1,234 [1,100, 1,341]"),
            (Interval(-0.00052, -0.0008, -0.0002), "mean absolute error higher by .00052 [.00020, .00080]"),
            (Interval(3.2, -1.4, 7.7), "mean absolute error lower by 3.2 [−1.4, +7.7]"),
            (Interval(0.0, 0.0, 0.0), "mean absolute error lower by .000 [.000, .000]"),
            (Interval(12.3, NAN, NAN), "mean absolute error lower by 12"),
        ],
    )
    def test_errors_have_the_digits_of_their_unit(self, interval, text):
        assert tables.points(interval, METRICS["mae"]) == text


class TestForms:
    def test_csv_has_plain_numbers_and_a_column_for_each_end(self):
        rows = (
            ("ucb", tables.estimate(Interval(0.5, 0.4, 0.6))),
            ("mdp", tables.MISSING),
            ("cyclic", tables.samples(Bounded(INF, 900, INF, 2000))),
        )
        read = list(csv.reader(io.StringIO(tables.as_csv(table(*rows)))))
        assert read == [
            ["method", "accuracy", "accuracy low", "accuracy high"],
            ["ucb", "0.5", "0.4", "0.6"],
            ["mdp", "", "", ""],
            ["cyclic", "> 2,000", "900", "inf"],
        ]

    def test_a_name_is_no_formula_in_a_spreadsheet(self):
        assert "'=1+1" in tables.as_csv(table(("=1+1", tables.number(1))))

    def test_latex_has_nothing_that_a_name_could_command(self):
        text = tables.as_latex(table((r"50% \input{x} & $y_1$ #~^", tables.number(0.5))))
        assert r"50\% \textbackslash{}input\{x\} \& \$y\_1\$ \#\textasciitilde{}\textasciicircum{} & 0.500 \\" in text
        assert text.count(r"\begin{tabular}{lr}") == 1


def test_columns_in_which_nothing_is_known_are_left_out():
    rows = (("ucb", tables.MISSING, tables.number(1)), ("mdp", tables.MISSING, tables.MISSING))
    found = tables.without_gaps(table(*rows, columns=("method", "gap", "known")))
    assert [column.name for column in found.columns] == ["method", "known"]
    assert [len(row) for row in found.rows] == [2, 2]


def test_a_column_is_a_heading_and_a_function_and_is_of_words_when_it_has_no_number():
    columns = (("name", lambda row: row), ("length", lambda row: tables.number(len(row))))
    made_of = tables.table(outputs()["table1"], "A note", columns, ["ucb", "mdp"], (), part="a")
    assert made_of.key == "table1-a"
    assert made_of.columns == (Column("name", words=True), Column("length"))
    assert [str(value) for value in made_of.rows[0]] == ["ucb", "3.000"]


def test_captions_say_what_is_simulated(tmp_path):
    real, fake = (made.evidence(name) for name in ("digits", "weather"))
    real, fake = made.loaded(tmp_path, real, fake).others
    assert tables.caption("T", [real]) == "T"
    assert tables.caption("T", [fake]) == "T (simulated data)"
    assert tables.caption("T", [real, fake]) == "T (simulated data: weather)"


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
    assert tables.points(Interval(*interval)) == text


def test_rows_by_label_are_named_and_added_up():
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(tables.drawn_by_label([[1, 2, 3], [0, 0, 5], [7, 0, 0]], make_tasks()))
    lines = console.export_text().splitlines()
    assert lines[0].split() == ["rows", "drawn", "c0", "c1", "c2", "all"]
    assert lines[2].split() == ["task-0", "1", "2", "3", "6"]


def test_names_are_taken_literally():
    console = Console(width=60, record=True, file=io.StringIO())
    console.print(tables.terminal(["[b]name", "rows"], [["[red]ucb[/red]", "3"]]))
    text = console.export_text()
    assert all(word in text for word in ("[b]name", "[red]ucb[/red]"))
