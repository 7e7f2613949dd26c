"""Trackers: copies of a run's records in TensorBoard, MLflow, Weights & Biases, or a tracker of your own.

``metrics.jsonl`` is always written, and a run continues from it. A tracker only gets copies. It works in its own
thread, so a slow tracker does not delay the training. A tracker that fails is reported in one line and dropped. Its
progress is stored in its folder. So a record that is computed again after an interruption is not logged twice (unless a
kill comes between logging it and storing that), and a tracker that is added later gets everything from the first update
on.
"""

import json
import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from queue import SimpleQueue
from textwrap import shorten
from threading import Thread
from typing import Any, Protocol, TypeAlias

import msgspec

from metasched.errors import ConfigError, RunError, unknown
from metasched.files import write_json
from metasched.runs import folder as run_folder

Record: TypeAlias = dict[str, Any]
"""One update of one seed: a line of ``metrics.jsonl``."""
Description: TypeAlias = Mapping[str, Any]
"""A description of the runs, which differ only by seed: the content of ``run.json``, with ``seeds`` in place of the
seed.
"""
LOGGED = "logged.json"
"""In a tracker's folder: the last update that was logged, by seed."""
FINISH_SECONDS = 30.0
"""How many seconds a finished run waits for a tracker."""

_LONGEST_REASON = 240

_REGISTRY = {"mlflow": "MLflow", "tensorboard": "TensorBoard", "wandb": "WandB"}
"""The class of each tracker, in the module with its name."""
_ABOUT = ("seed", "update", "test_rows")
"""Numbers of a record that identify it and make no useful curve."""
_log = logging.getLogger("metasched")


class Tracker(Protocol):
    """Receives copies of the records during a run.

    The three functions are called one after another from one thread, which is not the training thread. They may take
    their time. An exception ends the tracker, but never the run.

    Attributes:
        name: the name for messages.
        folder: the name of the tracker's own folder inside the folder of the run.

    Examples:
        >>> class Diary:
        ...     name = folder = "diary"
        ...     def start(self, description, folder):
        ...         self.seen = 0
        ...     def log(self, records):
        ...         self.seen += len(records)
        ...     def finish(self, final):
        ...         pass
        >>> diary = Diary()
        >>> learner = ms.Joint(batch_size=10, updates=2)
        >>> _ = ms.train(tasks, learner=learner, out="runs/diary", trackers=[diary])
        >>> diary.seen
        2
    """

    name: str
    folder: str

    def start(self, description: Description, folder: Path) -> None:
        """Prepare to receive records.

        Args:
            description: the content of ``run.json``, with ``seeds`` in place of the seed.
            folder: the tracker's own folder, which exists. When a run continues, it contains what the tracker wrote
                before.
        """

    def log(self, records: Sequence[Record]) -> None:
        """Store records. When this returns, they must be safe even if the process is killed.

        Args:
            records: the records, in order.
        """

    def finish(self, final: Mapping[int, Mapping[str, Any]]) -> None:
        """Finish logging.

        Args:
            final: the last evaluation of each seed that ended. A missing seed was interrupted.
        """


def names() -> tuple[str, ...]:
    """The names of the built-in trackers."""
    return tuple(_REGISTRY)


def make(chosen: Sequence[str | Tracker], out: object) -> list[Tracker]:
    """Make the requested trackers. An unknown name or a missing package is reported before anything starts."""
    if chosen and out is None:
        raise ConfigError("trackers keep their files in the folder of the run; give out=")
    for name in chosen:
        if isinstance(name, str) and name not in _REGISTRY:
            raise unknown("tracker", name, _REGISTRY)
    named = dict.fromkeys(item for item in chosen if isinstance(item, str))
    own = [getattr(import_module(f"{__name__}.{name}"), _REGISTRY[name])() for name in named]
    made = own + [item for item in chosen if not isinstance(item, str)]
    folder, count = Counter(tracker.folder for tracker in made).most_common(1)[0] if made else ("", 0)
    if count > 1:
        raise ConfigError(f"two trackers want the folder '{folder}'; give each its own folder")
    return made


@contextmanager
def tracking(
    trackers: Sequence[Tracker], where: Path | None, runs: Sequence[run_folder.Description]
) -> Iterator[Callable[[Record], None]]:
    """Yield a function to call with every record of the runs in ``where``, old ones first. Close the trackers at the
    end.
    """
    workers = []
    if where is not None and trackers:
        description = {**msgspec.json.decode(msgspec.json.encode(runs[0])), "seeds": [run.spec.seed for run in runs]}
        del description["spec"]["seed"]
        workers = [_Worker(tracker, description, where / tracker.folder) for tracker in trackers]

    def track(record: Record) -> None:
        for worker in workers:
            worker.inbox.put(record)

    try:
        yield track
    finally:
        for worker in workers:
            worker.inbox.put(None)
        for worker in workers:
            worker.thread.join(FINISH_SECONDS)
            if worker.thread.is_alive():
                _drop(worker.tracker, f"did not answer for {FINISH_SECONDS:g} s")


class _Worker:
    """A tracker, its inbox (None: the run has ended), and the thread that carries records between them."""

    def __init__(self, tracker: Tracker, description: Description, folder: Path) -> None:
        self.tracker = tracker
        self.inbox: SimpleQueue[Record | None] = SimpleQueue()
        self.thread = Thread(target=self._work, args=(description, folder), name=f"metasched {tracker.name}")
        self.thread.daemon = True
        self.thread.start()

    def _work(self, description: Description, folder: Path) -> None:
        try:
            run_folder.refuse_linked(folder, folder.parent)
            folder.mkdir(parents=True, exist_ok=True)
            run_folder.refuse_links(folder)
            logged = _read_logged(folder)
            final: dict[int, Mapping[str, Any]] = {}
            self.tracker.start(description, folder)
            ended = False
            while not ended:
                taken = [self.inbox.get()]
                while not self.inbox.empty():
                    taken.append(self.inbox.get())
                records = [record for record in taken if record is not None]
                ended = len(records) < len(taken)
                final |= {record["seed"]: record["final"] for record in records if "final" in record}
                fresh = [record for record in records if record["update"] > logged.get(record["seed"], 0)]
                if fresh:
                    self.tracker.log(fresh)
                    logged |= {record["seed"]: record["update"] for record in fresh}
                    write_json(folder / LOGGED, {str(seed): update for seed, update in logged.items()})
            self.tracker.finish(final)
        except Exception as error:
            _drop(self.tracker, str(error) or type(error).__name__)


def _drop(tracker: Tracker, reason: str) -> None:
    line = shorten(reason, _LONGEST_REASON, placeholder=" …")
    _log.warning("metasched: tracker %s failed, the run goes on without it: %s", tracker.name, line)


def _read_logged(folder: Path) -> dict[int, int]:
    try:
        return {int(seed): int(update) for seed, update in json.loads((folder / LOGGED).read_text()).items()}
    except FileNotFoundError:
        return {}
    except (ValueError, AttributeError):
        raise RunError(f"{folder / LOGGED} is damaged; delete {folder} to log everything again") from None


def numbers(record: Record, tasks: Sequence[str]) -> dict[str, float]:
    """Every number of a record under its own name: rows by task as ``drawn/<task>``, final ones as ``final/…``."""
    found = dict(_plain(record))
    found |= {f"drawn/{task}": float(rows) for task, rows in zip(tasks, record.get("drawn", ()), strict=False)}
    return found | {f"final/{name}": value for name, value in _plain(record.get("final", {}))}


def _plain(record: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    for name, value in record.items():
        if isinstance(value, int | float) and not isinstance(value, bool) and name not in _ABOUT:
            yield name, float(value)


def facts(description: Description, prefix: str = "") -> dict[str, str]:
    """The description of a run as flat names: ``{"settings.batch_size": "20", …}``.

    >>> facts({"seeds": [0, 1], "settings": {"batch_size": 20}})
    {'seeds': '[0, 1]', 'settings.batch_size': '20'}
    """
    flat: dict[str, str] = {}
    for name, value in description.items():
        if isinstance(value, Mapping):
            flat |= facts(value, f"{prefix}{name}.")
        else:
            flat[prefix + name] = str(value)
    return flat
