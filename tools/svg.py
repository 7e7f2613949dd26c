"""Just enough SVG for pictures that are read on white, and inverted on the site's dark pages."""

from collections.abc import Iterable, Sequence
from html import escape

INK = "#4d4d4d"
Point = tuple[float, float]


def picture(width: int, height: int, title: str, parts: Iterable[str]) -> str:
    """A whole file; ``title`` is what a reader hears who cannot see it."""
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img" font-family="system-ui, sans-serif" font-size="13" fill="{INK}">\n'
        f"<title>{escape(title)}</title>\n"
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>\n'
        '<defs><marker id="tip" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" '
        'orient="auto-start-reverse"><path d="M0 0 10 5 0 10z" fill="context-stroke"/></marker></defs>\n'
        f"{body}\n</svg>\n"
    )


def text(x: float, y: float, words: str, *, colour: str = INK, anchor: str = "middle", size: int = 13) -> str:
    """Words at a point."""
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
    return f'<text {place} fill="{colour}" font-size="{size}">{escape(words)}</text>'


def box(x: float, y: float, width: float, height: float, *, colour: str = INK, fill: float = 0.0) -> str:
    """A rectangle with a stroke; ``fill`` is how opaque its inside is."""
    place = f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="{min(4, width / 6):.1f}"'
    return f'<rect {place} stroke="{colour}" fill="{colour}" fill-opacity="{fill:g}"/>'


def path(points: Sequence[Point], *, colour: str = INK, width: float = 1.5, dash: str = "", tip: bool = False) -> str:
    """A line through points, with an arrow's tip at its end if wanted."""
    places = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    more = (f' stroke-dasharray="{dash}"' if dash else "") + (' marker-end="url(#tip)"' if tip else "")
    return f'<polyline points="{places}" fill="none" stroke="{colour}" stroke-width="{width:g}"{more}/>'


def dot(x: float, y: float, *, colour: str = INK, radius: float = 3.0, opacity: float = 1.0) -> str:
    """A disc."""
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:g}" fill="{colour}" fill-opacity="{opacity:g}"/>'
