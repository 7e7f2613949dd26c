"""Writing files that are either whole or not there."""

import errno
import json
import os
from pathlib import Path
from typing import Any

from metasched.errors import RunError


def write_whole(path: Path, content: bytes) -> None:
    """Write ``content`` under a temporary name, flush it to the disk, and rename it to ``path``."""
    partial = path.with_name(path.name + ".part")
    try:
        with partial.open("wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        partial.replace(path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise write_error(path, error) from None


def write_json(path: Path, value: Any) -> None:
    """Write ``value`` as indented JSON, whole or not at all."""
    write_whole(path, (json.dumps(value, indent=2) + "\n").encode())


def write_error(path: Path, error: OSError) -> RunError:
    """What a failed write says to a person."""
    if error.errno == errno.ENOSPC:
        return RunError(f"{path}: no space left on the disk; free some and go on with 'metasched resume {path.parent}'")
    return RunError(f"{path}: cannot write ({error.strerror or error}); check the folder's permissions")
