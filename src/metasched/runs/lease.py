"""Who is working on a run: the lock on its folder, and a lease that others can read.

The lock ends with the process that holds it. Between machines, where a file system may not carry locks, the lease
stands in for it: a file with a token and its holder, touched every few seconds as long as the holder lives. Whoever
takes a run over writes a token of its own; a holder that was given up and returns finds that token there, and writes
nothing more.
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
"""A lease that was not touched for so long has lost its holder."""


class LostError(BusyError):
    """The run was given to somebody else meanwhile."""


class Holder(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the file of a lease says."""

    token: str
    host: str
    process: int


class Lease:
    """The right to write to a run folder, until somebody takes it over."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.holder = Holder(token=secrets.token_hex(8), host=socket.gethostname(), process=os.getpid())

    def take(self) -> None:
        """Write the own token, unless a holder on another machine lives."""
        other, age = holder(self.place), seconds_since(self.place)
        if other is not None and other.host != self.holder.host and age is not None and age < STALE_SECONDS:
            raise BusyError(f"{self.place}: {other.host} is working on this run; wait for it or stop it")
        partial = self.place / f"{LEASE}{PART}"
        try:
            partial.unlink(missing_ok=True)
            append(partial, msgspec.json.encode(self.holder))
            partial.replace(self.place / LEASE)  # it need not outlive a power cut: nothing waits for the disk
        except OSError as error:
            raise write_error(partial, error) from None

    def check(self) -> None:
        """An error if the run is somebody else's by now."""
        other = holder(self.place)
        if other is None or other.token != self.holder.token:
            told = "nobody" if other is None else f"process {other.process} on {other.host}"
            raise LostError(f"{self.place}: the lease of this run has passed to {told}; nothing more is written here")

    def beat(self) -> None:
        """Show that the holder lives."""
        with suppress(OSError):
            os.utime(self.place / LEASE, follow_symlinks=False)

    def give_back(self) -> None:
        """Remove the file, if it is still the own one."""
        with suppress(LostError, OSError):
            self.check()
            (self.place / LEASE).unlink()


@contextmanager
def leased(places: Sequence[Path]) -> Iterator[dict[Path, Lease]]:
    """Hold the locks and the leases of run folders; a :class:`BusyError` where somebody else does."""
    with ExitStack() as stack:
        leases: dict[Path, Lease] = {}
        for place in places:
            stack.enter_context(locked(place))
            leases[place] = Lease(place)
            leases[place].take()
            stack.callback(leases[place].give_back)
        stack.enter_context(_beating(list(leases.values())))
        yield leases


@contextmanager
def _beating(leases: Sequence[Lease]) -> Iterator[None]:
    ended = Event()

    def beat() -> None:
        while not ended.wait(BEAT_SECONDS):
            for lease in leases:
                lease.beat()

    heart = Thread(target=beat, name="lease", daemon=True)
    heart.start()
    try:
        yield
    finally:
        ended.set()
        heart.join()


def holder(place: Path) -> Holder | None:
    """Who holds the lease of a run folder; None where nobody does."""
    try:
        return untrusted.read_json(place / LEASE, Holder, "remove it")
    except RunError:
        return None


def seconds_since(place: Path) -> float | None:
    """How long ago the holder of the lease showed that it lives; None where there is no lease."""
    try:
        return max(0.0, time.time() - (place / LEASE).lstat().st_mtime)
    except OSError:
        return None
