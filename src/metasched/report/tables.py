"""How numbers and tables are written: in sentences, on the page, as CSV, as LaTeX and on a terminal."""

import csv
import io
import math
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeVar

from rich.box import SIMPLE_HEAD
from rich.table import Table as RichTable
from rich.text import Text

from metasched.learners.metrics import METRICS, Metric
from metasched.report.cells import Source
from metasched.report.outputs import Output
from metasched.report.statistics import Bounded, Interval
from metasched.tasks import TaskSet

NOTHING = "–"
ACCURACY = METRICS["accuracy"]


class Number(NamedTuple):
    """A number as people read it, with its sort key and the ends of its interval."""

    text: str
    value: float = math.nan
    low: float = math.nan
    high: float = math.nan
    interval: str = ""

    def __str__(self) -> str:
        return f"{self.text} {self.interval}" if self.interval else self.text

    @property
    def parts(self) -> tuple[str, str]:
        """The text and the interval, with the minus sign that sentences have, too."""
        return self.text.replace("-", "−"), self.interval.replace("-", "−")


Value = str | Number
MISSING = Number(NOTHING)


class Column(NamedTuple):
    """A heading. Columns of words are aligned left, columns of numbers right."""

    name: str
    words: bool = False


class Table(NamedTuple):
    """A table: what it shows, how to read it, and the cells of its numbers."""

    key: str
    title: str
    note: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Value, ...], ...]
    sources: tuple[Source, ...]
    strong: tuple[str, ...] = ()
    """The first cells of the rows that a page shows in bold."""


Row = TypeVar("Row")
Columns = Sequence[tuple[str, Callable[[Row], Value]]]
"""Headings, and a function for the cell below each in a row."""


def table(
    output: Output,
    note: str,
    columns: Columns[Row],
    rows: Iterable[Row],
    sources: Iterable[Source],
    *,
    part: str = "",
    title: str = "",
) -> Table:
    """A table from its columns. ``part`` distinguishes the tables of one output."""
    values = tuple(tuple(value(row) for _, value in columns) for row in rows)
    heads = (
        Column(name, not any(isinstance(row[index], Number) for row in values))
        for index, (name, _) in enumerate(columns)
    )
    key = f"{output.name}-{part}" if part else output.name
    return Table(key, title or output.title, note, tuple(heads), values, tuple(sources))


def caption(title: str, sources: Sequence[Source]) -> str:
    """A title that says which of its data are simulated."""
    made_up = [source.experiment for source in sources if source.simulated]
    if not made_up:
        return title
    if len(made_up) == len(sources):
        return f"{title} (simulated data)"
    return f"{title} (simulated data: {', '.join(dict.fromkeys(made_up))})"


def number(value: float | None, form: str = "{:.3f}") -> Number:
    """A plain number, or a dash for None and NaN."""
    return MISSING if value is None or math.isnan(value) else Number(form.format(value), value)


def estimate(interval: Interval | None, form: str = "{:.3f}") -> Number:
    """An estimate with its interval in brackets."""
    if interval is None or math.isnan(interval.value):
        return MISSING
    value, low, high = interval
    return Number(form.format(value), value, low, high, _brackets(low, high, form.format))


def in_units(score: float, metric: Metric) -> str:
    """A stored score as the value that people know: 0.713, or an error in its unit with four digits.

    >>> in_units(0.7, METRICS["auc"]), in_units(-0.41, METRICS["log-loss"]), in_units(-1234.5, METRICS["mae"])
    ('0.700', '0.410', '1,234')
    """
    return _form(metric, score).format(metric.shown(score))


def scored(interval: Interval | None, metric: Metric) -> Number:
    """Scores over seeds, with their interval, as values of the metric."""
    return MISSING if interval is None else estimate(as_values(interval, metric), _form(metric, interval.value))


def spread(interval: Interval | None, metric: Metric, size: float | None = None) -> Number:
    """A mean over seeds ± half of its interval, with the decimals that suit a number of this size.

    If an interval goes beyond the possible values of the metric, its ends are shown, cut there: 0.994 [0.974, 1.000].
    """
    if interval is None:
        return MISSING
    shown = as_values(interval, metric)
    form = _form(metric, interval.value if size is None else size)
    if math.isnan(shown.low):
        return Number(form.format(shown.value), *shown)
    low, high = max(shown.low, metric.lowest), min(shown.high, metric.highest)
    if (low, high) != shown[1:]:
        return Number(f"{form.format(shown.value)} {_brackets(low, high, form.format)}", shown.value, low, high)
    return Number(f"{form.format(shown.value)} ± {form.format((high - low) / 2)}", *shown)


def signed(interval: Interval | None, metric: Metric = ACCURACY, size: float | None = None) -> Number:
    """A difference of scores as a difference of values. It is below 0 if a loss is lower. ``size`` decides about
    decimals.
    """
    if interval is None:
        return MISSING
    return estimate(as_values(interval, metric), difference_form(metric, interval.value if size is None else size))


def difference_form(metric: Metric, size: float) -> str:
    """The format of differences of about this size, with a sign."""
    return _form(metric, size).replace("{:", "{:+")


def _form(metric: Metric, size: float) -> str:
    """The format of values. Errors may have any size, so they have significant digits instead of decimals."""
    return f"{{:,.{_digits(abs(size), 4)}f}}" if metric.relative else "{:.3f}"


def as_values(interval: Interval, metric: Metric) -> Interval:
    """Turn scores, or differences of scores, into values of the metric."""
    value, low, high = map(metric.shown, interval)
    return Interval(value, low, high) if metric.higher_is_better else Interval(value, high, low)


def points(interval: Interval, metric: Metric = ACCURACY) -> str:
    """A difference of scores with its interval, in a sentence. Metrics other than the usual ones are named.

    >>> points(Interval(0.07, 0.04, 0.1)), points(Interval(-0.001, -0.006, 0.005))
    ('+.07 [.04, .10]', '−.001 [−.006, +.005]')
    >>> points(Interval(0.05, 0.03, 0.07), METRICS["auc"]), points(Interval(0.05, 0.03, 0.07), METRICS["log-loss"])
    ('AUC +.05 [.03, .07]', 'log-loss lower by .05 [.03, .07]')
    >>> points(Interval(-12.3, -20.2, -4.4), METRICS["mae"])
    'mean absolute error higher by 12 [4, 20]'
    """
    if metric.by_row:
        return _with_ends(interval, metric)
    if metric.higher_is_better:
        return f"{metric.word} {_with_ends(interval, metric)}"
    value, low, high = interval
    size = Interval(value, low, high) if value >= 0 else Interval(-value, -high, -low)
    return f"{metric.word} {'lower' if value >= 0 else 'higher'} by {_with_ends(size, metric, plus=False)}"


def _with_ends(interval: Interval, metric: Metric, plus: bool = True) -> str:
    value, low, high = interval
    if math.isnan(low):
        return point(value, _digits(abs(value)) if metric.relative else 3, plus)
    digits = 2 if high - low >= 0.02 and abs(value) >= 0.01 else 3
    if metric.relative:
        digits = _digits(high - low)
    signs = low < 0  # without a sign, both ends are above 0
    return f"{point(value, digits, plus)} [{point(low, digits, signs)}, {point(high, digits, signs)}]"


def _digits(size: float, shown: int = 2) -> int:
    """The decimals that show a number, or an interval of this width, with this many digits."""
    return min(9, max(0, shown - 1 - math.floor(math.log10(size)))) if 0 < size < math.inf else 3


def against(interval: Interval, other: str, metric: Metric = ACCURACY, *, who: str = "", link: str = "over") -> str:
    """A difference from the score of another method, as part of a sentence.

    >>> gap = Interval(0.05, 0.03, 0.07)
    >>> against(gap, "uniform"), against(gap, "uniform", who="ours")
    ('+.05 [.03, .07] over uniform', 'ours is +.05 [.03, .07] over uniform')
    >>> against(gap, "uniform", METRICS["log-loss"], who="ours")
    'ours has log-loss lower by .05 [.03, .07] than uniform'
    """
    verb = "is" if metric.by_row else "has"
    subject = f"{who} {verb} " if who else ""
    return f"{subject}{points(interval, metric)} {link if metric.higher_is_better else 'than'} {other}"


def point(value: float, digits: int = 3, plus: bool = True) -> str:
    """A difference in a sentence: with a sign unless it is 0, and no 0 before the point."""
    text = f"{abs(value):,.{digits}f}"
    sign = "−" if value < 0 and text.strip("0.") else "+" if plus and text.strip("0.") else ""
    return sign + (text.removeprefix("0") if digits else text)


def samples(median: Bounded | None) -> Number:
    """Samples to a threshold: "> n" if the median run never reached it, a word if it drew nothing at all."""
    if median is None:
        return MISSING
    if math.isinf(median.value) and median.bound == 0:
        return Number("never", median.value)
    text = f"> {median.bound:,.0f}" if math.isinf(median.value) else f"{median.value:,.0f}"
    return Number(text, median.value, median.low, median.high, _brackets(median.low, median.high, "{:,.0f}".format))


def ratio(gain: Bounded | None) -> Number:
    """A gain: above or below the bound if one side never reaches the threshold, a dash if neither does."""
    if gain is None or math.isnan(gain.value) or (gain.value == 0 and not math.isfinite(gain.bound)):
        return MISSING
    if math.isinf(gain.value):
        text = f"> {significant(gain.bound)}" if math.isfinite(gain.bound) else "∞"
    elif gain.value == 0:
        text = f"< {significant(gain.bound)}" if gain.bound > 0 else "0"
    else:
        text = significant(gain.value)
    if math.isinf(gain.low):
        return Number(text, gain.value)
    return Number(text, gain.value, gain.low, gain.high, _brackets(gain.low, gain.high, significant))


def p_value(p: float | None) -> Number:
    """A p-value: three decimals, or a bound if it is small."""
    if p is None or math.isnan(p):
        return MISSING
    return Number("0" if p == 0 else f"{p:.3f}" if p >= 0.001 else f"{p:.0e}", p)


def percent(share: float | None) -> Number:
    """A share of one."""
    return MISSING if share is None or not math.isfinite(share) else Number(f"{share:.0%}", share)


def significant(value: float) -> str:
    """A ratio with at most three digits: 0.053, 0.91, 3.6, 24.5, 130."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}" if value >= 0.1 else f"{value:.3f}"


def _brackets(low: float, high: float, render: Callable[[float], str]) -> str:
    """The interval in brackets, open if it has no upper end, empty if there is none."""
    if math.isnan(low) or math.isnan(high):
        return ""
    if math.isinf(low):
        return "[never]"
    return f"[{render(low)}, ∞)" if math.isinf(high) else f"[{render(low)}, {render(high)}]"


def without_gaps(table: Table) -> Table:
    """The table without columns in which nothing is known."""
    indices = [index for index in range(len(table.columns)) if any(str(row[index]) != NOTHING for row in table.rows)]
    return table._replace(
        columns=tuple(table.columns[index] for index in indices),
        rows=tuple(tuple(row[index] for index in indices) for row in table.rows),
    )


def as_csv(table: Table) -> str:
    """The table for programs, with plain numbers. A column with intervals becomes three columns."""
    stream = io.StringIO()
    columns = [
        [[column.name, f"{column.name} low", f"{column.name} high"], *map(_in_three, values)]
        for column, values in zip(table.columns, zip(*table.rows, strict=True), strict=True)
    ]
    widths = [3 if any("".join(cells[1:]) for cells in column[1:]) else 1 for column in columns]
    for row in zip(*columns, strict=True):
        cells = [cell for parts, width in zip(row, widths, strict=True) for cell in parts[:width]]
        csv.writer(stream, lineterminator="\n").writerow(cells)
    return stream.getvalue()


def _in_three(value: Value) -> list[str]:
    """A value and the ends of its interval."""
    if isinstance(value, str):  # a spreadsheet must not take a name for a formula
        return [f"'{value}" if value[:1] in ("=", "+", "-", "@", "\t", "\r") else value, "", ""]
    first = _plain(value.value) if math.isfinite(value.value) else value.text.replace(NOTHING, "")
    return [first, *(map(_plain, (value.low, value.high)) if value.interval else ("", ""))]


def _plain(value: float) -> str:
    return "" if math.isnan(value) else f"{value:.10g}"


_MATHS = ("<", ">", r"\geq", r"\leq", r"\infty", r"\surd", r"\cdot", r"\times", "-", r"\to", "^2", r"\chi", r"\frac12")
_LATEX = {
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    **{sign: rf"\{name}{{}}" for sign, name in {"\\": "textbackslash", "~": "textasciitilde", "…": "ldots"}.items()},
    **{sign: f"${maths}$" for sign, maths in zip("<>≥≤∞√·×−→²χ½", _MATHS, strict=True)},
    "^": r"\textasciicircum{}",
    "–": "--",
}


def as_latex(table: Table) -> str:
    """A tabular with its caption, for a paper. It needs no package."""
    align = "".join("l" if column.words else "r" for column in table.columns)
    lines = [
        r"\begin{table}",
        r"\centering",
        rf"\begin{{tabular}}{{{align}}}",
        r"\hline",
        _latex_row([column.name for column in table.columns]),
        r"\hline",
        *(_latex_row([str(value) for value in row]) for row in table.rows),
        r"\hline",
        r"\end{tabular}",
        rf"\caption{{{latex(table.title)}. {latex(table.note)}}}",
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def latex(text: str) -> str:
    """Text without LaTeX commands."""
    return "".join(_LATEX.get(letter, letter) for letter in " ".join(text.split()))


def _latex_row(values: Sequence[str]) -> str:
    return " & ".join(map(latex, values)) + r" \\"


def terminal(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> RichTable:
    """A table for a terminal: names on the left, then numbers, aligned right. Markup is not interpreted."""
    table = RichTable(box=SIMPLE_HEAD, padding=0, show_edge=False, header_style="bold")
    for index, heading in enumerate(headings):
        align = {"justify": "right", "min_width": 5} if index else {"justify": "left"}
        table.add_column(Text(heading), overflow="fold", vertical="bottom", **align)
    for row in rows:
        table.add_row(*map(Text, row))
    return table


def drawn_by_label(counts: Sequence[Sequence[int]], tasks: TaskSet) -> RichTable:
    """Rows drawn by task and label (N, C), as in the paper's appendix table. Labels are named if they are shared."""
    names = tasks.classes if tasks.shared_labels else [f"label {label}" for label in range(len(counts[0]))]
    rows = [[task.name, *map(str, row), str(sum(row))] for task, row in zip(tasks.tasks, counts, strict=True)]
    return terminal(["rows drawn", *names, "all"], rows)
