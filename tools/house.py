"""Draw the house: the rooms of the package and which imports which, as the code says it.

A room stands below all that it imports. Arrows point at what is imported; those that follow from others are left out,
and so are those to the rooms that every room may use.

python tools/house.py    # rewrite docs/figures/house.svg
"""

import ast
from pathlib import Path

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "metasched"
PICTURE = ROOT / "docs" / "figures" / "house.svg"
BASE = ("errors", "notebook", "optional", "files", "untrusted", "plugins")
"""Rooms that all may use."""
WIDE, HIGH, GAP, STEP, EDGE, AROUND = 124, 34, 28, 76, 16, 60


def imports(source: Path) -> dict[str, set[str]]:
    """For every room the rooms that its files import."""
    found: dict[str, set[str]] = {}
    for path in sorted(source.rglob("*.py")):
        room = room_of(path, source)
        if room.startswith("__"):
            continue
        found.setdefault(room, set())
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "metasched":
                inside = node.module.split(".")[1:2] or [alias.name for alias in node.names]
                found[room].update(name for name in inside if name != room)
    return found


def room_of(path: Path, source: Path) -> str:
    """The folder, or the file that is a room of its own."""
    return path.relative_to(source).parts[0].removesuffix(".py")


def reduced(rooms: dict[str, set[str]]) -> dict[str, set[str]]:
    """Only the arrows that do not follow from others."""

    def reach(room: str) -> set[str]:
        return {far for near in rooms[room] for far in {near} | reach(near)}

    return {room: near - {far for other in near for far in reach(other)} for room, near in rooms.items()}


def storeys(rooms: dict[str, set[str]]) -> list[list[str]]:
    """Rooms below all that they import; those that import nothing right above the first that imports them."""

    def depth(room: str) -> int:
        return max((depth(near) + 1 for near in rooms[room]), default=0)

    def level(room: str) -> int:
        users = [depth(user) for user, near in rooms.items() if room in near]
        return min(users) - 1 if users and not rooms[room] else depth(room)

    rows: list[list[str]] = [[] for _ in range(max(map(depth, rooms)) + 1)]
    for room in sorted(rooms):
        rows[level(room)].append(room)
    return rows


def arranged(rows: list[list[str]], arrows: dict[str, set[str]]) -> list[list[str]]:
    """Every storey in the order of its neighbours, so that few arrows cross; rooms with far arrows on the right."""
    level = {room: place for place, row in enumerate(rows) for room in row}
    users = {room: {user for user, near in arrows.items() if room in near} for room in arrows}
    far = {room for room, near in arrows.items() if any(level[room] - level[other] > 1 for other in near)}
    order = [list(row) for row in rows]
    for neighbours in (arrows, users, arrows, users):
        spots = _spots(order)
        for row in order if neighbours is arrows else reversed(order):
            row.sort(
                key=lambda room: (room in far, _mean([spots[near] for near in neighbours[room]], spots[room]), room)
            )
            spots |= _spots([row])
    return order


def _spots(rows: list[list[str]]) -> dict[str, float]:
    """How far right of the middle every room is, in rooms."""
    return {room: place - (len(row) - 1) / 2 for row in rows for place, room in enumerate(row)}


def _mean(values: list[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise


def places(rows: list[list[str]]) -> dict[str, tuple[float, float]]:
    """The centre of every room: side by side, every storey around one middle."""
    middle = max(map(len, rows)) * (WIDE + GAP) / 2 + EDGE
    spots = _spots(rows)
    return {
        room: (middle + spots[room] * (WIDE + GAP), EDGE + STEP * (level + 1) + HIGH / 2)
        for level, row in enumerate(rows)
        for room in row
    }


def draw(source: Path = SOURCE) -> str:
    """The picture as SVG."""
    every = imports(source)
    rooms = {room: near - set(BASE) for room, near in every.items() if room not in BASE}
    arrows = reduced(rooms)
    centres = places(arranged(storeys(rooms), arrows))
    wide = round(max(x for x, _ in centres.values()) + WIDE / 2 + AROUND)
    high = round(max(y for _, y in centres.values()) + HIGH / 2 + EDGE)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" width="{wide}" height="{high}" '
        'font-family="system-ui, sans-serif" text-anchor="middle">',
        "<title>The rooms of metasched, and which imports which</title>",
        f'<rect width="{wide}" height="{high}" fill="white"/>',
        '<marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0 8 4 0 8z" fill="#7a8da0"/></marker>',
        _box(wide / 2, EDGE + HIGH / 2, wide - 2 * EDGE, "#e8e4da", f"every room may use {', '.join(BASE)}"),
        *(_arrow(centres[room], centres[near]) for room in sorted(arrows) for near in sorted(arrows[room])),
        *(
            _box(x, y, WIDE, "#dbe7f3", room)
            for room, (x, y) in sorted(centres.items(), key=lambda item: item[1][::-1])
        ),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _box(x: float, y: float, wide: float, fill: str, text: str) -> str:
    return (
        f'<rect x="{x - wide / 2:g}" y="{y - HIGH / 2:g}" width="{wide:g}" height="{HIGH}" rx="6" fill="{fill}" '
        'stroke="#7a8da0"/>'
        f'<text x="{x:g}" y="{y + 5:g}" font-size="14" font-weight="600" fill="#16324f">{text}</text>'
    )


def _arrow(of: tuple[float, float], to: tuple[float, float]) -> str:
    """To the storey above straight; past a storey around it, on the right."""
    (x, y), (u, v) = of, to
    if y - v <= STEP:
        x, y, u, v = x, y - HIGH / 2, u, v + HIGH / 2 + 2
        path = f"M{x:g} {y:g}C{x:g} {(y + v) / 2:g} {u:g} {(y + v) / 2:g} {u:g} {v:g}"
    else:
        x, u = x + WIDE / 2, u + WIDE / 2 + 2
        path = f"M{x:g} {y:g}C{x + AROUND:g} {y:g} {x + AROUND:g} {v:g} {u:g} {v:g}"
    return f'<path d="{path}" fill="none" stroke="#7a8da0" stroke-width="1.5" marker-end="url(#tip)"/>'


if __name__ == "__main__":
    PICTURE.write_text(draw(), encoding="utf-8")
