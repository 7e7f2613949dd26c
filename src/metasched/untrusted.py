"""Reading files from untrusted sources: sizes are limited, pipes and devices refused, JSON checked against a type.

Every error is one line that names the file, the position in it and the fix.
"""

import gzip
import importlib
import os
import stat
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import msgspec

from metasched.errors import DataError, MetaschedError, RunError

LARGEST_JSON = 64 * 1024**2
"""The largest size of a description in bytes."""
Value = TypeVar("Value")
_KINDS = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFDIR: "a folder",
}


@contextmanager
def opened(path: Path, fix: str, kind: type[MetaschedError] = RunError) -> Iterator[BinaryIO]:
    """Open a regular file to read. A pipe, a device or a folder is refused."""
    try:
        # Without O_NONBLOCK, opening a named pipe would wait until somebody writes to it, perhaps for ever. The open
        # file is checked, not its name, because the name could point to something else by now.
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
        with os.fdopen(descriptor, "rb") as stream:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise kind(f"{path}: is not a data file; {fix}")
            yield stream
    except OSError as error:
        raise kind(f"{path}: cannot read ({error.strerror or error}); {fix}") from None


def read_bytes(path: Path, largest: int, fix: str, kind: type[MetaschedError] = RunError) -> bytes:
    """Read all bytes of a regular file. Its size is checked first and must be at most ``largest``."""
    with opened(path, fix, kind) as stream:
        size = os.fstat(stream.fileno()).st_size
        if size > largest:
            raise kind(f"{path}: has {size:,} bytes, but such a file has at most {largest:,}; {fix}")
        return stream.read(size)


def read_gzip(path: Path, largest: int, fix: str, kind: type[MetaschedError] = RunError) -> bytes:
    """Read all bytes of a compressed file. Unpacking stops beyond ``largest``, because a small file can unpack to
    terabytes.
    """
    content = bytearray()
    with opened(path, fix, kind) as stream, gzip.GzipFile(fileobj=stream) as unpacked:
        try:
            while chunk := unpacked.read(2**20):
                content += chunk
                if len(content) > largest:
                    raise kind(f"{path}: unpacks to more than {largest:,} bytes, the most it can have; {fix}")
        except (EOFError, zlib.error) as error:
            raise kind(f"{path}: is damaged ({error}); {fix}") from None
    return bytes(content)


def read_json(path: Path, form: type[Value], fix: str, kind: type[MetaschedError] = RunError) -> Value:
    """Read a JSON file as a value of type ``form``. The error says where in it the problem is (``$.spec.seed``)."""
    content = read_bytes(path, LARGEST_JSON, fix, kind)
    try:
        return msgspec.json.decode(content, type=form)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise kind(f"{path}: is damaged ({_reason(error)}); {fix}") from None


def checked(value: Any, form: type[Value], holder: object, fix: str, kind: type[MetaschedError] = RunError) -> Value:
    """Check that plain JSON is a value of type ``form``. ``holder`` says where it came from.

    >>> checked({"a": 1}, dict[str, int], "x.json", "copy it again")
    {'a': 1}
    """
    try:
        return msgspec.convert(value, form)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise kind(f"{holder}: is damaged ({_reason(error)}); {fix}") from None


def file_size(path: Path, largest: int | None = None, remedy: str = "give a smaller file") -> int:
    """The size of a regular file in bytes. Anything else, or a larger file than ``largest``, is refused without opening
    it.
    """
    try:
        found = path.stat()
    except FileNotFoundError:
        raise DataError(f"{path}: no such file") from None
    except (OSError, ValueError) as error:  # ValueError: the name contains a zero byte
        raise DataError(f"{path}: cannot be read ({getattr(error, 'strerror', None) or error})") from None
    if not stat.S_ISREG(found.st_mode):
        kind = _KINDS.get(stat.S_IFMT(found.st_mode), "not a regular file")
        raise DataError(f"{path}: is {kind}; give a regular file")
    if largest is not None and found.st_size > largest:
        raise DataError(f"{path}: has {found.st_size:,} bytes, more than the limit of {largest:,}; {remedy}")
    return found.st_size


def free_memory() -> int | None:
    """How many more bytes this process may take, or None if the system does not say."""
    found = []
    with suppress(OSError, ValueError, StopIteration):
        lines = Path("/proc/meminfo").read_text().splitlines()
        found.append(next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")))
    for name in ("memory.max", "memory/memory.limit_in_bytes"):  # the limit of a container
        with suppress(OSError, ValueError):  # there is no limit, or it says "max"
            found.append(int((Path("/sys/fs/cgroup") / name).read_text()))
    with suppress(ImportError, OSError, ValueError):
        resource = importlib.import_module("resource")
        most = resource.getrlimit(resource.RLIMIT_AS)[0]
        if most != resource.RLIM_INFINITY:
            taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
            found.append(max(0, most - taken))
    return min(found, default=None)


def refuse_beyond_memory(holder: Path, size: int, remedy: str) -> None:
    """Refuse data that does not fit into memory. Otherwise the system might kill this process, or another one."""
    free = free_memory()
    if free is not None and size > free:
        raise DataError(
            f"{holder}: needs at least {size / 1e9:,.1f} GB of memory, and {free / 1e9:,.1f} GB are free; {remedy}"
        )


def _reason(error: Exception) -> str:
    return "nested too deeply" if isinstance(error, RecursionError) else str(error)
