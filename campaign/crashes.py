"""Stop a program at its n-th file operation in a folder, as a kill or a cut of power would."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

TEARS = (1.0, 0.5, 0.0)
"""Share of what was written but not yet flushed that is on the disk afterwards; a kill keeps all of it."""
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT


class Disk:
    """File operations in ``folder``, counted: names made, changed and removed, files opened to write, and flushed.

    ``stop`` is called with the name of operation number ``limit`` before it, and likewise for all that are tried after
    it. ``events`` names the operations so far.
    """

    def __init__(self, folder: Path, limit: int | None, stop: Callable[[str], None]) -> None:
        self.folder = os.path.realpath(folder)
        self.limit = limit
        self.stop = stop
        self.events: list[str] = []
        self._flushed: dict[str, int] = {}  # bytes of a file that are on the disk, where not all may be
        self._paths: dict[int, str] = {}  # of open files

    def operation(self, name: str, path: str) -> None:
        """Count one operation on a path; others' paths do not count."""
        if not path.startswith(self.folder):
            return
        if self.limit is not None and len(self.events) + 1 >= self.limit:
            self.stop(name)
        self.events.append(f"{name} {os.path.relpath(path, self.folder)}")

    def opened(self, path: str, descriptor: int, writes: bool) -> None:
        """Remember how much of a file is on the disk when it is opened to be written."""
        self._paths[descriptor] = path
        if writes:
            self._flushed.setdefault(path, os.fstat(descriptor).st_size)

    def flushed(self, descriptor: int) -> None:
        """All of an open file is on the disk."""
        self._flushed.pop(self._paths.get(descriptor, ""), None)

    def path_of(self, descriptor: int) -> str:
        """The path that an open file was opened under, if we saw it."""
        return self._paths.get(descriptor, "")

    def renamed(self, old: str, new: str) -> None:
        """What is known of a file goes with its name."""
        self._flushed.pop(new, None)
        if old in self._flushed:
            self._flushed[new] = self._flushed.pop(old)

    def kept(self, share: float) -> dict[str, int]:
        """Bytes of each file not yet flushed that are on the disk with a share of what was written since."""
        sizes = {path: os.path.getsize(path) for path in self._flushed if os.path.isfile(path)}  # noqa: PTH113, PTH202
        return {path: (flushed := self._flushed[path]) + int(share * max(0, sizes[path] - flushed)) for path in sizes}

    def tear(self, share: float) -> None:
        """Leave only a share of what was not flushed."""
        for path, size in self.kept(share).items():
            os.truncate(path, size)


@contextmanager
def watched(folder: Path, limit: int | None, stop: Callable[[str], None], flush: bool = False) -> Iterator[Disk]:
    """Count, and at last stop, what happens in a folder meanwhile; ``flush``: files are really flushed to the disk."""
    disk = Disk(folder, limit, stop)
    real = {name: getattr(os, name) for name in ("open", "replace", "rename", "unlink", "mkdir", "fsync")}

    def open_file(path: Any, flags: int, *more: Any, **named: Any) -> int:
        where = os.path.abspath(os.fspath(path))  # noqa: PTH100
        writes = bool(flags & _WRITES)
        if writes:
            disk.operation("open", where)
        descriptor = int(real["open"](path, flags, *more, **named))
        disk.opened(where, descriptor, writes)
        return descriptor

    def fsync(descriptor: int) -> None:
        disk.operation("fsync", disk.path_of(descriptor))
        if flush:
            real["fsync"](descriptor)
        disk.flushed(descriptor)

    def moved(name: str) -> Callable[..., None]:
        def move(old: Any, new: Any, **named: Any) -> None:
            paths = os.path.abspath(os.fspath(old)), os.path.abspath(os.fspath(new))  # noqa: PTH100
            disk.operation(name, paths[1])
            real[name](old, new, **named)
            disk.renamed(*paths)

        return move

    def named(name: str) -> Callable[..., None]:
        def act(path: Any, *more: Any, **options: Any) -> None:
            disk.operation(name, os.path.abspath(os.fspath(path)))  # noqa: PTH100
            real[name](path, *more, **options)

        return act

    patches: dict[str, Any] = {"open": open_file, "fsync": fsync}
    patches |= {name: moved(name) for name in ("replace", "rename")} | {
        name: named(name) for name in ("unlink", "mkdir")
    }
    with mock.patch.multiple(os, **patches):
        yield disk
