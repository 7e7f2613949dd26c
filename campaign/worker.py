"""A worker of the executor ``local`` that is killed, by itself at a file operation or by others at any moment.

Workers number themselves in the order of their start. Worker number n suffers kill number n of the list beside the
folder that is worked on; those that come after the list are left alone.
"""

import json
import os
import sys
from contextlib import nullcontext
from pathlib import Path
from unittest import mock

from campaign.crashes import Disk, watched

PLANNED = "kills.json"
"""A list of pairs: the operation, or None if somebody else kills, and the share kept of what was not flushed."""
CLAIM = "worker-{}"
"""The file with the process id of a worker, by number."""
COUNTING = "counting"


def command(place: Path, counting: bool) -> tuple[str, ...]:
    """How the executor starts a worker in a place."""
    root = Path(__file__).parent.parent
    start = f"import sys; sys.path.insert(0, {str(root)!r}); from campaign.worker import main; main(*sys.argv[1:])"
    return sys.executable, "-c", start, str(place), COUNTING if counting else "computing"


def main(place: str, kind: str) -> None:
    """Be a worker in that place until the kill that is meant for it."""
    where = Path(place)
    number = _claim(where)
    planned = json.loads((where / PLANNED).read_text())
    operation, share = planned[number] if number < len(planned) else (None, 1.0)
    disks: list[Disk] = []

    def stop(_: str) -> None:
        disks[0].tear(share)
        os.kill(os.getpid(), 9)

    def leave(code: int, leave_now=os._exit) -> None:  # type: ignore[no-untyped-def]
        (where / f"events-{number}.json").write_text(json.dumps(disks[0].events))
        leave_now(code)

    from campaign import protocol
    from metasched.runs.executors import worker

    computes = protocol.small() if kind == COUNTING else nullcontext()
    with watched(where / "out", operation, stop) as disk, mock.patch.object(os, "_exit", leave), computes:
        disks.append(disk)
        worker.main()


def _claim(where: Path) -> int:
    """The first number that no worker has taken."""
    number = 0
    while True:
        try:
            descriptor = os.open(where / CLAIM.format(number), os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        except FileExistsError:
            number += 1
            continue
        os.write(descriptor, str(os.getpid()).encode())
        os.close(descriptor)
        return number
