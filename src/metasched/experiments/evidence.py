"""The evidence on the label order of an experiment's sources: a file ``evidence.json`` next to its results."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np
from msgspec import Struct

from metasched.errors import DataError
from metasched.experiments.definition import Experiment
from metasched.files import write_json
from metasched.learners.diagnose import Diagnosis, diagnose
from metasched.learners.settings import AlgorithmOne
from metasched.report.results import Results
from metasched.runs.outcome import Origin, origin, versions
from metasched.tasks import TaskSet

FILE = "evidence.json"
FORMAT = 1


class LabelOrder(Struct, frozen=True):
    """Tests of the label order of a task."""

    task: str
    rows: float | None = None
    p_permutation: float | None = None
    p_asymptotic: float | None = None
    p_diagonal: float | None = None
    association: float | None = None


class ScaledError(Struct, frozen=True):
    """√t·e(t) by class, after ``steps``."""

    steps: tuple[float, ...]
    by_class: dict[str, tuple[float | None, ...]]
    exponent: float | None = None

    def __post_init__(self) -> None:
        for name, values in self.by_class.items():
            if len(values) != len(self.steps):
                raise ValueError(f"scaled_error of '{name}' is not a list of {len(self.steps)}")


class Evidence(Struct, frozen=True, kw_only=True):
    """Whether order matters in the tasks of an experiment, and how its reward moves: a file ``evidence.json``."""

    format: Literal[1]
    kind: Literal["evidence"]
    experiment: str
    simulated: bool
    versions: dict[str, str] = {}
    device: str = "unknown device"
    command: str = "unknown command"
    created: str = ""
    order: tuple[LabelOrder, ...] = ()
    transitions: dict[str, tuple[tuple[float, ...], ...]] = {}
    classes: tuple[str, ...] = ()
    scaled_error: ScaledError | None = None

    @property
    def key(self) -> str:
        """The name among the sources of a table."""
        return f"{self.experiment}/evidence"

    @property
    def origin(self) -> Origin:
        """When, by which command and on which device it was made."""
        return Origin(created=self.created, command=self.command, device=self.device)

    @property
    def seeds(self) -> tuple[int, ...]:
        """None, because nothing was trained."""
        return ()


def read_evidence(path: Path) -> Evidence:
    """Read the evidence in a file. An error names the file and the problem."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Evidence)
    except OSError as error:
        raise DataError(f"{path}: cannot read ({error.strerror or error})") from None
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise DataError(f"{path}: is not evidence of format 1 ({error}); run its experiment again") from None


def evidence_in(results: Results) -> list[Evidence]:
    """The evidence among results."""
    return [source for source in results.others if isinstance(source, Evidence)]


def write_evidence(
    experiment: Experiment, path: Path, command: str, data: dict[str, Any], *, quick: bool = False
) -> None:
    """Write order tests, transition matrices and the scaled error of one experiment's sources, unless they exist
    already.

    A quick run has the scaled error only for digits, which Figure 2 shows, because it has to be compiled.
    """
    permutations, steps = (999, 40 if experiment.name == "digits" else 0) if quick else (10_000, 120)
    if _tested(path, permutations):
        return
    cell = experiment.cells[0]
    tasks = experiment.load(replace(cell, noisy=(), irrelevant=None), data)
    config = replace(cell.config, batch_size=20, batches_per_update=None)
    config = replace(config, steps_per_batch=1) if isinstance(config, AlgorithmOne) else config
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
    """Whether there is an evidence file with at least this many permutations."""
    try:
        return int(json.loads(path.read_text())["permutations"]) >= permutations
    except (OSError, ValueError, KeyError, TypeError):
        return False
