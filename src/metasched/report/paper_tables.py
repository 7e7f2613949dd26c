"""The paper's tables, ours and the published numbers side by side."""

from collections.abc import Sequence

import numpy as np

from metasched.experiments import published
from metasched.report import compare
from metasched.report.cells import STATIC, TARGET_ONLY, Cell, Evidence
from metasched.report.results import Results
from metasched.report.sheets import (
    MISSING,
    Column,
    Sheet,
    UnavailableError,
    Value,
    estimate,
    number,
    p_value,
    percent,
    ratio,
    samples,
)

PLANNED = ("mdp", "gittins", "ucb")
"""The paper's schedulers, best first as it claims."""
SHOWN_FEATURE = "U850"
"""The test feature whose details the appendix prints."""


def gains(results: Results) -> list[Sheet]:
    """Table 1: samples of a static baseline over samples of the scheduler, at the threshold fixed before the run."""
    cells = [cell for cell in results.of(regime="paper") if cell.threshold is not None]
    if not cells:
        raise UnavailableError("no cell of the paper's regime has a threshold")
    rows: list[tuple[Value, ...]] = []
    for cell in cells:
        threshold = float(cell.threshold or 0.0)
        static = compare.best_static(cell)
        for name in PLANNED:
            if name not in cell.methods:
                continue
            rows.append(
                (
                    cell.label,
                    percent(threshold),
                    name,
                    samples(compare.median_samples(cell, name, threshold)),
                    _gain(cell, "cyclic", name, threshold),
                    static or "none",
                    _gain(cell, static, name, threshold),
                    number(published.GAIN.get(cell.experiment, {}).get(name), "{:g}"),
                    number(published.SAMPLES.get(cell.experiment, {}).get(name), "{:,.0f}"),
                )
            )
    if not rows:
        raise UnavailableError("no cell of the paper's regime has ucb, gittins or mdp")
    note = (
        "Gain: median samples of the baseline over median samples of the scheduler until test accuracy stays at the "
        "threshold, with the paired bootstrap 95 % interval; 1 is no gain. A run that never arrives counts as beyond "
        "the largest. Published: Table 1 of the paper, over cyclic, one number for each experiment; its thresholds "
        f"are {published.SAMPLES_THRESHOLD['digits']:.0%} for digits, {published.SAMPLES_THRESHOLD['cifar']:.0%} for "
        "CIFAR-100, and not given for weather; "
        f"the {published.DIGITS_STEPS.place} says {published.DIGITS_STEPS.value:g}."
    )
    columns = (
        Column("experiment", words=True),
        Column("threshold"),
        Column("scheduler", words=True),
        Column("samples"),
        Column("gain over cyclic"),
        Column("best static", words=True),
        Column("gain over best static"),
        Column("published gain"),
        Column("published samples"),
    )
    return [Sheet("table1", "Table 1: sample efficiency gain", note, columns, tuple(rows), tuple(cells))]


def _gain(cell: Cell, baseline: str | None, name: str, threshold: float) -> Value:
    if baseline is None or baseline not in cell.methods:
        return MISSING
    return ratio(compare.gain_over(cell, baseline, name, threshold))


def weather_accuracy(results: Results) -> list[Sheet]:
    """Table 2: accuracy by test feature and scheduler."""
    cells = {cell.variant: cell for cell in results.of("weather", "paper")}
    if not cells:
        raise UnavailableError("no weather cell of the paper's regime")
    features = [*published.WEATHER_FEATURES, *(name for name in cells if name not in published.WEATHER_FEATURES)]
    controls = [name for name in (*STATIC, TARGET_ONLY) if name not in published.ORDER]
    rows: list[tuple[Value, ...]] = []
    for name in (*published.ORDER, *controls):
        if any(name in cell.methods for cell in cells.values()):
            rows.append((name, "ours", *(_score(cells.get(feature), name) for feature in features)))
        if name in published.WEATHER_ACCURACY:
            printed = published.WEATHER_ACCURACY[name]
            rows.append((name, "published", *(number(printed.get(feature)) for feature in features)))
    winners = [compare.best_active(cells[feature]) if feature in cells else None for feature in features]
    scores = [
        _score(cells[feature], winner) if winner else MISSING for feature, winner in zip(features, winners, strict=True)
    ]
    rows.append(("best active of each feature", "ours", *scores))
    simulated = any(cell.simulated for cell in cells.values())
    note = (
        "Final test accuracy, interquartile mean over seeds with its bootstrap 95 % interval; published: Table 2 of "
        "the paper, single numbers. The best active scheduler of each feature was picked after the fact"
        + (f" ({', '.join(sorted({winner for winner in winners if winner}))})." if any(winners) else ".")
        + (" Ours are simulated data in the format of the real file: compare orders, not levels." if simulated else "")
    )
    columns = (
        Column("scheduler", words=True),
        Column("whose", words=True),
        *(Column(feature) for feature in features),
    )
    title = "Table 2: weather accuracy by test feature"
    return [Sheet("table2", title, note, columns, tuple(rows), tuple(cells.values()))]


def _score(cell: Cell | None, name: str) -> Value:
    return MISSING if cell is None or name not in cell.methods else estimate(compare.score(cell, name))


def cifar_accuracy(results: Results) -> list[Sheet]:
    """Caption of Figure 4: final accuracy on CIFAR-100."""
    cells = results.of("cifar", "paper")
    rows: list[tuple[Value, ...]] = [
        (cell.label, name, _score(cell, name), number(published.CIFAR_FINAL.get(name)))
        for cell in cells
        for name in (*published.ORDER, "sequential", "uniform", TARGET_ONLY)
        if name in cell.methods
    ]
    if not rows:
        raise UnavailableError("no CIFAR-100 cell of the paper's regime")
    note = (
        "Final test accuracy, interquartile mean over seeds with its bootstrap 95 % interval; published: "
        f"{published.CIFAR_FINAL_PLACE}, which has no mdp."
    )
    columns = (
        Column("experiment", words=True),
        Column("scheduler", words=True),
        Column("accuracy"),
        Column("published"),
    )
    return [Sheet("cifar-accuracy", "CIFAR-100: final accuracy", note, columns, tuple(rows), tuple(cells))]


def order_tests(results: Results) -> list[Sheet]:
    """Appendix A: p-values of label order by task."""
    evidence = [item for item in results.evidence if item.order]
    if not evidence:
        raise UnavailableError("no evidence.json with tests of label order")
    rows: list[tuple[Value, ...]] = []
    for item in evidence:
        printed = published.P_VALUES.get(item.experiment, ())
        for place, row in enumerate(item.order):
            known: Value = p_value(printed[place]) if place < len(printed) else MISSING
            if item.experiment == "weather":
                known = published.P_VALUES_WEATHER
            rows.append(
                (
                    _named(item),
                    str(row["task"]),
                    number(row.get("rows"), "{:,.0f}"),
                    p_value(row.get("p_permutation")),
                    p_value(row.get("p_asymptotic")),
                    p_value(row.get("p_diagonal")),
                    number(row.get("association"), "{:.2f}"),
                    known,
                )
            )
    note = (
        "Does the order of labels carry information? Permutation: the share of shuffles with a larger χ² of label and "
        "next label, exact whatever the label frequencies; asymptotic: by the χ² distribution, the paper's test; "
        "diagonal: do labels repeat more often than by chance; V: Cramér's V. Published: Table 3, by subset number; "
        "the paper does not say which rows its subsets hold."
    )
    columns = (
        Column("experiment", words=True),
        Column("task", words=True),
        Column("rows"),
        Column("p permutation"),
        Column("p asymptotic"),
        Column("p diagonal"),
        Column("V"),
        Column("p published"),
    )
    return [Sheet("p-values", "Appendix: p-values of label order", note, columns, tuple(rows), tuple(evidence))]


def _named(item: Evidence) -> str:
    return item.experiment + (" (simulated)" if item.simulated else "")


def transition_matrix(results: Results) -> list[Sheet]:
    """Appendix D: transition matrices of the weather subsets."""
    evidence = [item for item in results.evidence if item.experiment.startswith("weather") and item.transitions]
    if not evidence:
        raise UnavailableError("no evidence.json of weather or weather-points with transitions")
    sheets = []
    for item in evidence:
        names = item.classes or tuple(f"label {place}" for place in range(len(next(iter(item.transitions.values())))))
        rows: list[tuple[Value, ...]] = []
        for task, matrix in item.transitions.items():
            for place, row in enumerate(matrix):
                label = names[place] if place < len(names) else f"label {place}"
                cells = [number(float(value)) for value in row]
                rows.append((task, label, *_padded(cells, len(names))))
        if item.experiment == "weather":
            for label, values in zip(published.WEATHER_EVENTS, published.TRANSITIONS, strict=True):
                cells = [number(value) for value in values]
                rows.append(("published (a sample subset)", label, *_padded(cells, len(names))))
        note = "Probability of the label of the column after the label of the row. " + (
            "Published: appendix D, one sample subset." if item.experiment == "weather" else ""
        )
        columns = (
            Column("task", words=True),
            Column("from", words=True),
            *(Column(f"to {name}") for name in names),
        )
        title = f"Appendix: transition matrices, {item.experiment}"
        sheets.append(Sheet(f"transition-matrix-{item.experiment}", title, note, columns, tuple(rows), (item,)))
    return sheets


def _padded(values: Sequence[Value], width: int) -> list[Value]:
    return [*values, *[MISSING] * width][:width]


def _shown_weather(results: Results) -> list[Cell]:
    """The weather cell whose details the paper prints, and one of the weather points."""
    shown = []
    for group in (results.of("weather", "paper"), results.of("weather-points")):
        wanted = [cell for cell in group if cell.variant in (SHOWN_FEATURE, "30 labels")]
        shown += [*wanted, *group][:1]
    if not shown:
        raise UnavailableError("no weather cell of the paper's regime and no weather-points cell")
    return shown


def rows_used(results: Results) -> list[Sheet]:
    """Appendix D: rows drawn by task and event, for mdp, gittins and ucb."""
    sheets = [sheet for sheet in map(_rows_used, _shown_weather(results)) if sheet.rows]
    if not sheets:
        raise UnavailableError("no weather cell has the rows drawn by task and label")
    return sheets


def _rows_used(cell: Cell) -> Sheet:
    fits = len(cell.tasks) == published.SUBSETS and len(cell.classes) == len(published.WEATHER_EVENTS)
    compared = cell.experiment == "weather" and fits
    rows: list[tuple[Value, ...]] = []
    for name in PLANNED:
        drawn = cell.methods[name].drawn_by_label if name in cell.methods else None
        for place, task in enumerate(cell.tasks if drawn is not None else ()):
            assert drawn is not None
            ours = [number(float(count), "{:,.0f}") for count in drawn[place]]
            printed = published.ROWS_USED[name][place] if compared else ()
            rows.append((name, task, *_padded(ours, len(cell.classes)), *(number(count, "{:,}") for count in printed)))
    note = f"Rows drawn by scheduler, task and event, mean over seeds; {cell.variant}." + (
        f" Published: Table 5, subsets in order, test feature {SHOWN_FEATURE}; it adds up to 5,000 rows for mdp and "
        "ucb and to 5,010 for gittins."
        if compared
        else ""
    )
    columns = (
        Column("scheduler", words=True),
        Column("task", words=True),
        *(Column(name) for name in cell.classes),
        *(Column(f"{name}, published") for name in (cell.classes if compared else ())),
    )
    title = f"Appendix: rows used by task and event, {cell.experiment}"
    return Sheet(f"rows-used-{cell.experiment}", title, note, columns, tuple(rows), (cell,))


def event_accuracy(results: Results) -> list[Sheet]:
    """Appendix D: accuracy by event type."""
    sheets = [sheet for sheet in map(_event_accuracy, _shown_weather(results)) if sheet.rows]
    if not sheets:
        raise UnavailableError("no weather cell has its accuracy by class")
    return sheets


def _event_accuracy(cell: Cell) -> Sheet:
    compared = cell.experiment == "weather" and len(cell.classes) == len(published.WEATHER_EVENTS)
    rows: list[tuple[Value, ...]] = []
    for name in (*PLANNED, *STATIC, TARGET_ONLY):
        by_class = cell.methods[name].per_class if name in cell.methods else None
        if by_class is None:
            continue
        known = [column[~np.isnan(column)] for column in by_class.T]
        rows.append((name, "ours", *(number(float(np.median(one))) if one.size else MISSING for one in known)))
        if name in published.EVENT_ACCURACY and compared:
            rows.append((name, "published", *(number(value) for value in published.EVENT_ACCURACY[name])))
    note = f"Final test accuracy by event, median over seeds that did not diverge; {cell.variant}." + (
        f" Published: Table 6, test feature {SHOWN_FEATURE}; it has no row for cyclic." if compared else ""
    )
    columns = (Column("scheduler", words=True), Column("whose", words=True), *(Column(name) for name in cell.classes))
    title = f"Appendix: accuracy by event type, {cell.experiment}"
    return Sheet(f"event-accuracy-{cell.experiment}", title, note, columns, tuple(rows), (cell,))
