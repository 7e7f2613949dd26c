"""Checkpoints that survive a kill, or a power cut, at any moment.

A checkpoint is one file with arrays. Its header has the number of updates so far and the SHA-256 of both. There are two
checkpoints, used in turn. :func:`save` renames the newest, ``checkpoint.safetensors``, to ``previous.safetensors`` and
then writes its successor under the free name. From the first checkpoint on, one of the two is always there and
complete:

==================================  =======================================
a kill                              leaves
==================================  =======================================
before the rename                   the newest, and the one before
after the rename                    the newest, under the name of the other
while the successor is written      the same, and a ``.part`` file that nobody reads
after the successor is renamed      the successor, and the newest
==================================  =======================================

A disk may also return a damaged file. The checksum shows this, and the run continues from the previous checkpoint. It
computes a few updates again, with the same numbers.
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
from metasched.learners.model_file import Tensors
from metasched.runs.spec import Count

NEWEST, PREVIOUS = "checkpoint.safetensors", "previous.safetensors"
LARGEST_HEADER = 1024**2
"""The most bytes for the names and shapes of a checkpoint."""
_KEY = "checkpoint"  # a single entry in the header's metadata, because safetensors would write several in any order
_DAMAGE = (SafetensorError, ValueError, KeyError, msgspec.MsgspecError, RecursionError)
_FIX = "start the run again in another folder"


class Header(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The content of the header: the number of updates, and the SHA-256 of that number and all arrays."""

    update: Count
    sha256: str


def save(folder: Path, tensors: Tensors, update: int) -> None:
    """Make ``tensors``, the state after ``update`` updates, the newest checkpoint of ``folder``. Keep the previous one.

    The caller has already flushed the metrics up to this update to the disk, because a checkpoint must never be ahead
    of them.
    """
    header = Header(update=update, sha256=_digest(tensors, update))
    content = format_tensors(tensors, metadata={_KEY: msgspec.json.encode(header).decode()})
    try:
        # This name is on the disk before the next file is started, because rename() flushes the folder. Otherwise a
        # power cut could keep the later rename and lose this one, and both checkpoints would be the same file, or
        # missing.
        with suppress(FileNotFoundError):
            rename(folder / NEWEST, folder / PREVIOUS)
    except OSError as error:
        raise write_error(folder / PREVIOUS, error) from None
    write_whole(folder / NEWEST, content)


def load(folder: Path, size: int) -> tuple[Tensors, int] | None:
    """Load the newest complete checkpoint, with ``size`` bytes of arrays, and its update. None if there is none."""
    paths = [path for path in (folder / NEWEST, folder / PREVIOUS) if path.exists()]
    for path in paths:
        found = _read(path, size)
        if found is not None:
            # The next save() renames the newest checkpoint over the previous one. If the newest is damaged, that would
            # replace the only good checkpoint by a bad one. So the bad one is removed now.
            if path.name == PREVIOUS:
                remove(folder / NEWEST)
            return found
    if paths:
        raise RunError(f"{folder}: has no complete checkpoint, or one that an earlier metasched wrote; {_FIX}")
    return None


def updates(folder: Path) -> int:
    """The number of updates in the newest checkpoint, or 0 if none is readable. Its arrays are not read."""
    for name in (NEWEST, PREVIOUS):
        with suppress(RunError, *_DAMAGE), untrusted.opened(folder / name, _FIX) as stream:
            return _header(stream.read(8 + LARGEST_HEADER)).update
    return 0


def _read(path: Path, size: int) -> tuple[Tensors, int] | None:
    """Read a checkpoint, unless it is damaged."""
    try:
        content = untrusted.read_bytes(path, size + LARGEST_HEADER, _FIX)
        header, tensors = _header(content), parse_tensors(content)
    except (RunError, *_DAMAGE):
        return None
    return (tensors, header.update) if header.sha256 == _digest(tensors, header.update) else None


def _header(content: bytes) -> Header:
    """Read the header of a checkpoint from the beginning of the file: 8 bytes with the length, then JSON."""
    fields = msgspec.json.decode(content[8 : 8 + int.from_bytes(content[:8], "little")], type=dict[str, Any])
    metadata = msgspec.convert(fields.get("__metadata__"), dict[str, str])
    return msgspec.json.decode(metadata.get(_KEY, ""), type=Header)


def _digest(tensors: Tensors, update: int) -> str:
    digest = hashlib.sha256(str(update).encode())
    for name in sorted(tensors):
        array = np.ascontiguousarray(tensors[name])
        digest.update(f"\n{name} {array.dtype.str} {array.shape}\n".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def remove(path: Path) -> None:
    """Remove a checkpoint that is damaged or no longer needed, if it exists."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise write_error(path, error) from None
