"""The result of a comparison: sentences, tables, the final model, a page."""

import io
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from msgspec import structs
from rich.console import Console

from metasched.errors import unknown
from metasched.learners.metrics import METRICS, Metric
from metasched.learners.predictor import Predictor
from metasched.notebook import html
from metasched.optional import require
from metasched.report import overview, tables
from metasched.report.cells import CellRuns
from metasched.report.remarks import Remarks, SourceLine
from metasched.report.results import Results
from metasched.report.verdict import CASES, Case, Verdict
from metasched.runs.outcome import Outcome
from metasched.tasks import TaskSet

PAGE = "page.html"
_BRACKETS = "Brackets: 99 % intervals"


class Sources(Sequence[SourceLine]):
    """What each source is worth, most drawn source first. Prints as a table.

    Examples:
        >>> learner = ms.Joint(batch_size=10, updates=2, batches_per_update=2)
        >>> sources = ms.compare(tasks, seeds=4, learner=learner).sources()
        >>> sorted(source.name for source in sources)
        ['north', 'south']
        >>> sources["north"].word in ("keep", "no difference", "harmful", "cannot tell")
        True
    """

    def __init__(self, lines: Sequence[SourceLine], metric: Metric) -> None:
        self._lines = tuple(lines)
        self._metric = metric

    def __len__(self) -> int:
        return len(self._lines)

    def __getitem__(self, which: Any) -> Any:
        """The line at a position, or of the source with that name."""
        if isinstance(which, str):
            found = {line.name: line for line in self._lines}
            if which not in found:
                raise unknown("source", which, found)
            return found[which]
        return self._lines[which]

    def __iter__(self) -> Iterator[SourceLine]:
        return iter(self._lines)

    def __repr__(self) -> str:
        # The reasons would not fit next to the numbers. They are in ``why`` of each line.
        word = self._metric.word
        headings = [each.replace(f"{word} ", f"{word}\n") for each in overview.source_headings(self._metric)[:-1]]
        rows = [row[:-1] for row in overview.source_rows(self._lines, self._metric)]
        return f"{text(headings, rows)}\n{_BRACKETS}"

    def _repr_html_(self) -> str:
        headings = overview.source_headings(self._metric)[:-1]
        rows = [row[:-1] for row in overview.source_rows(self._lines, self._metric)]
        drawn = html.intervals([ends(row[3]) for row in rows])
        shown = [(*row[:3], picture, *row[3:]) for row, picture in zip(rows, drawn, strict=True)]
        return html.page(html.table([*headings[:3], "", *headings[3:]], shown), html.line(_BRACKETS))

    def to_frame(self) -> Any:
        """Make a pandas DataFrame with a row for each source.

        Returns:
            The frame. Numbers with intervals have three columns.
        """
        pandas = require("pandas")
        rows = []
        for line in self._lines:
            row: dict[str, Any] = {"source": line.name, "rows": line.rows, "share": line.share}
            for name, found in (("transfer", line.transfer), ("lost", line.lost)):
                row |= _three(name, found)
            rows.append({**row, "word": line.word, "why": line.why})
        return pandas.DataFrame(rows)


def _three(name: str, found: Any) -> dict[str, float | None]:
    known = (None, None, None) if found is None else (found.value, found.low, found.high)
    return dict(zip((name, f"{name}_low", f"{name}_high"), known, strict=True))


def ends(value: tables.Value) -> tuple[float, float, float] | None:
    """A number of a table with the ends of its interval, to draw it."""
    return None if isinstance(value, str) or not math.isfinite(value.value) else (value.value, value.low, value.high)


def text(headings: Sequence[str], rows: Sequence[Sequence[Any]], width: int = 100) -> str:
    """A table as plain text."""
    console = Console(file=io.StringIO(), width=width, color_system=None, force_jupyter=False)
    console.print(tables.terminal(headings, [[_written(value) for value in row] for row in rows]))
    written = console.file.getvalue()  # type: ignore[attr-defined]
    return "\n".join(line.rstrip() for line in written.splitlines())


def _written(value: tables.Value) -> str:
    """A value of a table as text."""
    return " ".join(filter(None, value.parts)) if isinstance(value, tables.Number) else value


@dataclass(frozen=True, repr=False)
class Comparison:
    """A finished comparison: the verdict, all methods, the final model, what each source is worth, warnings.

    Attributes:
        tasks: the task set.
        outcomes: one per network method and seed.
        remarks: all findings, as they are stored.
        results: the outcomes in the form that reports read.
        model: the final model, a :class:`Predictor`.
        weights: for each source, the weight of one of its rows that choosing found.
        out: the folder of the comparison, if it was kept.

    Examples:
        >>> learner = ms.Joint(batch_size=10, updates=2, batches_per_update=2)
        >>> comparison = ms.compare(tasks, seeds=4, learner=learner)
        >>> "majority class" in comparison.table()
        True
        >>> sorted(comparison.source_weights())
        ['north', 'south']
        >>> len(comparison.sources())
        2
        >>> comparison.summary()["metric"]
        'accuracy'
        >>> sorted(set(comparison.to_frame()["kind"]))
        ['final', 'network', 'reference']
        >>> comparison.model.predict(tasks.test.inputs).shape
        (50,)
        >>> page = comparison.report("page.html")
    """

    tasks: TaskSet
    outcomes: Sequence[Outcome]
    remarks: Remarks
    results: Results
    model: Predictor
    weights: Mapping[str, float] = field(default_factory=dict)
    out: Path | None = None

    @property
    def cell(self) -> CellRuns:
        """The runs, which all belong to one cell."""
        return self.results.cells[0]

    @property
    def metric(self) -> Metric:
        """The metric of the scores."""
        return METRICS[self.remarks.metric]

    @property
    def ours(self) -> str:
        """The method that the verdict is about."""
        return self.remarks.ours

    @property
    def warnings(self) -> Sequence[str]:
        """A line for each thing that looks wrong."""
        return self.remarks.lines

    @property
    def decision(self) -> Verdict:
        """The case of the verdict, and its sentence."""
        cases: dict[str, Case] = {case: case for case in (*CASES.values(), "no use for sources")}
        return Verdict(cases[self.remarks.case], self.remarks.verdict)

    @property
    def verdict(self) -> str:
        """Does choosing help? One sentence."""
        return self.remarks.verdict

    def __repr__(self) -> str:
        lines = [self.remarks.first, self.verdict, "", self.table(), "", repr(self.sources()), "", self.remarks.final]
        return "\n".join(lines[not lines[0] :])

    def _repr_html_(self) -> str:
        """The same for a notebook, with the differences from the baseline drawn next to their numbers."""
        remarks, rows = self.remarks, overview.method_rows(self.cell)
        drawn = html.intervals([ends(row[2]) for row in rows])
        shown = [(*row, picture) for row, picture in zip(rows, drawn, strict=True)]
        return html.page(
            *(html.line(said, strong=True) for said in (remarks.first, self.verdict) if said),
            html.table([*overview.method_headings(self.cell), ""], shown, strong=[self.ours]),
            html.line(remarks.judged),
            html.Html(self.sources()._repr_html_()),
            *(html.line(f"! {said}") for said in remarks.lines),
            html.line(remarks.final),
        )

    def table(self, width: int = 100) -> str:
        """A table of all methods, best first, and how they were judged.

        Args:
            width: the width of the table in characters.

        Returns:
            Several lines of text.
        """
        rows = overview.method_rows(self.cell)
        return f"{text(overview.method_headings(self.cell), rows, width)}\n{self.remarks.judged}"

    def sources(self) -> Sources:
        """What each source is worth.

        Returns:
            A sequence of lines, most drawn source first, which prints as a table.
        """
        return Sources(self.remarks.sources, self.metric)

    def source_weights(self) -> dict[str, float]:
        """The weight of one row of each source that choosing found. The mean over all source rows is 1.

        The weight is the source's share of the draws divided by its share of the rows. A source counts as no smaller
        than a quarter of the mean source, because rows that are seen more than about four times teach hardly anything
        more (arXiv:2305.16264). Give the weights to any model that takes sample weights.

        Returns:
            A mapping from the names of the sources to weights.
        """
        return dict(self.weights)

    def to_frame(self) -> Any:
        """Make a pandas DataFrame with a row for each method.

        Returns:
            The frame. Higher scores are better.
        """
        pandas = require("pandas")
        return pandas.DataFrame(
            [
                {"method": line.name, "kind": line.kind, **_three("score", line.score), **_three("over", line.over)}
                for line in self.remarks.table
            ]
        )

    def report(self, path: str | os.PathLike[str]) -> Path:
        """Write the page, with figures and tables in a folder next to it. Needs the extra ``report``.

        Args:
            path: the file of the page, which ends in ``.html``.

        Returns:
            The same path.
        """
        from metasched.report import page

        page.write(page.build(self.results), Path(path))
        return Path(path)

    def summary(self) -> dict[str, Any]:
        """Everything that the command prints.

        Returns:
            A dictionary for JSON: ``first``, ``verdict``, ``case``, ``methods``, ``sources``, ``final``, ``warnings``.
        """
        remarks = self.remarks
        return {
            "first": remarks.first,
            "verdict": remarks.verdict,
            "case": remarks.case,
            "metric": remarks.metric,
            "judged": remarks.judged,
            "methods": {line.name: _plain(line) for line in remarks.table},
            "sources": {line.name: _plain(line) for line in remarks.sources},
            "source_weights": self.source_weights(),
            "final": remarks.final,
            "warnings": list(remarks.lines),
        }


def _plain(line: Any) -> dict[str, Any]:
    found = structs.asdict(line)
    del found["name"]
    return {key: structs.asdict(value) if hasattr(value, "interval") else value for key, value in found.items()}
