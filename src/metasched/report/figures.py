"""The figures: which cells and methods each shows, a panel for each cell, which a page puts where they fit."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from metasched.experiments import outputs, published
from metasched.experiments.outputs import Output
from metasched.report import compare, plots, statistics
from metasched.report.answers import Answer, answers
from metasched.report.cells import TARGET_ONLY, USEFUL, Cell, Method, Source
from metasched.report.palette import Stroke, in_order, stroke
from metasched.report.pieces import UnavailableError, makes
from metasched.report.plots import MOST_SOURCES, SLICES, Data, Plot, Share
from metasched.report.results import Results
from metasched.report.statistics import Floats

MOST_POINTS = 120
"""Points of a curve that a figure keeps."""
MOST_LINES = 9
"""Methods of a run of one's own that a figure draws; of more, the best of each kind."""
MOST_SCHEDULES = 3
"""Methods of a cell whose schedules are drawn, where none was planned."""
BAND_NOTE = "Lines: median over seeds; bands: its bootstrap 95 % interval."
THRESHOLD = Stroke("threshold", "#8c8c8c", (1, 3))


class Panel(NamedTuple):
    """One chart, what it shows in words, and the ``group`` that it is chosen with where one is shown at a time."""

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


@makes(outputs.CONTRASTS)
def contrasts(output: Output, results: Results) -> list[Figure]:
    """Final accuracy less that of the baseline: by cell, or, where there is one cell, by method."""
    found = answers(results)
    if not found:
        raise UnavailableError("no cell has a method that chooses beside a static one, with a seed in common")
    rows = _by_method(found[0]) if len(found) == 1 else _by_cell(found)
    baselines = " or ".join(dict.fromkeys(answer.baseline.name for answer in found))
    strokes = [stroke(name) for name in dict.fromkeys(row["name"] for row in rows)]
    plot = plots.differences(output.name, rows, strokes, f"test accuracy less that of {baselines}")
    told = "; ".join(f"{row['label']} {row['value']:+.3f} ({row['words']})" for row in rows)
    what = "Each method" if len(found) == 1 else " and ".join(dict.fromkeys(answer.ours.name for answer in found))
    if len(found) > 1 and not any(answer.planned for answer in found):
        what = "The best method that chooses, picked after the fact,"
    note = f"{what} less {baselines}, paired by seed, with the bootstrap 95 % interval; filled: a difference is shown."
    panel = Panel("", plot, f"Differences in final test accuracy from {baselines}: {told}.", "")
    return [Figure(output.name, output.title, note, (panel,), tuple(answer.cell for answer in found))]


def _row(label: str, answer: Answer) -> dict[str, Any]:
    test = answer.contrast
    value, low, high = (test.difference.value if np.isnan(end) else _rounded(end) for end in test.difference)
    shown = test.kind in ("better", "worse")
    ends = {"value": value, "low": low, "high": high}
    return {"label": label, "name": answer.ours.name, **ends, "shown": shown, "words": test.words}


def _by_cell(found: Sequence[Answer]) -> Data:
    """Every cell, the largest difference first."""
    ranked = sorted(found, key=lambda answer: -answer.contrast.difference.value)
    return [_row(answer.cell.label, answer) for answer in ranked]


def _by_method(answer: Answer) -> Data:
    """Every method of a cell against the baseline, best first; of single tasks the best alone."""
    tests = compare.against(answer.cell, answer.baseline) | {answer.ours: answer.contrast}
    single = compare.best_single(answer.cell)
    others = [method for method in tests if method is single or method.runs[0].spec.scheduler[:6] != "single"]
    ranked = sorted(others, key=lambda method: -tests[method].difference.value)
    return [_row(method.name, answer._replace(ours=method, contrast=tests[method])) for method in ranked]


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
        plot = plots.lines(item.key, points, strokes, "inner step t", "√t · validation error")
        note = "If √t·e(t) were constant, the paper's reward 1 − √t·e(t) would not depend on time."
        note += f" The error itself falls like t^−{error.exponent:.2f} (assumed: t^−½)." if error.exponent else ""
        key = f"{output.name}-{item.experiment}" if figures else output.name
        title = f"{output.title}, {item.experiment}"
        figures.append(Figure(key, title, note, (Panel(item.experiment, plot, alt, item.experiment),), (item,)))
    if not figures:
        raise UnavailableError("no evidence.json with scaled_error")
    return figures


@makes(outputs.SOURCES, outputs.FIG3, outputs.FIG4, outputs.FIG5, outputs.FEW_LABEL, outputs.ROBUST)
def behind(output: Output, results: Results) -> list[Figure]:
    """Accuracy against samples in the cells that stand behind a figure, planned ones in the order of the verdicts."""
    order = [answer.cell for answer in answers(results) if answer.planned]
    cells = results.behind(output)
    return [
        _curves(output, [*(cell for cell in order if cell in cells), *(cell for cell in cells if cell not in order)])
    ]


@makes(outputs.RUNS)
def own_runs(output: Output, results: Results) -> list[Figure]:
    """Accuracy against samples of cells in no known regime, such as ordinary runs."""
    return [_curves(output, [cell for cell in results.cells if cell.own])]


def shown(cell: Cell) -> list[Method]:
    """The methods that a figure draws: the paper's, the best of each kind, the planned one, target-only.

    Where one was planned: that one, its baseline, the useful sources alone, target-only. Of few own runs: all.
    """
    if cell.own and len(cell.methods) <= MOST_LINES:
        return list(cell.methods.values())
    planned = compare.named(cell)
    if planned:
        wanted = (*(method.name for method in planned), USEFUL, TARGET_ONLY)
        return [cell.methods[name] for name in wanted if name in cell.methods]
    best = [compare.best_static(cell), compare.best_active(cell), compare.best_single(cell)]
    names = [method.name for method in best if method]
    drawn = dict.fromkeys((*reversed(published.ORDER), *names, TARGET_ONLY))
    return [cell.methods[name] for name in drawn if name in cell.methods]


def _curves(output: Output, cells: Sequence[Cell]) -> Figure:
    cells = [cell for cell in cells if any(method.updates for method in cell.methods.values())]
    if not cells:
        raise UnavailableError("no cell with its accuracy over time")
    panels = []
    for cell in cells:
        methods = [method for method in shown(cell) if method.name != TARGET_ONLY]
        points = [point for method in methods for point in _points(method, _known_medians(method.curves("samples")))]
        levels: Data = [
            {"name": method.name, "y": _rounded(method.middle)} for method in shown(cell) if method not in methods
        ]
        if cell.threshold is not None and compare.named(cell) is None:
            levels.append({"name": THRESHOLD.name, "y": cell.threshold, "optional": True})
        strokes = [*(stroke(method.name) for method in shown(cell)), THRESHOLD]
        plot = plots.lines(cell.key, points, strokes, "source rows drawn", "test accuracy", levels)
        panels.append(Panel(cell.label, plot, _in_words(cell, "source rows drawn"), cell.label))
    note = f"{BAND_NOTE} Level line: target-only, which draws no source rows (median final accuracy)."
    return Figure(output.name, output.title, note, tuple(panels), tuple(cells))


@makes(outputs.TIME)
def wall_time(output: Output, results: Results) -> list[Figure]:
    """Accuracy against seconds, for one cell of each experiment and regime."""

    def timed(cell: Cell) -> list[Method]:
        return [method for method in shown(cell) if method.seconds and any(method.updates)]

    cells = [cell for cell in _typical(results) if timed(cell)]
    if not cells:
        raise UnavailableError("no cell with the seconds of its runs")
    panels = []
    for cell in cells:
        points: Data = []
        for method in timed(cell):
            updates = np.array(method.updates, np.float64)
            points += _points(method, float(np.median(method.seconds)) * updates / updates[-1])
        strokes = [stroke(method.name) for method in timed(cell)]
        plot = plots.lines(cell.key, points, strokes, "seconds", "test accuracy")
        panels.append(Panel(cell.label, plot, _in_words(cell, "wall seconds"), cell.label))
    note = (
        "The median wall time of a run spread evenly over its meta-updates; it holds planning, training and measuring. "
        f"{BAND_NOTE}"
    )
    return [Figure(output.name, output.title, note, tuple(panels), tuple(cells))]


def _typical(results: Results) -> list[Cell]:
    """One cell of each experiment and regime: a typical one where there is one, else the first."""
    chosen: dict[tuple[str, str], Cell] = {}
    for cell in results.cells:
        if (cell.experiment, cell.regime) not in chosen or cell.variant in outputs.TYPICAL:
            chosen[cell.experiment, cell.regime] = cell
    return list(chosen.values())


@makes(outputs.SCHEDULES)
def schedules(output: Output, results: Results) -> list[Figure]:
    """Which source when: of the cells that the page speaks of first, and of typical and spoilt ones."""
    first = [answer.cell for answer in answers(results)]
    others = [cell for cell in [*_typical(results), *results.of(regime="robust")] if cell not in first]
    figures: list[Figure] = []
    for key, title, cells in (
        (output.name, output.title, first),
        (f"{output.name}-others", f"{output.title}, other cells", others),
    ):
        drawn = [(cell, several) for cell in dict.fromkeys(cells) if (several := _shares(cell))]
        note = "Share of draws by source: the darker, the larger; beside the name over the whole run. "
        note += "Known to be useful: ★." if any(cell.about.useful for cell, _ in drawn) else ""
        panels = tuple(panel for _, several in drawn for panel in several)
        figures += [Figure(key, title, note.strip(), panels, tuple(cell for cell, _ in drawn))] if panels else []
    if not figures:
        raise UnavailableError("no method has its schedule")
    return figures


def _shares(cell: Cell) -> list[Panel]:
    """Of the method that a cell speaks for; where none was planned, of the best that choose."""
    planned = compare.named(cell)
    active = sorted((method for method in shown(cell) if method.family == "active"), key=lambda one: -one.middle)
    methods = [planned[0]] if planned else active[:MOST_SCHEDULES]
    panels = []
    for method in methods:
        counts = method.schedule
        if counts is None or not counts.any():
            continue
        sources = _sources(counts, cell)
        rows = float(counts[:, :-1].sum()) * float(method.runs[0].spec.config.get("batch_size", 1))
        plot = plots.shares(f"{cell.key} {method.name}", sources, rows, stroke(method.name).colour)
        alt = f"Share of draws by source over rows drawn, {cell.label}, {method.name}: "
        panels.append(Panel(f"{cell.label}: {method.name}", plot, alt + ", ".join(s.name for s in sources), cell.label))
    return panels


def _sources(counts: Floats, cell: Cell) -> list[Share]:
    """The sources of a schedule (K, N + 1), most drawn first, those past the most important together."""
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
