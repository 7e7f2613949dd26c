"""The three kinds of chart, drawn with Altair: labelled lines, differences with intervals, shares.

A method has the same colour and dash in every figure. The colours are visible on white and on near-black, and differ
from each other. Variants of a scheduler (``ucb-gain``, ``ucb-gain+abstain``) share its colour and differ in their
dashes. A method without its own colour is grey, and its name is at the end of the line.
"""

import json
import math
import zlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from metasched.optional import require
from metasched.report.statistics import Floats

Data = list[dict[str, Any]]
LINES_HEIGHT = 250
LABEL_PIXELS = 14
NARROWEST = 300
"""The width of a plot on a phone in pixels. The names of its lines must fit."""
LONGEST_NAME = 130
"""The longest name in pixels. Longer names are cut."""
WARM_UP = 0.1
"""The first share of the x axis, which does not influence where the y axis starts."""
WHOLE = ",.5~r"
"""The format of numbers at ticks: all digits of :func:`rounded`. Without a precision Vega cuts them to the step of the
axis.
"""
SIGNED = "+.6~f"
"""The format of differences at ticks, without trailing zeros."""
SLICES = 40
MOST_SOURCES = 14


class Plot(NamedTuple):
    """A chart, and the rows of its named data. They are separate, because Altair checks every row of inline data."""

    chart: Any
    data: dict[str, Data]


class Share(NamedTuple):
    """How often one source was drawn: its name, and its share of the draws in slices of a run (T,)."""

    name: str
    shares: Floats


class Stroke(NamedTuple):
    """How a line is drawn: its colour, and its dashes (empty: solid)."""

    name: str
    colour: str
    dash: tuple[int, ...] = ()


COLOURS = {
    "uniform": "#877000",
    "cyclic": "#b5468c",
    "sequential": "#b04a4a",
    "target-only": "#e0115f",
    "single": "#a33bc4",
    "best single": "#a33bc4",
    "supervised": "#697743",
    "ucb": "#048650",
    "gittins": "#c04a00",
    "mdp": "#1466b0",
    "thompson": "#3b5ff0",
    "thompson-transfer": "#3b5ff0",
    "mirror": "#9218f2",
    "proportional": "#457d00",
}
GREY = "#6e6e6e"
OURS = "#007a76"
"""The colour of the method that a verdict is about, if its name has no colour."""
FINAL = "#b4530a"
"""The colour of the final model of a comparison."""
CEILINGS = ("useful", "oracle")
"""What nobody knows beforehand. Names that begin with one of these are drawn in dashed grey."""
DASHES: dict[str, tuple[int, ...]] = {
    "": (),
    "-transfer": (12, 3),
    "-gain": (7, 3),
    "-plain": (4, 4),
    "-refresh": (3, 2),
    "-gain+abstain": (8, 3, 2, 3),
    "-refresh+abstain": (2, 2, 5, 2),
    "+abstain": (1, 3),
}
IN_ORDER = ("#1466b0", "#c04a00", "#048650", "#b5468c", "#877000", "#a33bc4", "#007a76")
"""The colours of classes, in order. After the last they begin again with dashes."""


def stroke(name: str, ours: bool = False) -> Stroke:
    """The line of a method: the colour of its scheduler and the dashes of its variant, or grey if either is unknown.

    The method that a verdict is on, ``ours``, always has a colour.

    >>> stroke("gittins-refresh"), stroke("lottery")
    (Stroke(name='gittins-refresh', colour='#c04a00', dash=(3, 2)), Stroke(name='lottery', colour='#6e6e6e', dash=()))
    """
    if name.startswith(CEILINGS):
        return Stroke(name, GREY, (4, 3))
    base = max((known for known in COLOURS if name.startswith(known)), key=len, default="")
    rest = "" if base in ("single", "best single") else name[len(base) :]
    if base and rest in DASHES:
        return Stroke(name, COLOURS[base], DASHES[rest])
    return Stroke(name, OURS if ours else GREY)


def in_order(names: Sequence[str]) -> list[Stroke]:
    """Lines for classes, by position."""
    dashes: tuple[tuple[int, ...], ...] = ((), (6, 3), (2, 2))
    count = len(IN_ORDER)
    return [
        Stroke(name, IN_ORDER[index % count], dashes[index // count % len(dashes)]) for index, name in enumerate(names)
    ]


def lines(
    key: str,
    points: Data,
    strokes: Sequence[Stroke],
    x_title: str,
    y_title: str,
    levels: Sequence[dict[str, Any]] = (),
) -> Plot:
    """Lines over bands (if points have ``low`` and ``high``) and level lines, each with its name at its end."""
    altair = require("altair", "report")
    end = max((point["x"] for point in points), default=1.0)
    low, high = _span(points, levels, end)
    within = [level for level in levels if low <= level["y"] <= high]
    series, rules, names = (_named(kind, key) for kind in ("points", "levels", "names"))
    colour = _by_name(altair.Color, strokes, [entry.colour for entry in strokes])
    dash = _by_name(altair.StrokeDash, strokes, [list(entry.dash) or [1, 0] for entry in strokes])
    ticks = altair.Axis(values=_ticks(end), format=WHOLE, grid=False)
    x = altair.X("x:Q", title=x_title, scale=altair.Scale(domain=[0, end * _room(strokes)], nice=False), axis=ticks)
    scale = altair.Scale(domain=[low, high], zero=False, nice=False)
    y = altair.Y("y:Q", title=y_title, scale=scale, axis=altair.Axis(tickCount=5))
    height = altair.Tooltip("y:Q", title=y_title, format=",.4~r")
    what = [altair.Tooltip("name:N", title="method"), altair.Tooltip("x:Q", title=x_title, format=",.4~f"), height]
    curve = altair.Chart(altair.NamedData(series))
    layers = []
    if any("low" in point for point in points):
        band = altair.Y("low:Q", title=y_title, scale=scale)
        layers.append(curve.mark_area(opacity=0.15, clip=True).encode(x=x, y=band, y2="high:Q", color=colour))
    layers.append(curve.mark_line(strokeWidth=2, clip=True).encode(x=x, y=y, color=colour, strokeDash=dash))
    layers.append(curve.mark_point(size=60, filled=True, opacity=0, clip=True).encode(x=x, y=y, tooltip=what))
    if within:
        ends = {"x": altair.datum(0), "x2": altair.datum(end), "y": y, "color": colour, "strokeDash": dash}
        level = altair.Chart(altair.NamedData(rules)).mark_rule(strokeWidth=1.5)
        layers.append(level.encode(**ends, tooltip=[altair.Tooltip("name:N", title="level"), height]))
    text = altair.Chart(altair.NamedData(names)).mark_text(
        align="left", dx=5, fontSize=11, fontWeight=600, limit=LONGEST_NAME
    )
    layers.append(text.encode(x=x, y=y, text="name:N", color=colour))
    chart = altair.layer(*layers).properties(height=LINES_HEIGHT)
    return Plot(chart, {series: points, rules: within, names: _labels(points, within, low, high, end)})


def differences(
    key: str, rows: Data, strokes: Sequence[Stroke], x_title: str | list[str], strong: Sequence[str] = ()
) -> Plot:
    """A row for each ``label``: ``value`` of method ``name`` with its interval, filled if ``shown``.

    A row may have its own ``shape`` and ``size``. Labels in ``strong`` are bold.
    """
    altair = require("altair", "report")
    series = _named("rows", key)
    colour = _by_name(altair.Color, strokes, [entry.colour for entry in strokes])
    fill = _by_name(altair.Fill, strokes, [entry.colour for entry in strokes])
    bold = {"test": f"indexof({json.dumps(list(strong))}, datum.value) >= 0", "value": "bold"}
    weight = {"condition": bold, "value": "normal"}
    y = altair.Y(
        "label:N",
        sort=[row["label"] for row in rows],
        title=None,
        axis=altair.Axis(
            labelLimit=230, labelFontSize=10, labelFontWeight=weight, ticks=False, domain=False, grid=True
        ),
    )
    ends = [row[end] for row in rows for end in ("low", "high", "value")]
    axis = altair.Axis(format=SIGNED, tickCount=4, grid=False)
    scale = altair.Scale(domain=[1.05 * min([0.0, *ends]), 1.05 * max([0.0, *ends]) or 0.1], nice=True)
    x, low = (altair.X(f"{field}:Q", title=x_title, scale=scale, axis=axis) for field in ("value", "low"))
    table = altair.Chart(altair.NamedData(series))
    what = [
        "label:N",
        altair.Tooltip("name:N", title="method"),
        *(altair.Tooltip(f"{field}:Q", format="+,.4~r") for field in ("value", "low", "high")),
        altair.Tooltip("words:N", title="verdict"),
    ]
    shape = altair.Shape("shape:N", scale=None, legend=None)
    size = altair.Size("size:Q", scale=None, legend=None)
    filled = altair.condition("datum.shown", altair.value(1), altair.value(0))
    layers = (
        table.mark_rule(strokeWidth=1, strokeDash=[2, 2], color=GREY).encode(x=altair.datum(0)),
        table.mark_rule(strokeWidth=2).encode(x=low, x2="high:Q", y=y, color=colour),
        table.mark_point(strokeWidth=2, opacity=1).encode(
            x=x, y=y, color=colour, fill=fill, fillOpacity=filled, shape=shape, size=size, tooltip=what
        ),
    )
    step = 22 if len(rows) <= 12 else 17 if len(rows) <= 24 else 13
    drawn = [{"shape": "circle", "size": 60, **row} for row in rows]
    return Plot(altair.layer(*layers).properties(height=max(60, step * len(rows))), {series: drawn})


def shares(key: str, sources: Sequence[Share], rows_drawn: float, colour: str) -> Plot:
    """A row for each source. It is darker if the source had a larger share of the draws at that time."""
    altair = require("altair", "report")
    series = _named("slices", key)
    table = [
        {
            "source": source.name,
            "x": rounded(rows_drawn * index / len(source.shares)),
            "x2": rounded(rows_drawn * (index + 1) / len(source.shares)),
            "share": rounded(share),
        }
        for source in sources
        for index, share in enumerate(source.shares)
    ]
    most = max((float(source.shares.max()) for source in sources), default=1.0) or 1.0
    axis = altair.Axis(values=_ticks(rows_drawn), format=WHOLE, grid=False)
    chart = (
        altair.Chart(altair.NamedData(series))
        .mark_rect(color=colour)
        .encode(
            x=altair.X("x:Q", title="source rows drawn", axis=axis, scale=altair.Scale(nice=False)),
            x2="x2:Q",
            y=altair.Y(
                "source:N",
                sort=[source.name for source in sources],
                title=None,
                axis=altair.Axis(labelLimit=170, ticks=False, domain=False, grid=False),
            ),
            opacity=altair.Opacity("share:Q", scale=altair.Scale(domain=[0, most], range=[0.04, 1]), legend=None),
            tooltip=[
                "source:N",
                altair.Tooltip("x:Q", title="from row", format=",.0f"),
                altair.Tooltip("share:Q", format=".0%"),
            ],
        )
        .properties(height=max(60, 15 * len(sources)))
    )
    return Plot(chart, {series: table})


def _by_name(channel: Any, strokes: Sequence[Stroke], values: list[Any]) -> Any:
    altair = require("altair", "report")
    return channel("name:N", scale=altair.Scale(domain=[entry.name for entry in strokes], range=values), legend=None)


def _named(kind: str, key: str) -> str:
    """The data of a chart, under a name that no other chart of a figure has."""
    return f"{kind}_{zlib.crc32(key.encode()):08x}"


def _span(points: Data, levels: Sequence[dict[str, Any]], last: float) -> tuple[float, float]:
    """The ends of the y axis: what the lines and levels need after the first steps, and a little more."""
    late = [point for point in points if point["x"] >= WARM_UP * last] or points
    needed = [float(point[end]) for point in late for end in ("low", "y", "high") if end in point]
    needed += [float(level["y"]) for level in levels if not level.get("optional")]
    low, high = min(needed, default=0.0), max(needed, default=1.0)
    room = 0.06 * ((high - low) or 0.1)
    return rounded(max(0.0, low - room) if low >= 0 else low - room), rounded(high + room)


def _labels(points: Data, levels: Sequence[dict[str, Any]], low: float, high: float, end: float) -> Data:
    """The position of the name of each line: at the height of its end, moved so that no two names overlap."""
    last = {point["name"]: point for point in sorted(points, key=lambda point: point["x"])}
    ends = {name: (point["x"], point["y"]) for name, point in last.items()}
    ends |= {level["name"]: (end, level["y"]) for level in levels}
    gap = LABEL_PIXELS * (high - low) / LINES_HEIGHT
    names = sorted(ends, key=lambda name: ends[name][1])
    heights = [min(max(ends[name][1], low), high) for name in names]
    for index in range(1, len(heights)):
        heights[index] = max(heights[index], heights[index - 1] + gap)
    if heights and heights[-1] > high:
        heights[-1] = high
        for index in range(len(heights) - 2, -1, -1):
            heights[index] = min(heights[index], heights[index + 1] - gap)
    return [{"name": name, "x": end, "y": rounded(y)} for name, y in zip(names, heights, strict=True)]


def _room(strokes: Sequence[Stroke]) -> float:
    """How far the x axis continues beyond the data, to leave room for the names of the lines."""
    longest = max((len(entry.name) for entry in strokes), default=0)
    return NARROWEST / (NARROWEST - min(LONGEST_NAME, 6.5 * longest) - 8)


def _ticks(end: float) -> list[float]:
    """Three to six round numbers from 0 to ``end``."""
    rough = max(end, 1e-9) / 4
    size = 10.0 ** math.floor(math.log10(rough))
    step = next(size * factor for factor in (1, 2, 2.5, 5, 10) if size * factor >= rough)
    return [rounded(value) for value in np.arange(0, end * 1.0001, step)]


def rounded(value: float) -> float:
    """Five digits, which is more than a chart can show. The page is then half as large."""
    return float(f"{float(value):.5g}")
