"""Our own tables: the planned contrasts, few labels, noisy sources, controls, cost and a leaderboard of every cell."""

import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from metasched.experiments import outputs, published
from metasched.experiments.outputs import Output
from metasched.report import compare, statistics
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
from metasched.report.statistics import Interval

AFTER_THE_FACT = "Best means the largest median final accuracy in that cell, picked after the fact."
NONE_NAMED = "no method was named as ours before the runs: every comparison is exploratory"


def _score(method: Method | None) -> Value:
    return estimate(compare.score(method))


def _name(method: Method | None) -> str:
    return method.name if method else NOTHING


@makes(outputs.PLANNED)
def planned(output: Output, results: Results) -> list[Sheet]:
    """What was to be shown: in each cell, the method named before the runs against the baseline."""
    pairs = {cell: pair for cell in results.cells if (pair := compare.planned(cell))}
    if not pairs:
        raise UnavailableError(NONE_NAMED)
    tests = compare.planned_contrasts(pairs)
    columns: Columns[Cell] = (
        ("experiment", lambda cell: cell.label),
        ("regime", lambda cell: cell.regime),
        ("ours", lambda cell: pairs[cell][0].name),
        ("its accuracy", lambda cell: _score(pairs[cell][0])),
        (compare.BASELINE, lambda cell: _score(pairs[cell][1])),
        ("difference", lambda cell: signed(tests[pairs[cell][0]].difference)),
        ("p (Holm)", lambda cell: p_value(tests[pairs[cell][0]].p_holm)),
        ("verdict", lambda cell: tests[pairs[cell][0]].verdict),
        ("gain", lambda cell: ratio(compare.gain_to_final(*reversed(pairs[cell])))),
        ("seeds", lambda cell: number(tests[pairs[cell][0]].pairs, "{:.0f}")),
    )
    note = (
        f"One method was named before the runs and is held against {compare.BASELINE}: final test accuracy "
        "(interquartile mean), the paired difference with its bootstrap 95 % interval, and its sign-flip p, corrected "
        f"over these cells (Holm). Gain: samples of {compare.BASELINE} over samples of ours until test accuracy stays "
        "at the former's median final one. Every other comparison of the page is exploratory."
    )
    return [sheet(output, note, columns, [cell for cell in pairs if pairs[cell][0] in tests], pairs)]


@makes(outputs.FEW_LABEL_SUMMARY)
def few_label(output: Output, results: Results) -> list[Sheet]:
    """Each few-label cell in one row: the best static, active and single-task methods and the target-only control."""
    cells = results.of(regime="few-label")
    if not cells:
        raise UnavailableError("no few-label cell")
    static = {cell: compare.best_static(cell) for cell in cells}
    active = {cell: compare.best_active(cell) for cell in cells}
    contrasts = {cell: compare.against_best_static(cell) for cell in cells}
    tests = {cell: contrasts[cell][best] for cell, best in active.items() if best in contrasts[cell]}
    columns: Columns[Cell] = (
        ("experiment", lambda cell: cell.label),
        ("best static", lambda cell: _name(static[cell])),
        ("static accuracy", lambda cell: _score(static[cell])),
        ("target-only", lambda cell: _score(cell.methods.get(TARGET_ONLY))),
        ("best single task", lambda cell: _score(compare.best_single(cell))),
        ("best active", lambda cell: _name(active[cell])),
        ("active accuracy", lambda cell: _score(active[cell])),
        ("difference", lambda cell: signed(tests[cell].difference if cell in tests else None)),
        ("p (Holm)", lambda cell: p_value(tests[cell].p_holm if cell in tests else None)),
        ("gain, fixed threshold", lambda cell: ratio(compare.gain_over(static[cell], active[cell], cell.threshold))),
        ("gain, static's final", lambda cell: ratio(compare.gain_to_final(static[cell], active[cell]))),
    )
    note = (
        "Final test accuracy: interquartile mean over seeds with bootstrap 95 % interval. Difference: best active less "
        "best static, paired by seed; p: sign-flip test, Holm-corrected over the cell's methods; both are exploratory. "
        "Gain: samples of the best static over samples of the best active, to the threshold fixed before the run and "
        f"to the median final accuracy of the best static. {AFTER_THE_FACT}"
    )
    return [sheet(output, note, columns, cells, cells)]


@makes(outputs.ROBUST_SUMMARY)
def robust(output: Output, results: Results) -> list[Sheet]:
    """Each method with clean and with noisy or irrelevant sources, against the best single task in hindsight."""
    cells = results.of(regime="robust")
    if not cells:
        raise UnavailableError("no robust cell")
    clean: dict[Cell, Cell] = {}
    for cell in cells:
        others = results.of(cell.experiment, "few-label")
        alike = [other for other in others if other.about.target_rows == cell.about.target_rows]
        clean |= {cell: alike[0]} if alike else {}

    def before(row: Entry) -> Method | None:
        return clean[row.cell].methods.get(row.method.name) if row.cell in clean else None

    columns: Columns[Entry] = (
        ("experiment", lambda row: row.cell.label),
        ("method", lambda row: row.method.name),
        ("clean", lambda row: _score(before(row))),
        ("spoilt", lambda row: _score(row.method)),
        ("change", lambda row: signed(compare.difference(row.method, before(row)))),
        (
            "against best single task",
            lambda row: signed(compare.difference(row.method, compare.best_single(row.cell))),
        ),
    )
    note = (
        "Final test accuracy: interquartile mean with bootstrap 95 % interval. Clean: the few-label cell of the same "
        "experiment with as many target labels. Change: spoilt less clean, and, against the best single task in "
        "hindsight (which nobody knows beforehand): method less that task; both paired by seed."
    )
    rows = [Entry(cell, method) for cell in cells for method in cell.methods.values() if method.family != "ceiling"]
    sources = dict.fromkeys(source for cell in cells for source in (cell, clean.get(cell)) if source)
    return [sheet(output, note, columns, rows, sources)]


@makes(outputs.CONTROLS)
def controls(output: Output, results: Results) -> list[Sheet]:
    """Did the sources help at all, and how near does it come to training on everything?"""
    cells = [cell for cell in results.cells if TARGET_ONLY in cell.methods or compare.ceiling(cell)]
    active = {cell: method for cell in cells if (method := compare.best_active(cell))}
    if not active:
        raise UnavailableError("no cell has a target-only or supervised control beside an active scheduler")

    def share_of_accuracy(cell: Cell) -> float | None:
        reached, highest = compare.score(active[cell]), compare.score(compare.ceiling(cell))
        return reached.value / highest.value if reached and highest and highest.value else None

    def share_of_rows(cell: Cell) -> float | None:
        drawn = [sum(run.drawn) for run in active[cell].runs if run.drawn]
        rows, target = cell.about.source_rows, cell.about.target_rows
        if not drawn or not rows or compare.ceiling(cell) is None:
            return None
        return (float(np.median(drawn)) + target) / (rows + target)

    columns: Columns[Cell] = (
        ("experiment", lambda cell: cell.label),
        ("regime", lambda cell: cell.regime),
        ("best active", lambda cell: active[cell].name),
        ("its accuracy", lambda cell: _score(active[cell])),
        ("target-only", lambda cell: _score(cell.methods.get(TARGET_ONLY))),
        ("less target-only", lambda cell: signed(compare.difference(active[cell], cell.methods.get(TARGET_ONLY)))),
        ("less best single", lambda cell: signed(compare.difference(active[cell], compare.best_single(cell)))),
        ("supervised", lambda cell: _score(compare.ceiling(cell))),
        ("share of its accuracy", lambda cell: percent(share_of_accuracy(cell))),
        ("share of its rows", lambda cell: percent(share_of_rows(cell))),
    )
    low, high = published.SUPERVISED_SHARE
    note = (
        "Differences: best active scheduler less the control, paired by seed, with bootstrap 95 % interval. "
        "Supervised: one network trained on all rows of sources and target; then the share of its accuracy, and the "
        "rows drawn (repeats counted, target labels included) as a share of the rows it saw. The paper claims, for "
        f"weather, {low:.0%} to {high:.0%} of the accuracy of other authors' supervised networks with "
        f"{published.SUPERVISED_FEWER:.0%} fewer examples. {AFTER_THE_FACT}"
    )
    return [sheet(output, note, columns, active, cells)]


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


class Overall(NamedTuple):
    """A method over all cells of an experiment and regime."""

    experiment: str
    regime: str
    name: str
    cells: int
    accuracy: Interval


@makes(outputs.OVERALL)
def overall(output: Output, results: Results) -> list[Sheet]:
    """Interquartile means over all cells of an experiment and regime."""
    rows = []
    for experiment, regime in dict.fromkeys((cell.experiment, cell.regime) for cell in results.cells):
        group = results.of(experiment, regime)
        common = [name for name in group[0].methods if all(name in cell.methods for cell in group)]
        for name in common if len(group) > 1 else ():
            strata = [list(cell.methods[name].finals().values()) for cell in group]
            rows.append(Overall(experiment, regime, name, len(group), statistics.interquartile_mean(strata)))
    if not rows:
        raise UnavailableError("no experiment has two cells of a regime with the same methods")
    columns: Columns[Overall] = (
        ("experiment", lambda row: row.experiment),
        ("regime", lambda row: row.regime),
        ("method", lambda row: row.name),
        ("cells", lambda row: number(row.cells, "{:.0f}")),
        ("accuracy", lambda row: estimate(row.accuracy)),
    )
    note = (
        "Interquartile mean of final test accuracy over the runs of all cells of a regime, with a bootstrap 95 % "
        "interval that resamples seeds within each cell."
    )
    return [sheet(output, note, columns, rows, results.cells, folded=True)]


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
        return "best static" if method is static else tests[method].verdict if method in tests else NOTHING

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
        ("test accuracy", _score),
        ("balanced", lambda method: median(method, "balanced_accuracy")),
        ("validation", lambda method: median(method, "validation_accuracy")),
        ("less best static", lambda method: signed(tests[method].difference if method in tests else None)),
        ("p (Holm)", lambda method: p_value(tests[method].p_holm if method in tests else None)),
        ("exploratory verdict", verdict),
        *(column for mark in marks for column in until(mark)),
        ("seeds", lambda method: number(len(method.seeds), "{:.0f}")),
    )
    origins = "; ".join(f"{mark.value:.1%}: {mark.origin}" for mark in marks)
    note = (
        "Test accuracy: interquartile mean over seeds with bootstrap 95 % interval; balanced and validation accuracy: "
        "medians. Exploratory, against the best static baseline: paired difference, sign-flip p corrected over methods "
        "(Holm). " + (f"Thresholds: {origins}." if origins else "No threshold.")
    )
    ranked = sorted(cell.methods.values(), key=lambda method: -method.middle)
    return sheet(output, note, columns, ranked, [cell], part=cell.key, title=cell.title, folded=True)
