"""Tables for a terminal, and what ``demo`` and ``train`` put into them."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from metasched.report.statistics import stays_from
from metasched.tasks import TaskSet

Record = Mapping[str, Any]


def terminal(
    headings: Sequence[str], rows: Iterable[Sequence[str]], words: Collection[int] = (0,), title: str = ""
) -> Table:
    """A table; columns of ``words`` are aligned left, those of numbers right. Nothing in it is markup."""
    table = Table(
        title=title or None, title_justify="left", box=SIMPLE_HEAD, padding=0, show_edge=False, header_style="bold"
    )
    for place, heading in enumerate(headings):
        word = place in words
        table.add_column(
            Text(heading),
            justify="left" if word else "right",
            min_width=None if word else 5,
            overflow="fold",
            vertical="bottom",
        )
    for row in rows:
        table.add_row(*map(Text, row))
    return table


class Reached(NamedTuple):
    """When a run reached a threshold for good: the meta-update, and the source rows drawn until then."""

    update: int
    samples: int


def reached(records: Sequence[Record], threshold: float) -> Reached | None:
    """The first measurement from which test accuracy stays at or above ``threshold``; None if it never does."""
    measured = [record for record in records if "test_accuracy" in record]
    place = stays_from([record["test_accuracy"] for record in measured], threshold)
    return None if place is None else Reached(measured[place]["update"], measured[place]["samples"])


def summarise(records: Sequence[Record], threshold: float) -> dict[str, Any]:
    """One method over its seeds, as JSON: final accuracies, when each seed reached the threshold, rows drawn.

    A seed that diverged is left out.
    """
    last = [record for record in records if "final" in record]
    seeds = [record["seed"] for record in last]
    arrivals = [reached([record for record in records if record["seed"] == seed], threshold) for seed in seeds]
    return {
        "seeds": seeds,
        "test_accuracy": [record["final"]["test_accuracy"] for record in last],
        "initial_test_accuracy": [record["final"]["initial_test_accuracy"] for record in last],
        "test_rows": last[0]["final"]["test_rows"],
        "threshold": threshold,
        "updates_to_threshold": [at and at.update for at in arrivals],
        "samples_to_threshold": [at and at.samples for at in arrivals],
        "drawn": [record["drawn"] for record in last],
        "drawn_by_label": [record["final"]["drawn_by_label"] for record in last],
        "abstained": [record["abstained"] for record in last],
    }


def comparison(methods: Mapping[str, Mapping[str, Any]], tasks: Sequence[str], threshold: float) -> Table:
    """One row for each method: accuracy, how soon it passed the threshold, rows drawn from each task."""
    headings = ["scheduler", "test\naccuracy", f"samples\nto {threshold:.0%}", f"rows of\n{tasks[0]}", *tasks[1:]]
    rows = [
        [
            name,
            half_range(row["test_accuracy"]),
            lower_median(row["samples_to_threshold"]),
            *(f"{count:,.0f}" for count in np.mean(row["drawn"], axis=0)),
        ]
        for name, row in methods.items()
    ]
    return terminal(headings, rows)


def drawn_by_label(counts: Sequence[Sequence[int]], tasks: TaskSet) -> Table:
    """Rows drawn by task and label (N, C), the shape of the paper's appendix table; labels are named when shared."""
    names = tasks.classes if tasks.shared_labels else [f"label {label}" for label in range(len(counts[0]))]
    rows = [[task.name, *map(str, row), str(sum(row))] for task, row in zip(tasks.tasks, counts, strict=True)]
    return terminal(["rows drawn", *names, "all"], rows)


def half_range(accuracies: Sequence[float]) -> str:
    """Mean, and half the range when there are several values."""
    mean = f"{np.mean(accuracies):.3f}"
    return mean if len(accuracies) == 1 else f"{mean}±{np.ptp(accuracies) / 2:.3f}"


def lower_median(samples: Sequence[int | None]) -> str:
    """The lower median with "never" counted as the largest value, so that a run that fails is never left out."""
    counts = [np.inf if count is None else count for count in samples]
    middle = float(np.quantile(counts, 0.5, method="lower"))
    return f"{middle:,.0f}" if np.isfinite(middle) else "never"
