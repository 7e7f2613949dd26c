"""Checkpoints that survive a kill at any moment.

A checkpoint is one file: its arrays, and in its header the update it was made after and the SHA-256 of both.
:func:`save` moves the newest, ``checkpoint.safetensors``, to ``previous.safetensors`` and then writes its successor
whole under the free name: from the first one on, at every moment one of the two is there and whole.
"""

import hashlib
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from msgspec import Struct
from safetensors import SafetensorError
from safetensors.numpy import load as parse_tensors
from safetensors.numpy import save as format_tensors

from metasched import untrusted
from metasched.errors import RunError
from metasched.files import rename, write_error, write_whole
from metasched.learners.trees import Tensors
from metasched.runs.spec import Count

NEWEST, PREVIOUS = "checkpoint.safetensors", "previous.safetensors"
LARGEST_HEADER = 1024**2
"""Bytes of names and shapes beyond which a checkpoint is none of ours."""
_KEY = "checkpoint"  # the one entry of the header's metadata: several would be written in any order
_DAMAGE = (SafetensorError, ValueError, KeyError, msgspec.MsgspecError, RecursionError)
_FIX = "start the run again in another folder"


class Facts(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the header says: the updates that were made, and the SHA-256 of that and of all arrays."""

    update: Count
    sha256: str


def save(folder: Path, tensors: Tensors, update: int) -> None:
    """Make ``tensors``, the state after so many updates, the newest checkpoint of ``folder``; keep the one before."""
    facts = Facts(update=update, sha256=_digest(tensors, update))
    content = format_tensors(tensors, metadata={_KEY: msgspec.json.encode(facts).decode()})
    try:
        with suppress(FileNotFoundError):
            rename(folder / NEWEST, folder / PREVIOUS)
    except OSError as error:
        raise write_error(folder / PREVIOUS, error) from None
    write_whole(folder / NEWEST, content)


def load(folder: Path, size: int) -> tuple[Tensors, int] | None:
    """The newest whole checkpoint, of ``size`` bytes of arrays, and its update; None when there never was one.

    One that is damaged is removed when there is a whole one, so that it never takes that one's place.
    """
    there = [path for path in (folder / NEWEST, folder / PREVIOUS) if path.exists()]
    for place, path in enumerate(there):
        found = _read(path, size)
        if found is not None:
            for damaged in there[:place]:
                _remove(damaged)
            return found
    if there:
        raise RunError(f"{folder}: no checkpoint is whole, or an earlier metasched wrote it; {_FIX}")
    return None


def drop_previous(folder: Path) -> None:
    """Remove the checkpoint before the newest: the run has ended."""
    _remove(folder / PREVIOUS)


def updates(folder: Path) -> int:
    """How many updates the newest checkpoint says were made; 0 when none can be read. Its arrays are not looked at."""
    for name in (NEWEST, PREVIOUS):
        with suppress(RunError, *_DAMAGE), untrusted.opened(folder / name, _FIX) as stream:
            return _facts(stream.read(8 + LARGEST_HEADER)).update
    return 0


def _read(path: Path, size: int) -> tuple[Tensors, int] | None:
    """A checkpoint, unless it is damaged."""
    try:
        content = untrusted.read_bytes(path, size + LARGEST_HEADER, _FIX)
        facts, tensors = _facts(content), parse_tensors(content)
    except (RunError, *_DAMAGE):
        return None
    return (tensors, facts.update) if facts.sha256 == _digest(tensors, facts.update) else None


def _facts(content: bytes) -> Facts:
    """What the header of a checkpoint says, given the file's beginning: 8 bytes of length, then JSON."""
    header = msgspec.json.decode(content[8 : 8 + int.from_bytes(content[:8], "little")], type=dict[str, Any])
    metadata = msgspec.convert(header.get("__metadata__"), dict[str, str])
    return msgspec.json.decode(metadata.get(_KEY, ""), type=Facts)


def _digest(tensors: Tensors, update: int) -> str:
    digest = hashlib.sha256(str(update).encode())
    for name in sorted(tensors):
        array = np.ascontiguousarray(tensors[name])
        digest.update(f"\n{name} {array.dtype.str} {array.shape}\n".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def _remove(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise write_error(path, error) from None
