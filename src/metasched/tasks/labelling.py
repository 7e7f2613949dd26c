"""What every row is to be predicted as: classes named in the data, or numbers."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metasched.errors import ConfigError, DataError, given
from metasched.tasks.label_typos import strays
from metasched.tasks.preparation import Cells, Place, as_numbers, as_texts, is_number

MOST_CLASSES = 1000
MOST_WHOLE_NUMBERS = 100
"""More different whole numbers than this may be classes or amounts; the user says which."""


@dataclass(frozen=True)
class Labelling:
    """By part, the labels (n,) int and the classes they index; or, where ``classes`` is None, numbers (n,) float64.

    ``text``: the labels were written as text. ``notes`` are what was done, ``doubts`` what looks wrong.
    """

    values: Mapping[str, NDArray[Any]]
    classes: Mapping[str, tuple[str, ...]] | None
    text: bool
    notes: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()


def label(
    cells: Mapping[str, Cells],
    target: Collection[str],
    places: Mapping[str, Place],
    *,
    title: str = "label",
    regression: bool | None = None,
    order: Sequence[str] = (),
) -> Labelling:
    """Labels of every part from what its rows say, text or numbers.

    Numbers that are not all whole are predicted as numbers unless ``regression`` is False; everything else is a class.
    Classes are shared by all parts, target's and sources', if every source has at least one of the target's; otherwise
    each has its own.

    Args:
        cells: what each row says, by part.
        target: the parts that are the target's.
        places: by part, where a row is.
        title: what messages call the labels.
        regression: whether to predict numbers; None: see above.
        order: of the classes; others follow, sorted.
    """
    for part, own in cells.items():
        empty = [row for row, text in enumerate(as_texts(own)) if text is None]
        if empty:
            raise DataError(
                f"{places[part](empty[0])}: '{title}' is empty ({len(empty):,} such rows); give the row a label or "
                "leave it out"
            )
    numeric = all(_are_numbers(own) for own in cells.values())
    if regression and not numeric:
        part = next(part for part, own in cells.items() if not _are_numbers(own))
        as_numbers(title, cells[part], places[part])
        raise DataError(
            f"{places[part](0)}: '{title}' is text; numbers are predicted from numbers: leave out regression"
        )
    if not numeric:
        return _classes(cells, target, places, numeric=False, title=title, order=order)
    numbers = {part: as_numbers(title, own, places[part]) for part, own in cells.items()}
    together = np.concatenate(list(numbers.values()))
    whole = bool(np.all(together == np.floor(together)))
    if regression or (regression is None and not whole):
        told = f"'{title}' holds fractions, so numbers are predicted; as classes: {given('regression', False)}"
        return Labelling(numbers, None, text=False, notes=() if regression else (told,))
    different = len(np.unique(together))
    if regression is None and different > MOST_WHOLE_NUMBERS:
        raise ConfigError(
            f"'{title}' has {different:,} different whole numbers; to predict the number give "
            f"{given('regression', True)}, and if they are classes {given('regression', False)}"
        )
    return _classes(numbers, target, places, numeric=True, title=title, order=order)


def _classes(
    cells: Mapping[str, Cells],
    target: Collection[str],
    places: Mapping[str, Place],
    *,
    numeric: bool,
    title: str,
    order: Sequence[str],
) -> Labelling:
    texts = {part: [str(text) for text in as_texts(own)] for part, own in cells.items()}
    names = {part: set(own) for part, own in texts.items()}
    goal = set[str]().union(*(names[part] for part in target))
    every = goal.union(*names.values())
    if len(every) > MOST_CLASSES:
        raise DataError(
            f"'{title}' has {len(every):,} different values, more than {MOST_CLASSES:,} classes; group them"
        )
    shared = all(own & goal for own in names.values())

    def ordered(own: set[str]) -> tuple[str, ...]:
        rest = sorted(own.difference(order), key=float if numeric else None)
        return (*(name for name in order if name in own), *rest)

    classes = {part: ordered(every if shared else goal if part in target else names[part]) for part in cells}
    values = {}
    for part, own in texts.items():
        number = {name: index for index, name in enumerate(classes[part])}
        values[part] = np.array([number[text] for text in own], np.int64)
    notes = []
    doubts, slips = strays(texts, target, places) if shared else ([], set())
    if not shared:
        alone = next(part for part in cells if not names[part] & goal)
        notes.append(f"'{alone}' has none of the target's labels, so every source has labels of its own")
    elif every - goal - slips:
        notes.append(f"no row of the target has label {', '.join(ordered(every - goal - slips))}")
    return Labelling(values, classes, text=not numeric, notes=tuple(notes), doubts=tuple(doubts))


def _are_numbers(cells: Cells) -> bool:
    """Numbers, or texts that all read as numbers; 007 is a name."""
    array = np.asarray(cells)
    if array.dtype.kind != "O":
        return array.dtype.kind in "fiu"
    return all(not isinstance(cell, str) or (is_number(cell) and not _is_code(cell)) for cell in array)


def _is_code(text: str) -> bool:
    return len(text) > 1 and text[0] == "0" and text.isdigit()
