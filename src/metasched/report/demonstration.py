"""The table of the demonstration, and what it shows: ours against the schedules that do not choose."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.table import Table

from metasched.dependence import holm
from metasched.report import statistics
from metasched.report.statistics import Interval
from metasched.report.tables import terminal
from metasched.runs.outcome import Outcome
from metasched.tasks import TaskSet

OURS = "ours"
STATIC = ("uniform", "cyclic")
"""What ours is held against; the first is the baseline of the table."""
ALPHA = 0.05


@dataclass(frozen=True)
class Summary:
    """One method over its runs, in the order of their seeds.

    Attributes:
        accuracy: final test accuracy of each run (S,).
        measured: test accuracy while training, on a part of the test rows (S, P).
        samples: source rows drawn until then (S, P).
        drawn: source rows by task, mean over runs (N,).
        useful: share of these from sources known to be useful; 0 where none were drawn.
    """

    accuracy: Sequence[float]
    measured: Sequence[Sequence[float]]
    samples: Sequence[Sequence[int]]
    drawn: Sequence[float]
    useful: float

    @property
    def words(self) -> str:
        """Beside a progress bar; the same numbers end in the table."""
        return f"accuracy {np.mean(self.accuracy):.3f}, {sum(self.drawn):,.0f} rows a run, {self.useful:.0%} useful"


def summarise(outcomes: Sequence[Outcome], tasks: TaskSet) -> Summary:
    """Runs of one method; one that diverged counts as chance."""
    chance = 1 / len(tasks.classes)
    drawn = np.mean([outcome.drawn or [0] * len(tasks.tasks) for outcome in outcomes], axis=0)
    useful = np.array([task.name in (tasks.useful or ()) for task in tasks.tasks])
    return Summary(
        accuracy=[outcome.final.test_accuracy if outcome.final else chance for outcome in outcomes],
        measured=[outcome.test_accuracy for outcome in outcomes],
        samples=[outcome.samples for outcome in outcomes],
        drawn=drawn.tolist(),
        useful=float(drawn[useful].sum() / max(drawn.sum(), 1)),
    )


def gap(row: Summary, baseline: Summary) -> Interval:
    """Final accuracy less that of the baseline, paired by seed: the mean with its 95 % interval."""
    return statistics.mean_of_means([np.subtract(row.accuracy, baseline.accuracy)])


def arrival(row: Summary, threshold: float) -> float:
    """Source rows drawn until test accuracy stays at ``threshold``, median over runs; ∞ for never."""
    places = [statistics.stays_from(curve, threshold) for curve in row.measured]
    rows = [np.inf if place is None else drawn[place] for place, drawn in zip(places, row.samples, strict=True)]
    return float(np.median(rows))


def table(rows: Mapping[str, Summary]) -> Table:
    """One line for each method."""
    baseline = rows[STATIC[0]]
    lines = []
    for name, row in rows.items():
        reached = arrival(row, float(np.mean(baseline.accuracy)))
        difference = gap(row, baseline)
        lines.append(
            [
                name,
                f"{np.mean(row.accuracy):.3f}",
                "" if row is baseline else f"{difference.value:+.3f} [{difference.low:+.3f}, {difference.high:+.3f}]",
                f"{reached:,.0f}" if np.isfinite(reached) else "never",
                f"{sum(row.drawn):,.0f}",
                f"{row.useful:.0%}",
            ]
        )
    name = STATIC[0]
    headings = [
        "method",
        "test\naccuracy",
        f"less {name}\n[95 % interval]",
        f"rows until\n{name}'s",
        "rows\ndrawn",
        "of them\nuseful",
    ]
    return terminal(headings, lines)


def legend(seeds: int, tasks: TaskSet) -> str:
    """How to read the table."""
    return (
        f"{seeds} runs each, by seed; means over them. Test accuracy: {len(tasks.test.labels):,} rows of the target. "
        f"Rows until {STATIC[0]}'s: source rows drawn until accuracy stays at its final one (median). Useful: "
        f"{' and '.join(tasks.useful or ())}. Ours: what 'metasched train' does by itself. Useful alone: uniform over "
        "the useful sources, which nobody knows beforehand."
    )


def verdict(rows: Mapping[str, Summary]) -> str:
    """Whether ours ends above every schedule that does not choose, in a sentence with the numbers."""
    ours = rows[OURS]
    gaps = {name: gap(ours, rows[name]) for name in STATIC}
    tests = [statistics.sign_flip_test(np.subtract(ours.accuracy, rows[name].accuracy)) for name in STATIC]
    largest = float(holm(tests).max())
    told = " and ".join(
        f"{each.value:+.3f} [{each.low:+.3f}, {each.high:+.3f}] against {name}" for name, each in gaps.items()
    )
    if largest <= ALPHA and min(each.value for each in gaps.values()) > 0:
        return f"Choosing pays here: {told} in final accuracy (p {largest:.2g} after Holm, sign flips by seed)."
    return f"Not shown that choosing pays here: {told} in final accuracy (p {largest:.2g}); more seeds may tell."


def as_json(rows: Mapping[str, Summary]) -> dict[str, Any]:
    """The table for a program."""
    threshold = float(np.mean(rows[STATIC[0]].accuracy))
    return {
        name: {
            "test_accuracy": list(row.accuracy),
            "drawn": list(row.drawn),
            "useful": row.useful,
            "rows_until_baseline": reached if np.isfinite(reached := arrival(row, threshold)) else None,
        }
        for name, row in rows.items()
    }
