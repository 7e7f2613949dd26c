"""Commands that are attacked, each in a process of its own, forked from one that has the package imported.

The server that forks has imported JAX and not begun to use it, so that it has one thread and nothing to lose.
"""

import gzip
import json
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from multiprocessing.connection import wait
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple, cast

import numpy as np

from campaign import loops, worker
from campaign.compiling import SETTINGS
from campaign.crashes import Disk, watched
from campaign.table import processor_seconds

OUT = "out"
LOG = "log.txt"
SECONDS = 600.0
"""Longer than any of these commands takes on a busy machine."""
_MOST_PATIENCE = 10
"""So many times longer one may take that has had less than this part of that in processor time."""
_SECONDS_BETWEEN_LOOKS = 5.0
_SMALL = ["--batch-size", "4", "--batches-per-update", "3", "--eval-every", "1", "--network", "mlp", "--quiet"]
_TRAIN = ["train", "../set.npz", "--out", OUT, "--updates", "6", *_SMALL, "--scheduler"]
_COMPARE = [
    "compare",
    "../set.npz",
    "--out",
    OUT,
    "--methods",
    "uniform",
    "--no-tune",
    "--updates",
    "2",
    *_SMALL,
    "--seeds",
]
_WORKERS = [*_COMPARE, "2", "--executor", "local", "--workers", "2"]


class Victim(NamedTuple):
    """Words that begin the work in the folder ``out`` of a place beside ``set.npz``, and words that go on with it.

    ``whole`` are words that do all of it at once; None: those that begin it. With ``workers`` it is the workers of the
    command that are killed, and the command itself must end well.
    """

    begin: list[str]
    go_on: list[str]
    whole: list[str] | None = None
    workers: bool = False


VICTIMS = {
    "train": Victim([*_TRAIN, "ucb"], [*_TRAIN, "ucb"]),
    "resume": Victim([*_TRAIN, "uniform"], ["resume", OUT, "--quiet"]),
    "sweep": Victim([*_TRAIN, "uniform", "--seeds", "3"], [*_TRAIN, "uniform", "--seeds", "3"]),
    "compare": Victim([*_COMPARE, "2"], [*_COMPARE, "2"]),
    "grow": Victim([*_COMPARE, "2"], [*_COMPARE, "3"], whole=[*_COMPARE, "3"]),
    "paper": Victim(["paper"], ["paper"]),
    "workers": Victim(_WORKERS, _WORKERS),
    "worker": Victim(_WORKERS, _WORKERS, workers=True),
}
_LOCAL = ["counters", "4", "local"]
COUNTERS = {
    "one": Victim(["counters", "1"], ["counters", "1"]),
    "seeds": Victim(["counters", "3"], ["counters", "3"]),
}
"""Victims that compile nothing: the storage is real, what a run computes are counters. So a kill costs little."""
WORKERS = {
    "counting workers": Victim(_LOCAL, _LOCAL),
    "counting worker": Victim(_LOCAL, _LOCAL, workers=True),
}
"""The same in two workers of the executor ``local``, which are Python programs that have to start."""
LOOPS = {name: Victim(["loop", name], ["loop", name]) for name in loops.LOOPS}
"""Training loops of somebody else, whose choosers have draws under way when they are killed."""


class Ended(NamedTuple):
    """How a process ended: its code, negative for a signal, None if it had to be stopped; seconds; what it printed."""

    code: int | None
    seconds: float
    said: str


def prepare(place: Path) -> None:
    """Make the data of all victims, and the settings that their processes inherit; to be called before the first."""
    from metasched import TaskSet
    from metasched.datasets import save_npz

    chance = np.random.default_rng(0)

    def rows(count: int) -> tuple[Any, Any]:
        labels = chance.integers(0, 3, count)
        return np.eye(3, 4)[labels] * 2 + 0.5 * chance.normal(size=(count, 4)), labels

    sources = {"a": rows(24), "b": rows(20)}
    save_npz(TaskSet.from_arrays(sources, validation=rows(12), test=rows(30), classes=list("xyz")), place / "set.npz")
    os.environ |= {
        "JAX_PLATFORMS": "cpu",
        "JAX_COMPILATION_CACHE_DIR": str(place / "compiled"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
        "XDG_CACHE_HOME": str(place / "cache"),
        **SETTINGS,
    }
    _FORKS.set_forkserver_preload(["campaign.preloaded"])


_FORKS = multiprocessing.get_context("forkserver")
_ONE_AT_A_TIME = Lock()
"""Whoever starts a process also asks how all others ended, and of two that ask at once one hears exit code 255."""


def start(place: Path, words: list[str], limit: int | None = None, share: float = 1.0) -> "Running":
    """Run a command in ``place``; with ``limit`` it is killed at that file operation, with a share of what it wrote."""
    place.mkdir(parents=True, exist_ok=True)
    process = _FORKS.Process(target=_work, args=(str(place), words, limit, share), daemon=True)
    began = time.monotonic()
    with _ONE_AT_A_TIME:
        process.start()
    return Running(process, place, began)


class Running(NamedTuple):
    """A command that runs."""

    process: Any
    place: Path
    began: float

    def wait(self, seconds: float | None) -> int | None:
        """Its exit code, as soon as it has ended; None when the time is up."""
        ended = wait([self.process.sentinel], seconds)
        with _ONE_AT_A_TIME:
            if ended:
                self.process.join()  # a process closes its sentinel a moment before its exit code is known
            return cast(int | None, self.process.exitcode)

    def _used(self) -> float:
        return processor_seconds(self.process.pid)

    def kill(self) -> None:
        """SIGKILL, now."""
        if self.wait(0.0) is None:
            with suppress(ProcessLookupError):  # it may end by itself at this very moment
                os.kill(self.process.pid, signal.SIGKILL)

    def end(self, seconds: float = SECONDS) -> Ended:
        """Wait for its end; one that takes longer than that, and had processor time enough, is killed."""
        code, until = self.wait(seconds), time.monotonic() + _MOST_PATIENCE * seconds
        while code is None and time.monotonic() < until and self._used() < seconds / _MOST_PATIENCE:
            code = self.wait(_SECONDS_BETWEEN_LOOKS)
        if code is None:
            self.kill()
            self.wait(None)
        said = (self.place / LOG).read_text(errors="replace") if (self.place / LOG).exists() else ""
        return Ended(code, time.monotonic() - self.began, said)


def _work(place: str, words: list[str], limit: int | None, share: float) -> None:
    """In the process: say everything to a file, count file operations in ``out``, and run the command."""
    from metasched.runs.compiled import keep_compiled_programs

    os.chdir(place)
    log = os.open(LOG, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for descriptor in (1, 2):
        os.dup2(log, descriptor)
    keep_compiled_programs()  # a kill leaves no half of a program to those that come after
    _save_often(Path(place), counting=words[0] == "counters")
    disks: list[Disk] = []

    def stop(_: str) -> None:
        disks[0].tear(share)
        os.kill(os.getpid(), signal.SIGKILL)

    code = 0
    with watched(Path(OUT), limit, stop) as disk:
        disks.append(disk)
        try:
            _obey(words)
        except SystemExit as stopped:
            code = stopped.code if isinstance(stopped.code, int) else 1
    Path("events.json").write_text(json.dumps(disk.events))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _save_often(place: Path, counting: bool) -> None:
    """A checkpoint after every chunk of updates, and workers that are ours."""
    from metasched.runs import runner, train
    from metasched.runs.executors.local import Local

    if not (place / worker.PLANNED).exists():
        (place / worker.PLANNED).write_text("[]")
    for function in (runner.run, train.train.__wrapped__, Local.__init__):
        function.__kwdefaults__ = {**(function.__kwdefaults__ or {}), "checkpoint_seconds": 0.0}
    Local.__init__.__kwdefaults__ |= {"command": worker.command(place, counting)}


def _obey(words: list[str]) -> None:
    match words:
        case ["paper"]:
            _paper(Path(OUT))
        case ["counters", seeds, *local]:
            from campaign import protocol

            (protocol.run_local if local else protocol.run)(Path(OUT), tuple(range(int(seeds))))
        case ["loop", name]:
            loops.run(name, Path(OUT))
        case _:
            _command(words)


def _command(words: list[str]) -> None:
    from metasched.cli import main

    sys.argv = ["metasched", *words]
    main(words)


def _paper(out: Path) -> None:
    """An experiment of our own, as ``metasched paper`` runs its own."""
    from metasched import AlgorithmOne
    from metasched.errors import MetaschedError
    from metasched.experiments import paper
    from metasched.experiments.definition import Cell, Experiment

    config = AlgorithmOne(batch_size=4, batches_per_update=3, updates=2, eval_every=1, eval_rows=30)
    cell = Cell("few-label-9", "few-label", "9 labels", config, 0.6, {"target_labels": 9})
    made = Experiment("digits", "made up", "../set.npz", "mlp", cell.name, (cell,))
    try:
        paper.claim(out, quick=True)
        paper.run_experiment(made, made.cells, paper.Request(out, (0, 1), True, {}, timing=False))
    except MetaschedError as error:
        print(error, file=sys.stderr)
        raise SystemExit(2) from None


_OF_THE_MOMENT = ("origin", "seconds", "scheduling_seconds")


def essence(folder: Path) -> dict[str, object]:
    """What a folder holds, but for when and by which command it was made; of pages only that they are there.

    Lines of finished runs beside the results (``.work``) are a set: runs that go on may finish in another order. So are
    the lines of a loop: what it does again after a kill it says again.
    """
    held: dict[str, object] = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_dir() or "page_files" in name or path.suffix == ".html":
            held[name] = None
        elif path.suffix in (".json", ".jsonl", ".gz") and path.name != "metrics.jsonl":
            values = [_lasting(value) for value in _values(path)]
            held[name] = sorted(values, key=json.dumps) if ".work" in path.parts else values
        elif path.name == loops.LINES:
            held[name] = set(path.read_text().splitlines())
        else:
            held[name] = path.read_bytes()
    return held


def _values(path: Path) -> list[Any]:
    content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return [json.loads(content)] if path.suffix == ".json" else [json.loads(line) for line in content.splitlines()]


def _lasting(value: Any) -> Any:
    if not isinstance(value, Mapping):
        return value
    return {key: _lasting(inside) for key, inside in value.items() if key not in _OF_THE_MOMENT}
