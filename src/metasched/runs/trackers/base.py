"""What a tracker is, and what every tracker needs: numbers with names, facts with names."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeAlias

Record: TypeAlias = dict[str, Any]
"""One update of one seed: a line of ``metrics.jsonl``."""
Description: TypeAlias = Mapping[str, Any]
"""What the runs are, which differ by seed alone: the contents of ``run.json``, with ``seeds`` in place of the seed."""

_ABOUT = ("seed", "update", "test_rows")
"""Numbers of a record that identify it and are not worth a curve."""


class Tracker(Protocol):
    """Something that records are copied to while a run goes on.

    The three functions are called one after another from one thread, which is not the one that trains. They may take
    their time. An exception ends the tracker, never the run.

    Attributes:
        name: for messages.
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
        """Open what records go to.

        Args:
            description: what the runs are: the contents of ``run.json``, with ``seeds`` in place of the seed.
            folder: the tracker's own, which exists. When a run goes on, it holds what the tracker wrote before.
        """

    def log(self, records: Sequence[Record]) -> None:
        """Take records in; when this returns, they survive a kill.

        Args:
            records: in the order they happened.
        """

    def finish(self, final: Mapping[int, Mapping[str, Any]]) -> None:
        """Close.

        Args:
            final: the last evaluation of each seed that ended; a seed that is missing was interrupted.
        """


def numbers(record: Record, tasks: Sequence[str]) -> dict[str, float]:
    """Every number of a record under a name of its own: rows by task as ``drawn/<task>``, the last as ``final/…``."""
    found = dict(_plain(record))
    found |= {f"drawn/{task}": float(rows) for task, rows in zip(tasks, record.get("drawn", ()), strict=False)}
    return found | {f"final/{name}": value for name, value in _plain(record.get("final", {}))}


def _plain(record: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    for name, value in record.items():
        if isinstance(value, int | float) and not isinstance(value, bool) and name not in _ABOUT:
            yield name, float(value)


def facts(description: Description, prefix: str = "") -> dict[str, str]:
    """What a run is, flat: ``{"settings.batch_size": "20", …}``.

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
