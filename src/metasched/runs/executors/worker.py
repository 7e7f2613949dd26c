"""A worker process on this machine: its orders and rows, and how it executes them.

A worker reads orders from its standard input, one per line, and answers each with one line on its standard output. It
can rely on only three things: the folders in the order have a description, the files of rows match their checksums, and
nobody else writes to a folder while the worker holds the lease. All progress is in the folders. So a worker may die at
any moment, and another one, or the next command, continues from the checkpoints.
"""

import hashlib
import io
import os
import queue
import shutil
import sys
import traceback
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from threading import Thread
from typing import Any, Literal
from weakref import WeakValueDictionary

import msgspec
import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from metasched.datasets.npz import read_npy
from metasched.errors import DataError, MetaschedError
from metasched.files import make_folder, write_whole
from metasched.runs import folder, runner
from metasched.runs.compiled import keep_compiled_programs
from metasched.runs.jobs import Job, stored_job
from metasched.runs.outcome import device, versions
from metasched.runs.spec import differences
from metasched.tasks import TEST, VALIDATION, Preparation, Provenance, Split, Task, TaskSet


class Order(Struct, frozen=True, kw_only=True):
    """Runs to execute: their folders, the file with the rows of each, and the versions that every process must have."""

    folders: tuple[str, ...]
    rows: tuple[str, ...]
    versions: dict[str, str]
    checkpoint_seconds: float


class Answer(Struct, frozen=True, kw_only=True):
    """How an order ended.

    *done*: all runs have ended. *busy*: another process is working in one of the folders. *failed*: an exception was
    raised, which may not happen again. *refused*: this worker cannot execute any order.
    """

    ending: Literal["done", "busy", "failed", "refused"]
    error: str = ""
    details: str = ""


def one_thread() -> dict[str, str]:
    """The environment of a process that shares a CPU with other workers. Every library computes with one thread."""
    return dict.fromkeys(("NPROC", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


def refusal(wanted: Mapping[str, str]) -> str | None:
    """Why this worker must not take part: it has other versions, which may compute other numbers."""
    for name, (theirs, own) in differences(dict(wanted), versions()):
        return f"a worker has {name} {own}, but this process has {theirs}; install the same version on every machine"
    return None


def obey(order: Order) -> Answer:
    """Execute the runs of an order."""
    refused = refusal(order.versions)
    if refused:
        return Answer(ending="refused", error=refused)
    try:
        jobs = [
            job_of(Path(where), read_rows(Path(rows))) for where, rows in zip(order.folders, order.rows, strict=True)
        ]
        runner.run(jobs, checkpoint_seconds=order.checkpoint_seconds)
    except folder.BusyError as error:
        return Answer(ending="busy", error=str(error))
    except Exception as error:
        return failed(error)
    return Answer(ending="done")


def failed(error: Exception) -> Answer:
    """The answer to an order that raised an exception."""
    said = str(error) if isinstance(error, MetaschedError) else f"{type(error).__name__}: {error}"
    return Answer(ending="failed", error=" ".join(said.split()), details=traceback.format_exc())


def job_of(where: Path, tasks: TaskSet) -> Job:
    """The run that a folder describes, on this device."""
    described = folder.describe(where)
    origin = msgspec.structs.replace(described.origin, device=device())
    return stored_job(where, msgspec.structs.replace(described, origin=origin), tasks)


def main() -> None:
    """Execute orders from standard input until it ends. Anything else that is printed goes to standard error."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    keep_compiled_programs()
    orders: queue.Queue[bytes] = queue.Queue()

    def listen() -> None:
        for line in sys.stdin.buffer:
            orders.put(line)
        # The input ends when the process that gave the orders closes it or dies, for whatever reason. Then nobody waits
        # for this worker any more, and a run can be left at any moment.
        os._exit(0)

    Thread(target=listen, name="orders", daemon=True).start()
    try:
        while True:
            answer = obey(msgspec.json.decode(orders.get(), type=Order))
            answers.write(msgspec.json.encode(answer) + b"\n")
            answers.flush()
    except KeyboardInterrupt:  # the running job has written a checkpoint
        os._exit(130)


class _Part(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The rows of a source or of the target: the names of the files with its arrays."""

    name: str
    classes: tuple[str, ...]
    inputs: str
    labels: str
    targets: str | None = None


class _Set(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A task set without its arrays and without the origin of its rows."""

    name: str
    parts: tuple[_Part, ...]
    simulated: bool
    notes: tuple[str, ...]
    recipe: Mapping[str, Any] | None
    useful: tuple[str, ...] | None
    preparation: Preparation | None


class RowFiles:
    """Task sets as files in a folder, for worker processes to read. :meth:`clear` removes them.

    Every array is one file, named by its checksum. So sets that share their sources, such as folds of one target, share
    the files. A task set is a list of such names, in a file named by its fingerprint.
    """

    def __init__(self, where: Path) -> None:
        self._folder = where
        # Both are found by identity, which is cheap. The object is kept because a freed id can be reused.
        self._sets: dict[int, tuple[TaskSet, Path]] = {}
        self._arrays: dict[int, tuple[NDArray[Any], str]] = {}

    def add(self, tasks: TaskSet) -> Path:
        """Write a task set, once, and return the file from which :func:`read_rows` reads it."""
        if id(tasks) not in self._sets:
            folder.refuse_linked(self._folder, self._folder.parent)
            make_folder(self._folder)
            parts = tuple(
                _Part(
                    name=name,
                    classes=classes,
                    inputs=self._array(part.inputs),
                    labels=self._array(part.labels),
                    targets=None if part.targets is None else self._array(part.targets),
                )
                for name, part, classes in tasks.parts()
            )
            kept = {name: getattr(tasks, name) for name in _Set.__struct_fields__ if name != "parts"}
            path = self._folder / f"{tasks.fingerprint}.json"
            write_whole(path, msgspec.json.encode(_Set(parts=parts, **kept)))
            self._sets[id(tasks)] = tasks, path
        return self._sets[id(tasks)][1]

    def clear(self) -> None:
        """Remove all files when nobody needs the rows any more."""
        self._sets.clear()
        self._arrays.clear()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _array(self, array: NDArray[Any]) -> str:
        if id(array) not in self._arrays:
            content = io.BytesIO()
            np.save(content, np.ascontiguousarray(array), allow_pickle=False)
            name = f"{hashlib.sha256(content.getbuffer()).hexdigest()}.npy"
            if not (self._folder / name).exists():
                write_whole(self._folder / name, content.getvalue())
            self._arrays[id(array)] = array, name
        return self._arrays[id(array)][1]


_ARRAYS: WeakValueDictionary[Path, NDArray[Any]] = WeakValueDictionary()
"""The arrays of the task sets in memory. Sets that share sources share the arrays."""


@lru_cache(maxsize=8)
def read_rows(path: Path) -> TaskSet:
    """Read a task set that :meth:`RowFiles.add` wrote. An error if it does not match its name, to the bit."""
    try:
        content = msgspec.json.decode(path.read_bytes(), type=_Set)
    except (OSError, msgspec.MsgspecError) as error:
        raise DataError(f"{path}: cannot read the rows of a run ({error}); start the command again") from None
    files = [(part.inputs, part.labels, part.targets) for part in content.parts]
    # Only the last part of a name counts, so nothing outside the folder is read, whatever the list says.
    rows: Any = [[None if name is None else _array(path.parent / Path(name).name) for name in own] for own in files]
    *sources, validation, test = content.parts
    kept = {name: getattr(content, name) for name in _Set.__struct_fields__ if name != "parts"}
    tasks = TaskSet(
        tasks=tuple(
            Task(part.name, inputs, labels, part.classes, targets)
            for part, (inputs, labels, targets) in zip(sources, rows[:-2], strict=True)
        ),
        validation=Split(*rows[-2]),
        test=Split(*rows[-1]),
        classes=test.classes,
        provenance={
            part.name: Provenance(f"{content.name}:{part.name}", np.arange(len(own[1])))
            for part, own in zip(content.parts, rows, strict=True)
        },
        **kept,
    )
    if tasks.fingerprint != path.stem or [validation.name, test.name] != [VALIDATION, TEST]:
        raise DataError(f"{path}: the rows are not those with which the run started; start the command again")
    return tasks


def _array(path: Path) -> NDArray[Any]:
    array = _ARRAYS.get(path)
    return _ARRAYS.setdefault(path, read_npy(path)) if array is None else array


if __name__ == "__main__":
    main()
