"""The paper's figures and ours as Altair charts: a panel for each cell, so that a page can put them where they fit."""

import zlib
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from metasched.experiments import REGIMES, outputs, published
from metasched.experiments.outputs import Output
from metasched.optional import require
from metasched.report import compare, statistics
from metasched.report.cells import TARGET_ONLY, USEFUL, Cell, Method, Source
from metasched.report.palette import ABSTAINED, Stroke, in_order, stroke
from metasched.report.pieces import UnavailableError, makes
from metasched.report.results import Results
from metasched.report.statistics import Floats

Data = list[dict[str, Any]]
MOST_POINTS = 120
"""Points of a curve, and slices of a ribbon, that a figure keeps."""
BAND_NOTE = "Lines: median over seeds; bands: its bootstrap 95 % interval."
RULE_NOTE = "Level line: target-only, which draws no source rows (median final accuracy); dots: the threshold."
THRESHOLD = Stroke("threshold", "#8c8c8c", (1, 3))


class Panel(NamedTuple):
    """One chart, and what it shows in words."""

    title: str
    chart: Any
    data: dict[str, Data]
    """The rows that the chart's named data stand for; apart, because Altair checks every row of inline data."""
    alt: str


class Figure(NamedTuple):
    """Panels under one title with one legend."""

    key: str
    title: str
    note: str
    panels: tuple[Panel, ...]
    legend: tuple[Stroke, ...]
    sources: tuple[Source, ...]
    blocks: bool = False
    """Legend of areas instead of lines."""


@makes(outputs.FIG2)
def scaled_errors(output: Output, results: Results) -> list[Figure]:
    """√t·e(t) by class over inner steps."""
    figures: list[Figure] = []
    for item in results.evidence:
        error = item.scaled_error
        if error is None or not error.by_class:
            continue
        points = [
            {"name": name, "x": _rounded(error.steps[place]), "y": _rounded(value)}
            for name, values in error.by_class.items()
            for place in _thinned(len(error.steps))
            if (value := values[place]) is not None
        ]
        ends = ", ".join(
            f"{name} {values[-1]:.2f}" for name, values in error.by_class.items() if values[-1:] != (None,)
        )
        alt = f"Lines of √t·e(t) over inner steps t, one for each class. At the last step: {ends}."
        strokes = in_order(list(error.by_class))
        panel = Panel(item.experiment, *_lines(item.key, points, strokes, "inner step t", "√t · validation error"), alt)
        note = "If √t·e(t) were constant, the paper's reward 1 − √t·e(t) would not depend on time."
        note += f" The error itself falls like t^−{error.exponent:.2f} (assumed: t^−½)." if error.exponent else ""
        key = f"{output.name}-{item.experiment}" if figures else output.name
        title = f"{output.title}, {item.experiment}"
        figures.append(Figure(key, title, note, (panel,), tuple(strokes), (item,)))
    if not figures:
        raise UnavailableError("no evidence.json with scaled_error")
    return figures


@makes(outputs.SOURCES, outputs.FIG3, outputs.FIG4, outputs.FIG5, outputs.FEW_LABEL, outputs.ROBUST)
def behind(output: Output, results: Results) -> list[Figure]:
    """Accuracy against samples in the cells that stand behind a figure."""
    return [_curves(output, results.behind(output))]


@makes(outputs.RUNS)
def own_runs(output: Output, results: Results) -> list[Figure]:
    """Accuracy against samples of cells in no known regime, such as ordinary runs."""
    return [_curves(output, [cell for cell in results.cells if cell.regime not in REGIMES])]


def shown(cell: Cell) -> list[Method]:
    """The methods that a figure draws: the paper's, the best of each kind, the planned one, target-only.

    Where one was planned: that one, its baseline, the useful sources alone, target-only.
    """
    planned = compare.planned(cell)
    if planned:
        wanted = (*(method.name for method in planned), USEFUL, TARGET_ONLY)
        return [cell.methods[name] for name in wanted if name in cell.methods]
    best = [compare.best_static(cell), compare.best_active(cell), compare.best_single(cell)]
    names = [method.name for method in best if method]
    drawn = dict.fromkeys((*reversed(published.ORDER), *names, TARGET_ONLY))
    return [cell.methods[name] for name in drawn if name in cell.methods]


def _strokes(cells: Iterable[Cell]) -> list[Stroke]:
    return [stroke(name) for name in dict.fromkeys(method.name for cell in cells for method in shown(cell))]


def _curves(output: Output, cells: Sequence[Cell]) -> Figure:
    cells = [cell for cell in cells if any(method.updates for method in cell.methods.values())]
    if not cells:
        raise UnavailableError("no cell with its accuracy over time")
    strokes = _strokes(cells) + [THRESHOLD] * any(cell.threshold is not None for cell in cells)
    panels = []
    for cell in cells:
        methods = [method for method in shown(cell) if method.name != TARGET_ONLY]
        points = [point for method in methods for point in _points(method, _known_medians(method.curves("samples")))]
        levels = {method.name: method.middle for method in shown(cell) if method not in methods}
        levels |= {} if cell.threshold is None else {THRESHOLD.name: cell.threshold}
        rules = [{"name": name, "y": _rounded(level)} for name, level in levels.items()]
        plot = _lines(cell.key, points, strokes, "source rows drawn", "test accuracy", rules)
        panels.append(Panel(cell.label, *plot, _in_words(cell, "source rows drawn")))
    note = f"Test accuracy against source rows drawn. {BAND_NOTE} {RULE_NOTE}"
    return Figure(output.name, output.title, note, tuple(panels), tuple(strokes), tuple(cells))


@makes(outputs.TIME)
def wall_time(output: Output, results: Results) -> list[Figure]:
    """Accuracy against seconds, for one cell of each experiment and regime."""

    def timed(cell: Cell) -> list[Method]:
        return [method for method in shown(cell) if method.seconds and any(method.updates)]

    cells = [cell for cell in _typical(results) if timed(cell)]
    if not cells:
        raise UnavailableError("no cell with the seconds of its runs")
    strokes = _strokes(cells)
    panels = []
    for cell in cells:
        points: Data = []
        for method in timed(cell):
            updates = np.array(method.updates, np.float64)
            points += _points(method, float(np.median(method.seconds)) * updates / updates[-1])
        plot = _lines(cell.key, points, strokes, "seconds", "test accuracy")
        panels.append(Panel(cell.label, *plot, _in_words(cell, "wall seconds")))
    note = (
        "The median wall time of a run spread evenly over its meta-updates; it holds planning, training and measuring. "
        f"{BAND_NOTE}"
    )
    return [Figure(output.name, output.title, note, tuple(panels), tuple(strokes), tuple(cells))]


def _typical(results: Results) -> list[Cell]:
    """One cell of each experiment and regime: a typical one where there is one, else the first."""
    chosen: dict[tuple[str, str], Cell] = {}
    for cell in results.cells:
        if (cell.experiment, cell.regime) not in chosen or cell.variant in outputs.TYPICAL:
            chosen[cell.experiment, cell.regime] = cell
    return list(chosen.values())


@makes(outputs.SCHEDULES)
def schedules(output: Output, results: Results) -> list[Figure]:
    """Which task when: one ribbon for each method, for one cell of each experiment and for every robust cell."""
    figures: list[Figure] = []
    for cell in dict.fromkeys([*_typical(results), *results.of(regime="robust")]):
        ribbons = {method.name: ribbon for method in shown(cell) if (ribbon := method.schedule) is not None}
        ribbons = {name: ribbon for name, ribbon in ribbons.items() if ribbon.any()}
        if not ribbons:
            continue
        strokes = [*in_order(cell.about.tasks), Stroke("abstained", ABSTAINED)]
        legend = strokes if any(ribbon[:, -1].any() for ribbon in ribbons.values()) else strokes[:-1]
        note = "Share of batches from each task over meta-updates, first seed."
        panel = _ribbons(cell, ribbons, strokes)
        key, title = f"{output.name}-{len(figures) + 1}", f"{output.title}: {cell.title}"
        figures.append(Figure(key, title, note, (panel,), tuple(legend), (cell,), blocks=True))
    if not figures:
        raise UnavailableError("no method has its schedule")
    return figures


def _ribbons(cell: Cell, ribbons: dict[str, Floats], strokes: Sequence[Stroke]) -> Panel:
    altair = require("altair", "report")
    tasks = [entry.name for entry in strokes]
    y = altair.Y("y:Q", axis=None, scale=altair.Scale(domain=[-0.35, len(ribbons) - 0.2], reverse=True, nice=False))
    colour = altair.Color(
        "task:N",
        scale=altair.Scale(domain=tasks, range=[entry.colour for entry in strokes]),
        legend=altair.Legend(orient="bottom", columns=3, title=None, symbolType="square"),
    )
    rects = (
        altair.Chart(altair.NamedData("slices"))
        .mark_rect()
        .encode(
            x=altair.X("x:Q", title="meta-update", scale=altair.Scale(nice=False)),
            x2="x2:Q",
            y=y,
            y2="y2:Q",
            color=colour,
            opacity=_picked("task", 1.0),
            tooltip=["method:N", "updates:N", "task:N", altair.Tooltip("share:Q", format=".0%")],
        )
    )
    texts = (
        altair.Chart(altair.NamedData("names"))
        .mark_text(align="left", baseline="bottom", dy=-3, fontWeight="bold")
        .encode(x="x:Q", y=y, text="text:N")
    )
    totals = {name: ribbon.sum(axis=0) for name, ribbon in ribbons.items()}
    most = (f"{name}: {tasks[int(rows.argmax())]} {rows.max() / rows.sum():.0%}" for name, rows in totals.items())
    alt = f"Ribbons of the share of batches by task over meta-updates. Most drawn: {'; '.join(most)}."
    chart = altair.layer(rects, texts).add_params(_pick()).properties(height=max(60, 46 * len(ribbons)))
    names = [{"text": name, "x": 0, "y": row} for row, name in enumerate(ribbons)]
    slices = [
        {"method": name, **piece}
        for row, (name, ribbon) in enumerate(ribbons.items())
        for piece in _slices(ribbon, row, tasks)
    ]
    return Panel(cell.label, chart, {"slices": slices, "names": names}, alt)


def _slices(ribbon: Floats, row: int, tasks: Sequence[str]) -> Iterable[dict[str, Any]]:
    """The shares of tasks in neighbouring updates of a ribbon (K, N + 1), stacked from ``row`` to ``row`` + 0.7."""
    edges = np.unique(np.linspace(0, len(ribbon), min(len(ribbon), MOST_POINTS // 2) + 1).astype(int))
    for begin, end in pairwise(edges.tolist()):
        counts = ribbon[begin:end].sum(axis=0)
        shares = counts / max(counts.sum(), 1.0)
        tops = np.cumsum(counts) / max(counts.sum(), 1.0)
        for place in np.flatnonzero(counts).tolist():
            yield {
                "task": tasks[place],
                "updates": f"{begin + 1}–{end}" if end > begin + 1 else f"{end}",
                "share": _rounded(shares[place]),
                "x": begin,
                "x2": end,
                "y": _rounded(row + 0.7 * (tops[place] - shares[place])),
                "y2": _rounded(row + 0.7 * tops[place]),
            }


def _points(method: Method, x: Floats) -> Iterable[dict[str, Any]]:
    """The band of a method's accuracy over ``x`` (P,), as rows of a chart."""
    if not method.updates:
        return
    bands = np.stack([x, *statistics.median_band(method.curves("test_accuracy"))])
    for place in _thinned(len(x)):
        if np.isfinite(bands[:, place]).all():
            values = map(_rounded, bands[:, place])
            yield {"name": method.name, **dict(zip(("x", "y", "low", "high"), values, strict=True))}


def _thinned(count: int) -> list[int]:
    """Places of at most ``MOST_POINTS`` points, the first and the last among them."""
    return np.unique(np.linspace(0, count - 1, min(count, MOST_POINTS)).round().astype(int)).tolist() if count else []


def _known_medians(values: Floats) -> Floats:
    """Median of the numbers in each column; NaN where there are none."""
    columns = [column[~np.isnan(column)] for column in values.T]
    return np.array([np.median(column) if column.size else np.nan for column in columns], np.float64)


def _rounded(value: float) -> float:
    return float(f"{float(value):.5g}")


def _in_words(cell: Cell, against: str) -> str:
    ends = ", ".join(f"{method.name} {method.middle:.3f}" for method in shown(cell))
    return f"Lines of test accuracy against {against}, {cell.label}. Median final accuracy: {ends}."


def _pick() -> Any:
    """The name that a reader chose in the legend; empty: none."""
    return require("altair", "report").param(name="picked", value="")


def _picked(field: str, otherwise: float) -> Any:
    altair = require("altair", "report")
    return altair.condition(f"picked === '' || picked === datum.{field}", altair.value(otherwise), altair.value(0.08))


def _lines(
    key: str, points: Data, strokes: Sequence[Stroke], x_title: str, y_title: str, rules: Sequence[dict[str, Any]] = ()
) -> tuple[Any, dict[str, Data]]:
    """Lines over bands (where points have ``low`` and ``high``), and level lines; and their data, named by ``key``."""
    altair = require("altair", "report")
    series, levels = (f"{kind}_{zlib.crc32(key.encode()):08x}" for kind in ("points", "levels"))
    legend = altair.Legend(
        orient="bottom",
        columns=4,
        title=None,
        symbolType="stroke",
        symbolSize=500,
        symbolStrokeWidth=2,
        symbolOpacity=1,
    )

    def by_name(channel: Any, values: list[Any]) -> Any:
        names = [entry.name for entry in strokes]
        return channel("name:N", scale=altair.Scale(domain=names, range=values), legend=legend)

    colour = by_name(altair.Color, [entry.colour for entry in strokes])
    dash = by_name(altair.StrokeDash, [list(entry.dash) or [1, 0] for entry in strokes])
    x = altair.X("x:Q", title=x_title, scale=altair.Scale(zero=True), axis=altair.Axis(tickCount=5, format=",.6~r"))
    y, low = (altair.Y(f"{end}:Q", title=y_title, scale=altair.Scale(zero=False)) for end in ("y", "low"))
    height = altair.Tooltip("y:Q", title=y_title, format=".3f")
    tooltip = [altair.Tooltip("name:N", title="method"), altair.Tooltip("x:Q", title=x_title, format=",.4~f"), height]
    curve = altair.Chart(altair.NamedData(series))
    layers = []
    if any("low" in point for point in points):
        layers.append(curve.mark_area().encode(x=x, y=low, y2="high:Q", color=colour, opacity=_picked("name", 0.15)))
    line = {"x": x, "y": y, "color": colour}
    layers.append(
        curve.mark_line(strokeWidth=2, clip=True).encode(**line, strokeDash=dash, opacity=_picked("name", 1.0))
    )
    layers.append(curve.mark_point(size=60, filled=True, opacity=0).encode(**line, tooltip=tooltip))
    if rules:
        level = {"y": y, "color": colour, "strokeDash": dash, "opacity": _picked("name", 0.9)}
        chart = altair.Chart(altair.NamedData(levels)).mark_rule(strokeWidth=1.5)
        layers.append(chart.encode(**level, tooltip=[altair.Tooltip("name:N", title="level"), height]))
    chart = altair.layer(*layers).add_params(_pick()).properties(height=260)
    return chart, {series: points, levels: list(rules)}
