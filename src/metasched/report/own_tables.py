"""Our own tables: planned contrasts, draws from useful sources, the best of each kind, cost, every method."""

import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from metasched.experiments import WEATHER, outputs, published
from metasched.experiments.outputs import Output
from metasched.report import compare
from metasched.report.cells import TARGET_ONLY, Cell, Entry, Method
from metasched.report.pieces import UnavailableError, makes
from metasched.report.results import Results
from metasched.report.sheets import (
    MISSING,
    NOTHING,
    Columns,
    Number,
    Sheet,
    Value,
    estimate,
    number,
    p_value,
    percent,
    ratio,
    samples,
    sheet,
    signed,
)
from metasched.schedulers.resolve import BASELINE

NONE_NAMED = "no method was named as ours before the runs: every comparison is exploratory"


def _score(cell: Cell, method: Method | None) -> Value:
    return estimate(compare.typical(cell, method))


def _regime(cell: Cell) -> str:
    return NOTHING if cell.own else cell.regime


def _corrected(over: int, what: str) -> str:
    """The heading of p-values: how they are corrected."""
    return f"p (Holm over {over} {what})" if over > 1 else "p (not corrected)"


def _name(method: Method | None) -> str:
    return method.name if method else NOTHING


@makes(outputs.PLANNED)
def planned(output: Output, results: Results) -> list[Sheet]:
    """What was to be shown: in each cell, the method named before the runs against the baseline."""
    pairs = {cell: pair for cell in results.cells if (pair := compare.planned(cell))}
    if not pairs:
        raise UnavailableError(NONE_NAMED)
    tests = compare.planned_contrasts(pairs)
    over = (len(tests), "cells") if len(pairs) > 1 else (3 * (TARGET_ONLY in next(iter(pairs)).methods), "contrasts")
    columns: Columns[Cell] = (
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
    return [sheet(output, note, columns, [cell for cell in pairs if pairs[cell][0] in tests], pairs)]


@makes(outputs.USEFUL_DRAWS)
def useful_draws(output: Output, results: Results) -> list[Sheet]:
    """How soon a method finds the sources that are known to help, and whether it stays with them."""
    rows = [
        (Entry(cell, method), shares)
        for cell in results.cells
        for method in cell.methods.values()
        if method.family in ("active", "static") and (shares := useful_shares(cell, method))
    ]
    if not rows:
        raise UnavailableError("no cell has schedules and names the sources known to be useful")
    columns: Columns[tuple[Entry, UsefulShares]] = (
        ("experiment", lambda row: row[0].cell.label),
        ("method", lambda row: row[0].method.name),
        ("first quarter", lambda row: percent(row[1].first_quarter)),
        ("first half", lambda row: percent(row[1].first_half)),
        ("last quarter", lambda row: percent(row[1].last_quarter)),
        ("useful sources", lambda row: f"{len(row[0].cell.about.useful)} of {len(row[0].cell.about.tasks)}"),
    )
    note = (
        "Of the batches drawn in that part of the run, the share from sources known to help with the target, which no "
        "method is told; mean over the seeds whose schedules are kept. Abstaining counts as no draw."
    )
    return [sheet(output, note, columns, rows, dict.fromkeys(entry.cell for entry, _ in rows))]


class UsefulShares(NamedTuple):
    """Shares of the draws that fall on useful sources, in parts of a run; NaN where nothing was drawn."""

    first_quarter: float
    first_half: float
    last_quarter: float


def useful_shares(cell: Cell, method: Method) -> UsefulShares | None:
    """None where nobody knows which sources are useful, or no schedule was kept."""
    counts, useful = method.schedule, [task in cell.about.useful for task in cell.about.tasks]
    if counts is None or not any(useful):
        return None
    drawn, hits = counts[:, :-1].sum(axis=1), counts[:, :-1][:, useful].sum(axis=1)
    quarter, half = max(1, round(len(counts) / 4)), max(1, round(len(counts) / 2))
    parts = (slice(quarter), slice(half), slice(-quarter, None))
    return UsefulShares(
        *(float(hits[part].sum() / total) if (total := drawn[part].sum()) else math.nan for part in parts)
    )


@makes(outputs.SUMMARY)
def summary(output: Output, results: Results) -> list[Sheet]:
    """Each cell in one row: the best static, active and single-task methods, the control and the ceiling."""
    active = {cell: method for cell in results.cells if (method := compare.best_active(cell))}
    if not active:
        raise UnavailableError("no cell has a method that chooses")
    static = {cell: compare.best_static(cell) for cell in active}
    tests = {cell: compare.against_best_static(cell).get(best) for cell, best in active.items()}

    def share_of_rows(cell: Cell) -> float | None:
        drawn = [sum(run.drawn) for run in active[cell].runs if run.drawn]
        rows, target = cell.about.source_rows, cell.about.target_rows
        if not drawn or not rows or compare.ceiling(cell) is None:
            return None
        return (float(np.median(drawn)) + target) / (rows + target)

    columns: Columns[Cell] = (
        ("experiment", lambda cell: cell.label),
        ("regime", _regime),
        ("target-only", lambda cell: _score(cell, cell.methods.get(TARGET_ONLY))),
        ("best single task", lambda cell: _score(cell, compare.best_single(cell))),
        ("best static", lambda cell: _name(static[cell])),
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
    if any(cell.experiment == WEATHER.name for cell in active):
        low, high = published.SUPERVISED_SHARE
        note += (
            f" The paper claims, for weather, {low:.0%} to {high:.0%} of the accuracy of other authors' supervised "
            f"networks with {published.SUPERVISED_FEWER:.0%} fewer examples."
        )
    return [sheet(output, note, columns, active, active)]


class Cost(NamedTuple):
    """What deciding costs: seconds for one decision, decisions in a run, seconds of a run."""

    experiment: str
    method: str
    decision: float
    decisions: float
    run: float

    @property
    def share(self) -> float:
        """Of a run."""
        return self.decision * self.decisions / self.run if self.run else math.nan


@makes(outputs.COST)
def cost(output: Output, results: Results) -> list[Sheet]:
    """What a decision costs, by experiment and method: medians over cells."""
    groups: dict[tuple[str, str], dict[Cell, tuple[float, ...]]] = {}
    for cell in results.cells:
        for method in cell.methods.values():
            seconds = [run.scheduling_seconds for run in method.runs if run.scheduling_seconds is not None]
            if seconds:
                decisions = math.nan if method.schedule is None else float(method.schedule.sum())
                one = (_median(seconds), decisions, _median(method.seconds))
                groups.setdefault((cell.experiment, method.name), {})[cell] = one
    if not groups:
        raise UnavailableError("no method has its scheduling_seconds")
    rows = [Cost(*names, *map(_median, zip(*cells.values(), strict=True))) for names, cells in groups.items()]
    columns: Columns[Cost] = (
        ("experiment", lambda row: row.experiment),
        ("method", lambda row: row.method),
        ("ms per decision", lambda row: number(1e3 * row.decision, "{:.3g}")),
        ("decisions", lambda row: number(row.decisions, "{:,.0f}")),
        ("run, seconds", lambda row: number(row.run, "{:,.1f}")),
        (
            "share of run",
            lambda row: Number(f"{row.share:.2%}", row.share) if math.isfinite(row.share) else MISSING,
        ),
    )
    note = (
        "Milliseconds for one decision, decisions in a run, wall seconds of a run (all medians over cells and seeds), "
        "and the share of the run that deciding takes."
    )
    timed = {cell for cells in groups.values() for cell in cells}
    return [sheet(output, note, columns, rows, [cell for cell in results.cells if cell in timed])]


def _median(values: Iterable[float]) -> float:
    """Of those that are not NaN."""
    numbers = [value for value in values if not math.isnan(value)]
    return float(np.median(numbers)) if numbers else math.nan


@makes(outputs.LEADERBOARD)
def leaderboards(output: Output, results: Results) -> list[Sheet]:
    """Every method of every cell."""
    if not results.cells:
        raise UnavailableError("no cell")
    return [_leaderboard(output, cell) for cell in results.cells]


def _leaderboard(output: Output, cell: Cell) -> Sheet:
    tests, static = compare.against_best_static(cell), compare.best_static(cell)
    marks = compare.thresholds(cell)

    def verdict(method: Method) -> str:
        return "best static" if method is static else tests[method].words if method in tests else NOTHING

    def median(method: Method, measure: str) -> Value:
        return number(_median(method.finals(measure).values()))

    def until(mark: compare.Threshold) -> Columns[Method]:
        return (
            (f"samples to {mark.value:.1%}", lambda method: samples(compare.median_samples(method, mark.value))),
            (f"gain at {mark.value:.1%}", lambda method: ratio(compare.gain_over(static, method, mark.value))),
        )

    columns: Columns[Method] = (
        ("method", lambda method: method.name),
        ("family", lambda method: method.family),
        ("test accuracy", lambda method: _score(cell, method)),
        ("balanced", lambda method: median(method, "balanced_accuracy")),
        ("validation", lambda method: median(method, "validation_accuracy")),
        ("less best static", lambda method: signed(tests[method].difference if method in tests else None)),
        (_corrected(len(tests), "methods"), lambda method: p_value(tests[method].p_holm if method in tests else None)),
        ("exploratory verdict", verdict),
        *(column for mark in marks for column in until(mark)),
        ("seeds", lambda method: number(len(method.seeds), "{:.0f}")),
    )
    origins = "; ".join(f"{mark.value:.1%}: {mark.origin}" for mark in marks)
    note = (
        f"Test accuracy: {compare.statistic([cell])} over seeds with bootstrap 95 % interval; balanced and validation: "
        "medians. Exploratory, against the best static baseline: paired difference, sign-flip p corrected over methods "
        "(Holm). " + (f"Thresholds: {origins}." if origins else "No threshold.")
    )
    ranked = sorted(cell.methods.values(), key=lambda method: -method.middle)
    return sheet(output, note, columns, ranked, [cell], part=cell.key, title=cell.title)
