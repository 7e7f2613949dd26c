"""The table of the demonstration, and when it says that choosing pays."""

import io

import numpy as np
import pytest
from rich.console import Console

from metasched.report.demonstration import Summary, arrival, table, verdict


def summary(accuracies, drawn=(60, 40), useful=0.6, curves=None):
    curves = curves or [[0.1, value] for value in accuracies]
    return Summary(accuracies, curves, [list(range(0, 50 * len(curve), 50)) for curve in curves], drawn, useful)


def rows(ours, uniform, cyclic):
    return {name: summary(values) for name, values in (("ours", ours), ("uniform", uniform), ("cyclic", cyclic))}


LOW = np.array([0.5, 0.52, 0.48, 0.51, 0.49, 0.5, 0.53])


def test_seven_seeds_that_agree_against_both_show_it():
    said = verdict(rows(LOW + 0.1, LOW, LOW + 0.02))
    assert said == (
        "Choosing pays here: +0.100 [+0.100, +0.100] against uniform and +0.080 [+0.080, +0.080] against cyclic in "
        "final accuracy (p 0.031 after Holm, sign flips by seed)."
    )


@pytest.mark.parametrize(
    ("ours", "cyclic"),
    [(LOW[:6] + 0.1, LOW[:6]), (LOW + 0.1, LOW + 0.12), (LOW - 0.1, LOW), (LOW + np.array([0.1, -0.1] * 3 + [0]), LOW)],
    ids=["six seeds cannot", "one static is better", "ours is worse", "seeds disagree"],
)
def test_anything_less_does_not(ours, cyclic):
    assert verdict(rows(ours, LOW[: len(ours)], cyclic)).startswith("Not shown that choosing pays here: ")


def test_rows_are_counted_until_accuracy_stays_there_and_never_is_beyond():
    curves = [[0.6, 0.4, 0.5, 0.7], [0.1, 0.5, 0.5, 0.5], [0.1, 0.1, 0.1, 0.1]]
    assert arrival(summary([0.7, 0.5, 0.1], curves=curves), 0.5) == 100
    assert arrival(summary([0.1, 0.5, 0.1], curves=curves[2:] + curves[1:]), 0.5) == np.inf


def test_the_table_has_a_line_for_each_method_and_the_baseline_no_difference():
    made = rows([0.8, 0.9], [0.5, 0.6], [0.6, 0.6])
    out = io.StringIO()
    Console(file=out, width=100).print(table(made))
    ours, uniform, cyclic = out.getvalue().splitlines()[-3:]
    assert ours.split() == ["ours", "0.850", "+0.300", "[+0.300,", "+0.300]", "50", "100", "60%"]
    assert uniform.split() == ["uniform", "0.550", "never", "100", "60%"]
    assert cyclic.split()[:3] == ["cyclic", "0.600", "+0.050"]
