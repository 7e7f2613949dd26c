"""Writing files that are either whole or not there, and never where a link points to."""

import errno
import json
import os
from pathlib import Path
from typing import Any

from metasched.errors import RunError

PART = ".part"
"""Suffix of a file that is being written; one that a kill leaves behind is replaced by the next write."""
_NO_LINKS = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)  # Windows has neither
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_LINKS | getattr(os, "O_BINARY", 0)
_MORE = os.O_WRONLY | os.O_CREAT | os.O_APPEND | _NO_LINKS | getattr(os, "O_BINARY", 0)


def write_whole(path: Path, content: bytes) -> None:
    """Write ``content`` under a temporary name, flush it to the disk, and rename it to ``path``."""
    partial = path.with_name(path.name + PART)
    try:
        partial.unlink(missing_ok=True)
        with os.fdopen(os.open(partial, _NEW, 0o666), "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        rename(partial, path)
    except OSError as error:
        _forget(partial)
        raise write_error(path, error) from None


def write_json(path: Path, value: Any) -> None:
    """Write ``value`` as indented JSON, whole or not at all."""
    write_whole(path, (json.dumps(value, indent=2) + "\n").encode())


def append(path: Path, content: bytes, *, durable: bool = False) -> None:
    """Add ``content`` to the end of a file, which is made when it is not there; ``durable``: all of it is on the disk.

    A link in its place is refused.
    """
    try:
        with os.fdopen(os.open(path, _MORE, 0o666), "ab") as stream:
            stream.write(content)
            if durable:
                stream.flush()
                os.fsync(stream.fileno())
    except OSError as error:
        raise write_error(path, error) from None


def make_folder(folder: Path) -> None:
    """Make a folder, and those above it, unless it is there; its name is on the disk afterwards."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _flush_names(folder.parent)
    except OSError as error:
        raise write_error(folder, error) from None


def rename(old: Path, new: Path) -> None:
    """Give a file another name in its folder, in place of what had it; the new name is on the disk afterwards."""
    old.replace(new)
    _flush_names(new.parent)


def write_error(path: Path, error: OSError) -> RunError:
    """What a failed write says to a person."""
    if error.errno == errno.ENOSPC:
        return RunError(f"{path}: no space left on the disk; free some and go on with 'metasched resume {path.parent}'")
    if error.errno == errno.ELOOP:
        return RunError(f"{path}: is a link, and links are not written through; remove it")
    fix = {
        errno.EISDIR: "there is a folder of that name; choose another",
        errno.EEXIST: "there is a file of that name; choose another",
        errno.ENOTDIR: "there is a file where a folder should be; choose another place",
        errno.ENOENT: "make the folder it is to be in first",
        errno.ENAMETOOLONG: "choose a shorter name",
    }.get(error.errno or 0, "check the folder's permissions")
    return RunError(f"{path}: cannot write ({error.strerror or error}); {fix}")


def _flush_names(folder: Path) -> None:
    if os.name == "nt":  # a folder cannot be opened there
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _forget(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError:
        return
