"""Write files so that they are either complete or absent, and never through a link."""

import errno
import json
import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

from metasched.errors import RunError

PART = ".part"
"""The suffix of a file that is being written. If a kill leaves one behind, the next write replaces it."""
_NO_LINKS = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_LINKS
_MORE = os.O_WRONLY | os.O_CREAT | os.O_APPEND | _NO_LINKS


def natural_order(name: str) -> tuple[tuple[int, int, str], ...]:
    """Sort key that compares numbers inside names by value, so ``frame2`` comes before ``frame10``."""
    # A number is compared by its length and then digit by digit: int() refuses very long ones.
    parts = (part.lstrip("0") if part.isdecimal() else part for part in re.split(r"(\d+)", name) if part)
    return tuple((1, 0, part) if part and not part.isdecimal() else (0, len(part), part) for part in parts)


def write_whole(path: Path, content: bytes) -> None:
    """Write a file so that a reader, or a kill at any moment, finds either the old content or the new one, and never a
    part.
    """
    partial = path.with_name(path.name + PART)
    try:
        # O_EXCL in _NEW makes sure that the file is new. If somebody places a link there after unlink(), opening fails.
        partial.unlink(missing_ok=True)
        with os.fdopen(os.open(partial, _NEW, 0o666), "wb") as stream:
            stream.write(content)
            # The content must be on the disk before the name points to it. The other way round, a power cut could leave
            # the new name on an empty file.
            stream.flush()
            os.fsync(stream.fileno())
        rename(partial, path)
    except OSError as error:
        with suppress(OSError):
            partial.unlink(missing_ok=True)
        raise write_error(path, error) from None


def write_json(path: Path, value: Any) -> None:
    """Write ``value`` as indented JSON, completely or not at all."""
    write_whole(path, (json.dumps(value, indent=2) + "\n").encode())


def append(path: Path, content: bytes, *, durable: bool = False) -> None:
    """Add ``content`` to the end of a file, and create it if needed. Refuse a link in its place.

    A kill may leave a part of ``content``. With ``durable``, the whole file is on the disk when this returns.
    """
    try:
        with os.fdopen(os.open(path, _MORE, 0o666), "ab") as stream:
            stream.write(content)
            if durable:
                stream.flush()
                os.fsync(stream.fileno())
    except OSError as error:
        raise write_error(path, error) from None


def without_cut_line(path: Path, content: bytes) -> bytes:
    """Read the complete lines of a growing file, and remove a last line that a kill cut short."""
    if content.endswith(b"\n"):
        return content
    whole = content[: content.rfind(b"\n") + 1]
    write_whole(path, whole)
    return whole


def make_folder(folder: Path) -> None:
    """Make a folder and its parents if they do not exist. Afterwards its name is on the disk."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _flush_names(folder.parent)
    except OSError as error:
        raise write_error(folder, error) from None


def rename(old: Path, new: Path) -> None:
    """Rename a file within its folder, replacing any file with the new name. Afterwards the new name is on the disk."""
    old.replace(new)
    _flush_names(new.parent)


def _flush_names(folder: Path) -> None:
    """Flush a folder: a new name in it survives a power cut only after that."""
    if os.name == "nt":  # a folder cannot be opened on this system
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_error(path: Path, error: OSError) -> RunError:
    """Make the error for a failed write, which says what to do."""
    if error.errno == errno.ENOSPC:
        return RunError(
            f"{path}: no space left on the disk; free some and continue with 'metasched resume {path.parent}'"
        )
    if error.errno == errno.ELOOP:
        return RunError(f"{path}: is a link, and metasched does not write through links; remove it")
    fix = {
        errno.EISDIR: "there is a folder of that name; choose another",
        errno.EEXIST: "there is a file of that name; choose another",
        errno.ENOTDIR: "there is a file where a folder should be; choose another place",
        errno.ENOENT: "make its parent folder first",
        errno.ENAMETOOLONG: "choose a shorter name",
    }.get(error.errno or 0, "check the folder's permissions")
    return RunError(f"{path}: cannot write ({error.strerror or error}); {fix}")
