"""The paper's tables, ours and the published numbers side by side."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from metasched.experiments import WEATHER, WEATHER_POINTS, outputs, published
from metasched.experiments.outputs import Output
from metasched.report import compare
from metasched.report.cells import TARGET_ONLY, Cell, Entry, Evidence, LabelOrder, Method
from metasched.report.pieces import UnavailableError, makes
from metasched.report.results import Results
from metasched.report.sheets import (
    MISSING,
    Columns,
    Sheet,
    Value,
    estimate,
    number,
    p_value,
    percent,
    ratio,
    samples,
    sheet,
)

SCHEDULERS = published.ORDER[:-1]
"""The paper's own, best first as it claims; the last is its baseline."""
INTERVAL = "Final test accuracy, interquartile mean over seeds with its bootstrap 95 % interval"


class Line(NamedTuple):
    """A row of a table whose columns are classes or test features."""

    first: str
    second: str
    values: Sequence[Value]


def _wide(first: str, second: str, names: Iterable[str]) -> Columns[Line]:
    def at(place: int) -> tuple[str, Callable[[Line], Value]]:
        return listed[place], lambda line: line.values[place] if place < len(line.values) else MISSING

    listed = list(names)
    return [(first, lambda line: line.first), (second, lambda line: line.second), *map(at, range(len(listed)))]


@makes(outputs.TABLE1)
def gains(output: Output, results: Results) -> list[Sheet]:
    """Samples of a static baseline over samples of the scheduler, at the threshold fixed before the run."""
    cells = [cell for cell in results.of(regime="paper") if cell.threshold is not None]
    if not cells:
        raise UnavailableError("no cell of the paper's regime has a threshold")
    rows = [Entry(cell, cell.methods[name]) for cell in cells for name in SCHEDULERS if name in cell.methods]
    if not rows:
        raise UnavailableError("no cell of the paper's regime has ucb, gittins or mdp")

    def gain(row: Entry, baseline: Method | None) -> Value:
        return ratio(compare.gain_over(baseline, row.method, row.cell.threshold))

    def printed(table: published.ByExperiment, row: Entry, form: str) -> Value:
        return number(table.get(row.cell.experiment, {}).get(row.method.name), form)

    note = (
        "Gain: median samples of the baseline over median samples of the scheduler until test accuracy stays at the "
        "threshold, with the paired bootstrap 95 % interval; 1 is no gain. A run that never arrives counts as beyond "
        "the largest. Published: Table 1 of the paper, over cyclic, one number for each experiment; its thresholds "
        f"are {published.SAMPLES_THRESHOLD['digits']:.0%} for digits, {published.SAMPLES_THRESHOLD['cifar']:.0%} for "
        "CIFAR-100, and not given for weather; "
        f"the {published.DIGITS_STEPS.place} says {published.DIGITS_STEPS.value:g}."
    )
    columns: Columns[Entry] = (
        ("experiment", lambda row: row.cell.label),
        ("threshold", lambda row: percent(row.cell.threshold)),
        ("scheduler", lambda row: row.method.name),
        ("samples", lambda row: samples(compare.median_samples(row.method, row.cell.threshold))),
        ("gain over cyclic", lambda row: gain(row, row.cell.methods.get("cyclic"))),
        ("best static", lambda row: static.name if (static := compare.best_static(row.cell)) else "none"),
        ("gain over best static", lambda row: gain(row, compare.best_static(row.cell))),
        ("published gain", lambda row: printed(published.GAIN, row, "{:g}")),
        ("published samples", lambda row: printed(published.SAMPLES, row, "{:,.0f}")),
    )
    return [sheet(output, note, columns, rows, cells)]


def _compared(cells: Iterable[Cell]) -> list[str]:
    """The paper's methods, then the other static ones and target-only, as far as these cells have them."""
    present = {method.name: method for cell in cells for method in cell.methods.values()}
    static = [name for name, method in present.items() if method.family == "static"]
    return [name for name in dict.fromkeys((*published.ORDER, *static, TARGET_ONLY)) if name in present]


@makes(outputs.TABLE2)
def weather_accuracy(output: Output, results: Results) -> list[Sheet]:
    """Accuracy by test feature and scheduler."""
    cells = {cell.variant: cell for cell in results.behind(output)}
    if not cells:
        raise UnavailableError("no weather cell of the paper's regime")
    features = [*published.WEATHER_FEATURES, *(name for name in cells if name not in published.WEATHER_FEATURES)]

    def scores(methods: Mapping[str, Method | None]) -> list[Value]:
        return [estimate(compare.score(methods.get(feature))) for feature in features]

    ours = _compared(cells.values())
    rows = []
    for name in dict.fromkeys((*published.ORDER, *ours)):
        if name in ours:
            rows.append(
                Line(name, "ours", scores({feature: cell.methods.get(name) for feature, cell in cells.items()}))
            )
        if name in published.WEATHER_ACCURACY:
            printed = published.WEATHER_ACCURACY[name]
            rows.append(Line(name, "published", [number(printed.get(feature)) for feature in features]))
    winners = {feature: compare.best_active(cell) for feature, cell in cells.items()}
    rows.append(Line("best active of each feature", "ours", scores(winners)))
    names = sorted({winner.name for winner in winners.values() if winner})
    note = (
        f"{INTERVAL}; published: Table 2 of the paper, single numbers. The best active scheduler of each feature was "
        "picked after the fact" + (f" ({', '.join(names)})." if names else ".")
    )
    if any(cell.simulated for cell in cells.values()):
        note += " Ours are simulated data in the format of the real file: compare orders, not levels."
    return [sheet(output, note, _wide("scheduler", "whose", features), rows, cells.values())]


@makes(outputs.CIFAR_ACCURACY)
def cifar_accuracy(output: Output, results: Results) -> list[Sheet]:
    """Caption of Figure 4: final accuracy."""
    cells = results.behind(output)
    rows = [Entry(cell, cell.methods[name]) for cell in cells for name in _compared([cell])]
    if not rows:
        raise UnavailableError("no CIFAR-100 cell of the paper's regime")
    note = f"{INTERVAL}; published: {published.CIFAR_FINAL_PLACE}, which has no mdp."
    columns: Columns[Entry] = (
        ("experiment", lambda row: row.cell.label),
        ("scheduler", lambda row: row.method.name),
        ("accuracy", lambda row: estimate(compare.score(row.method))),
        ("published", lambda row: number(published.CIFAR_FINAL.get(row.method.name))),
    )
    return [sheet(output, note, columns, rows, cells)]


@makes(outputs.P_VALUES)
def order_tests(output: Output, results: Results) -> list[Sheet]:
    """Appendix A: p-values of label order by task."""
    evidence = [item for item in results.evidence if item.order]
    if not evidence:
        raise UnavailableError("no evidence.json with tests of label order")

    def printed(item: Evidence, place: int) -> Value:
        if item.experiment == WEATHER.name:
            return published.P_VALUES_WEATHER
        return p_value(dict(enumerate(published.P_VALUES.get(item.experiment, ()))).get(place))

    note = (
        "Does the order of labels carry information? Permutation: the share of shuffles with a larger χ² of label and "
        "next label, exact whatever the label frequencies; asymptotic: by the χ² distribution, the paper's test; "
        "diagonal: do labels repeat more often than by chance; V: Cramér's V. Published: Table 3, by subset number; "
        "the paper does not say which rows its subsets hold."
    )
    columns: Columns[tuple[Evidence, int, LabelOrder]] = (
        ("experiment", lambda row: row[0].experiment + (" (simulated)" if row[0].simulated else "")),
        ("task", lambda row: row[2].task),
        ("rows", lambda row: number(row[2].rows, "{:,.0f}")),
        ("p permutation", lambda row: p_value(row[2].p_permutation)),
        ("p asymptotic", lambda row: p_value(row[2].p_asymptotic)),
        ("p diagonal", lambda row: p_value(row[2].p_diagonal)),
        ("V", lambda row: number(row[2].association, "{:.2f}")),
        ("p published", lambda row: printed(*row[:2])),
    )
    rows = [(item, place, test) for item in evidence for place, test in enumerate(item.order)]
    return [sheet(output, note, columns, rows, evidence)]


@makes(outputs.TRANSITION_MATRIX)
def transition_matrix(output: Output, results: Results) -> list[Sheet]:
    """Appendix D: transition matrices of the weather subsets."""
    evidence = [item for item in results.evidence if item.experiment in output.experiments and item.transitions]
    if not evidence:
        raise UnavailableError("no evidence.json of weather or weather-points with transitions")
    sheets = []
    for item in evidence:
        most = max(map(len, item.transitions.values()))
        names = [*item.classes, *(f"label {place}" for place in range(len(item.classes), most))]
        matrices = [(task, names, matrix) for task, matrix in item.transitions.items()]
        note = "Probability of the label of the column after the label of the row. "
        if item.experiment == WEATHER.name:
            matrices.append(("published (a sample subset)", [*published.WEATHER_EVENTS], published.TRANSITIONS))
            note += "Published: appendix D, one sample subset."
        rows = [
            Line(task, label, [number(value) for value in row])
            for task, labels, matrix in matrices
            for label, row in zip(labels, matrix, strict=False)
        ]
        columns = _wide("task", "from", (f"to {name}" for name in item.classes or names))
        title = f"{output.title}, {item.experiment}"
        sheets.append(sheet(output, note, columns, rows, [item], part=item.experiment, title=title))
    return sheets


def _of_shown_weather(
    output: Output, results: Results, make: Callable[[Output, Cell], Sheet], what: str
) -> list[Sheet]:
    """A table of the weather cell whose details the paper prints, and one of the weather points."""
    sheets = []
    for group in (results.of(WEATHER.name, "paper"), results.of(WEATHER_POINTS.name)):
        typical = [cell for cell in group if cell.variant in outputs.TYPICAL]
        sheets += [make(output, cell) for cell in [*typical, *group][:1]]
    sheets = [one for one in sheets if one.rows]
    if not sheets:
        raise UnavailableError(f"no weather cell of the paper's regime and no weather-points cell has {what}")
    return sheets


@makes(outputs.ROWS_USED)
def rows_used(output: Output, results: Results) -> list[Sheet]:
    """Appendix D: rows drawn by task and event, for mdp, gittins and ucb."""
    return _of_shown_weather(output, results, _rows_used, "the rows drawn by task and label")


def _rows_used(output: Output, cell: Cell) -> Sheet:
    classes = cell.about.classes
    fits = len(cell.about.tasks) == published.SUBSETS and len(classes) == len(published.WEATHER_EVENTS)
    compared = cell.experiment == WEATHER.name and fits
    rows = []
    for name in SCHEDULERS:
        drawn = cell.methods[name].drawn_by_label if name in cell.methods else None
        for place, (task, counts) in enumerate(zip(cell.about.tasks, () if drawn is None else drawn, strict=False)):
            ours = [*counts, *[np.nan] * len(classes)][: len(classes)]
            printed = published.ROWS_USED[name][place] if compared else ()
            rows.append(Line(name, task, [number(float(count), "{:,.0f}") for count in (*ours, *printed)]))
    note = f"Rows drawn by scheduler, task and event, mean over seeds; {cell.variant}."
    if compared:
        note += (
            f" Published: Table 5, subsets in order, test feature {published.SHOWN_FEATURE}; it adds up to 5,000 rows "
            "for mdp and ucb and to 5,010 for gittins."
        )
    columns = _wide("scheduler", "task", (*classes, *(f"{name}, published" for name in classes if compared)))
    title = f"{output.title}, {cell.experiment}"
    return sheet(output, note, columns, rows, [cell], part=cell.experiment, title=title)


@makes(outputs.EVENT_ACCURACY)
def event_accuracy(output: Output, results: Results) -> list[Sheet]:
    """Appendix D: accuracy by event type."""
    return _of_shown_weather(output, results, _event_accuracy, "its accuracy by class")


def _event_accuracy(output: Output, cell: Cell) -> Sheet:
    classes = cell.about.classes
    compared = cell.experiment == WEATHER.name and len(classes) == len(published.WEATHER_EVENTS)
    rows = []
    for name in _compared([cell]):
        by_seed = [run.by_class for run in cell.methods[name].runs if run.by_class]
        shares_by_class = [[share for share in column if share is not None] for column in zip(*by_seed, strict=True)]
        if shares_by_class:
            medians = [number(float(np.median(shares))) if shares else MISSING for shares in shares_by_class]
            rows.append(Line(name, "ours", medians))
        if shares_by_class and compared and name in published.EVENT_ACCURACY:
            rows.append(Line(name, "published", [number(share) for share in published.EVENT_ACCURACY[name]]))
    note = f"Final test accuracy by event, median over seeds that did not diverge; {cell.variant}."
    if compared:
        note += f" Published: Table 6, test feature {published.SHOWN_FEATURE}; it has no row for cyclic."
    title = f"{output.title}, {cell.experiment}"
    columns = _wide("scheduler", "whose", classes)
    return sheet(output, note, columns, rows, [cell], part=cell.experiment, title=title)
