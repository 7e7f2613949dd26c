"""The records of a run: ``metrics.jsonl``, one line for each update. Everything that is read back is checked.

Lines are appended without waiting for the disk, which would slow down short updates. The file is flushed before a
checkpoint is written, so a checkpoint is never ahead of the records that led to it. When a run continues, lines beyond
its checkpoint are cut off (:func:`keep`) and computed again.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import UNSET, Struct, UnsetType

from metasched import untrusted
from metasched.errors import RunError
from metasched.files import append as append_bytes
from metasched.files import write_whole
from metasched.runs.outcome import Final
from metasched.runs.spec import Count

METRICS = "metrics.jsonl"
LONGEST_LINE = 64 * 1024**2
"""The largest size of a line in bytes."""
_FIX = "start the run again in another folder"


class UpdateRecord(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One update, with the rate under its name in the learner. The last update of a run has ``final``.

    Only runs with one source per batch have ``tasks``. All have the rows ``drawn`` so far, by task.
    """

    seed: Count
    update: Count
    samples: Count
    drawn: list[Count]
    abstained: Count
    tasks: list[Count] | UnsetType = UNSET
    loss: float
    validation_accuracy: float
    inner_rate: float | UnsetType = UNSET
    learning_rate: float | UnsetType = UNSET
    test_accuracy: float | UnsetType = UNSET
    initial_test_accuracy: float | UnsetType = UNSET
    test_accuracy_by_class: list[float | None] | UnsetType = UNSET
    test_rows: Count | UnsetType = UNSET
    final: Final | UnsetType = UNSET


class DivergedRecord(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The update whose loss was no longer finite, and why. The run ended there."""

    seed: Count
    update: Count
    diverged: str


def append(folder: Path, records: Sequence[Mapping[str, Any]]) -> None:
    """Append a line for each record to the metrics of a run."""
    append_bytes(folder / METRICS, _lines(records))


def flush(folder: Path) -> None:
    """Wait until the metrics are on the disk."""
    append_bytes(folder / METRICS, b"", durable=True)


def keep(folder: Path, records: Sequence[Mapping[str, Any]]) -> None:
    """Keep only these records in the metrics, those up to a checkpoint."""
    write_whole(folder / METRICS, _lines(records))


def read(folder: Path, most: int | None = None) -> list[dict[str, Any]]:
    """Read the first ``most`` records of a run, or all. The first line that is not complete JSON ends the list.

    A kill may cut the last line short, and a power cut may leave the end of the file full of zeros.
    """
    path = folder / METRICS
    records: list[dict[str, Any]] = []
    if not path.exists():
        return records
    with untrusted.opened(path, _FIX) as stream:
        while len(records) != most:
            content = stream.readline(LONGEST_LINE)
            if not content.endswith(b"\n"):
                break
            try:
                record = json.loads(content)
            except (ValueError, RecursionError):
                break
            number = len(records) + 1
            records.append(_checked(record, number, f"{path}, line {number}"))
    return records


def check(records: Sequence[Mapping[str, Any]], updates: int, total: int, shape: tuple[int, ...], holder: Path) -> None:
    """Check that these are records of ``updates`` out of ``total`` updates, with source rows by (task, label)
    ``shape``.
    """
    ended = bool(records) and "diverged" in records[-1]
    if not (len(records) == updates <= total or (ended and len(records) < updates <= total)):
        raise RunError(f"{holder}: lines are missing; {_FIX}")
    for record in records:
        last = "diverged" not in record and record["update"] == total
        fits = "final" not in record or _shape(record["final"].get("drawn_by_label") or ()) == shape
        if ("final" in record) != last or len(record.get("drawn", range(shape[0]))) != shape[0] or not fits:
            raise RunError(f"{holder}, line {record['update']}: belongs to another run; {_FIX}")
        if "diverged" in record and record is not records[-1]:
            raise RunError(f"{holder}, line {record['update']}: is not the last line; {_FIX}")


def _lines(records: Sequence[Mapping[str, Any]]) -> bytes:
    return b"".join(json.dumps(record, separators=(",", ":")).encode() + b"\n" for record in records)


def _checked(record: Any, number: int, holder: str) -> dict[str, Any]:
    diverged = isinstance(record, dict) and "diverged" in record
    form: type[UpdateRecord | DivergedRecord] = DivergedRecord if diverged else UpdateRecord
    typed = untrusted.checked(record, form, holder, _FIX)
    if typed.update != number:
        raise RunError(f"{holder}: belongs to update {typed.update}; {_FIX}")
    tasks = getattr(typed, "tasks", UNSET) or []
    if isinstance(typed, UpdateRecord) and max(tasks, default=0) > len(typed.drawn):
        raise RunError(f"{holder}: names task {max(tasks)} of {len(typed.drawn)}; {_FIX}")
    return dict(record)


def _shape(rows: Sequence[Sequence[float]]) -> tuple[int, ...]:
    """The shape of a table, or (-1,) if its rows differ in length."""
    widths = {len(row) for row in rows}
    return (len(rows), *widths) if len(widths) == 1 else (-1,)
