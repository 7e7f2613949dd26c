"""The figures: which cells and methods each shows. Every cell is a panel, and a page arranges the panels."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from metasched.report import compare, plots, statistics
from metasched.report.cells import TARGET_ONLY, USEFUL, CellRuns, MethodRuns, Source
from metasched.report.outputs import EXPERIMENTS, FIRST, Output, UnavailableError, makes
from metasched.report.plots import MOST_SOURCES, SLICES, Data, Plot, Share, Stroke, rounded, stroke
from metasched.report.remarks import Between, MethodLine, Remarks
from metasched.report.results import Results
from metasched.report.statistics import Floats
from metasched.report.tables import ACCURACY, as_values, in_units
from metasched.report.verdict import Answer, answers, spoken_of
from metasched.runs.outcome import OURS
from metasched.schedulers.resolve import BASELINE

MOST_POINTS = 120
"""The most points of a curve in a figure."""
MOST_LINES = 9
"""The most methods of own runs in a figure. If there are more, the best of each kind is shown."""
ALWAYS = ("cyclic", "ucb", "gittins", "mdp")
"""Schedulers that a figure always shows if a cell has them and no method was named beforehand."""
MOST_SCHEDULES = 3
"""The most methods of a cell whose schedules are drawn, if none was planned."""
LONG_TITLE = 15
"""If the name of a metric has this many letters, the title of an axis has two lines, so that it fits on a phone."""
BAND_NOTE = "Lines: the median over seeds. Bands: its 95 % bootstrap interval."
SHAPES = {"network": "circle", "reference": "square", "final": "diamond"}
KINDS = {"network": "network", "reference": "reference model", "final": "the final model"}
SINGLE_NOTE = (
    "Lines: single networks, the mean over learning rates and the median over seeds, with its 95 % bootstrap interval. "
    "The table of methods scores the mean of their predictions, which is usually better. "
    "The level line is target-only, which draws no source rows."
)
THRESHOLD = Stroke("threshold", "#8c8c8c", (1, 3))


class Panel(NamedTuple):
    """One chart, its description, and the ``group`` by which it is selected if only one is shown at a time."""

    title: str
    plot: Plot
    alt: str
    group: str


class Figure(NamedTuple):
    """Panels under one title."""

    key: str
    title: str
    note: str
    panels: tuple[Panel, ...]
    sources: tuple[Source, ...]


@makes("contrasts", "Does choosing help?", FIRST)
def contrasts(output: Output, results: Results) -> list[Figure]:
    """Final score minus that of the baseline, by cell or, if there is only one cell, by method."""
    found = answers(results)
    told = [(cell, cell.remarks) for cell in results.cells if cell.remarks is not None]
    if len(told) == 1 and not found:
        return [_of_comparison(output, *told[0])]
    if not found and not told:
        raise UnavailableError("no cell has an active and a static method with a common seed")
    alone = len(found) == 1 and not told
    rows = [*(row for cell, remarks in told for row in _ours_of(cell, remarks)), *_rows(found, alone)]
    baselines = " or ".join(dict.fromkeys([*[BASELINE] * bool(told), *(answer.baseline.name for answer in found)]))
    metrics = list(dict.fromkeys(cell.metric.title for cell in spoken_of(results)))
    ours = list(dict.fromkeys(_ours_in(results)))
    strokes = [stroke(name, name in ours) for name in dict.fromkeys(row["name"] for row in rows)]
    plot = plots.differences(output.name, rows, strokes, f"{' or '.join(metrics)} minus that of {baselines}")
    listed = "; ".join(f"{row['label']} {row['value']:+.3g} ({row['words']})" for row in rows)
    what = "Each method" if alone else " and ".join(ours)
    if len(found) > 1 and not any(answer.planned for answer in found):
        what = "The best active method, picked after the runs,"
    note = f"{what} minus {baselines}, paired by seed, with its 95 % bootstrap interval. Filled: a difference is shown."
    if told:
        note += " For comparisons, the interval is that of their own page."
    panel = Panel("", plot, f"Differences in final {' or '.join(metrics)} from {baselines}: {listed}.", "")
    return [Figure(output.name, output.title, note, (panel,), tuple(spoken_of(results)))]


def _ours_in(results: Results) -> list[str]:
    """The methods that the verdicts are about."""
    told = [cell.remarks.ours for cell in results.cells if cell.remarks is not None]
    return [*told, *(answer.ours.name for answer in answers(results))]


def _of_comparison(output: Output, cell: CellRuns, remarks: Remarks) -> Figure:
    """The table of a comparison as a figure, in the same order and with the same numbers."""
    metric = cell.metric
    rows: Data = []
    for line in remarks.table:
        if line.over is not None:
            ours = line.name == remarks.ours
            look = {"shape": SHAPES[line.kind], "size": 130 if ours or line.kind == "final" else 55}
            facts = {"label": line.name, "name": line.name, "words": "ours" if ours else KINDS[line.kind]}
            rows.append({**facts, **_ends(line.over, cell), **look, "shown": line.kind != "reference"})
    strokes = [_stroke_of(line, remarks.ours) for line in remarks.table if line.over is not None]
    x_title = [metric.title, f"minus that of {BASELINE}"]
    x_title = x_title if len(metric.title) > LONG_TITLE else [" ".join(x_title)]
    x_title += ["(below 0 is better)"] * (not metric.higher_is_better)
    plot = plots.differences(output.name, rows, strokes, x_title, strong=[remarks.ours])
    listed = "; ".join(f"{row['label']} {row['value']:+.4g} [{row['low']:+.4g}, {row['high']:+.4g}]" for row in rows)
    note = (
        f"The same numbers as in the table of methods, with their 95 % intervals. Large dot: {remarks.ours} (ours). "
        "Dots: networks. Squares: reference models. Diamond: the final model. The intervals are not corrected for "
        "several comparisons; those of the verdict are tested together."
    )
    panel = Panel("", plot, f"Differences in {metric.title} from {BASELINE}: {listed}.", "")
    return Figure(output.name, output.title, note, (panel,), (cell,))


def _stroke_of(line: MethodLine, ours: str) -> Stroke:
    if line.kind == "network":
        return stroke(line.name, line.name == ours)
    return Stroke(line.name, plots.FINAL if line.kind == "final" else plots.GREY)


def _ends(over: Between, cell: CellRuns) -> dict[str, float]:
    """The ends of a stored difference as values of the metric. Without an interval they are the difference itself."""
    value, low, high = as_values(over.interval, cell.metric)
    ends = (value if np.isnan(end) else end for end in (value, low, high))
    return dict(zip(("value", "low", "high"), map(rounded, ends), strict=True))


def _ours_of(cell: CellRuns, remarks: Remarks) -> Data:
    """The method of one comparison among several that its verdict is about."""
    over = next((line.over for line in remarks.table if line.name == remarks.ours), None)
    if over is None:
        return []
    shown = remarks.case in ("helps", "hurts")
    return [{"label": cell.label, "name": remarks.ours, **_ends(over, cell), "shown": shown, "words": remarks.case}]


def _rows(found: Sequence[Answer], alone: bool) -> Data:
    """All cells, the largest difference first. For one cell ``alone`` all methods, but only the best single task."""
    tests = [(answer.cell.label, answer.ours, answer.contrast) for answer in found]
    if alone:
        (one,) = found
        by_method = compare.against(one.cell, one.baseline) | {one.ours: one.contrast}
        single = compare.best_single(one.cell)
        tests = [
            (method.name, method, test)
            for method, test in by_method.items()
            if method is single or method.runs[0].spec.scheduler[:6] != "single"
        ]
    rows = []
    for label, method, test in sorted(tests, key=lambda row: -row[2].difference.value):
        difference = as_values(test.difference, method.metric)
        value, low, high = (difference.value if np.isnan(end) else rounded(end) for end in difference)
        shown = test.kind in ("better", "worse")
        ends = {"value": value, "low": low, "high": high}
        rows.append({"label": label, "name": method.name, **ends, "shown": shown, "words": test.words})
    return rows


@makes("runs", "How fast accuracy rises", FIRST, curves=True)
def own_runs(output: Output, results: Results) -> list[Figure]:
    """Accuracy against samples for cells without a known regime, such as own runs."""
    return [curves(output, [cell for cell in results.cells if cell.own])]


def shown(cell: CellRuns) -> list[MethodRuns]:
    """The methods in a figure: the paper's, the best of each kind, the planned one, and target-only.

    If a method was planned, they are this one, its baseline, the useful sources alone, and target-only. If there are
    few own runs, all are shown.
    """
    if cell.own and len(cell.methods) <= MOST_LINES:
        return list(cell.methods.values())
    planned = compare.named(cell)
    if planned:
        wanted = (*(method.name for method in planned), USEFUL, TARGET_ONLY)
        return [cell.methods[name] for name in wanted if name in cell.methods]
    best = [compare.best_static(cell), compare.best_active(cell), compare.best_single(cell)]
    names = [method.name for method in best if method]
    drawn = dict.fromkeys((*ALWAYS, *names, TARGET_ONLY))
    return [cell.methods[name] for name in drawn if name in cell.methods]


def curves(output: Output, cells: Sequence[CellRuns]) -> Figure:
    """The score against source rows drawn, with a panel for each cell."""
    cells = [cell for cell in cells if any(method.updates for method in cell.methods.values())]
    if not cells:
        raise UnavailableError("no cell has recorded its accuracy over time")
    panels = []
    for cell in cells:
        metric = cell.metric
        methods = [method for method in shown(cell) if method.name != TARGET_ONLY]
        points = [point for method in methods for point in points_of(method, _known_medians(method.curves("samples")))]
        levels: Data = [
            {"name": method.name, "y": rounded(metric.shown(_level(cell, method)))}
            for method in shown(cell)
            if method not in methods
        ]
        if cell.threshold is not None and compare.named(cell) is None:
            levels.append({"name": THRESHOLD.name, "y": cell.threshold, "optional": True})
        strokes = [*(stroke(method.name, method.runs[0].role == OURS) for method in shown(cell)), THRESHOLD]
        plot = plots.lines(cell.key, points, strokes, "source rows drawn", metric.title, levels)
        panels.append(Panel(cell.label, plot, in_words(cell, "source rows drawn"), cell.label))
    told = [cell.remarks is not None for cell in cells]
    note = f"{BAND_NOTE} Level line: target-only, which draws no source rows (median final accuracy)."
    if any(told):
        note = SINGLE_NOTE if all(told) else f"{note} For comparisons: {SINGLE_NOTE}"
    title = output.title
    words = {(cell.metric.word, cell.metric.higher_is_better) for cell in cells}
    if len(words) == 1 and cells[0].metric != ACCURACY:
        title = f"How fast {cells[0].metric.word} {'rises' if cells[0].metric.higher_is_better else 'falls'}"
    return Figure(output.name, title, note, tuple(panels), tuple(cells))


def _level(cell: CellRuns, method: MethodRuns) -> float:
    """The final score of a method that draws nothing. In a comparison this is a single network of it, like the lines
    next to it.
    """
    ends = method.curves("test_accuracy")[:, -1] if cell.remarks and method.updates else np.array([])
    known = ends[~np.isnan(ends)]
    return float(np.median(known)) if known.size else method.median_final


def typical(results: Results) -> list[CellRuns]:
    """One cell of each experiment and regime: a typical one if there is one, otherwise the first."""
    chosen: dict[tuple[str, str], CellRuns] = {}
    for cell in results.cells:
        if (cell.experiment, cell.regime) not in chosen or cell.variant in EXPERIMENTS.typical:
            chosen[cell.experiment, cell.regime] = cell
    return list(chosen.values())


@makes("schedules", "Which source when", FIRST)
def schedules(output: Output, results: Results) -> list[Figure]:
    """Which source when: for the cells that the page is mainly about, and for typical and spoilt ones."""
    first = spoken_of(results)
    spoilt = [cell for cell in results.cells if cell.regime in EXPERIMENTS.every_schedule]
    others = [cell for cell in [*typical(results), *spoilt] if cell not in first]
    figures: list[Figure] = []
    for key, title, cells in (
        (output.name, output.title, first),
        (f"{output.name}-others", f"{output.title}, other cells", others),
    ):
        drawn = [(cell, several) for cell in dict.fromkeys(cells) if (several := _shares(cell))]
        note = "Share of draws by source; a stronger colour means more. The number at a name is for the whole run. "
        note += "Known to be useful: ★." if any(cell.about.useful for cell, _ in drawn) else ""
        panels = tuple(panel for _, several in drawn for panel in several)
        figures += [Figure(key, title, note.strip(), panels, tuple(cell for cell, _ in drawn))] if panels else []
    if not figures:
        raise UnavailableError("no method has recorded its schedule")
    return figures


def _shares(cell: CellRuns) -> list[Panel]:
    """The schedule of the method that represents a cell or, if none was planned, of the best ones that choose."""
    planned = compare.named(cell)
    active = sorted((method for method in shown(cell) if method.family == "active"), key=lambda one: -one.median_final)
    methods = [planned[0]] if planned else active[:MOST_SCHEDULES]
    panels = []
    for method in methods:
        counts = method.schedule
        if counts is None or not counts.any():
            continue
        sources = _sources(counts, cell)
        rows = float(counts[:, :-1].sum()) * method.runs[0].spec.rows_per_choice
        plot = plots.shares(f"{cell.key} {method.name}", sources, rows, stroke(method.name, bool(planned)).colour)
        alt = f"Share of draws by source over rows drawn, {cell.label}, {method.name}: "
        panels.append(Panel(f"{cell.label}: {method.name}", plot, alt + ", ".join(s.name for s in sources), cell.label))
    return panels


def _sources(counts: Floats, cell: CellRuns) -> list[Share]:
    """The sources of a schedule (K, N + 1), most drawn first. The less important ones are combined."""
    names = [f"★ {task}" if task in cell.about.useful else task for task in cell.about.tasks]
    columns = dict(zip([*names, "none (abstained)"], counts.T, strict=True))
    ranked = sorted((name for name in columns if name in names or columns[name].any()), key=lambda n: -columns[n].sum())
    if len(ranked) > MOST_SOURCES:
        rest = ranked[MOST_SOURCES - 1 :]
        ranked = [*ranked[: MOST_SOURCES - 1], f"{len(rest)} others"]
        columns[ranked[-1]] = np.sum([columns[name] for name in rest], axis=0)
    edges = np.unique(np.linspace(0, len(counts), min(len(counts), SLICES) + 1).astype(int))[:-1]
    whole = np.add.reduceat(counts.sum(axis=1), edges)
    return [
        Share(
            f"{name} {columns[name].sum() / counts.sum():.0%}",
            np.add.reduceat(columns[name], edges) / np.maximum(whole, 1.0),
        )
        for name in ranked
    ]


def points_of(method: MethodRuns, x: Floats) -> Iterable[dict[str, Any]]:
    """The band of a method's accuracy, or of the value of another metric, over ``x`` (P,), as rows of a chart."""
    if not method.updates:
        return
    middle, low, high = statistics.median_band(method.curves("test_accuracy"))
    scores = (middle, low, high) if method.metric.higher_is_better else (-middle, -high, -low)
    bands = np.stack([x, *scores])
    for index in thinned(len(x)):
        if np.isfinite(bands[:, index]).all():
            values = map(rounded, bands[:, index])
            yield {"name": method.name, **dict(zip(("x", "y", "low", "high"), values, strict=True))}


def thinned(count: int) -> list[int]:
    """The places of at most ``MOST_POINTS`` points, including the first and the last."""
    return np.unique(np.linspace(0, count - 1, min(count, MOST_POINTS)).round().astype(int)).tolist() if count else []


def _known_medians(values: Floats) -> Floats:
    """The median of the numbers in each column, NaN if there are none."""
    columns = [column[~np.isnan(column)] for column in values.T]
    return np.array([np.median(column) if column.size else np.nan for column in columns], np.float64)


def in_words(cell: CellRuns, against: str) -> str:
    """What the lines of a cell show, for people who cannot see them."""
    metric = cell.metric
    ends = ", ".join(f"{method.name} {in_units(_level(cell, method), metric)}" for method in shown(cell))
    return f"Lines of {metric.title} against {against}, {cell.label}. Median at the end: {ends}."
