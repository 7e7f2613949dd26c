"""What a worker does, wherever it is: make the runs of some folders, one program for those that share it.

``python -m metasched.runs.executors.worker`` is a worker of this machine. It reads an order a line from its standard
input and answers each with one line; when the input ends, because whoever gave the orders is gone, it ends at once.
"""

import os
import queue
import sys
import traceback
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from threading import Thread
from typing import IO, Literal

import msgspec
from msgspec import Struct

from metasched.errors import MetaschedError
from metasched.runs import folder
from metasched.runs import runner as engine
from metasched.runs.compiled import keep_compiled_programs
from metasched.runs.executors import rows
from metasched.runs.origin import device, versions
from metasched.runs.runner import Job
from metasched.runs.spec import differences
from metasched.tasks import TaskSet

_ONE_THREAD = "--xla_cpu_multi_thread_eigen=false"


def one_thread() -> dict[str, str]:
    """Environment of a process that shares a CPU with others of its kind; what the user says to XLA stands."""
    flags = os.environ.get("XLA_FLAGS", "")
    if _ONE_THREAD not in flags.split():  # said twice it would make other keys of compiled programs
        flags = f"{flags} {_ONE_THREAD}".strip()
    pools = ("NPROC", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    return {"XLA_FLAGS": flags, **dict.fromkeys(pools, "1")}


class Order(Struct, frozen=True, kw_only=True):
    """Runs to be made: their folders, the file with the rows of each, and the versions that everybody must have."""

    folders: tuple[str, ...]
    rows: tuple[str, ...]
    versions: dict[str, str]
    checkpoint_seconds: float


Ending = Literal["done", "busy", "failed", "refused"]


class Answer(Struct, frozen=True, kw_only=True):
    """How an order ended.

    All runs *done*; the folder of one *busy* in other hands; an exception that may not come again (*failed*); or
    *refused*, because this worker can do no order at all.
    """

    ending: Ending
    error: str = ""
    details: str = ""


def refusal(wanted: Mapping[str, str]) -> str | None:
    """Why this worker may not take part: other versions than whoever gives the orders has."""
    mine = versions()
    for name, (theirs, own) in differences(dict(wanted), mine):
        return f"a worker has {name} {own}, this process {theirs}; install the same on every machine"
    return None


def obey(order: Order) -> Answer:
    """Make the runs of an order."""
    refused = refusal(order.versions)
    if refused:
        return Answer(ending="refused", error=refused)
    try:
        jobs = [job_of(Path(place), _tasks(source)) for place, source in zip(order.folders, order.rows, strict=True)]
        engine.run(jobs, checkpoint_seconds=order.checkpoint_seconds)
    except folder.BusyError as error:
        return Answer(ending="busy", error=str(error))
    except Exception as error:
        return failed(error)
    return Answer(ending="done")


def failed(error: Exception) -> Answer:
    """The answer to an order that ended in an exception."""
    told = str(error) if isinstance(error, MetaschedError) else f"{type(error).__name__}: {error}"
    return Answer(ending="failed", error=" ".join(told.split()), details=traceback.format_exc())


def job_of(place: Path, tasks: TaskSet) -> Job:
    """The run of a folder, made on this device."""
    described = folder.describe(place)
    here = msgspec.structs.replace(described.origin, device=device())
    return Job(msgspec.structs.replace(described, origin=here), tasks, folder=place)


@lru_cache(maxsize=8)
def _tasks(path: str) -> TaskSet:
    return rows.read(Path(path))


def _serve(orders: IO[bytes], answers: IO[bytes]) -> None:
    """Obey orders until there are no more."""
    pending: queue.Queue[bytes] = queue.Queue()

    def listen() -> None:
        for line in orders:
            pending.put(line)
        os._exit(0)  # whoever gave the orders is gone, or wants no more: a run can be left at any moment

    Thread(target=listen, name="orders", daemon=True).start()
    while True:
        answer = obey(msgspec.json.decode(pending.get(), type=Order))
        answers.write(msgspec.json.encode(answer) + b"\n")
        answers.flush()


def main() -> None:
    """Serve on the standard streams; what anybody else prints goes to standard error."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    keep_compiled_programs()
    try:
        _serve(sys.stdin.buffer, answers)
    except KeyboardInterrupt:  # the run under way has left a checkpoint
        os._exit(130)


if __name__ == "__main__":
    main()
