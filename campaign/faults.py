"""What a disk, another process, another user or a clock can do to a run, at every file operation of the small model.

After each fault the run is given what it lacked and goes on: it must end with the bytes of one that nobody disturbed.
"""

import errno
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from unittest import mock

from campaign.crashes import watched
from campaign.protocol import Content, content, go_on, restore, run, small
from campaign.table import Effort, Result, Verdict
from metasched.errors import MetaschedError

SEEDS = (0, 1)
HANG_SECONDS = 60.0
Fault = Callable[[Path, str], None]
"""What happens at an operation of that name, and at every one after it."""


def full(_: Path, operation: str) -> None:
    """No space is left: nothing new can be made or written; what is there can be renamed and removed."""
    if operation in ("open", "fsync", "mkdir"):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def read_only(_: Path, __: str) -> None:
    """The disk was mounted again, to be read alone."""
    raise OSError(errno.EROFS, os.strerror(errno.EROFS))


def forbidden(_: Path, __: str) -> None:
    """The folder was given to somebody else."""
    raise OSError(errno.EACCES, os.strerror(errno.EACCES))


def broken(_: Path, operation: str) -> None:
    """The disk does not take what is flushed to it."""
    if operation == "fsync":
        raise OSError(errno.EIO, os.strerror(errno.EIO))


def deleted(folder: Path, _: str) -> None:
    """Somebody removes the folder, again and again."""
    shutil.rmtree(folder, ignore_errors=True)


def clock_back(_: Path, __: str) -> None:
    """The clock goes back an hour with every operation."""
    _LATE[0] += 3600.0


_LATE = [0.0]
FAULTS: dict[str, Fault] = {
    "full disk": full,
    "read-only disk": read_only,
    "folder of another user": forbidden,
    "broken disk": broken,
    "deleted folder": deleted,
    "clock backwards": clock_back,
}


def faults(effort: Effort) -> Iterator[Result]:
    """Every fault at every operation, and two runs at once; the number of attempts is what it is."""
    folder = effort.place / "runs"
    restore(folder, ())
    with watched(effort.place, None, lambda _: None):
        run(folder, SEEDS)
    whole = content(folder)
    for name, fault in FAULTS.items():
        for limit in count(1):
            restore(folder, ())
            result, reached = _attempt(folder, name, fault, limit, whole)
            if not reached:
                break
            yield result
    for number in range(effort.attempts):
        restore(folder, ())
        yield _two_at_once(folder, whole, number)


def _attempt(folder: Path, name: str, fault: Fault, limit: int, whole: Content) -> tuple[Result, bool]:
    """One fault at one operation, and whether there was such an operation."""
    real, case = time.time, f"{name} at operation {limit}"
    reached = False

    def strike(operation: str) -> None:
        nonlocal reached
        reached = True
        fault(folder, operation)

    def late() -> float:
        return real() - _LATE[0]

    try:
        with mock.patch.object(time, "time", late), watched(folder.parent, limit, strike):
            run(folder, SEEDS)
    except MetaschedError as error:
        if "\n" in str(error):
            return Result(case, Verdict.LOST, f"more than a line: {error}"), reached
    except Exception as error:
        return Result(case, Verdict.TRACEBACK, repr(error)), reached
    return _ends_whole(folder, whole, case), reached


def _ends_whole(folder: Path, whole: Content, case: str) -> Result:
    try:
        with watched(folder, None, lambda _: None):
            run(folder, SEEDS)
    except MetaschedError as error:
        return Result(case, Verdict.LOST, str(error))
    except Exception as error:
        return Result(case, Verdict.TRACEBACK, repr(error))
    return Result(case) if content(folder) == whole else Result(case, Verdict.LOST, "other bytes")


def _two_at_once(folder: Path, whole: Content, number: int) -> Result:
    """Two runs begin together: each ends or is refused in a line, and then the bytes are those of one."""
    case, faults_seen = f"two at once, {number}", list[Exception]()

    def work() -> None:
        try:
            go_on(folder, SEEDS)
        except MetaschedError:
            return
        except Exception as error:
            faults_seen.append(error)

    threads = [threading.Thread(target=work, daemon=True) for _ in range(2)]
    with small(), watched(folder, None, lambda _: None):
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(HANG_SECONDS)
    if any(thread.is_alive() for thread in threads):
        return Result(case, Verdict.HANG, f"no end after {HANG_SECONDS:g} s")
    if faults_seen:
        return Result(case, Verdict.TRACEBACK, repr(faults_seen[0]))
    return _ends_whole(folder, whole, case)
