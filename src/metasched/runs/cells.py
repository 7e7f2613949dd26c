"""One cell of an experiment: every method with every seed, written down as a result file.

Every finished run is kept at once, in a file of its own beside the results; what is there is never run again.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from metasched.experiments import Cell, Experiment, Method
from metasched.meta.loop import Record
from metasched.runs import lanes
from metasched.runs.files import write_whole
from metasched.runs.lanes import Bench, Lane
from metasched.runs.origin import origin
from metasched.runs.supervised import Supervised
from metasched.tasks import TaskSet

FORMAT = 1
Outcome = dict[str, Any]
"""A finished run, as JSON types."""
OnLane = Callable[[str, int, int], None]
"""Called with a name, the runs finished and all runs, whenever one has finished."""


class Setting(NamedTuple):
    """What a result file says about where its numbers come from."""

    command: str
    tuning: Mapping[str, Any] | None


def run_lanes(
    bench: Bench, wanted: Sequence[Lane], kept: Path, name: str, on_lane: OnLane | None = None
) -> list[Outcome]:
    """The outcomes of ``wanted``, in that order; those in the file ``kept`` are taken from there."""
    known = dict(_read(kept))
    missing = [lane for lane in wanted if _key(lane) not in known]
    if on_lane:
        on_lane(name, len(wanted) - len(missing), len(wanted))
    records: dict[int, list[Record]] = {}
    for number, record in lanes.run(bench, missing):
        records.setdefault(number, []).append(record)
        if "final" not in record and "diverged" not in record:
            continue
        lane = missing[number]
        outcome = _outcome(bench, records.pop(number))
        known[_key(lane)] = outcome
        with kept.open("a") as stream:
            stream.write(json.dumps({"lane": _key(lane), "outcome": outcome}, separators=(",", ":")) + "\n")
        if on_lane:
            on_lane(name, sum(_key(lane) in known for lane in wanted), len(wanted))
    return [known[_key(lane)] for lane in wanted]


def _read(path: Path) -> Iterator[tuple[str, Outcome]]:
    """Finished runs of a file; a line that was cut short ends it, and is cut off."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        return
    whole: list[str] = []
    for line in path.read_text().splitlines(keepends=True):
        try:
            entry = json.loads(line if line.endswith("\n") else "cut short")
        except ValueError:
            write_whole(path, "".join(whole).encode())
            return
        whole.append(line)
        yield entry["lane"], entry["outcome"]


def _key(lane: Lane) -> str:
    return f"{lane.method.name} seed={lane.seed} inner={lane.inner_rate:g} outer={lane.outer_rate:g}"


def _outcome(bench: Bench, records: Sequence[Record]) -> Outcome:
    """What is kept of a run: the curve, the final measurements, rows by task and label, the schedule."""
    last = records[-1]
    if "diverged" in last:
        return {"diverged": {"update": last["update"], "cause": last["diverged"]}}
    measured = [record for record in records if "test_accuracy" in record]
    final = last["final"]
    arms = len(bench.program.tasks.tasks) + 1
    return {
        "updates": [record["update"] for record in measured],
        "samples": [record["samples"] for record in measured],
        "test_accuracy": [round(record["test_accuracy"], 4) for record in measured],
        "final": {
            "test_accuracy": round(final["test_accuracy"], 5),
            "initial_test_accuracy": round(final["initial_test_accuracy"], 5),
            "balanced_accuracy": round(final["balanced_test_accuracy"], 5),
            "validation_accuracy": round(last["validation_accuracy"], 5),
        },
        "per_class": [None if share is None else round(share, 3) for share in final["test_accuracy_by_class"]],
        "drawn": last["drawn"],
        "drawn_by_label": final["drawn_by_label"],
        "abstained": last["abstained"],
        "schedule": [np.bincount(record["tasks"], minlength=arms).tolist() for record in records],
    }


def result(
    experiment: Experiment,
    cell: Cell,
    tasks: TaskSet,
    bench: Bench,
    outcomes: Mapping[str, Mapping[int, Outcome]],
    methods: Sequence[Method],
    ceiling: Supervised | None,
    setting: Setting,
) -> dict[str, Any]:
    """The result file of a cell; ``outcomes`` by method and seed."""
    config = bench.program.learner.config
    rows: dict[str, Any] = {}
    for method in methods:
        rows[method.name] = {
            "family": method.family,
            "role": method.role,
            "options": {**method.options, "reward": method.reward, "abstain": method.abstain},
            **_columns(outcomes[method.name]),
        }
    if ceiling is not None:
        rows["supervised"] = _ceiling(ceiling)
    return {
        "format": FORMAT,
        "kind": "cell",
        "experiment": experiment.name,
        "regime": cell.regime,
        "variant": cell.variant,
        "cell": f"{experiment.name}/{cell.name}",
        "title": f"{experiment.title}; {cell.regime}, {cell.variant}",
        "simulated": tasks.simulated,
        **origin(setting.command),
        "tasks": [task.name for task in tasks.tasks],
        "classes": list(tasks.classes),
        "target_rows": len(tasks.validation.labels),
        "test_rows": len(tasks.test.labels),
        "source_rows": sum(tasks.sizes),
        "config": asdict(config),
        "tuning": setting.tuning,
        "threshold": cell.threshold,
        "methods": rows,
    }


def _columns(by_seed: Mapping[int, Outcome]) -> dict[str, Any]:
    """One method over its seeds, column by column; a seed that diverged has None."""
    good = [outcome for outcome in by_seed.values() if "final" in outcome]

    def column(name: str) -> list[Any]:
        return [outcome.get(name) for outcome in by_seed.values()]

    columns: dict[str, Any] = {
        "seeds": list(by_seed),
        "updates": good[0]["updates"] if good else [],
        "samples": column("samples"),
        "test_accuracy": column("test_accuracy"),
        "final": {
            name: [None if "final" not in outcome else outcome["final"][name] for outcome in by_seed.values()]
            for name in ("test_accuracy", "initial_test_accuracy", "balanced_accuracy", "validation_accuracy")
        },
        "per_class": column("per_class"),
        "drawn": column("drawn"),
        "abstained": column("abstained"),
        "seconds": [None] * len(by_seed),
        "diverged": {str(seed): outcome["diverged"] for seed, outcome in by_seed.items() if "diverged" in outcome},
    }
    if good:
        columns["drawn_by_label"] = lanes.mean_drawn([outcome["drawn_by_label"] for outcome in good])
        columns["schedule"] = good[0]["schedule"]
    return columns


def _ceiling(ceiling: Supervised) -> dict[str, Any]:
    number = len(ceiling.accuracy)
    accuracies = [round(value, 5) for value in ceiling.accuracy]
    return {
        "family": "ceiling",
        "role": f"trained on all {ceiling.rows:,} rows of sources and target",
        "rows": ceiling.rows,
        "seeds": list(range(number)),
        "updates": [],
        "samples": [[] for _ in range(number)],
        "test_accuracy": [[] for _ in range(number)],
        "final": {
            "test_accuracy": accuracies,
            "initial_test_accuracy": accuracies,
            "balanced_accuracy": [round(value, 5) for value in ceiling.balanced],
            "validation_accuracy": [None] * number,
        },
        "per_class": [[None if share is None else round(share, 3) for share in row] for row in ceiling.by_class],
        "drawn": [None] * number,
        "abstained": [0] * number,
        "seconds": [None] * number,
        "diverged": {},
    }
