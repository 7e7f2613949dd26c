"""The methods of a comparison and the linear model beside them, best first: on the terminal and on the page alike."""

from typing import NamedTuple

import numpy as np

from metasched.report import compare
from metasched.report.cells import CellRuns, MethodRuns
from metasched.report.outputs import FIRST, Output, UnavailableError, makes
from metasched.report.results import Results
from metasched.report.tables import MISSING, Columns, Number, Table, samples, signed, table
from metasched.schedulers.resolve import BASELINE

NOTE = (
    "Mean over seeds ± half of its bootstrap 95 % interval; the mean difference by seed with its interval, not "
    "corrected for several comparisons; source rows drawn until test accuracy stays at the median final one of "
    f"{BASELINE}."
)


class Row(NamedTuple):
    """A method: its score ± half of the interval, the difference from the baseline, rows until it ends like that."""

    name: str
    score: Number
    difference: Number = MISSING
    rows: Number = MISSING


def rows(cell: CellRuns) -> list[Row]:
    """Every method, and the linear model where somebody fitted one."""
    found = [_row(cell, method) for method in cell.methods.values()]
    if cell.remarks:
        linear = Number(f"{cell.remarks.score:.3f}", cell.remarks.score)
        found.append(Row(f"{cell.remarks.linear} alone", linear))
    return sorted(found, key=lambda row: -row.score.value)


def headings(cell: CellRuns) -> list[str]:
    """Of the four columns."""
    measure = cell.remarks.measure if cell.remarks else "accuracy"
    return ["method", measure, f"− {BASELINE}", f"rows to {BASELINE}'s end"]


def _row(cell: CellRuns, method: MethodRuns) -> Row:
    mean = compare.mean(method)
    if mean is None:
        return Row(method.name, MISSING)
    spread = "" if np.isnan(mean.low) else f" ± {(mean.high - mean.low) / 2:.3f}"
    score = Number(f"{mean.value:.3f}{spread}", *mean)
    uniform = cell.methods.get(BASELINE)
    if uniform is None or method is uniform:
        return Row(method.name, score)
    draws = any(run.samples and run.samples[-1] for run in method.runs)
    arrival = compare.median_samples(method, uniform.median_final) if draws else None
    return Row(method.name, score, signed(compare.difference(method, uniform)), samples(arrival)._replace(interval=""))


@makes("methods", "Every method and the linear model", FIRST, after="contrasts")
def methods(output: Output, results: Results) -> list[Table]:
    """Of every cell of runs of one's own."""
    cells = [cell for cell in results.cells if cell.own]
    if not cells:
        raise UnavailableError("no runs of one's own")
    return [_table(output, cell, len(cells) > 1) for cell in cells]


def _table(output: Output, cell: CellRuns, several: bool) -> Table:
    name, measure, difference, arrival = headings(cell)
    columns: Columns[Row] = (
        (name, lambda row: row.name),
        (measure, lambda row: row.score),
        (difference, lambda row: row.difference),
        (arrival, lambda row: row.rows),
    )
    note = NOTE
    if cell.remarks:
        note += (
            f" {cell.remarks.linear.capitalize()} has the {cell.about.target_rows} labelled rows of the target alone."
        )
    part, title = (cell.key, cell.title) if several else ("", "")
    return table(output, note, columns, rows(cell), [cell], part=part, title=title)
