"""The tables of any runs: planned contrasts, the best of each kind, every method."""

import math
from collections.abc import Iterable

import numpy as np

from metasched.report import compare
from metasched.report.cells import TARGET_ONLY, CellRuns, MethodRuns
from metasched.report.outputs import COMPARISONS, NOTES, Output, UnavailableError, makes
from metasched.report.results import Results
from metasched.report.tables import (
    NOTHING,
    Columns,
    Table,
    Value,
    estimate,
    number,
    p_value,
    percent,
    ratio,
    samples,
    signed,
    table,
)
from metasched.schedulers.resolve import BASELINE

NONE_NAMED = "no method was named as ours before the runs: every comparison is exploratory"


def _score(cell: CellRuns, method: MethodRuns | None) -> Value:
    return estimate(compare.typical(cell, method))


def _regime(cell: CellRuns) -> str:
    return NOTHING if cell.own else cell.regime


def _corrected(over: int, what: str) -> str:
    """The heading of p-values: how they are corrected."""
    return f"p (Holm over {over} {what})" if over > 1 else "p (not corrected)"


@makes("planned", "Planned contrasts", COMPARISONS)
def planned(output: Output, results: Results) -> list[Table]:
    """What was to be shown: in each cell, the method named before the runs against the baseline."""
    pairs = {cell: pair for cell in results.cells if (pair := compare.planned(cell))}
    if not pairs:
        raise UnavailableError(NONE_NAMED)
    tests = compare.planned_contrasts(pairs)
    over = (len(tests), "cells") if len(pairs) > 1 else (3 * (TARGET_ONLY in next(iter(pairs)).methods), "contrasts")
    columns: Columns[CellRuns] = (
        ("experiment", lambda cell: cell.label),
        ("regime", _regime),
        ("ours", lambda cell: pairs[cell][0].name),
        ("its accuracy", lambda cell: _score(cell, pairs[cell][0])),
        (BASELINE, lambda cell: _score(cell, pairs[cell][1])),
        ("difference", lambda cell: signed(tests[pairs[cell][0]].difference)),
        (_corrected(*over), lambda cell: p_value(tests[pairs[cell][0]].p_holm)),
        ("verdict", lambda cell: tests[pairs[cell][0]].words),
        ("gain", lambda cell: ratio(compare.gain_to_final(*reversed(pairs[cell])))),
        ("seeds", lambda cell: number(tests[pairs[cell][0]].pairs, "{:.0f}")),
    )
    note = (
        f"One method was named before the runs and is held against {BASELINE}: final test accuracy "
        f"({compare.statistic(pairs)}), the paired difference with its bootstrap 95 % interval, and its sign-flip p, "
        "corrected over the cells, or, where there is one, over the contrasts of the verdict: ours less uniform, and "
        f"both less target-only (Holm). Gain: samples of {BASELINE} over samples of ours until test accuracy stays "
        "at the former's median final one. Every other comparison of the page is exploratory."
    )
    return [table(output, note, columns, [cell for cell in pairs if pairs[cell][0] in tests], pairs)]


@makes("summary", "Best of each kind, and the controls", COMPARISONS)
def summary(output: Output, results: Results) -> list[Table]:
    """Each cell in one row: the best static, active and single-task methods, the control and the ceiling."""
    active = {cell: method for cell in results.cells if (method := compare.best_active(cell))}
    if not active:
        raise UnavailableError("no cell has a method that chooses")
    static = {cell: compare.best_static(cell) for cell in active}
    tests = {cell: compare.against_best_static(cell).get(best) for cell, best in active.items()}

    def share_of_rows(cell: CellRuns) -> float | None:
        drawn = [sum(run.drawn) for run in active[cell].runs if run.drawn]
        rows, target = cell.about.source_rows, cell.about.target_rows
        if not drawn or not rows or compare.ceiling(cell) is None:
            return None
        return (float(np.median(drawn)) + target) / (rows + target)

    columns: Columns[CellRuns] = (
        ("experiment", lambda cell: cell.label),
        ("regime", _regime),
        ("target-only", lambda cell: _score(cell, cell.methods.get(TARGET_ONLY))),
        ("best single task", lambda cell: _score(cell, compare.best_single(cell))),
        ("best static", lambda cell: best.name if (best := static[cell]) else NOTHING),
        ("its accuracy", lambda cell: _score(cell, static[cell])),
        ("best active", lambda cell: active[cell].name),
        ("accuracy", lambda cell: _score(cell, active[cell])),
        ("less best static", lambda cell: signed(test.difference if (test := tests[cell]) else None)),
        ("p (Holm over its methods)", lambda cell: p_value(test.p_holm if (test := tests[cell]) else None)),
        ("gain", lambda cell: ratio(compare.gain_to_final(static[cell], active[cell]))),
        ("less target-only", lambda cell: signed(compare.difference(active[cell], cell.methods.get(TARGET_ONLY)))),
        ("supervised", lambda cell: _score(cell, compare.ceiling(cell))),
        ("share of its rows", lambda cell: percent(share_of_rows(cell))),
    )
    note = (
        f"Final test accuracy: {compare.statistic(active)} over seeds with bootstrap 95 % interval. Best: the largest "
        "median final accuracy in that cell, picked after the fact; differences, paired by seed, and p, corrected over "
        "the cell's methods (Holm), are exploratory. Gain: samples of the best static over samples of the best active "
        "until test accuracy stays at the former's median final one. Supervised: one network trained on all rows; then "
        "rows drawn (repeats and target labels counted) as a share of the rows it saw."
    )
    if output.name in NOTES:
        note += NOTES[output.name](list(active))
    return [table(output, note, columns, active, active)]


def median(values: Iterable[float]) -> float:
    """Of those that are not NaN."""
    numbers = [value for value in values if not math.isnan(value)]
    return float(np.median(numbers)) if numbers else math.nan


@makes("leaderboard", "Every method", COMPARISONS)
def leaderboards(output: Output, results: Results) -> list[Table]:
    """Every method of every cell."""
    if not results.cells:
        raise UnavailableError("no cell")
    return [_leaderboard(output, cell) for cell in results.cells]


def _leaderboard(output: Output, cell: CellRuns) -> Table:
    tests, static = compare.against_best_static(cell), compare.best_static(cell)
    marks = compare.thresholds(cell)

    def verdict(method: MethodRuns) -> str:
        return "best static" if method is static else tests[method].words if method in tests else NOTHING

    def middle(method: MethodRuns, measure: str) -> Value:
        return number(median(method.finals(measure).values()))

    def until(mark: float) -> Columns[MethodRuns]:
        return (
            (f"samples to {mark:.1%}", lambda method: samples(compare.median_samples(method, mark))),
            (f"gain at {mark:.1%}", lambda method: ratio(compare.gain_over(static, method, mark))),
        )

    columns: Columns[MethodRuns] = (
        ("method", lambda method: method.name),
        ("family", lambda method: method.family),
        ("test accuracy", lambda method: _score(cell, method)),
        ("balanced", lambda method: middle(method, "balanced_test_accuracy")),
        ("validation", lambda method: middle(method, "validation_accuracy")),
        ("less best static", lambda method: signed(tests[method].difference if method in tests else None)),
        (_corrected(len(tests), "methods"), lambda method: p_value(tests[method].p_holm if method in tests else None)),
        ("exploratory verdict", verdict),
        *(column for mark in marks for column in until(mark)),
        ("seeds", lambda method: number(len(method.seeds), "{:.0f}")),
    )
    origins = "; ".join(f"{mark:.1%}: {origin}" for mark, origin in marks.items())
    note = (
        f"Test accuracy: {compare.statistic([cell])} over seeds with bootstrap 95 % interval; balanced and validation: "
        "medians. Exploratory, against the best static baseline: paired difference, sign-flip p corrected over methods "
        "(Holm). " + (f"Thresholds: {origins}." if origins else "No threshold.")
    )
    ranked = sorted(cell.methods.values(), key=lambda method: -method.median_final)
    return table(output, note, columns, ranked, [cell], part=cell.key, title=cell.title)
