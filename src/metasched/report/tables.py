"""Tables that compare runs."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from rich.box import SIMPLE_HEAD
from rich.table import Table

from metasched.tasks import TaskSet

Record = Mapping[str, Any]


class Reached(NamedTuple):
    """When a run reached a threshold for good: the meta-update, and the source rows drawn until then."""

    update: int
    samples: int


def reached(records: Sequence[Record], threshold: float) -> Reached | None:
    """The first measurement from which test accuracy stays at or above ``threshold``; None if it never does."""
    found = None
    for record in records:
        if "test_accuracy" not in record:
            continue
        if record["test_accuracy"] < threshold:
            found = None
        elif found is None:
            found = Reached(record["update"], record["samples"])
    return found


def summarise(records: Sequence[Record], threshold: float) -> dict[str, Any]:
    """One method over its seeds, as JSON: final accuracies, when each seed reached the threshold, rows drawn.

    A seed that diverged is left out.
    """
    seeds = [record["seed"] for record in records if "final" in record]
    by_seed = {seed: [record for record in records if record["seed"] == seed] for seed in seeds}
    arrivals = {seed: reached(own, threshold) for seed, own in by_seed.items()}
    return {
        "seeds": seeds,
        "test_accuracy": [own[-1]["final"]["test_accuracy"] for own in by_seed.values()],
        "initial_test_accuracy": [own[-1]["final"]["initial_test_accuracy"] for own in by_seed.values()],
        "test_rows": by_seed[seeds[0]][-1]["final"]["test_rows"],
        "threshold": threshold,
        "updates_to_threshold": [at and at.update for at in arrivals.values()],
        "samples_to_threshold": [at and at.samples for at in arrivals.values()],
        "drawn": [own[-1]["drawn"] for own in by_seed.values()],
        "drawn_by_label": [own[-1]["final"]["drawn_by_label"] for own in by_seed.values()],
        "abstained": [own[-1]["abstained"] for own in by_seed.values()],
    }


def comparison(methods: Mapping[str, Mapping[str, Any]], tasks: Sequence[str], threshold: float) -> Table:
    """One row for each method: accuracy, how soon it passed the threshold, rows drawn from each task."""
    table = Table(box=SIMPLE_HEAD, padding=0, show_edge=False, header_style="bold")
    table.add_column("\nscheduler", no_wrap=True)
    table.add_column("test\naccuracy", justify="right", no_wrap=True)
    table.add_column(f"samples\nto {threshold:.0%}", justify="right", no_wrap=True)
    for number, task in enumerate(tasks):
        table.add_column(("rows of\n" if number == 0 else "\n") + task, justify="right", overflow="fold")
    for name, row in methods.items():
        drawn = [round(sum(column) / len(column)) for column in zip(*row["drawn"], strict=True)]
        table.add_row(
            name,
            spread(row["test_accuracy"], "{:.3f}"),
            median(row["samples_to_threshold"]),
            *(f"{count:,}" for count in drawn),
        )
    return table


def drawn_by_label(counts: Sequence[Sequence[int]], tasks: TaskSet) -> Table:
    """Rows drawn by task and label (N, C), the shape of the paper's appendix table; labels are named when shared."""
    width = len(counts[0])
    names = tasks.classes if tasks.shared_labels else [f"label {label}" for label in range(width)]
    table = Table(box=SIMPLE_HEAD, padding=0, show_edge=False, header_style="bold")
    table.add_column("rows drawn")
    for name in names:
        table.add_column(name, justify="right", overflow="fold", min_width=5)
    table.add_column("all", justify="right", min_width=6)
    for task, row in zip(tasks.tasks, counts, strict=True):
        table.add_row(task.name, *map(str, row), str(sum(row)))
    return table


def spread(values: Sequence[float], form: str) -> str:
    """Mean, and half the range when there are several values."""
    mean = form.format(sum(values) / len(values))
    return mean if len(values) == 1 else f"{mean}±{form.format((max(values) - min(values)) / 2)}"


def median(values: Sequence[int | None]) -> str:
    """The lower median with "never" counted as the largest value, so that a run that fails is never left out."""
    ordered = sorted(values, key=lambda value: (value is None, value or 0))
    middle = ordered[(len(ordered) - 1) // 2]
    return "never" if middle is None else f"{middle:,}"
