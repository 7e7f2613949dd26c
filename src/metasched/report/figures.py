"""The paper's figures and ours as Altair charts: a panel for each cell, so that a page can put them where they fit."""

import zlib
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from metasched.optional import require
from metasched.report import compare, statistics
from metasched.report.cells import TARGET_ONLY, Cell, Evidence, Floats, Method
from metasched.report.palette import ABSTAINED, Stroke, in_order, stroke
from metasched.report.results import Results
from metasched.report.sheets import Source, UnavailableError

PAPER = ("cyclic", "ucb", "gittins", "mdp")
MOST_POINTS = 120
"""Points of a curve, and slices of a ribbon, that a figure keeps."""
BAND_NOTE = "Lines: median over seeds; bands: its bootstrap 95 % interval."
RULE_NOTE = "Level line: target-only, which draws no source rows (median final accuracy); dots: the threshold."
THRESHOLD = Stroke("threshold", "#8c8c8c", (1, 3))


class Panel(NamedTuple):
    """One chart, and what it shows in words."""

    title: str
    chart: Any
    data: dict[str, list[dict[str, Any]]]
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


def scaled_errors(results: Results) -> list[Figure]:
    """Figure 2: √t·e(t) by class over inner steps."""
    evidence = [item for item in results.evidence if item.scaled_error and item.steps is not None]
    if not evidence:
        raise UnavailableError("no evidence.json with scaled_error")
    figures = []
    for place, item in enumerate(evidence):
        strokes = in_order(list(item.scaled_error))
        exponent = f" The error itself falls like t^−{item.exponent:.2f} (assumed: t^−½)." if item.exponent else ""
        note = f"If √t·e(t) were constant, the paper's reward 1 − √t·e(t) would not depend on time.{exponent}"
        key = "fig2" if place == 0 else f"fig2-{item.experiment}"
        title = f"Figure 2: scaled validation error by class, {item.experiment}"
        figures.append(Figure(key, title, note, (_scaled_panel(item, strokes),), tuple(strokes), (item,)))
    return figures


def _scaled_panel(item: Evidence, strokes: Sequence[Stroke]) -> Panel:
    assert item.steps is not None
    keep = _thinned(len(item.steps))
    rows = [
        {"name": name, "x": _rounded(item.steps[place]), "y": _rounded(values[place])}
        for name, values in item.scaled_error.items()
        for place in keep
        if np.isfinite(values[place])
    ]
    ends = ", ".join(f"{name} {values[-1]:.2f}" for name, values in item.scaled_error.items())
    alt = f"Lines of √t·e(t) over inner steps t, one for each class. At the last step: {ends}."
    plot = _lines(item.key, rows, strokes, "inner step t", "√t · validation error")
    return Panel(item.experiment, *plot, alt)


def digits(results: Results) -> list[Figure]:
    """Figure 3: digits at three batch sizes."""
    return [_curves(results.of("digits", "paper"), "fig3", "Figure 3: digits by batch size")]


def cifar(results: Results) -> list[Figure]:
    """Figure 4: CIFAR-100."""
    return [_curves(results.of("cifar", "paper"), "fig4", "Figure 4: CIFAR-100")]


def weather(results: Results) -> list[Figure]:
    """Figure 5: weather with U850 and with V850 as test feature."""
    cells = [cell for cell in results.of("weather", "paper") if cell.variant in ("U850", "V850")]
    return [_curves(cells, "fig5", "Figure 5: weather by test feature")]


def few_label(results: Results) -> list[Figure]:
    """Accuracy against samples with few target labels."""
    return [_curves(results.of(regime="few-label"), "few-label", "Few target labels")]


def robust(results: Results) -> list[Figure]:
    """Accuracy against samples with noisy or irrelevant sources."""
    return [_curves(results.of(regime="robust"), "robust", "Noisy and irrelevant sources")]


def own_runs(results: Results) -> list[Figure]:
    """Accuracy against samples of cells in no known regime, such as ordinary runs."""
    cells = [cell for cell in results.cells if cell.regime not in ("paper", "few-label", "robust")]
    return [_curves(cells, "runs", "Runs of your own")]


def shown(cell: Cell) -> list[str]:
    """The methods that a figure draws: the paper's, the best of each kind, target-only."""
    best = [compare.best_static(cell), compare.best_active(cell), compare.best_single(cell)]
    wanted = [*PAPER, *(name for name in best if name), TARGET_ONLY]
    return [name for name in dict.fromkeys(wanted) if name in cell.methods]


def _curves(cells: Sequence[Cell], key: str, title: str) -> Figure:
    drawn = [cell for cell in cells if any(method.updates.size for method in cell.methods.values())]
    if not drawn:
        raise UnavailableError("no cell with its accuracy over time")
    names = dict.fromkeys(name for cell in drawn for name in shown(cell))
    strokes = [stroke(name) for name in names]
    if any(cell.threshold is not None for cell in drawn):
        strokes.append(THRESHOLD)
    panels = tuple(_curve_panel(cell, strokes) for cell in drawn)
    note = f"Test accuracy against source rows drawn. {BAND_NOTE} {RULE_NOTE}"
    return Figure(key, title, note, panels, tuple(strokes), tuple(drawn))


def _curve_panel(cell: Cell, strokes: Sequence[Stroke]) -> Panel:
    rows: list[dict[str, Any]] = []
    rules: list[dict[str, Any]] = []
    for name in shown(cell):
        method = cell.methods[name]
        if name == TARGET_ONLY:
            level = compare.middle(cell, name)
            if np.isfinite(level):
                rules.append({"name": name, "y": _rounded(level)})
            continue
        rows += _points(name, method, _column_medians(method.samples))
    if cell.threshold is not None:
        rules.append({"name": THRESHOLD.name, "y": cell.threshold})
    plot = _lines(cell.key, rows, strokes, "source rows drawn", "test accuracy", rules)
    return Panel(cell.label, *plot, _in_words(cell, "source rows drawn"))


def wall_time(results: Results) -> list[Figure]:
    """Accuracy against seconds, for one cell of each experiment and regime."""
    cells = [cell for cell in _representative(results) if any(_timed(cell.methods[name]) for name in shown(cell))]
    if not cells:
        raise UnavailableError("no cell with the seconds of its runs")
    strokes = [stroke(name) for name in dict.fromkeys(name for cell in cells for name in shown(cell))]
    panels = []
    for cell in cells:
        rows: list[dict[str, Any]] = []
        for name in shown(cell):
            method = cell.methods[name]
            if _timed(method):
                assert method.seconds is not None
                wall = float(np.nanmedian(method.seconds))
                rows += _points(name, method, wall * method.updates / method.updates[-1])
        plot = _lines(cell.key, rows, strokes, "seconds", "test accuracy")
        panels.append(Panel(cell.label, *plot, _in_words(cell, "wall seconds")))
    note = (
        "The median wall time of a run spread evenly over its meta-updates; it holds planning, training and measuring. "
        f"{BAND_NOTE}"
    )
    return [Figure("time", "Accuracy against wall time", note, tuple(panels), tuple(strokes), tuple(cells))]


def _timed(method: Method) -> bool:
    measured = method.updates.size > 0 and method.updates[-1] > 0
    return bool(measured and method.seconds is not None and np.isfinite(method.seconds).any())


def _representative(results: Results) -> list[Cell]:
    """One cell of each experiment and regime: that with 30 labels, or U850, where there is one, else the first."""
    chosen: dict[tuple[str, str], Cell] = {}
    for cell in results.cells:
        key = (cell.experiment, cell.regime)
        if key not in chosen or cell.variant in ("30 labels", "B=20", "U850"):
            chosen[key] = cell
    return list(chosen.values())


def schedules(results: Results) -> list[Figure]:
    """Which task when: one ribbon for each method, for one cell of each experiment and for every robust cell."""
    cells = [*dict.fromkeys([*_representative(results), *results.of(regime="robust")])]
    figures: list[Figure] = []
    for cell in cells:
        names = [name for name in shown(cell) if _scheduled(cell.methods[name])]
        if not names:
            continue
        strokes = in_order(cell.tasks)
        if any(np.nansum(cell.methods[name].schedule[:, -1]) for name in names):  # type: ignore[index]
            strokes.append(Stroke("abstained", ABSTAINED))
        key = f"schedules-{len(figures) + 1}"
        note = "Share of batches from each task over meta-updates, first seed."
        title = f"Which task when: {cell.title}"
        panel = _ribbons(cell, names)
        figures.append(Figure(key, title, note, (panel,), tuple(strokes), (cell,), blocks=True))
    if not figures:
        raise UnavailableError("no method has its schedule")
    return figures


def _scheduled(method: Method) -> bool:
    return method.schedule is not None and method.schedule.size > 0 and bool(np.nansum(method.schedule))


def _ribbons(cell: Cell, names: Sequence[str]) -> Panel:
    altair = require("altair", "report")
    colours = [*(entry.colour for entry in in_order(cell.tasks)), ABSTAINED]
    labels = [*cell.tasks, "abstained"]
    slices: list[dict[str, Any]] = []
    for row, name in enumerate(names):
        schedule = cell.methods[name].schedule
        assert schedule is not None
        edges = np.unique(np.linspace(0, len(schedule), min(len(schedule), MOST_POINTS // 2) + 1).astype(int))
        for begin, end in pairwise(edges.tolist()):
            counts = np.nan_to_num(schedule[begin:end]).sum(axis=0)
            if not counts.sum():
                continue
            tops = np.cumsum(counts) / counts.sum()
            for place in np.flatnonzero(counts):
                slices.append(
                    {
                        "method": name,
                        "task": labels[place],
                        "updates": f"{begin + 1}–{end}" if end > begin + 1 else f"{end}",
                        "share": _rounded(counts[place] / counts.sum()),
                        "x": int(begin),
                        "x2": int(end),
                        "y": _rounded(row + 0.7 * (tops[place] - counts[place] / counts.sum())),
                        "y2": _rounded(row + 0.7 * tops[place]),
                    }
                )
    vertical = altair.Y(
        "y:Q", axis=None, scale=altair.Scale(domain=[-0.35, len(names) - 0.2], reverse=True, nice=False)
    )
    rects = (
        altair.Chart(altair.NamedData("slices"))
        .mark_rect()
        .encode(
            x=altair.X("x:Q", title="meta-update", scale=altair.Scale(nice=False)),
            x2="x2:Q",
            y=vertical,
            y2="y2:Q",
            color=altair.Color(
                "task:N",
                scale=altair.Scale(domain=labels, range=colours),
                legend=altair.Legend(orient="bottom", columns=3, title=None, symbolType="square"),
            ),
            opacity=_picked("task", 1.0),
            tooltip=["method:N", "updates:N", "task:N", altair.Tooltip("share:Q", format=".0%")],
        )
    )
    labels_of_rows = [{"text": name, "x": 0, "y": row} for row, name in enumerate(names)]
    texts = (
        altair.Chart(altair.NamedData("names"))
        .mark_text(align="left", baseline="bottom", dy=-3, fontWeight="bold")
        .encode(x="x:Q", y=vertical, text="text:N")
    )
    alt = f"Ribbons of the share of batches by task over meta-updates. {_most_drawn(cell, names)}"
    height = max(60, 46 * len(names))
    chart = altair.layer(rects, texts).add_params(_pick()).properties(height=height)
    return Panel(cell.label, chart, {"slices": slices, "names": labels_of_rows}, alt)


def _most_drawn(cell: Cell, names: Sequence[str]) -> str:
    parts = []
    for name in names:
        schedule = cell.methods[name].schedule
        assert schedule is not None
        counts = np.nan_to_num(schedule).sum(axis=0)
        labels = [*cell.tasks, "abstained"]
        parts.append(f"{name}: {labels[int(counts.argmax())]} {counts.max() / counts.sum():.0%}")
    return "Most drawn: " + "; ".join(parts) + "."


def _points(name: str, method: Method, x: Floats) -> Iterable[dict[str, Any]]:
    """The band of a method's accuracy over ``x`` (P,), as rows of a chart."""
    if not method.updates.size:
        return
    middle, low, high = statistics.median_band(method.test_accuracy)
    for place in _thinned(len(x)):
        if np.isfinite([x[place], middle[place], low[place], high[place]]).all():
            yield {
                "name": name,
                "x": _rounded(x[place]),
                "y": _rounded(middle[place]),
                "low": _rounded(low[place]),
                "high": _rounded(high[place]),
            }


def _thinned(count: int) -> list[int]:
    """Places of at most ``MOST_POINTS`` points, the first and the last among them."""
    return np.unique(np.linspace(0, count - 1, min(count, MOST_POINTS)).round().astype(int)).tolist() if count else []


def _column_medians(values: Floats) -> Floats:
    """Median of what is known in each column; NaN where nothing is."""
    known = [column[~np.isnan(column)] for column in values.T]
    return np.array([np.median(column) if column.size else np.nan for column in known], np.float64)


def _rounded(value: float) -> float:
    return float(f"{float(value):.5g}")


def _in_words(cell: Cell, against: str) -> str:
    ends = ", ".join(f"{name} {compare.middle(cell, name):.3f}" for name in shown(cell) if compare.finals(cell, name))
    return f"Lines of test accuracy against {against}, {cell.label}. Median final accuracy: {ends}."


def _pick() -> Any:
    """The name that a reader chose in the legend; empty: none."""
    return require("altair", "report").param(name="picked", value="")


def _picked(field: str, otherwise: float) -> Any:
    altair = require("altair", "report")
    return altair.condition(f"picked === '' || picked === datum.{field}", altair.value(otherwise), altair.value(0.08))


def _lines(
    key: str,
    rows: Sequence[dict[str, Any]],
    strokes: Sequence[Stroke],
    x_title: str,
    y_title: str,
    rules: Sequence[dict[str, Any]] = (),
) -> tuple[Any, dict[str, list[dict[str, Any]]]]:
    """Lines over bands (where rows have ``low`` and ``high``) and level lines; and their data, named after ``key``."""
    altair = require("altair", "report")
    points, levels = (f"{kind}_{zlib.crc32(key.encode()):08x}" for kind in ("points", "levels"))
    names = [entry.name for entry in strokes]
    legend = altair.Legend(
        orient="bottom",
        columns=4,
        title=None,
        symbolType="stroke",
        symbolSize=500,
        symbolStrokeWidth=2,
        symbolOpacity=1,
    )
    colour = altair.Color(
        "name:N", scale=altair.Scale(domain=names, range=[entry.colour for entry in strokes]), legend=legend
    )
    dash = altair.StrokeDash(
        "name:N",
        scale=altair.Scale(domain=names, range=[list(entry.dash) or [1, 0] for entry in strokes]),
        legend=legend,
    )
    x = altair.X("x:Q", title=x_title, scale=altair.Scale(zero=True), axis=altair.Axis(tickCount=5, format=",.6~r"))
    y = altair.Y("y:Q", title=y_title, scale=altair.Scale(zero=False))
    layers = []
    if any("low" in row for row in rows):
        layers.append(
            altair.Chart(altair.NamedData(points))
            .mark_area()
            .encode(
                x=x,
                y=altair.Y("low:Q", title=y_title, scale=altair.Scale(zero=False)),
                y2="high:Q",
                color=colour,
                opacity=_picked("name", 0.15),
            )
        )
    curve = altair.Chart(altair.NamedData(points))
    tooltip = [
        altair.Tooltip("name:N", title="method"),
        altair.Tooltip("x:Q", title=x_title, format=",.4~f"),
        altair.Tooltip("y:Q", title=y_title, format=".3f"),
    ]
    layers.append(
        curve.mark_line(strokeWidth=2, clip=True).encode(
            x=x, y=y, color=colour, strokeDash=dash, opacity=_picked("name", 1.0)
        )
    )
    layers.append(curve.mark_point(size=60, filled=True, opacity=0).encode(x=x, y=y, color=colour, tooltip=tooltip))
    if rules:
        layers.append(
            altair.Chart(altair.NamedData(levels))
            .mark_rule(strokeWidth=1.5)
            .encode(
                y=y,
                color=colour,
                strokeDash=dash,
                opacity=_picked("name", 0.9),
                tooltip=[altair.Tooltip("name:N", title="level"), altair.Tooltip("y:Q", title=y_title, format=".3f")],
            )
        )
    chart = altair.layer(*layers).add_params(_pick()).properties(height=260)
    return chart, {points: list(rows), levels: list(rules)}
