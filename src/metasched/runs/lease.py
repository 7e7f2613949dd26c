"""Who is working on a run: the lock on its folder, and a lease that others can read.

Two writers in one folder would mix two histories of the same run. On one machine the lock (:func:`folder.locked`)
prevents that; the operating system releases it when its process ends, however it ends.

Between machines a shared file system may not carry locks. There the lease stands in: a file with a random token and the
name of its holder, touched every few seconds as long as the holder lives. If it was not touched for half a minute, the
holder is taken for dead and anybody may write a token of their own. A holder that was only suspended, and comes back
after that, finds the other token before its next write and writes nothing more. (Only one that was suspended exactly
between looking and writing would still write once.)
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
"""A lease that was not touched for so long has lost its holder. It is six beats, because a slow disk may delay some,
and because the age is the difference of two clocks: machines that share a folder must agree to a few seconds."""


class LostError(BusyError):
    """The run was given to somebody else meanwhile."""


class Holder(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the file of a lease says."""

    token: str
    host: str
    process: int


class Lease:
    """The right to write to a run folder, until somebody takes it over."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.holder = Holder(token=secrets.token_hex(8), host=socket.gethostname(), process=os.getpid())

    def take(self) -> None:
        """Write the own token, unless a holder on another machine is alive.

        The token of another process on this machine is overwritten at once: whoever calls this holds the lock, so that
        process has ended, and there is no need to wait until its lease is stale.
        """
        other, age = holder(self.folder), seconds_since(self.folder)
        if other is not None and other.host != self.holder.host and age is not None and age < STALE_SECONDS:
            raise BusyError(f"{self.folder}: {other.host} is working on this run; wait for it or stop it")
        partial = self.folder / f"{LEASE}{PART}"
        try:
            partial.unlink(missing_ok=True)
            append(partial, msgspec.json.encode(self.holder))
            # Renamed, so that nobody reads half a token. It is not flushed to the disk, which would cost every run some
            # milliseconds: a lease need not survive a power cut, because its holder does not either.
            partial.replace(self.folder / LEASE)
        except OSError as error:
            raise write_error(partial, error) from None

    def check(self) -> None:
        """Raise an error if the run is somebody else's by now. Call it before every write."""
        other = holder(self.folder)
        if other is None or other.token != self.holder.token:
            now = "nobody" if other is None else f"process {other.process} on {other.host}"
            raise LostError(f"{self.folder}: the lease of this run has passed to {now}; nothing more is written here")

    def beat(self) -> None:
        """Show that the holder is alive."""
        # Touching sets the time by the clock of the file server or of this machine; the content stays the holder's, so
        # that a holder that was given up cannot take the lease back by touching it.
        with suppress(OSError):
            os.utime(self.folder / LEASE, follow_symlinks=False)

    def give_back(self) -> None:
        """Remove the file, if it is still the own one."""
        with suppress(LostError, OSError):
            self.check()
            (self.folder / LEASE).unlink()


@contextmanager
def leased(folders: Sequence[Path]) -> Iterator[dict[Path, Lease]]:
    """Hold the locks and the leases of run folders; a :class:`BusyError` where somebody else does."""
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

        # From a thread: a chunk of updates may take longer than a lease lasts.
        thread = Thread(target=beat, name="lease", daemon=True)
        thread.start()
        stack.callback(thread.join)
        stack.callback(ended.set)
        yield leases


def holder(folder: Path) -> Holder | None:
    """Who holds the lease of a run folder; None where nobody does, or the file is damaged."""
    try:
        return untrusted.read_json(folder / LEASE, Holder, "remove it")
    except RunError:
        return None


def seconds_since(folder: Path) -> float | None:
    """How long ago the holder of the lease showed that it is alive; None where there is no lease.

    A time in the future, by a clock that is ahead, counts as now.
    """
    try:
        return max(0.0, time.time() - (folder / LEASE).lstat().st_mtime)
    except OSError:
        return None
