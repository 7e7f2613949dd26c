"""What a comparison found in addition to its runs: the verdict, all methods, all sources, the warnings. Stored as a
file.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct

from metasched import untrusted
from metasched.errors import DataError
from metasched.files import write_json
from metasched.learners.metrics import MetricName
from metasched.report.statistics import Interval

REMARKS = "remarks.json"
Word = Literal["keep", "no difference", "harmful", "cannot tell"]
MethodKind = Literal["network", "reference", "final"]


class Between(Struct, frozen=True, forbid_unknown_fields=True):
    """A number with the ends of its interval, or None if there is no interval."""

    value: float
    low: float | None = None
    high: float | None = None

    @classmethod
    def of(cls, found: Interval) -> "Between":
        """An interval, whose ends may be NaN."""
        value, low, high = found
        return cls(value) if low != low else cls(value, low, high)

    @property
    def interval(self) -> Interval:
        """The same with NaN for missing ends."""
        nan = float("nan")
        return Interval(self.value, nan if self.low is None else self.low, nan if self.high is None else self.high)


class MethodLine(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A row of the table: the score of a method, and its difference from the baseline, unless it is the baseline.

    ``units`` says how often it was fitted, and ``planned`` how often it should have been, if that is known. A budget
    may leave out some fits. Higher scores are better.
    """

    name: str
    kind: MethodKind
    score: Between
    over: Between | None
    units: int
    planned: int | None = None

    @property
    def cut(self) -> bool:
        """Whether it was judged less often than planned."""
        return self.planned is not None and self.units < self.planned


class SourceLine(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a source is worth.

    Attributes:
        name: the name of the source.
        rows: the number of its rows.
        share: its share of the rows that ours drew; None if ours draws nothing.
        transfer: the mean reward of its rows, with its 99 % interval.
        lost: by how much the score falls without it, with its 99 % interval.
        word: keep, no difference, harmful or cannot tell.
        why: the reason.
    """

    name: str
    rows: int
    share: float | None
    transfer: Between | None
    lost: Between | None
    word: Word
    why: str


class Remarks(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The remarks on the runs of one cell.

    Attributes:
        cell: the key of the cell.
        methods: the names of the methods that have outcomes.
        units: their seeds, or the repeats of a cross-validation.
        ours: the method that the verdict is about.
        metric: the metric of all scores.
        case: the case of the verdict.
        verdict: the sentence on choosing.
        first: a line that comes before the verdict if another kind of model ends above ours, otherwise empty.
        final: the members of the final model, and how to use it.
        judged: which rows judged, how often, with which rates and steps.
        table: all methods, best first.
        sources: all sources, most drawn first.
        lines: the warnings.
    """

    format: Literal[2] = 2
    cell: str
    methods: tuple[str, ...]
    units: tuple[int, ...]
    ours: str
    metric: MetricName
    case: str
    verdict: str
    first: str
    final: str
    judged: str
    table: tuple[MethodLine, ...]
    sources: tuple[SourceLine, ...]
    lines: tuple[str, ...]

    def fits(self, methods: Iterable[str], units: Iterable[int]) -> bool:
        """Whether they belong to exactly these runs, not to fewer or more."""
        return set(self.methods) == set(methods) and set(self.units) == set(units)


def read(path: Path) -> Remarks | None:
    """Read the remarks in a file. None for those of format 1, which are not enough for a page."""
    again = "give the command of the comparison again, with another folder"
    content = untrusted.read_json(path, dict[str, Any], again, DataError)
    if content.get("format") == 1:
        return None
    return untrusted.checked(content, Remarks, path, again, DataError)


def write(path: Path, remarks: Remarks) -> None:
    """Write all of them, or nothing."""
    write_json(path, msgspec.to_builtins(remarks))
