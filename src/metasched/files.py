"""Writing files that are either whole or not there, and never where a link points to."""

import errno
import json
import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

from metasched.errors import RunError

PART = ".part"
"""Suffix of a file that is being written; one that a kill leaves behind is replaced by the next write."""
_NO_LINKS = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)  # some have none
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_LINKS
_MORE = os.O_WRONLY | os.O_CREAT | os.O_APPEND | _NO_LINKS


def natural_order(name: str) -> tuple[tuple[int, int, str], ...]:
    """Sort key that compares numbers inside names by their value: ``frame2`` comes before ``frame10``."""
    # A number is compared by its length and then digit by digit: int() refuses very long ones.
    parts = (part.lstrip("0") if part.isdecimal() else part for part in re.split(r"(\d+)", name) if part)
    return tuple((1, 0, part) if part and not part.isdecimal() else (0, len(part), part) for part in parts)


def write_whole(path: Path, content: bytes) -> None:
    """Write a file so that a reader, or a kill at any moment, finds the old content or the new, never a part of it."""
    partial = path.with_name(path.name + PART)
    try:
        # O_EXCL in _NEW: the file must be new. If somebody places a link there after unlink(), opening fails.
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
    """Write ``value`` as indented JSON, whole or not at all."""
    write_whole(path, (json.dumps(value, indent=2) + "\n").encode())


def append(path: Path, content: bytes, *, durable: bool = False) -> None:
    """Add ``content`` to the end of a file, which is made if need be; a link in its place is refused.

    A kill may leave a part of ``content``. With ``durable`` all of the file is on the disk when this returns.
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
    """The whole lines of a file that grows by lines; a last one that a kill cut short is removed from the file, too."""
    if content.endswith(b"\n"):
        return content
    whole = content[: content.rfind(b"\n") + 1]
    write_whole(path, whole)
    return whole


def make_folder(folder: Path) -> None:
    """Make a folder, and those above it, unless it is there; its name is on the disk afterwards."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _flush_names(folder.parent)
    except OSError as error:
        raise write_error(folder, error) from None


def rename(old: Path, new: Path) -> None:
    """Give a file another name in its folder, replacing what had it; the new name is on the disk afterwards."""
    old.replace(new)
    _flush_names(new.parent)


def _flush_names(folder: Path) -> None:
    """A new name in a folder survives a power cut only once the folder itself has been flushed."""
    if os.name == "nt":  # a folder cannot be opened there
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_error(path: Path, error: OSError) -> RunError:
    """The error for a failed write, with what to do about it."""
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
        errno.ENOENT: "make the folder it is to be in first",
        errno.ENAMETOOLONG: "choose a shorter name",
    }.get(error.errno or 0, "check the folder's permissions")
    return RunError(f"{path}: cannot write ({error.strerror or error}); {fix}")
