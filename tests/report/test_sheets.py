import csv
import io
import math

import pytest

import made_up_results as made
from metasched.report import sheets
from metasched.report.outputs import outputs
from metasched.report.sheets import Column, Sheet
from metasched.report.statistics import Bounded, Interval

INF, NAN = math.inf, math.nan


def sheet(*rows, columns=("method", "accuracy"), sources=()):
    heads = tuple(Column(name, words=place == 0) for place, name in enumerate(columns))
    return Sheet("key", "A title", "A note", heads, tuple(rows), sources)


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
        assert str(sheets.samples(median)) == text

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
        assert str(sheets.ratio(gain)) == text

    def test_differences_have_a_sign(self):
        assert str(sheets.signed(Interval(0.1, -0.05, 0.2))) == "+0.100 [-0.050, +0.200]"


class TestForms:
    def test_csv_has_plain_numbers_and_a_column_for_each_end(self):
        rows = (
            ("ucb", sheets.estimate(Interval(0.5, 0.4, 0.6))),
            ("mdp", sheets.MISSING),
            ("cyclic", sheets.samples(Bounded(INF, 900, INF, 2000))),
        )
        read = list(csv.reader(io.StringIO(sheets.as_csv(sheet(*rows)))))
        assert read == [
            ["method", "accuracy", "accuracy low", "accuracy high"],
            ["ucb", "0.5", "0.4", "0.6"],
            ["mdp", "", "", ""],
            ["cyclic", "> 2,000", "900", "inf"],
        ]

    def test_a_name_is_no_formula_in_a_spreadsheet(self):
        assert "'=1+1" in sheets.as_csv(sheet(("=1+1", sheets.number(1))))

    def test_latex_has_nothing_that_a_name_could_command(self):
        text = sheets.as_latex(sheet((r"50% \input{x} & $y_1$ #~^", sheets.number(0.5))))
        assert r"50\% \textbackslash{}input\{x\} \& \$y\_1\$ \#\textasciitilde{}\textasciicircum{} & 0.500 \\" in text
        assert text.count(r"\begin{tabular}{lr}") == 1


def test_columns_in_which_nothing_is_known_are_left_out():
    rows = (("ucb", sheets.MISSING, sheets.number(1)), ("mdp", sheets.MISSING, sheets.MISSING))
    found = sheets.without_gaps(sheet(*rows, columns=("method", "gap", "known")))
    assert [column.name for column in found.columns] == ["method", "known"]
    assert [len(row) for row in found.rows] == [2, 2]


def test_a_column_is_a_heading_and_a_function_and_is_of_words_when_it_has_no_number():
    columns = (("name", lambda row: row), ("length", lambda row: sheets.number(len(row))))
    made_of = sheets.sheet(outputs()["table1"], "A note", columns, ["ucb", "mdp"], (), part="a")
    assert made_of.key == "table1-a"
    assert made_of.columns == (Column("name", words=True), Column("length"))
    assert [str(value) for value in made_of.rows[0]] == ["ucb", "3.000"]


def test_captions_say_what_is_simulated(tmp_path):
    real, fake = (made.evidence(name) for name in ("digits", "weather"))
    real, fake = made.loaded(tmp_path, real, fake).others
    assert sheets.caption("T", [real]) == "T"
    assert sheets.caption("T", [fake]) == "T (simulated data)"
    assert sheets.caption("T", [real, fake]) == "T (simulated data: weather)"
