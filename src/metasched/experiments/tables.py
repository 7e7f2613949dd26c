"""Tables that only experiments have: draws from useful sources, and the cost of a decision."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from metasched.experiments import published
from metasched.experiments.outputs import Entry, Needs, makes
from metasched.experiments.paper_sets import WEATHER
from metasched.report.cells import CellRuns, MethodRuns
from metasched.report.outputs import COMPARISONS, Output, UnavailableError
from metasched.report.overview import median
from metasched.report.results import Results
from metasched.report.tables import MISSING, Columns, Number, Table, number, percent, table


def supervised_claim(cells: Sequence[CellRuns]) -> str:
    """What the paper claims about supervised networks, for the note of a table that shows weather."""
    if all(cell.experiment != WEATHER.name for cell in cells):
        return ""
    low, high = published.SUPERVISED_SHARE
    return (
        f" The paper claims, for weather, {low:.0%} to {high:.0%} of the accuracy of other authors' supervised "
        f"networks with {published.SUPERVISED_FEWER:.0%} fewer examples."
    )


@makes("useful-draws", "Share of draws from useful sources", COMPARISONS, Needs(regimes=("sources",)), after="planned")
def useful_draws(output: Output, results: Results) -> list[Table]:
    """How soon a method finds the sources that are known to help, and whether it stays with them."""
    rows = [
        (Entry(cell, method), shares)
        for cell in results.cells
        for method in cell.methods.values()
        if method.family in ("active", "static") and (shares := useful_shares(cell, method))
    ]
    if not rows:
        raise UnavailableError("no cell has schedules and names the sources known to be useful")
    columns: Columns[tuple[Entry, UsefulShares]] = (
        ("experiment", lambda row: row[0].cell.label),
        ("method", lambda row: row[0].method.name),
        ("first quarter", lambda row: percent(row[1].first_quarter)),
        ("first half", lambda row: percent(row[1].first_half)),
        ("last quarter", lambda row: percent(row[1].last_quarter)),
        ("useful sources", lambda row: f"{len(row[0].cell.about.useful)} of {len(row[0].cell.about.tasks)}"),
    )
    note = (
        "Of the batches drawn in that part of the run, the share from sources known to help with the target, which no "
        "method knows; the mean over the seeds with stored schedules. Abstaining does not count as a draw."
    )
    return [table(output, note, columns, rows, dict.fromkeys(entry.cell for entry, _ in rows))]


class UsefulShares(NamedTuple):
    """The shares of the draws from useful sources, in parts of a run. NaN if nothing was drawn."""

    first_quarter: float
    first_half: float
    last_quarter: float


def useful_shares(cell: CellRuns, method: MethodRuns) -> UsefulShares | None:
    """None if nobody knows which sources are useful, or no schedule was stored."""
    counts, useful = method.schedule, [task in cell.about.useful for task in cell.about.tasks]
    if counts is None or not any(useful):
        return None
    drawn, hits = counts[:, :-1].sum(axis=1), counts[:, :-1][:, useful].sum(axis=1)
    quarter, half = max(1, round(len(counts) / 4)), max(1, round(len(counts) / 2))
    parts = (slice(quarter), slice(half), slice(-quarter, None))
    return UsefulShares(
        *(float(hits[part].sum() / total) if (total := drawn[part].sum()) else math.nan for part in parts)
    )


class Cost(NamedTuple):
    """The cost of decisions: seconds per decision, decisions in a run, seconds of a run."""

    experiment: str
    method: str
    decision: float
    decisions: float
    run: float

    @property
    def share(self) -> float:
        """The share of a run."""
        return self.decision * self.decisions / self.run if self.run else math.nan


@makes("cost", "Cost of scheduling", COMPARISONS, Needs(regimes=("few-label",)), after="time")
def cost(output: Output, results: Results) -> list[Table]:
    """The cost of a decision, by experiment and method: medians over cells."""
    groups: dict[tuple[str, str], dict[CellRuns, tuple[float, ...]]] = {}
    for cell in results.cells:
        for method in cell.methods.values():
            seconds = [run.scheduling_seconds for run in method.runs if run.scheduling_seconds is not None]
            if seconds:
                decisions = math.nan if method.schedule is None else float(method.schedule.sum())
                one = (median(seconds), decisions, median(method.seconds))
                groups.setdefault((cell.experiment, method.name), {})[cell] = one
    if not groups:
        raise UnavailableError("no method has recorded its scheduling_seconds")
    rows = [Cost(*names, *map(median, zip(*cells.values(), strict=True))) for names, cells in groups.items()]
    columns: Columns[Cost] = (
        ("experiment", lambda row: row.experiment),
        ("method", lambda row: row.method),
        ("ms per decision", lambda row: number(1e3 * row.decision, "{:.3g}")),
        ("decisions", lambda row: number(row.decisions, "{:,.0f}")),
        ("run, seconds", lambda row: number(row.run, "{:,.1f}")),
        (
            "share of run",
            lambda row: Number(f"{row.share:.2%}", row.share) if math.isfinite(row.share) else MISSING,
        ),
    )
    note = (
        "Milliseconds per decision, decisions in a run, wall seconds of a run (all medians over cells and seeds), "
        "and the share of the run that decisions take."
    )
    timed = {cell for cells in groups.values() for cell in cells}
    return [table(output, note, columns, rows, [cell for cell in results.cells if cell in timed])]
