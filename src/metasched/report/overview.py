"""The tables for any runs: all methods, what each source is worth, planned contrasts, leaderboards."""

import math
from collections.abc import Iterable
from operator import itemgetter

import numpy as np

from metasched.learners.metrics import Metric
from metasched.report import compare
from metasched.report.cells import TARGET_ONLY, CellRuns, MethodRuns
from metasched.report.outputs import COMPARISONS, FIRST, NOTES, Output, UnavailableError, makes
from metasched.report.remarks import SourceLine
from metasched.report.results import Results
from metasched.report.tables import (
    MISSING,
    NOTHING,
    Columns,
    Number,
    Table,
    Value,
    difference_form,
    estimate,
    number,
    p_value,
    percent,
    ratio,
    samples,
    signed,
    spread,
    table,
)
from metasched.schedulers.resolve import BASELINE

OF_RUNS = (
    "Score: the mean over seeds ± half of its 95 % interval. Difference: the mean difference by seed with its "
    "interval. The intervals are not corrected for several comparisons."
)
OF_COMPARISON = (
    "Score ± half of its 95 % interval, and the difference from uniform with its own interval. The intervals account "
    "for seeds and test rows, and are not corrected for several comparisons."
)
OWN_TABLES = "a comparison has its own tables, methods and sources-worth"
NONE_NAMED = "no method was named as ours before the runs, so every comparison is exploratory"


def _score(cell: CellRuns, method: MethodRuns | None) -> Value:
    return estimate(compare.typical(cell, method))


def _regime(cell: CellRuns) -> str:
    return NOTHING if cell.own else cell.regime


def _corrected(over: int, what: str) -> str:
    """The heading of p-values, which says how they are corrected."""
    return f"p (Holm over {over} {what})" if over > 1 else "p (not corrected)"


@makes("methods", "Every method", FIRST, after="contrasts")
def methods(output: Output, results: Results) -> list[Table]:
    """The table that ``metasched compare`` prints, for every cell of the user's own runs."""
    cells = [cell for cell in results.cells if cell.own]
    if not cells:
        raise UnavailableError("there are no runs of your own")
    found = []
    for cell in cells:
        columns = [(heading, itemgetter(index)) for index, heading in enumerate(method_headings(cell))]
        note = OF_RUNS if cell.remarks is None else OF_COMPARISON
        ours = (cell.remarks.ours,) if cell.remarks else ()
        part, title = (cell.key, cell.title) if len(cells) > 1 else ("", "")
        shown = table(output, note, columns, method_rows(cell), [cell], part=part, title=title)
        found.append(shown._replace(strong=ours))
    return found


def method_headings(cell: CellRuns) -> list[str]:
    """The headings of :func:`method_rows`."""
    return ["method", cell.metric.word, f"− {BASELINE}"]


def method_rows(cell: CellRuns) -> list[tuple[str, Number, Number]]:
    """For each method, best first: its name, its mean score and the difference from the baseline. For a comparison
    these are stored, including those of reference models.
    """
    metric = cell.metric
    if cell.remarks is not None:
        size = median(abs(line.score.value) for line in cell.remarks.table)
        return [
            (
                f"{line.name} ({line.units} of {line.planned} fits)" if line.cut else line.name,
                spread(line.score.interval, metric, size),
                MISSING if line.over is None else signed(line.over.interval, metric, size),
            )
            for line in cell.remarks.table
        ]
    rows = [_method_row(cell, method) for method in cell.methods.values()]
    return sorted(rows, key=lambda row: -row[1].value)


def _method_row(cell: CellRuns, method: MethodRuns) -> tuple[str, Number, Number]:
    mean, uniform = compare.mean(method), cell.methods.get(BASELINE)
    if mean is None:
        return method.name, MISSING, MISSING
    gap = None if uniform is None or method is uniform else compare.difference(method, uniform)
    return method.name, spread(mean, cell.metric), signed(gap, cell.metric)


def source_headings(metric: Metric) -> list[str]:
    """The headings of :func:`source_rows`."""
    lost = "lost" if metric.higher_is_better else "added"
    return ["source", "rows", "drawn", "transfer", f"{metric.word} {lost} without it", "verdict", "why"]


def source_rows(lines: Iterable[SourceLine], metric: Metric) -> list[tuple[Value, ...]]:
    """What each source is worth. A score that is lost without a source equals a loss that is added."""
    lines = list(lines)
    largest = max((abs(line.lost.value) for line in lines if line.lost), default=0.0)
    form = difference_form(metric, largest)
    return [
        (
            line.name,
            number(line.rows, "{:,.0f}"),
            percent(line.share),
            MISSING if line.transfer is None else estimate(line.transfer.interval, "{:+.3f}"),
            MISSING if line.lost is None else estimate(line.lost.interval, form),
            line.word,
            line.why,
        )
        for line in lines
    ]


@makes("sources-worth", "What each source is worth", FIRST, after="methods")
def sources_worth(output: Output, results: Results) -> list[Table]:
    """For each source: its share of the draws, transfer, what is lost without it, and the verdict."""
    cells = [cell for cell in results.cells if cell.remarks and cell.remarks.sources]
    if not cells:
        raise UnavailableError("only a comparison says what each source is worth")
    note = (
        "Drawn: the share of the rows that ours drew from it. Transfer: the mean reward of its rows; above 0, learning "
        "them helps the target. Without it: how much worse a linear model of all sources is without this one. Both "
        "have 99 % intervals. Harmful: its labels look shuffled, or both measures are below 0."
    )
    found = []
    for cell in cells:
        remarks = cell.remarks
        if remarks is None:
            continue
        headings = source_headings(cell.metric)
        in_order = sorted(range(len(headings)), key=lambda place: headings[place] not in ("source", "verdict"))
        columns = [(headings[place], itemgetter(place)) for place in in_order]  # a phone shows the first columns
        part, title = (cell.key, cell.title) if len(cells) > 1 else ("", "")
        rows = source_rows(remarks.sources, cell.metric)
        found.append(table(output, note, columns, rows, [cell], part=part, title=title))
    return found


@makes("planned", "Planned contrasts", COMPARISONS)
def planned(output: Output, results: Results) -> list[Table]:
    """What was planned: in each cell, the method named before the runs minus the baseline."""
    pairs = {cell: pair for cell in results.untold if (pair := compare.planned(cell))}
    if not pairs:
        raise UnavailableError(NONE_NAMED if results.untold else OWN_TABLES)
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
        ("fewer rows", lambda cell: ratio(compare.gain_to_final(*reversed(pairs[cell])))),
        ("seeds", lambda cell: number(tests[pairs[cell][0]].pairs, "{:.0f}")),
    )
    note = (
        f"One method was named before the runs and is compared with {BASELINE}. The columns are the final test "
        f"accuracy ({compare.statistic(pairs)}), the difference paired by seed with its 95 % bootstrap interval, and "
        "the p-value of a sign-flip test. It is corrected (Holm) over the cells or, if there is a verdict, over its "
        "three differences: ours minus uniform, and each of these minus target-only. Fewer rows: the rows that "
        f"{BASELINE} draws until its test accuracy stays at its median final value, divided by those that ours draws "
        "until then. Every other comparison on the page is exploratory."
    )
    return [table(output, note, columns, [cell for cell in pairs if pairs[cell][0] in tests], pairs)]


@makes("summary", "Best of each kind, and the controls", COMPARISONS)
def summary(output: Output, results: Results) -> list[Table]:
    """Each cell in one row: the best static, active and single-task methods, the control and the ceiling."""
    active = {cell: method for cell in results.untold if (method := compare.best_active(cell))}
    if not active:
        raise UnavailableError("no cell has a method that chooses" if results.untold else OWN_TABLES)
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
        ("minus best static", lambda cell: signed(test.difference if (test := tests[cell]) else None)),
        ("p (Holm over its methods)", lambda cell: p_value(test.p_holm if (test := tests[cell]) else None)),
        ("fewer rows", lambda cell: ratio(compare.gain_to_final(static[cell], active[cell]))),
        ("minus target-only", lambda cell: signed(compare.difference(active[cell], cell.methods.get(TARGET_ONLY)))),
        ("supervised", lambda cell: _score(cell, compare.ceiling(cell))),
        ("share of its rows", lambda cell: percent(share_of_rows(cell))),
    )
    note = (
        f"Final test accuracy: {compare.statistic(active)} over seeds, with its 95 % bootstrap interval. Best: the "
        "largest median final accuracy in that cell, picked after the runs. Differences (paired by seed) and p "
        "(corrected over the cell's methods, Holm) are exploratory. Fewer rows: the rows that the best static method "
        "draws until test accuracy stays at its median final value, divided by those of the best active method. "
        "Supervised: one network trained on all rows. The last column is the number of rows drawn, with repeats and "
        "target labels, as a share of the rows that it saw."
    )
    if output.name in NOTES:
        note += NOTES[output.name](list(active))
    return [table(output, note, columns, active, active)]


def median(values: Iterable[float]) -> float:
    """The median of the numbers that are not NaN."""
    numbers = [value for value in values if not math.isnan(value)]
    return float(np.median(numbers)) if numbers else math.nan


@makes("leaderboard", "Every method", COMPARISONS)
def leaderboards(output: Output, results: Results) -> list[Table]:
    """Every method of every cell."""
    if not results.untold:
        raise UnavailableError(OWN_TABLES if results.cells else "no cell")
    return [_leaderboard(output, cell) for cell in results.untold]


def _leaderboard(output: Output, cell: CellRuns) -> Table:
    tests, static = compare.against_best_static(cell), compare.best_static(cell)
    marks = compare.thresholds(cell)

    def verdict(method: MethodRuns) -> str:
        return "best static" if method is static else tests[method].words if method in tests else NOTHING

    def middle(method: MethodRuns, measure: str) -> Value:
        return number(median(method.finals(measure).values()))

    def until(mark: float) -> Columns[MethodRuns]:
        return (
            (f"rows to {mark:.1%}", lambda method: samples(compare.median_samples(method, mark))),
            (f"gain at {mark:.1%}", lambda method: ratio(compare.gain_over(static, method, mark))),
        )

    columns: Columns[MethodRuns] = (
        ("method", lambda method: method.name),
        ("family", lambda method: method.family),
        ("test accuracy", lambda method: _score(cell, method)),
        ("balanced", lambda method: middle(method, "balanced_test_accuracy")),
        ("validation", lambda method: middle(method, "validation_accuracy")),
        ("minus best static", lambda method: signed(tests[method].difference if method in tests else None)),
        (_corrected(len(tests), "methods"), lambda method: p_value(tests[method].p_holm if method in tests else None)),
        ("exploratory verdict", verdict),
        *(column for mark in marks for column in until(mark)),
        ("seeds", lambda method: number(len(method.seeds), "{:.0f}")),
    )
    origins = "; ".join(f"{mark:.1%}: {origin}" for mark, origin in marks.items())
    note = (
        f"Test accuracy: {compare.statistic([cell])} over seeds, with its 95 % bootstrap interval. Balanced accuracy "
        "and validation: medians. The comparison with the best static baseline is exploratory: the difference paired "
        "by seed, and the p-value of a sign-flip test, corrected over methods (Holm). "
        + (f"Thresholds: {origins}." if origins else "No threshold.")
    )
    ranked = sorted(cell.methods.values(), key=lambda method: -method.median_final)
    return table(output, note, columns, ranked, [cell], part=cell.key, title=cell.title)
