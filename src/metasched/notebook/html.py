"""Tables and small drawings as HTML, for ``_repr_html_``, which a notebook asks objects for.

They use the text colour of the page, so they are readable on light and dark pages.
"""

import math
from collections.abc import Sequence
from html import escape

from metasched.printing import printable

_DRAWING = 'role="img" style="vertical-align:middle;overflow:visible"'


class Html(str):
    """Text that already is HTML and is not escaped again."""


def page(*parts: Html) -> str:
    """Join the parts of the page that ``_repr_html_`` returns."""
    return f'<div style="overflow-x:auto">{"".join(parts)}</div>'


def line(words: str, strong: bool = False) -> Html:
    """A paragraph."""
    weight = "font-weight:600;" if strong else ""
    return Html(f'<p style="{weight}margin:0.2em 0">{text(words)}</p>')


def text(words: object) -> Html:
    """Escape markup and hidden characters of a text."""
    return words if isinstance(words, Html) else Html(escape(printable(str(words))))


def table(headings: Sequence[str], rows: Sequence[Sequence[object]], strong: Sequence[str] = ()) -> Html:
    """A table with numbers aligned right. Rows whose first cell is in ``strong`` are bold."""
    columns = enumerate(zip(*rows, strict=True))
    sides = ["right" if place and any(map(_is_number, own)) else "left" for place, own in columns]
    head = f"<thead><tr>{_cells('th', headings, sides, 'vertical-align:bottom;')}</tr></thead>" if any(headings) else ""
    body = "".join(
        f"<tr>{_cells('td', row, sides, 'font-weight:600;' if str(row[0]) in strong else '')}</tr>" for row in rows
    )
    return Html(f'<table style="border-collapse:collapse">{head}<tbody>{body}</tbody></table>')


def _is_number(value: object) -> bool:
    return not isinstance(value, Html) and str(value).lstrip("+-−")[:1].isdigit()


def _cells(tag: str, values: Sequence[object], sides: Sequence[str], style: str) -> str:
    return "".join(
        f'<{tag} style="{style}text-align:{side};padding:0.15em 0.6em;white-space:nowrap">{text(value)}</{tag}>'
        for side, value in zip(sides, values, strict=True)
    )


def bars(counts: Sequence[float]) -> Html:
    """A small histogram."""
    top = max([*counts, 1])
    drawn = "".join(
        f'<rect x="{6 * place}" y="{14 - height:.1f}" width="5" height="{height:.1f}" fill="currentColor"/>'
        for place, height in enumerate(14 * count / top for count in counts)
    )
    said = ", ".join(f"{count:,.0f}" for count in counts)
    return Html(f'<svg {_DRAWING} aria-label="{said}" width="{6 * len(counts)}" height="14">{drawn}</svg>')


def interval(value: float, low: float, high: float, least: float, most: float) -> Html:
    """A number as a dot and its interval as a line, on an axis from ``least`` to ``most`` with a mark at 0."""
    width, span = 120, (most - least) or 1.0

    def place(number: float) -> str:
        return f"{4 + (width - 8) * (min(max(number, least), most) - least) / span:.1f}"

    mark = f'<path d="M{place(0)} 0V14" stroke="currentColor" opacity="0.4"/>' if least <= 0 <= most else ""
    ends = (low, high) if math.isfinite(low) and math.isfinite(high) else (value, value)
    drawn = f'<path d="M{place(ends[0])} 7H{place(ends[1])}" stroke="currentColor" stroke-width="2"/>'
    dot = f'<circle cx="{place(value)}" cy="7" r="3.5" fill="currentColor"/>'
    said = f"{value:.3g} from {ends[0]:.3g} to {ends[1]:.3g}"
    return Html(f'<svg {_DRAWING} aria-label="{said}" width="{width}" height="14">{mark}{drawn}{dot}</svg>')


def intervals(found: Sequence[tuple[float, float, float] | None]) -> list[Html]:
    """Numbers with intervals as :func:`interval` draws them, all on the same axis. None is drawn as an empty cell."""
    ends = [0.0, *(end for each in found if each for end in each if math.isfinite(end))]
    return [Html("") if each is None else interval(*each, min(ends), max(ends)) for each in found]


def curves(lines: Sequence[Sequence[float]]) -> Html:
    """Several lines over the same steps, such as the loss of each seed."""
    width, height = 240, 60
    numbers = [number for own in lines for number in own if math.isfinite(number)]
    if not numbers or max(map(len, lines)) < 2:
        return Html("")
    low, high = min(numbers), max(numbers)
    longest = max(map(len, lines)) - 1

    def path(own: Sequence[float]) -> str:
        points = [
            f"{width * step / longest:.1f},{2 + (height - 4) * (high - number) / ((high - low) or 1.0):.1f}"
            for step, number in enumerate(own)
            if math.isfinite(number)
        ]
        return f'<polyline points="{" ".join(points)}" fill="none" stroke="currentColor" opacity="0.8"/>'

    said = f"from {low:.3g} to {high:.3g}"
    drawn = "".join(map(path, lines))
    return Html(f'<svg {_DRAWING} aria-label="{said}" width="{width}" height="{height}">{drawn}</svg>')
