"""One colour and dash for each method, the same in every figure; a method without one is grey, and labelled.

The colours stand out from white and from near-black alike and are told apart from each other. The variants of a
scheduler (``ucb-gain``, ``ucb-gain+abstain``) share its colour and differ in their dashes.
"""

from collections.abc import Sequence
from typing import NamedTuple


class Stroke(NamedTuple):
    """How a line is drawn: its colour, and its dashes (empty: solid)."""

    name: str
    colour: str
    dash: tuple[int, ...] = ()


COLOURS = {
    "uniform": "#9c8400",
    "cyclic": "#c2569b",
    "sequential": "#b04a4a",
    "target-only": "#e0115f",
    "single": "#a33bc4",
    "best single": "#a33bc4",
    "useful": "#00918c",
    "supervised": "#5f6f2f",
    "ucb": "#1aa260",
    "gittins": "#d55e00",
    "mdp": "#0b75bc",
    "thompson": "#3b5ff0",
    "thompson-transfer": "#3b5ff0",
}
GREY = "#7f7f7f"
DASHES: dict[str, tuple[int, ...]] = {
    "": (),
    "-transfer": (12, 3),
    "-gain": (7, 3),
    "-refresh": (3, 2),
    "-gain+abstain": (8, 3, 2, 3),
    "-refresh+abstain": (2, 2, 5, 2),
    "+abstain": (1, 3),
}
IN_ORDER = ("#0b75bc", "#d55e00", "#1aa260", "#c2569b", "#9c8400", "#a33bc4", "#00918c")
"""For classes, in order; past the last they begin again with dashes."""


def stroke(name: str) -> Stroke:
    """The line of a method: colour of its scheduler, dashes of its variant; grey where either is unknown.

    >>> stroke("gittins-refresh"), stroke("lottery")
    (Stroke(name='gittins-refresh', colour='#d55e00', dash=(3, 2)), Stroke(name='lottery', colour='#7f7f7f', dash=()))
    """
    base = max((known for known in COLOURS if name.startswith(known)), key=len, default="")
    rest = "" if base in ("single", "best single") else name[len(base) :]
    return Stroke(name, COLOURS[base], DASHES[rest]) if base and rest in DASHES else Stroke(name, GREY)


def in_order(names: Sequence[str]) -> list[Stroke]:
    """Lines for classes, told apart by their place."""
    dashes: tuple[tuple[int, ...], ...] = ((), (6, 3), (2, 2))
    count = len(IN_ORDER)
    return [
        Stroke(name, IN_ORDER[place % count], dashes[place // count % len(dashes)]) for place, name in enumerate(names)
    ]
