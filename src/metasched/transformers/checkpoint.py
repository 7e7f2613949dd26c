"""The schedule in a checkpoint of ``Trainer``: one file beside the others, whole or not there."""

import json
import re
import warnings
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as format_tensors

from metasched.errors import RunError
from metasched.files import write_whole

NAME = "schedule.safetensors"
_LAST_WRITTEN = "trainer_state.json"


def save(folder: Path, facts: dict[str, Any], chooser: dict[str, Any]) -> None:
    """Write what is to be known of a schedule into the folder of a checkpoint."""
    facts = {**facts, "chooser": chooser["facts"]}
    write_whole(folder / NAME, format_tensors(chooser["arrays"], metadata={"facts": json.dumps(facts)}))


def load(folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """What :func:`save` wrote: facts, and the state of the chooser."""
    path = folder / NAME
    if not path.is_file():
        raise RunError(f"{folder}: no {NAME} in it; go on from a checkpoint that a scheduled trainer has saved")
    try:
        with safe_open(path, "numpy") as file:
            facts = json.loads(file.metadata()["facts"])
            arrays = {name: file.get_tensor(name) for name in list(file.keys())}
            return facts, {"facts": facts.pop("chooser"), "arrays": arrays}
    except (OSError, SafetensorError, ValueError, TypeError, KeyError, AttributeError):
        raise RunError(f"{path}: damaged; go on from an older checkpoint") from None


def newest(folder: Path) -> Path:
    """The checkpoint with the highest number that is whole: a kill while saving leaves one that is not."""
    numbers = {int(path.name.split("-")[1]): path for path in folder.glob("checkpoint-*") if _NUMBERED(path.name)}
    for number in sorted(numbers, reverse=True):
        if _parses(numbers[number] / _LAST_WRITTEN):
            return numbers[number]
        warnings.warn(f"{numbers[number]} is not whole and is passed over", stacklevel=2)
    raise RunError(f"{folder}: no whole checkpoint in it; train without resume_from_checkpoint")


_NUMBERED = re.compile(r"checkpoint-\d+").fullmatch


def _parses(path: Path) -> bool:
    try:
        json.loads(path.read_text())
    except (OSError, ValueError):
        return False
    return True
