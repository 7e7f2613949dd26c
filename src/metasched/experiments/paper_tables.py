"""The paper's tables, with our numbers and the published numbers side by side."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from metasched.experiments import published
from metasched.experiments.evidence import Evidence, LabelOrder, evidence_in
from metasched.experiments.outputs import PAPER, TYPICAL, Entry, Needs, behind, makes
from metasched.experiments.paper_sets import WEATHER, WEATHER_POINTS
from metasched.report import compare, statistics
from metasched.report.cells import TARGET_ONLY, CellRuns, MethodRuns
from metasched.report.outputs import Output, UnavailableError
from metasched.report.results import Results
from metasched.report.statistics import Bounded, Interval
from metasched.report.tables import (
    MISSING,
    NOTHING,
    Columns,
    Table,
    Value,
    estimate,
    number,
    p_value,
    percent,
    ratio,
    samples,
    signed,
    table,
)

SCHEDULERS = published.ORDER[:-1]
"""The paper's methods, best first as it claims. The last is its baseline."""
WITH_MATRICES = (WEATHER.name, WEATHER_POINTS.name)
INTERVAL = "Final test accuracy, interquartile mean over seeds with its bootstrap 95 % interval"


class WideRow(NamedTuple):
    """A row of a table whose columns are classes or test features."""

    first: str
    second: str
    values: Sequence[Value]


def _wide(first: str, second: str, names: Iterable[str]) -> Columns[WideRow]:
    def at(index: int) -> tuple[str, Callable[[WideRow], Value]]:
        return listed[index], lambda line: line.values[index] if index < len(line.values) else MISSING

    listed = list(names)
    return [(first, lambda line: line.first), (second, lambda line: line.second), *map(at, range(len(listed)))]


@makes("table1", "Table 1: sample efficiency gain", PAPER, Needs(("digits", "cifar", "weather"), ("paper",)))
def gains(output: Output, results: Results) -> list[Table]:
    """Samples of a static baseline divided by samples of the scheduler, at the threshold fixed before the run."""
    cells = [cell for cell in results.of(regime="paper") if cell.threshold is not None]
    if not cells:
        raise UnavailableError("no cell of the paper's regime has a threshold")
    rows = [Entry(cell, cell.methods[name]) for cell in cells for name in SCHEDULERS if name in cell.methods]
    if not rows:
        raise UnavailableError("no cell of the paper's regime has ucb, gittins or mdp")

    def gain(row: Entry, baseline: MethodRuns | None) -> Value:
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
    return [table(output, note, columns, rows, cells)]


def _compared(cells: Iterable[CellRuns]) -> list[str]:
    """The paper's methods, then the other static ones and target-only, as far as these cells have them."""
    present = {method.name: method for cell in cells for method in cell.methods.values()}
    static = [name for name, method in present.items() if method.family == "static"]
    return [name for name in dict.fromkeys((*published.ORDER, *static, TARGET_ONLY)) if name in present]


@makes("table2", "Table 2: weather accuracy by test feature", PAPER, Needs(("weather",), ("paper",)))
def weather_accuracy(output: Output, results: Results) -> list[Table]:
    """Accuracy by test feature and scheduler."""
    cells = {cell.variant: cell for cell in behind(output, results)}
    if not cells:
        raise UnavailableError("no weather cell of the paper's regime")
    features = [*published.WEATHER_FEATURES, *(name for name in cells if name not in published.WEATHER_FEATURES)]

    def scores(methods: Mapping[str, MethodRuns | None]) -> list[Value]:
        return [estimate(compare.score(methods.get(feature))) for feature in features]

    ours = _compared(cells.values())
    rows = []
    for name in dict.fromkeys((*published.ORDER, *ours)):
        if name in ours:
            rows.append(
                WideRow(name, "ours", scores({feature: cell.methods.get(name) for feature, cell in cells.items()}))
            )
        if name in published.WEATHER_ACCURACY:
            printed = published.WEATHER_ACCURACY[name]
            rows.append(WideRow(name, "published", [number(printed.get(feature)) for feature in features]))
    winners = {feature: compare.best_active(cell) for feature, cell in cells.items()}
    rows.append(WideRow("best active of each feature", "ours", scores(winners)))
    names = sorted({winner.name for winner in winners.values() if winner})
    note = (
        f"{INTERVAL}; published: Table 2 of the paper, single numbers. The best active scheduler of each feature was "
        "picked after the runs" + (f" ({', '.join(names)})." if names else ".")
    )
    if any(cell.simulated for cell in cells.values()):
        note += " Ours are simulated data in the format of the real file: compare orders, not levels."
    return [table(output, note, _wide("scheduler", "whose", features), rows, cells.values())]


@makes("cifar-accuracy", "CIFAR-100: final accuracy", PAPER, Needs(("cifar",), ("paper",)))
def cifar_accuracy(output: Output, results: Results) -> list[Table]:
    """Caption of Figure 4: final accuracy."""
    cells = behind(output, results)
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
    return [table(output, note, columns, rows, cells)]


Truth = Literal["true", "false", "not shown"]


class Claim(NamedTuple):
    """A link of the chain, or the whole chain, over some cells: the results by accuracy and by samples."""

    where: str
    claim: str
    difference: Interval | None
    by_accuracy: Truth
    gain: Bounded | None
    by_samples: Truth | None
    published: str


@makes("orderings", "Orderings that the paper claims", PAPER, Needs(regimes=("paper",)))
def orderings(output: Output, results: Results) -> list[Table]:
    """The claims by experiment and by cell of the paper's regime."""
    cells = behind(output, results)
    rows: list[Claim] = []
    for experiment in dict.fromkeys(cell.experiment for cell in cells):
        group = [cell for cell in cells if cell.experiment == experiment]
        simulated = " (simulated)" if any(cell.simulated for cell in group) else ""
        if len(group) > 1:
            rows += claims(f"{experiment}, all {len(group)} cells{simulated}", group)
        for cell in group:
            rows += claims(cell.label, [cell])
    if not rows:
        raise UnavailableError("no cell of the paper's regime has two of mdp, gittins, ucb and cyclic")
    note = (
        "By accuracy: mean paired difference of final test accuracy, first minus second, with bootstrap 95 % interval "
        "over seeds within cells. True: the interval lies at or above 0; false: below 0; else not shown. By samples: "
        "samples of the second over samples of the first to the fixed threshold; true from 1 up. A chain is true when "
        "every link is. Published: what the paper's own numbers say (Table 2 for weather, final accuracy for "
        "CIFAR-100, samples to 80 % for digits); the paper has no mdp for digits and CIFAR-100."
    )
    columns: Columns[Claim] = (
        ("experiment", lambda row: row.where),
        ("claim", lambda row: row.claim),
        ("difference in accuracy", lambda row: signed(row.difference)),
        ("by accuracy", lambda row: row.by_accuracy),
        ("ratio of samples", lambda row: ratio(row.gain)),
        ("by samples", lambda row: row.by_samples or NOTHING),
        ("published", lambda row: row.published),
    )
    return [table(output, note, columns, rows, cells)]


def claims(where: str, cells: Sequence[CellRuns]) -> list[Claim]:
    """Each link over some cells, and then the whole chain. Empty with fewer than two of its methods."""
    present = [name for name in published.ORDER if all(name in cell.methods for cell in cells)]
    links = []
    for first, second in pairwise(present):
        pairs = [(cell.methods[first], cell.methods[second]) for cell in cells]
        strata = [compare.differences(*pair) for pair in pairs]
        if not all(gaps.size for gaps in strata):
            continue
        gain = compare.gain_over(pairs[0][1], pairs[0][0], cells[0].threshold) if len(cells) == 1 else None
        by_samples: Truth | None = None
        if gain is not None:
            by_samples = "true" if gain.low >= 1 else "false" if gain.high < 1 else "not shown"
        printed = _published(cells, [(first, second)])
        claim = f"{first} ≥ {second}"
        links.append(Claim(where, claim, *at_least(strata), gain, by_samples, printed))
    if len(links) < 2:
        return links
    names = [tuple(link.claim.split(" ≥ ")) for link in links]
    truths = [link.by_samples for link in links if link.by_samples]
    by_samples = chain(truths) if truths else None
    by_accuracy = chain([link.by_accuracy for link in links])
    claim = " ≥ ".join([names[0][0], *(second for _, second in names)])
    return [*links, Claim(where, claim, None, by_accuracy, None, by_samples, _published(cells, names))]


def at_least(strata: Sequence[ArrayLike]) -> tuple[Interval, Truth]:
    """Whether the first of a pair is at least as good, from paired differences (first − second) by stratum.

    True when the 95 % interval of the mean difference lies at or above 0, false when it lies below 0.
    """
    interval = statistics.mean_of_means(strata)
    return interval, "true" if interval.low >= 0 else "false" if interval.high < 0 else "not shown"


def chain(truths: Sequence[Truth]) -> Truth:
    """A chain of claims is true if every link is true, false if one is false, and otherwise not shown."""
    if "false" in truths:
        return "false"
    return "true" if truths and "not shown" not in truths else "not shown"


def _published(cells: Sequence[CellRuns], pairs: Sequence[tuple[str, ...]]) -> str:
    """What the published numbers say about a chain of claims: true, or false and where."""
    variants = [cell.variant for cell in cells]
    tables = {
        source: table
        for source, table in published.MERIT.get(cells[0].experiment, {}).items()
        if (source in variants or source not in published.WEATHER_FEATURES)
        and all(set(pair) <= table.keys() for pair in pairs)
    }
    if not tables:
        return NOTHING
    broken = [source for source, table in tables.items() if any(table[a] < table[b] for a, b in pairs)]
    if not broken:
        return "true"
    return "false" if len(tables) == 1 else f"false in {', '.join(broken)}"


@makes("p-values", "Appendix: p-values of label order", PAPER, Needs())
def order_tests(output: Output, results: Results) -> list[Table]:
    """Appendix A: p-values of label order by task."""
    evidence = [item for item in evidence_in(results) if item.order]
    if not evidence:
        raise UnavailableError("no evidence.json with tests of label order")

    def printed(item: Evidence, index: int) -> Value:
        if item.experiment == WEATHER.name:
            return published.P_VALUES_WEATHER
        return p_value(dict(enumerate(published.P_VALUES.get(item.experiment, ()))).get(index))

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
    rows = [(item, index, test) for item in evidence for index, test in enumerate(item.order)]
    return [table(output, note, columns, rows, evidence)]


@makes("transition-matrix", "Appendix: transition matrices", PAPER, Needs(WITH_MATRICES))
def transition_matrix(output: Output, results: Results) -> list[Table]:
    """Appendix D: transition matrices of the weather subsets."""
    evidence = [item for item in evidence_in(results) if item.experiment in WITH_MATRICES and item.transitions]
    if not evidence:
        raise UnavailableError("no evidence.json of weather or weather-points with transitions")
    tables = []
    for item in evidence:
        most = max(map(len, item.transitions.values()))
        names = [*item.classes, *(f"label {index}" for index in range(len(item.classes), most))]
        matrices = [(task, names, matrix) for task, matrix in item.transitions.items()]
        note = "Probability of the label of the column after the label of the row. "
        if item.experiment == WEATHER.name:
            matrices.append(("published (a sample subset)", [*published.WEATHER_EVENTS], published.TRANSITIONS))
            note += "Published: appendix D, one sample subset."
        rows = [
            WideRow(task, label, [number(value) for value in row])
            for task, labels, matrix in matrices
            for label, row in zip(labels, matrix, strict=False)
        ]
        columns = _wide("task", "from", (f"to {name}" for name in item.classes or names))
        title = f"{output.title}, {item.experiment}"
        tables.append(table(output, note, columns, rows, [item], part=item.experiment, title=title))
    return tables


def _of_shown_weather(
    output: Output, results: Results, make: Callable[[Output, CellRuns], Table], what: str
) -> list[Table]:
    """A table of the weather cell whose details the paper prints, and one of the weather points."""
    tables = []
    for group in (results.of(WEATHER.name, "paper"), results.of(WEATHER_POINTS.name)):
        typical = [cell for cell in group if cell.variant in TYPICAL]
        tables += [make(output, cell) for cell in [*typical, *group][:1]]
    tables = [one for one in tables if one.rows]
    if not tables:
        raise UnavailableError(f"no weather cell of the paper's regime and no weather-points cell has {what}")
    return tables


@makes("rows-used", "Appendix: rows used by task and event", PAPER, Needs(("weather",), ("paper",)))
def rows_used(output: Output, results: Results) -> list[Table]:
    """Appendix D: rows drawn by task and event, for mdp, gittins and ucb."""
    return _of_shown_weather(output, results, _rows_used, "the rows drawn by task and label")


def _rows_used(output: Output, cell: CellRuns) -> Table:
    classes = cell.about.classes
    fits = len(cell.about.tasks) == published.SUBSETS and len(classes) == len(published.WEATHER_EVENTS)
    compared = cell.experiment == WEATHER.name and fits
    rows = []
    for name in SCHEDULERS:
        drawn = cell.methods[name].drawn_by_label if name in cell.methods else None
        for index, (task, counts) in enumerate(zip(cell.about.tasks, () if drawn is None else drawn, strict=False)):
            ours = [*counts, *[np.nan] * len(classes)][: len(classes)]
            printed = published.ROWS_USED[name][index] if compared else ()
            rows.append(WideRow(name, task, [number(float(count), "{:,.0f}") for count in (*ours, *printed)]))
    note = f"Rows drawn by scheduler, task and event, mean over seeds; {cell.variant}."
    if compared:
        note += (
            f" Published: Table 5, subsets in order, test feature {published.SHOWN_FEATURE}; it adds up to 5,000 rows "
            "for mdp and ucb and to 5,010 for gittins."
        )
    columns = _wide("scheduler", "task", (*classes, *(f"{name}, published" for name in classes if compared)))
    title = f"{output.title}, {cell.experiment}"
    return table(output, note, columns, rows, [cell], part=cell.experiment, title=title)


@makes("event-accuracy", "Appendix: accuracy by event type", PAPER, Needs(("weather",), ("paper",)))
def event_accuracy(output: Output, results: Results) -> list[Table]:
    """Appendix D: accuracy by event type."""
    return _of_shown_weather(output, results, _event_accuracy, "its accuracy by class")


def _event_accuracy(output: Output, cell: CellRuns) -> Table:
    classes = cell.about.classes
    compared = cell.experiment == WEATHER.name and len(classes) == len(published.WEATHER_EVENTS)
    rows = []
    for name in _compared([cell]):
        finals = [run.final for run in cell.methods[name].runs if run.final]
        by_seed = [final.test_accuracy_by_class for final in finals if final.test_accuracy_by_class]
        shares_by_class = [[share for share in column if share is not None] for column in zip(*by_seed, strict=True)]
        if shares_by_class:
            medians = [number(float(np.median(shares))) if shares else MISSING for shares in shares_by_class]
            rows.append(WideRow(name, "ours", medians))
        if shares_by_class and compared and name in published.EVENT_ACCURACY:
            rows.append(WideRow(name, "published", [number(share) for share in published.EVENT_ACCURACY[name]]))
    note = f"Final test accuracy by event, median over seeds that did not diverge; {cell.variant}."
    if compared:
        note += f" Published: Table 6, test feature {published.SHOWN_FEATURE}; it has no row for cyclic."
    title = f"{output.title}, {cell.experiment}"
    columns = _wide("scheduler", "whose", classes)
    return table(output, note, columns, rows, [cell], part=cell.experiment, title=title)
