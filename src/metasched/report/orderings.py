"""The order of merit that the paper claims, MDP ≥ Gittins ≥ UCB ≥ cyclic: true, false or not shown."""

from collections.abc import Sequence
from typing import NamedTuple

from metasched.experiments import outputs, published
from metasched.experiments.outputs import Output
from metasched.report import compare, statistics
from metasched.report.cells import Cell
from metasched.report.pieces import UnavailableError, makes
from metasched.report.results import Results
from metasched.report.sheets import NOTHING, Columns, Sheet, ratio, sheet, signed
from metasched.report.statistics import Bounded, Interval, Truth


class Claim(NamedTuple):
    """A link of the chain, or all of it, over some cells: what accuracy and samples say."""

    where: str
    claim: str
    difference: Interval | None
    by_accuracy: Truth
    gain: Bounded | None
    by_samples: Truth | None
    published: str


@makes(outputs.ORDERINGS)
def orderings(output: Output, results: Results) -> list[Sheet]:
    """The claims by experiment and by cell of the paper's regime."""
    cells = results.behind(output)
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
        "By accuracy: mean paired difference of final test accuracy, first less second, with bootstrap 95 % interval "
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
    return [sheet(output, note, columns, rows, cells)]


def claims(where: str, cells: Sequence[Cell]) -> list[Claim]:
    """Link by link over some cells, and then the whole chain; nothing with fewer than two of its methods."""
    present = [name for name in published.ORDER if all(name in cell.methods for cell in cells)]
    links = []
    for first, second in statistics.links(published.ORDER, present):
        pairs = [(cell.methods[first], cell.methods[second]) for cell in cells]
        strata = [compare.differences(*pair) for pair in pairs]
        if not all(gaps.size for gaps in strata):
            continue
        gain = compare.gain_over(pairs[0][1], pairs[0][0], cells[0].threshold) if len(cells) == 1 else None
        by_samples: Truth | None = None
        if gain is not None:
            by_samples = "true" if gain.low >= 1 else "false" if gain.high < 1 else "not shown"
        printed = _printed(cells, [(first, second)])
        claim = f"{first} ≥ {second}"
        links.append(Claim(where, claim, *statistics.at_least(strata), gain, by_samples, printed))
    if len(links) < 2:
        return links
    names = [tuple(link.claim.split(" ≥ ")) for link in links]
    truths = [link.by_samples for link in links if link.by_samples]
    by_samples = statistics.chain(truths) if truths else None
    by_accuracy = statistics.chain([link.by_accuracy for link in links])
    claim = " ≥ ".join([names[0][0], *(second for _, second in names)])
    return [*links, Claim(where, claim, None, by_accuracy, None, by_samples, _printed(cells, names))]


def _printed(cells: Sequence[Cell], pairs: Sequence[tuple[str, ...]]) -> str:
    """What the published numbers say about a chain of claims: true, or false and where."""
    variants = [cell.variant for cell in cells]
    tables = {
        place: table
        for place, table in published.MERIT.get(cells[0].experiment, {}).items()
        if (place in variants or place not in published.WEATHER_FEATURES)
        and all(set(pair) <= table.keys() for pair in pairs)
    }
    if not tables:
        return NOTHING
    broken = [place for place, table in tables.items() if any(table[a] < table[b] for a, b in pairs)]
    if not broken:
        return "true"
    return "false" if len(tables) == 1 else f"false in {', '.join(broken)}"
