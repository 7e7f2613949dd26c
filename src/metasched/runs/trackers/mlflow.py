"""MLflow: a database under ``<out>/mlruns``, or the server in ``MLFLOW_TRACKING_URI``; one MLflow run for each seed."""

import hashlib
import logging
import os
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from metasched.optional import require
from metasched.runs.trackers import Description, Record, facts, numbers

DATABASE = "mlflow.db"
_LONGEST_VALUE = 6000
_MOST_PARAMETERS = 100
_MOST_METRICS = 1000


class MLflow:
    """Settings as parameters, numbers of the records as metrics at the step of their update."""

    name = "mlflow"
    folder = "mlruns"

    def __init__(self) -> None:
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")  # no usage reports
        self._server = os.environ.get("MLFLOW_TRACKING_URI")
        if not self._server:  # the small package has no database
            require("sqlalchemy", "mlflow")
            require("alembic", "mlflow")
        require("mlflow", "mlflow")
        self._entities = require("mlflow.entities", "mlflow")
        self._client = require("mlflow.tracking", "mlflow").MlflowClient
        self._runs: dict[int, str] = {}

    def start(self, description: Description, folder: Path) -> None:
        """Find the MLflow runs of this run, or make them."""
        logging.getLogger("mlflow").setLevel(logging.WARNING)
        logging.getLogger("alembic").setLevel(logging.WARNING)
        self._tasks = description["about"]["tasks"]
        self._mlflow = self._client(self._server or f"sqlite:///{(folder / DATABASE).resolve()}")
        title = description["about"]["name"]
        found = self._mlflow.get_experiment_by_name(title)
        where = None if self._server else (folder / "artifacts").resolve().as_uri()
        experiment = found.experiment_id if found else self._mlflow.create_experiment(title, artifact_location=where)
        for seed in description["seeds"]:
            self._runs[seed] = self._find(experiment, description, seed) or self._create(experiment, description, seed)

    def log(self, records: Sequence[Record]) -> None:
        """Write metrics, in batches of the size that MLflow accepts."""
        now = int(time.time() * 1000)
        for seed in {record["seed"]: None for record in records}:
            metrics = [
                self._entities.Metric(_allowed(name), value, now, record["update"])
                for record in records
                if record["seed"] == seed
                for name, value in numbers(record, self._tasks).items()
            ]
            for begin in range(0, len(metrics), _MOST_METRICS):
                self._mlflow.log_batch(self._runs[seed], metrics=metrics[begin : begin + _MOST_METRICS])

    def finish(self, final: Mapping[int, Mapping[str, Any]]) -> None:
        """Mark seeds that ended as finished and the others as killed. Resuming marks them as running again."""
        for seed, run in self._runs.items():
            self._mlflow.set_terminated(run, "FINISHED" if seed in final else "KILLED")

    def _find(self, experiment: str, description: Description, seed: int) -> str | None:
        query = f"tags.`metasched.run` = '{_identity(description, seed)}'"
        for run in self._mlflow.search_runs([experiment], query):
            self._mlflow.update_run(run.info.run_id, status="RUNNING")
            return str(run.info.run_id)
        return None

    def _create(self, experiment: str, description: Description, seed: int) -> str:
        scheduler = description["method"]
        tags = {"metasched.run": _identity(description, seed), "seed": str(seed)}
        run = self._mlflow.create_run(experiment, tags=tags, run_name=f"{scheduler} seed {seed}").info.run_id
        parameters = [
            self._entities.Param(_allowed(name), value[:_LONGEST_VALUE]) for name, value in facts(description).items()
        ]
        for begin in range(0, len(parameters), _MOST_PARAMETERS):
            self._mlflow.log_batch(run, params=parameters[begin : begin + _MOST_PARAMETERS])
        return str(run)


def _identity(description: Description, seed: int) -> str:
    """The name under which a run is found again: the same for the same ``run.json`` and seed."""
    return hashlib.sha256(repr((sorted(facts(description).items()), seed)).encode()).hexdigest()[:32]


def _allowed(name: str) -> str:
    """Replace the characters of a name that MLflow refuses."""
    return re.sub(r"[^\w\-. /:]", "_", name)
