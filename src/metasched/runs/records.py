"""The lines of ``metrics.jsonl``: one an update, what a line has, and reading them back with every type checked."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import UNSET, Struct, UnsetType

from metasched import untrusted
from metasched.errors import RunError
from metasched.runs.outcome import Final
from metasched.runs.spec import Count

LONGEST_LINE = 64 * 1024**2
"""Bytes beyond which a line is none of ours."""
_FIX = "start the run again in another folder"
_Accuracies = list[float | None]


class Line(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One update, with the rate as its learner calls it; the last one of a run has ``final``."""

    seed: Count
    update: Count
    samples: Count
    drawn: list[Count]
    abstained: Count
    tasks: list[Count]
    loss: float
    validation_accuracy: float
    inner_rate: float | UnsetType = UNSET
    learning_rate: float | UnsetType = UNSET
    test_accuracy: float | UnsetType = UNSET
    initial_test_accuracy: float | UnsetType = UNSET
    test_accuracy_by_class: _Accuracies | UnsetType = UNSET
    test_rows: Count | UnsetType = UNSET
    final: Final | UnsetType = UNSET


class LastLine(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The update whose loss was no longer finite, and why: the run ended there."""

    seed: Count
    update: Count
    diverged: str


def as_line(record: Mapping[str, Any]) -> bytes:
    """A record as it stands in the file."""
    return json.dumps(record, separators=(",", ":")).encode() + b"\n"


def read_lines(path: Path, most: int | None = None) -> Iterator[dict[str, Any]]:
    """The first ``most`` records of a file, or all; the first line that is not whole JSON ends them."""
    with untrusted.opened(path, _FIX) as stream:
        number = 0
        while number != most:
            number += 1
            content = stream.readline(LONGEST_LINE)
            if not content.endswith(b"\n"):
                return
            try:
                record = json.loads(content)
            except (ValueError, RecursionError):
                return
            yield _checked(record, number, f"{path}, line {number}")


def check(records: Sequence[Mapping[str, Any]], updates: int, total: int, shape: tuple[int, ...], holder: Path) -> None:
    """Refuse records that are not those of ``updates`` out of ``total`` with source rows by (task, label) ``shape``."""
    ended = bool(records) and "diverged" in records[-1]
    if not (len(records) == updates <= total or (ended and len(records) < updates <= total)):
        raise RunError(f"{holder}: lines are missing; {_FIX}")
    for record in records:
        last = "diverged" not in record and record["update"] == total
        fits = "final" not in record or _shape(record["final"].get("drawn_by_label") or ()) == shape
        if ("final" in record) != last or len(record.get("drawn", range(shape[0]))) != shape[0] or not fits:
            raise RunError(f"{holder}, line {record['update']}: is of another run; {_FIX}")
        if "diverged" in record and record is not records[-1]:
            raise RunError(f"{holder}, line {record['update']}: is not the last; {_FIX}")


def _checked(record: Any, number: int, holder: str) -> dict[str, Any]:
    form: type[Line] | type[LastLine] = LastLine if isinstance(record, dict) and "diverged" in record else Line
    line: Line | LastLine = untrusted.checked(record, form, holder, _FIX)
    if line.update != number:
        raise RunError(f"{holder}: is of update {line.update}; {_FIX}")
    if isinstance(line, Line) and max(line.tasks, default=0) > len(line.drawn):
        raise RunError(f"{holder}: names task {max(line.tasks)} of {len(line.drawn)}; {_FIX}")
    return dict(record)


def _shape(rows: Sequence[Sequence[float]]) -> tuple[int, ...]:
    """Of a table; (-1,) if its rows differ in length."""
    widths = {len(row) for row in rows}
    return (len(rows), *widths) if len(widths) == 1 else (-1,)
