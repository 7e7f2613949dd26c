"""Weights & Biases: one W&B run per seed, grouped. Offline under ``<out>/wandb`` if nobody is logged in."""

import hashlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from metasched.optional import require
from metasched.runs.trackers import Description, Record, facts, numbers

PROJECT = "metasched"


class WandB:
    """Numbers of the records at the step of their update, ``run.json`` as the configuration.

    ``WANDB_MODE``, ``WANDB_PROJECT`` and the other variables that wandb reads are respected. Offline runs are sent
    later with ``wandb sync``. Records are handed to wandb's own process, which outlives a kill of this one.
    """

    name = "wandb"
    folder = "wandb"

    def __init__(self) -> None:
        self._wandb = require("wandb", "wandb")
        self._runs: dict[int, Any] = {}

    def start(self, description: Description, folder: Path) -> None:
        """Begin, or continue, the W&B run of each seed."""
        self._tasks = description["about"]["tasks"]
        group = hashlib.sha256(repr(sorted(facts(description).items())).encode()).hexdigest()[:12]
        mode = os.environ.get("WANDB_MODE") or ("online" if self._wandb.login(prompt=False) else "offline")
        for seed in description["seeds"]:
            self._runs[seed] = self._wandb.init(
                project=os.environ.get("WANDB_PROJECT", PROJECT),
                dir=folder.parent,
                id=f"{group}-{seed}",
                group=group,
                name=f"{description['method']} seed {seed}",
                config=dict(description),
                mode=mode,
                reinit="create_new",
                resume="allow" if mode == "online" else None,
                settings=self._wandb.Settings(silent=True, console="off"),
            )

    def log(self, records: Sequence[Record]) -> None:
        """Pass the numbers on."""
        for record in records:
            self._runs[record["seed"]].log(numbers(record, self._tasks), step=record["update"])

    def finish(self, final: Mapping[int, Mapping[str, Any]]) -> None:
        """Close all W&B runs. A seed that did not end has failed."""
        for seed, run in self._runs.items():
            run.finish(exit_code=0 if seed in final else 1)
