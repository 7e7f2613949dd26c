"""Finds data files, downloads missing ones, and checks every byte.

A file is looked for in ``$METASCHED_DATA``, then in the cache (``$XDG_CACHE_HOME/metasched``), and is then
downloaded from its public home. Wherever it is, its size and SHA-256 must match before it is used.
"""

import errno
import hashlib
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from metasched.datasets.download import BrokenOffError, opened
from metasched.errors import StoreError

CHUNK = 1 << 20
TIMEOUT_SECONDS = 30.0
"""Seconds of silence after which a server is given up."""
DEADLINE_SECONDS = 120.0
SLOWEST = 20_000
"""A download that is slower than this many bytes a second, over all servers and attempts, is given up. Its bytes are
kept.
"""
ATTEMPTS = 3

Progress = Callable[[int, int], None]
"""Called with (bytes so far, all bytes) during a download."""


@dataclass(frozen=True)
class DataFile:
    """A known file: its place below a data folder, exact size, checksum and public homes.

    ``origin`` says where the file comes from, if there is no public home to download it from.
    """

    path: str
    size: int
    sha256: str
    urls: tuple[str, ...] = ()
    origin: str = ""


def listed(folder: str, origin: str, lines: str) -> tuple[DataFile, ...]:
    """Files of one folder without a public home. Each line has SHA-256, size and name, much like the output of
    ``sha256sum``.
    """
    entries = (line.split() for line in lines.strip().splitlines())
    return tuple(DataFile(f"{folder}/{name}", int(size), digest, origin=origin) for digest, size, name in entries)


def checksums(*files: DataFile) -> dict[str, str]:
    """The SHA-256 of each file, by path."""
    return {file.path: file.sha256 for file in files}


def cache_folder() -> Path:
    """``$XDG_CACHE_HOME/metasched``, by default ``~/.cache/metasched``."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "metasched"


def folders() -> list[Path]:
    """Where files are looked for, in this order."""
    given = os.environ.get("METASCHED_DATA")
    return [Path(given).expanduser(), cache_folder()] if given else [cache_folder()]


def find(path: str) -> Path | None:
    """The first existing place of a file, unchecked, or None."""
    return next((folder / path for folder in folders() if (folder / path).is_file()), None)


def sha256(path: Path) -> str:
    """The checksum of a file, read in pieces."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while chunk := stream.read(CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def check(file: DataFile, path: Path) -> None:
    """Raise unless the file at ``path`` is exactly the known one."""
    size = path.stat().st_size
    if size != file.size:
        raise StoreError(f"{path}: has {size:,} bytes, expected {file.size:,}; {_remedy(file, path)}")
    found = sha256(path)
    if found != file.sha256:
        raise StoreError(f"{path}: SHA-256 is {found[:12]}…, expected {file.sha256[:12]}…; {_remedy(file, path)}")


def locate(file: DataFile, progress: Progress | None = None) -> Path:
    """The path of a checked copy of ``file``. If there is none on this machine, it is downloaded."""
    path = find(file.path)
    if path is None:
        return download(file, progress)
    check(file, path)
    return path


def download(file: DataFile, progress: Progress | None = None) -> Path:
    """Download ``file`` into the cache. Resume a partial download, never take more bytes than declared, check, then
    rename.

    Homes are tried one after another. One is given up if it is gone or too slow, or if its length or content is wrong.
    """
    target = cache_folder() / file.path
    if not file.urls:
        raise StoreError(f"{file.path} has no public download{origin(file)}; {_placement(file)}")
    part = target.with_name(target.name + ".part")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with _exclusive(part) as stream:
            if target.is_file():  # another process downloaded it while we waited for the lock
                part.unlink()
                check(file, target)
                return target
            _fill(stream, file, part, progress)
            part.replace(target)
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise StoreError(
                f"{target.parent}: no space left; {file.path} needs {file.size:,} bytes. "
                "Free some, or set XDG_CACHE_HOME to a larger disk, and try again: what was downloaded is kept"
            ) from None
        raise StoreError(
            f"{target}: cannot write ({error.strerror or error}); check the folder's permissions"
        ) from None
    return target


def _fill(stream: BinaryIO, file: DataFile, part: Path, progress: Progress | None) -> None:
    """Write all of ``file`` into ``stream``, the file at ``part``, from any of its homes, and check it."""
    deadline = time.monotonic() + DEADLINE_SECONDS + file.size / SLOWEST
    failure = ""
    for url in file.urls * ATTEMPTS:
        left = deadline - time.monotonic()
        try:  # a slow home leaves time for the others
            _continue_download(url, file, stream, progress, deadline - (left / 2 if len(file.urls) > 1 else 0))
        except BrokenOffError as error:
            failure = str(error)
            if time.monotonic() >= deadline:
                break
            continue
        stream.flush()
        os.fsync(stream.fileno())
        try:
            check(file, part)
            return
        except StoreError:  # The bytes come from this home or from another one. Start anew at the next home.
            failure = f"{url}: the download was damaged and removed"
            stream.truncate(0)
    done = os.fstat(stream.fileno()).st_size
    if not done:
        part.unlink()
    kept = f"{done:,} of {file.size:,} bytes are kept for the next try, or " if done else ""
    raise StoreError(f"{file.path}: download failed ({failure}); {kept}{_placement(file)}")


def _continue_download(url: str, file: DataFile, stream: BinaryIO, progress: Progress | None, deadline: float) -> None:
    """Append to ``stream`` until it holds ``file.size`` bytes, asking the server only for the missing range."""
    stream.seek(0, os.SEEK_END)
    done = stream.tell()
    if done >= file.size:
        stream.truncate(file.size)
        return
    with opened(url, done, TIMEOUT_SECONDS, deadline) as response:
        if response.begin > done:
            raise BrokenOffError(f"{url}: sends bytes from {response.begin:,} on, but {done:,} are here")
        if response.length is not None and response.begin + response.length != file.size:
            raise BrokenOffError(
                f"{url}: has {response.begin + response.length:,} bytes, expected {file.size:,}; "
                "the file has changed on the server"
            )
        if response.begin < done:  # the server sends more bytes than it was asked for
            stream.seek(response.begin)
            stream.truncate()
            done = response.begin
        while done < file.size:
            chunk = response.read(min(CHUNK, file.size - done))
            if not chunk:
                raise BrokenOffError(f"{url}: cut off after {done:,} of {file.size:,} bytes")
            stream.write(chunk)
            done += len(chunk)
            if progress is not None:
                progress(done, file.size)


@contextmanager
def _exclusive(part: Path) -> Iterator[BinaryIO]:
    """The partial file, opened to append, and locked against a second process that downloads the same file."""
    while True:
        with part.open("ab") as stream:
            try:
                import fcntl

                fcntl.flock(stream, fcntl.LOCK_EX)
            except ImportError:  # Windows: the checksum still detects two writers
                pass
            # somebody may have finished or removed it while we waited
            if part.exists() and os.path.samestat(part.stat(), os.fstat(stream.fileno())):
                yield stream
                return


def _placement(file: DataFile) -> str:
    places = " or ".join(str(folder / file.path) for folder in folders())
    return f"put the file at {places}, or set METASCHED_DATA to the folder that has it"


def origin(file: DataFile) -> str:
    """Where a file comes from, as words in brackets for a message. Empty if unknown."""
    return f" (it is from {file.origin})" if file.origin else ""


def _remedy(file: DataFile, path: Path) -> str:
    if file.urls:
        return f"delete it and run 'metasched data fetch {Path(file.path).parent}'"
    return f"replace it with a good copy at {path}"
