"""Who is working on a run: the lock on its folder, and a lease that others can read.

Two writers in one folder would mix two histories of the same run. On one machine the lock (:func:`folder.locked`)
prevents this. The operating system releases it when its process ends, for whatever reason. Between machines a shared
file system may not support locks. There the lease takes over: a file with a random token and the name of its holder,
which is touched every few seconds as long as the holder lives. If it was not touched for half a minute, the holder
counts as dead, and anybody may write their own token. A holder that was only suspended and comes back later finds the
other token before its next write, and writes nothing more. (Only a holder that was suspended exactly between checking
and writing would still write once.)
"""

import os
import secrets
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from threading import Event, Thread

import msgspec
from msgspec import Struct

from metasched import untrusted
from metasched.errors import RunError
from metasched.files import PART, append, write_error
from metasched.runs.folder import BusyError, locked

LEASE = "lease.json"
BEAT_SECONDS = 5.0
STALE_SECONDS = 30.0
"""A lease that was not touched for this many seconds has lost its holder. This is six times the beat, because a slow
disk may delay some beats, and because the age is the difference of two clocks: machines that share a folder must agree
to a few seconds.
"""


class LostError(BusyError):
    """The run was given to somebody else meanwhile."""


class Holder(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The content of the file of a lease."""

    token: str
    host: str
    process: int


class Lease:
    """The right to write to a run folder, until somebody takes it over."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.holder = Holder(token=secrets.token_hex(8), host=socket.gethostname(), process=os.getpid())

    def take(self) -> None:
        """Write our own token, unless a holder on another machine is alive.

        The token of another process on this machine is overwritten at once. The caller holds the lock, so that process
        has ended, and there is no need to wait until its lease is stale.
        """
        other, age = holder(self.folder), seconds_since(self.folder)
        if other is not None and other.host != self.holder.host and age is not None and age < STALE_SECONDS:
            raise BusyError(f"{self.folder}: {other.host} is working on this run; wait for it or stop it")
        partial = self.folder / f"{LEASE}{PART}"
        try:
            partial.unlink(missing_ok=True)
            append(partial, msgspec.json.encode(self.holder))
            # Renamed, so that nobody reads half a token. It is not flushed to the disk, which would cost every run some
            # milliseconds. A lease need not survive a power cut, because its holder does not survive it either.
            partial.replace(self.folder / LEASE)
        except OSError as error:
            raise write_error(partial, error) from None

    def check(self) -> None:
        """Raise an error if somebody else has taken over the run. Call this before every write."""
        other = holder(self.folder)
        if other is None or other.token != self.holder.token:
            now = "nobody" if other is None else f"process {other.process} on {other.host}"
            raise LostError(f"{self.folder}: the lease of this run has passed to {now}; nothing more is written here")

    def beat(self) -> None:
        """Show that the holder is alive."""
        # Touching sets the time by the clock of the file server or of this machine. The content stays that of the
        # holder, so a holder that was given up cannot take back the lease by touching it.
        with suppress(OSError):
            os.utime(self.folder / LEASE, follow_symlinks=False)

    def give_back(self) -> None:
        """Remove the file, if it still has our own token."""
        with suppress(LostError, OSError):
            self.check()
            (self.folder / LEASE).unlink()


@contextmanager
def leased(folders: Sequence[Path]) -> Iterator[dict[Path, Lease]]:
    """Hold the locks and the leases of run folders. Raise :class:`BusyError` if somebody else holds one."""
    with ExitStack() as stack:
        leases: dict[Path, Lease] = {}
        for folder in folders:
            stack.enter_context(locked(folder))  # first, because take() relies on it
            leases[folder] = Lease(folder)
            leases[folder].take()
            stack.callback(leases[folder].give_back)
        ended = Event()

        def beat() -> None:
            while not ended.wait(BEAT_SECONDS):
                for lease in leases.values():
                    lease.beat()

        # In a thread, because a chunk of updates may take longer than a lease lasts.
        thread = Thread(target=beat, name="lease", daemon=True)
        thread.start()
        stack.callback(thread.join)
        stack.callback(ended.set)
        yield leases


def holder(folder: Path) -> Holder | None:
    """The holder of the lease of a run folder. None if there is no holder, or the file is damaged."""
    try:
        return untrusted.read_json(folder / LEASE, Holder, "remove it")
    except RunError:
        return None


def seconds_since(folder: Path) -> float | None:
    """Seconds since the holder of the lease last showed that it is alive. None if there is no lease.

    A time in the future, from a clock that is ahead, counts as now.
    """
    try:
        return max(0.0, time.time() - (folder / LEASE).lstat().st_mtime)
    except OSError:
        return None
