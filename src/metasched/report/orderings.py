"""The order of merit that the paper claims, MDP ≥ Gittins ≥ UCB ≥ cyclic: true, false or not shown."""

from collections.abc import Sequence

from metasched.experiments import published
from metasched.report import compare, statistics
from metasched.report.cells import Cell, Floats
from metasched.report.results import Results
from metasched.report.sheets import MISSING, NOTHING, Column, Sheet, UnavailableError, Value, ratio, signed
from metasched.report.statistics import Verdict


def orderings(results: Results) -> list[Sheet]:
    """The claims by experiment and by cell of the paper's regime."""
    cells = results.of(regime="paper")
    rows: list[tuple[Value, ...]] = []
    for experiment in dict.fromkeys(cell.experiment for cell in cells):
        group = [cell for cell in cells if cell.experiment == experiment]
        simulated = " (simulated)" if any(cell.simulated for cell in group) else ""
        if len(group) > 1:
            rows += _claims(f"{experiment}, all {len(group)} cells{simulated}", group)
        for cell in group:
            rows += _claims(cell.label, [cell])
    if not rows:
        raise UnavailableError("no cell of the paper's regime has two of mdp, gittins, ucb and cyclic")
    note = (
        "By accuracy: mean paired difference of final test accuracy, first less second, with bootstrap 95 % interval "
        "over seeds within cells. True: the interval lies at or above 0; false: below 0; else not shown. By samples: "
        "samples of the second over samples of the first to the fixed threshold; true from 1 up. A chain is true when "
        "every link is. Published: what the paper's own numbers say (Table 2 for weather, final accuracy for "
        "CIFAR-100, samples to 80 % for digits); the paper has no mdp for digits and CIFAR-100."
    )
    columns = (
        Column("experiment", words=True),
        Column("claim", words=True),
        Column("difference in accuracy"),
        Column("by accuracy", words=True),
        Column("ratio of samples"),
        Column("by samples", words=True),
        Column("published", words=True),
    )
    return [Sheet("orderings", "Orderings that the paper claims", note, columns, tuple(rows), tuple(cells))]


def chain_verdict(cells: Sequence[Cell]) -> tuple[str, Verdict] | None:
    """The whole chain over some cells, by final accuracy; None with fewer than two of its methods."""
    pairs = _pairs(cells)
    if not pairs:
        return None
    verdicts = [statistics.at_least(_strata(cells, *pair))[1] for pair in pairs]
    return " ≥ ".join([pairs[0][0], *(second for _, second in pairs)]), statistics.chain(verdicts)


def _pairs(cells: Sequence[Cell]) -> list[tuple[str, str]]:
    present = [name for name in published.ORDER if all(name in cell.methods for cell in cells)]
    pairs = statistics.links(published.ORDER, present)
    return [pair for pair in pairs if all(compare.differences(cell, *pair).size for cell in cells)]


def _strata(cells: Sequence[Cell], first: str, second: str) -> list[Floats]:
    return [compare.differences(cell, first, second) for cell in cells]


def _claims(label: str, cells: Sequence[Cell]) -> list[tuple[Value, ...]]:
    rows: list[tuple[Value, ...]] = []
    by_accuracy: list[Verdict] = []
    by_samples: list[Verdict] = []
    pairs = _pairs(cells)
    for first, second in pairs:
        interval, verdict = statistics.at_least(_strata(cells, first, second))
        by_accuracy.append(verdict)
        found: Value = MISSING
        sampled: str = NOTHING
        if len(cells) == 1 and cells[0].threshold is not None:
            gain = compare.gain_over(cells[0], second, first, cells[0].threshold)
            found = ratio(gain)
            if gain is not None:
                told: Verdict = "true" if gain.low >= 1 else "false" if gain.high < 1 else "not shown"
                by_samples.append(told)
                sampled = told
        claim = f"{first} ≥ {second}"
        rows.append((label, claim, signed(interval), verdict, found, sampled, _printed(cells, [(first, second)])))
    if len(pairs) > 1:
        claim = " ≥ ".join([pairs[0][0], *(second for _, second in pairs)])
        sampled = statistics.chain(by_samples) if by_samples else NOTHING
        told = statistics.chain(by_accuracy)
        rows.append((label, claim, MISSING, told, MISSING, sampled, _printed(cells, pairs)))
    return rows


def _printed(cells: Sequence[Cell], pairs: Sequence[tuple[str, str]]) -> str:
    """What the published numbers say about a chain of claims: true, or false and where."""
    experiment = cells[0].experiment
    tables: dict[str, dict[str, float]] = {}
    if experiment == "weather":
        for cell in cells:
            tables[cell.variant] = {
                name: row[cell.variant] for name, row in published.WEATHER_ACCURACY.items() if cell.variant in row
            }
    elif experiment == "cifar":
        tables["final accuracy"] = dict(published.CIFAR_FINAL)
    elif experiment == "digits":
        tables["samples"] = {name: -value for name, value in published.SAMPLES["digits"].items()}
    known = {place: table for place, table in tables.items() if all(set(pair) <= table.keys() for pair in pairs)}
    if not known:
        return NOTHING
    broken = [place for place, table in known.items() if any(table[a] < table[b] for a, b in pairs)]
    if not broken:
        return "true"
    return "false" if len(known) == 1 else f"false in {', '.join(broken)}"
