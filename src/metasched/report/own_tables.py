"""Our own tables: few labels, noisy sources, controls, cost and a leaderboard of every cell."""

import math
import re

import numpy as np

from metasched.experiments import published
from metasched.report import compare, statistics
from metasched.report.cells import SUPERVISED, TARGET_ONLY, Cell, Floats
from metasched.report.results import Results
from metasched.report.sheets import (
    MISSING,
    NOTHING,
    Column,
    Number,
    Sheet,
    UnavailableError,
    Value,
    estimate,
    number,
    p_value,
    percent,
    ratio,
    samples,
    signed,
)
from metasched.report.statistics import Interval

AFTER_THE_FACT = "Best means the largest median final accuracy in that cell, picked after the fact."


def few_label(results: Results) -> list[Sheet]:
    """Each few-label cell in one row: the best static, active and single-task methods and the target-only control."""
    cells = results.of(regime="few-label")
    if not cells:
        raise UnavailableError("no few-label cell")
    rows: list[tuple[Value, ...]] = []
    for cell in cells:
        static, active, single = compare.best_static(cell), compare.best_active(cell), compare.best_single(cell)
        found = compare.against_best_static(cell).get(active) if active else None
        gains: list[Value] = [_gain(cell, static, active, cell.threshold)]
        gains.append(_gain(cell, static, active, compare.middle(cell, static) if static else None))
        rows.append(
            (
                cell.label,
                static or NOTHING,
                _score(cell, static),
                _score(cell, TARGET_ONLY),
                _score(cell, single),
                active or NOTHING,
                _score(cell, active),
                signed(found.difference if found else None),
                p_value(found.p_holm if found else None),
                *gains,
            )
        )
    note = (
        "Final test accuracy: interquartile mean over seeds with bootstrap 95 % interval. Difference: best active less "
        "best static, paired by seed; p: sign-flip test, Holm-corrected over the cell's methods. Gain: samples of the "
        "best static over samples of the best active, to the threshold fixed before the run and to the median final "
        f"accuracy of the best static. {AFTER_THE_FACT}"
    )
    columns = (
        Column("experiment", words=True),
        Column("best static", words=True),
        Column("static accuracy"),
        Column("target-only"),
        Column("best single task"),
        Column("best active", words=True),
        Column("active accuracy"),
        Column("difference"),
        Column("p (Holm)"),
        Column("gain, fixed threshold"),
        Column("gain, static's final"),
    )
    return [Sheet("few-label-summary", "Few target labels", note, columns, tuple(rows), tuple(cells))]


def robust(results: Results) -> list[Sheet]:
    """Each method with clean and with noisy or irrelevant sources, against the best single task in hindsight."""
    cells = results.of(regime="robust")
    if not cells:
        raise UnavailableError("no robust cell")
    rows: list[tuple[Value, ...]] = []
    sources: dict[str, Cell] = {}
    for cell in cells:
        clean, single = _clean_counterpart(results, cell), compare.best_single(cell)
        sources |= {cell.key: cell} | ({clean.key: clean} if clean else {})
        for name in cell.methods:
            if cell.methods[name].family == "ceiling":
                continue
            rows.append(
                (
                    cell.label,
                    name,
                    _score(clean, name),
                    _score(cell, name),
                    signed(_change(clean, cell, name)),
                    signed(_paired(cell, name, single)),
                )
            )
    note = (
        "Final test accuracy: interquartile mean with bootstrap 95 % interval. Clean: the few-label cell of the same "
        "experiment with as many target labels. Change: spoilt less clean, and, against the best single task in "
        "hindsight (which nobody knows beforehand): method less that task; both paired by seed."
    )
    columns = (
        Column("experiment", words=True),
        Column("method", words=True),
        Column("clean"),
        Column("spoilt"),
        Column("change"),
        Column("against best single task"),
    )
    title = "Noisy and irrelevant sources"
    return [Sheet("robust-summary", title, note, columns, tuple(rows), tuple(sources.values()))]


def _clean_counterpart(results: Results, cell: Cell) -> Cell | None:
    clean = results.of(cell.experiment, "few-label")
    return next((other for other in clean if other.target_rows == cell.target_rows), None)


def _change(clean: Cell | None, cell: Cell, name: str) -> Interval | None:
    if clean is None or name not in clean.methods:
        return None
    before, after = compare.finals(clean, name), compare.finals(cell, name)
    gaps = [after[seed] - before[seed] for seed in sorted(before.keys() & after.keys())]
    return statistics.mean_interval([gaps]) if gaps else None


def controls(results: Results) -> list[Sheet]:
    """Did the sources help at all, and how near does it come to training on everything?"""
    rows: list[tuple[Value, ...]] = []
    cells = [cell for cell in results.cells if {TARGET_ONLY, SUPERVISED} & cell.methods.keys()]
    for cell in cells:
        active = compare.best_active(cell)
        if active is None:
            continue
        ceiling = compare.score(cell, SUPERVISED) if SUPERVISED in cell.methods else None
        reached = compare.score(cell, active)
        share = reached.value / ceiling.value if ceiling and reached and ceiling.value else None
        rows.append(
            (
                cell.label,
                cell.regime,
                active,
                estimate(reached),
                _score(cell, TARGET_ONLY),
                signed(_paired(cell, active, TARGET_ONLY)),
                signed(_paired(cell, active, compare.best_single(cell))),
                estimate(ceiling),
                percent(share),
                percent(_share_of_rows(cell, active)),
            )
        )
    if not rows:
        raise UnavailableError("no cell has a target-only or supervised control beside an active scheduler")
    low, high = published.SUPERVISED_SHARE
    note = (
        "Differences: best active scheduler less the control, paired by seed, with bootstrap 95 % interval. "
        "Supervised: one network trained on all rows of sources and target; then the share of its accuracy, and the "
        "rows drawn (repeats counted, target labels included) as a share of the rows it saw. The paper claims, for "
        f"weather, {low:.0%} to {high:.0%} of the accuracy of other authors' supervised networks with "
        f"{published.SUPERVISED_FEWER:.0%} fewer examples. {AFTER_THE_FACT}"
    )
    columns = (
        Column("experiment", words=True),
        Column("regime", words=True),
        Column("best active", words=True),
        Column("its accuracy"),
        Column("target-only"),
        Column("less target-only"),
        Column("less best single"),
        Column("supervised"),
        Column("share of its accuracy"),
        Column("share of its rows"),
    )
    return [Sheet("controls", "Controls and ceiling", note, columns, tuple(rows), tuple(cells))]


def _share_of_rows(cell: Cell, name: str) -> float | None:
    drawn = cell.methods[name].drawn
    if drawn is None or SUPERVISED not in cell.methods or not cell.source_rows:
        return None
    target = cell.target_rows or 0
    return (_middle(drawn.sum(axis=1)) + target) / (cell.source_rows + target)


def cost(results: Results) -> list[Sheet]:
    """What a decision costs, by experiment and method: medians over cells."""
    groups: dict[tuple[str, str], list[tuple[float, float, float]]] = {}
    cells = []
    for cell in results.cells:
        for name, method in cell.methods.items():
            if method.scheduling_seconds is None:
                continue
            cells.append(cell)
            wall = _middle(method.seconds)
            decisions = float(np.nansum(method.schedule)) if method.schedule is not None else math.nan
            groups.setdefault((cell.experiment, name), []).append((method.scheduling_seconds, decisions, wall))
    if not groups:
        raise UnavailableError("no method has its scheduling_seconds")
    rows: list[tuple[Value, ...]] = []
    for (experiment, name), measured in groups.items():
        seconds, decisions, wall = (_middle(np.array(column)) for column in zip(*measured, strict=True))
        share = seconds * decisions / wall if wall else math.nan
        rows.append(
            (
                experiment,
                name,
                number(1e3 * seconds, "{:.3g}"),
                number(decisions, "{:,.0f}"),
                number(wall, "{:,.1f}"),
                Number(f"{share:.2%}", share) if math.isfinite(share) else MISSING,
            )
        )
    note = (
        "Milliseconds for one decision, decisions in a run, wall seconds of a run (all medians over cells and seeds), "
        "and the share of the run that deciding takes."
    )
    columns = (
        Column("experiment", words=True),
        Column("method", words=True),
        Column("ms per decision"),
        Column("decisions"),
        Column("run, seconds"),
        Column("share of run"),
    )
    return [Sheet("cost", "Cost of scheduling", note, columns, tuple(rows), tuple(dict.fromkeys(cells)))]


def _middle(values: Floats | None) -> float:
    known = np.array([]) if values is None else values[~np.isnan(values)]
    return float(np.median(known)) if known.size else math.nan


def overall(results: Results) -> list[Sheet]:
    """Interquartile means over all cells of an experiment and regime."""
    rows: list[tuple[Value, ...]] = []
    for experiment, regime in dict.fromkeys((cell.experiment, cell.regime) for cell in results.cells):
        group = results.of(experiment, regime)
        common = [name for name in group[0].methods if all(name in cell.methods for cell in group)]
        for name in common:
            strata = [list(compare.finals(cell, name).values()) for cell in group]
            if len(group) > 1 and all(strata):
                interval = statistics.interquartile_interval(strata)
                rows.append((experiment, regime, name, str(len(group)), estimate(interval)))
    if not rows:
        raise UnavailableError("no experiment has two cells of a regime with the same methods")
    note = (
        "Interquartile mean of final test accuracy over the runs of all cells of a regime, with a bootstrap 95 % "
        "interval that resamples seeds within each cell."
    )
    columns = (
        Column("experiment", words=True),
        Column("regime", words=True),
        Column("method", words=True),
        Column("cells"),
        Column("accuracy"),
    )
    return [Sheet("overall", "Over all cells of a regime", note, columns, tuple(rows), results.cells, folded=True)]


def leaderboards(results: Results) -> list[Sheet]:
    """Every method of every cell."""
    if not results.cells:
        raise UnavailableError("no cell")
    return [_leaderboard(cell) for cell in results.cells]


def _leaderboard(cell: Cell) -> Sheet:
    tests, static = compare.against_best_static(cell), compare.best_static(cell)
    marks = compare.thresholds(cell)
    rows: list[tuple[Value, ...]] = []
    for name in sorted(cell.methods, key=lambda name: -compare.middle(cell, name)):
        method, found = cell.methods[name], tests.get(name)
        verdict = "best static" if name == static else found.outcome if found else NOTHING
        row: list[Value] = [
            name,
            method.family,
            estimate(compare.score(cell, name)),
            number(_median(cell, name, "balanced_accuracy")),
            number(_median(cell, name, "validation_accuracy")),
            signed(found.difference if found else None),
            p_value(found.p_holm if found else None),
            verdict,
        ]
        for mark in marks:
            row += [samples(compare.median_samples(cell, name, mark.value)), _gain(cell, static, name, mark.value)]
        row.append(number(float(len(method.seeds)), "{:.0f}"))
        rows.append(tuple(row))
    columns = [
        Column("method", words=True),
        Column("family", words=True),
        Column("test accuracy"),
        Column("balanced"),
        Column("validation"),
        Column("less best static"),
        Column("p (Holm)"),
        Column("verdict", words=True),
    ]
    for mark in marks:
        columns += [Column(f"samples to {mark.value:.1%}"), Column(f"gain at {mark.value:.1%}")]
    columns.append(Column("seeds"))
    origins = "; ".join(f"{mark.value:.1%}: {mark.origin}" for mark in marks)
    note = (
        "Test accuracy: interquartile mean over seeds with bootstrap 95 % interval; balanced and validation accuracy: "
        "medians. Against the best static baseline: paired difference, sign-flip p corrected over methods (Holm). "
        + (f"Thresholds: {origins}." if origins else "No threshold.")
    )
    key = "leaderboard-" + re.sub(r"[^A-Za-z0-9.=-]+", "-", cell.key).strip("-")
    return Sheet(key, cell.title, note, tuple(columns), tuple(rows), (cell,), folded=True)


def _median(cell: Cell, name: str, measure: str) -> float | None:
    values = list(compare.finals(cell, name, measure).values())
    return float(np.median(values)) if values else None


def _score(cell: Cell | None, name: str | None) -> Value:
    return MISSING if cell is None or name is None or name not in cell.methods else estimate(compare.score(cell, name))


def _gain(cell: Cell, static: str | None, name: str | None, threshold: float | None) -> Value:
    if static is None or name is None or threshold is None or name == static:
        return MISSING
    return ratio(compare.gain_over(cell, static, name, threshold))


def _paired(cell: Cell, first: str, second: str | None) -> Interval | None:
    if second is None or second == first or second not in cell.methods:
        return None
    gaps = compare.differences(cell, first, second)
    return statistics.mean_interval([gaps]) if gaps.size else None
