"""The part of a ``Trainer``'s checkpoint that belongs to a schedule: the state of its chooser, and other facts."""

import json
import re
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as format_tensors

from metasched.errors import RunError
from metasched.files import write_whole

SCHEDULE = "schedule.safetensors"


def store(folder: Path, state: Mapping[str, Any], **facts: Any) -> None:
    """Write the state of a chooser, and JSON facts, into the folder of a checkpoint."""
    told = json.dumps({**facts, "chooser": state["facts"]})
    write_whole(folder / SCHEDULE, format_tensors(state["arrays"], metadata={"facts": told}))


def load(folder: Path, *counts: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Read the facts and the chooser's state from a checkpoint. The facts named in ``counts`` must be numbers."""
    path = folder / SCHEDULE
    if not path.is_file():
        raise RunError(f"{folder}: has no {SCHEDULE}; continue from a checkpoint that a scheduled trainer has saved")
    try:
        with safe_open(path, "numpy") as file:
            facts = json.loads(file.metadata()["facts"])
            if any(int(facts[name]) < 0 for name in counts):
                raise ValueError
            for position in facts.setdefault("streams", {}).values():
                int(position["pass"]), int(position["read"])  # refused here, if they are not numbers
            arrays = {name: file.get_tensor(name) for name in list(file.keys())}
            return facts, {"facts": facts.pop("chooser"), "arrays": arrays}
    except (OSError, SafetensorError, ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
        raise RunError(f"{path}: is damaged; continue from an older checkpoint") from None


def newest(folder: Path) -> Path:
    """The complete checkpoint with the highest number. A kill while saving leaves an incomplete one."""
    numbered = re.compile(r"checkpoint-\d+").fullmatch
    numbers = {int(path.name.split("-")[1]): path for path in folder.glob("checkpoint-*") if numbered(path.name)}
    for number in sorted(numbers, reverse=True):
        try:
            json.loads((numbers[number] / "trainer_state.json").read_text())  # it is written last
            return numbers[number]
        except (OSError, ValueError, RecursionError):
            warnings.warn(f"{numbers[number]} is incomplete and is skipped", stacklevel=3)
    raise RunError(f"{folder}: has no complete checkpoint; train without resume_from_checkpoint")
