"""The evidence on the order of an experiment's sources, as a file beside its results."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from metasched.experiments.definition import Experiment
from metasched.files import write_json
from metasched.learners.diagnose import Diagnosis, diagnose
from metasched.runs.origin import origin, versions
from metasched.tasks import TaskSet

FORMAT = 1


def write_evidence(
    experiment: Experiment, path: Path, command: str, data: dict[str, Any], *, quick: bool = False
) -> None:
    """Order tests, transition matrices and the scaled error of one experiment's sources, unless they are there."""
    permutations, steps = (999, 40) if quick else (10_000, 120)
    if _tested(path, permutations):
        return
    cell = experiment.cells[0]
    tasks = experiment.load(replace(cell, noisy=(), irrelevant=None), data)
    config = replace(cell.config, batch_size=20, batches_per_update=None, steps_per_batch=1)
    found = diagnose(tasks, experiment.network, config, permutations=permutations, steps=steps)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(
        path,
        {
            "format": FORMAT,
            "kind": "evidence",
            "experiment": experiment.name,
            "simulated": tasks.simulated,
            **msgspec.to_builtins(origin(command)),
            "versions": versions(),
            "permutations": permutations,
            "order": [
                {
                    "task": task.name,
                    "rows": len(task),
                    "p_permutation": test.p_value,
                    "p_asymptotic": test.asymptotic_p_value,
                    "p_diagonal": test.stickiness_p_value,
                    "association": test.cramers_v,
                }
                for task, test in zip(tasks.tasks, found.orders, strict=True)
            ],
            "transitions": {
                task.name: np.round(test.transitions, 4).tolist()
                for task, test in zip(tasks.tasks, found.orders, strict=True)
            },
            "classes": list(tasks.classes),
            "scaled_error": _scaled_error(found, tasks),
        },
    )


def _scaled_error(found: Diagnosis, tasks: TaskSet) -> dict[str, Any] | None:
    """√t·e(t) by class, mean over tasks, and the exponent fitted to e(t)."""
    if found.stationarity is None:
        return None
    errors = found.stationarity.errors.mean(axis=0)
    fitted = found.stationarity.exponent[np.isfinite(found.stationarity.exponent)]
    times = np.arange(1, len(errors) + 1)
    curves = np.sqrt(times)[:, None] * errors
    return {
        "steps": times.tolist(),
        "by_class": {
            name: np.round(curves[:, number], 4).tolist()
            for number, name in enumerate(tasks.classes)
            if np.isfinite(curves[:, number]).all()
        },
        "exponent": round(float(fitted.mean()), 4) if fitted.size else None,
    }


def _tested(path: Path, permutations: int) -> bool:
    """Whether an evidence file is there, of at least so many permutations."""
    try:
        return int(json.loads(path.read_text())["permutations"]) >= permutations
    except (OSError, ValueError, KeyError, TypeError):
        return False
