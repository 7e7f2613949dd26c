"""One colour and dash for each scheduler, the same in every figure, told apart with any colour vision.

The hues follow Okabe and Ito, shifted until they stand out from white and from near-black alike. The
variants of a scheduler (``ucb-gain``, ``ucb-gain+abstain``) share its hue and differ in their dashes.
"""

from collections.abc import Sequence
from typing import NamedTuple


class Stroke(NamedTuple):
    """How a line is drawn: its colour, and its dashes (empty: solid)."""

    name: str
    colour: str
    dash: tuple[int, ...] = ()


HUES = {
    "cyclic": "#6b6b6b",
    "sequential": "#9a6a2f",
    "uniform": "#ad7f00",
    "target-only": "#c2569b",
    "single": "#8a63d2",
    "supervised": "#6b6b6b",
    "ucb": "#1aa260",
    "gittins": "#d55e00",
    "mdp": "#0b75bc",
    "thompson": "#2b93cc",
    "useful": "#00897b",
}
SPARE = ("#2b93cc", "#b0508a", "#6f8f00", "#9a6a2f", "#5c7cfa", "#b85c5c")
SOLID: tuple[int, ...] = ()
DASHES: dict[str, tuple[int, ...]] = {
    "-transfer": (),
    "-gain": (7, 3),
    "-refresh": (3, 2),
    "-gain+abstain": (8, 3, 2, 3),
    "-refresh+abstain": (2, 2, 5, 2),
    "+abstain": (1, 3),
}
OTHER_DASH = (5, 5)
MEASURES = ("#0b75bc", "#d55e00", "#1aa260", "#c2569b", "#ad7f00", "#2b93cc", "#6b6b6b")
"""For classes and tasks, in order; past the last they begin again with dashes."""
ABSTAINED = "#a9a9a9"


def stroke(name: str) -> Stroke:
    """The line of a method: hue of its scheduler, dashes of its variant.

    >>> stroke("gittins-refresh")
    Stroke(name='gittins-refresh', colour='#d55e00', dash=(3, 2))
    """
    base = max((known for known in HUES if name.startswith(known)), key=len, default="")
    rest = name[len(base) :]
    if base == "single":
        return Stroke(name, HUES[base])
    if base == "supervised":
        return Stroke(name, HUES[base], (2, 4))
    if not base:
        return Stroke(name, SPARE[sum(map(ord, name)) % len(SPARE)])
    return Stroke(name, HUES[base], DASHES.get(rest, OTHER_DASH) if rest else SOLID)


def in_order(names: Sequence[str]) -> list[Stroke]:
    """Lines for classes or tasks, told apart by their place."""
    dashes: tuple[tuple[int, ...], ...] = ((), (6, 3), (2, 2))
    count = len(MEASURES)
    return [
        Stroke(name, MEASURES[place % count], dashes[place // count % len(dashes)]) for place, name in enumerate(names)
    ]
