"""Checkpoints that survive a kill at any moment.

``checkpoint.safetensors`` holds the arrays and ``checkpoint.json`` their SHA-256 with a few facts; the pair before
them is kept as ``previous.*``. Files are replaced one at a time, so a kill can leave a description beside the other
pair's arrays; loading therefore matches descriptions to arrays by checksum and takes the newest pair that is whole.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors.numpy import load as parse_tensors
from safetensors.numpy import save as format_tensors

from metasched.errors import RunError
from metasched.files import write_json, write_whole
from metasched.learners.trees import Tensors

_NAMES = ("checkpoint", "previous")


def save(folder: Path, tensors: Tensors, facts: Mapping[str, Any]) -> None:
    """Make (``tensors``, ``facts``) the newest checkpoint of ``folder`` and keep the one before."""
    content = format_tensors(tensors)
    description = {**facts, "sha256": hashlib.sha256(content).hexdigest()}
    write_whole(folder / "next.safetensors", content)
    write_json(folder / "next.json", description)
    for old, new in (("checkpoint", "previous"), ("next", "checkpoint")):
        for suffix in (".safetensors", ".json"):
            if (folder / (old + suffix)).exists():
                (folder / (old + suffix)).replace(folder / (new + suffix))


def load(folder: Path) -> tuple[Tensors, dict[str, Any]] | None:
    """The newest whole checkpoint; None when there never was one; an error when none of them is whole."""
    descriptions, contents = [], {}
    for name in (*_NAMES, "next"):
        try:
            content = (folder / f"{name}.safetensors").read_bytes()
            contents[hashlib.sha256(content).hexdigest()] = content
        except OSError:
            pass
        try:
            facts = json.loads((folder / f"{name}.json").read_text())
            descriptions.append(facts if isinstance(facts, dict) else {})
        except (OSError, ValueError):
            pass
    whole = [facts for facts in descriptions if facts.get("sha256") in contents]
    if whole:
        newest = max(whole, key=lambda facts: int(facts.get("step", 0)))
        return parse_tensors(contents[newest["sha256"]]), newest
    if descriptions or contents:
        raise RunError(f"{folder}: no checkpoint is whole; start the run again in another folder")
    return None
