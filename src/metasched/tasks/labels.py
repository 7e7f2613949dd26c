"""What to predict for every row: classes named in the data, or numbers. Labels that look misspelt are reported."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metasched.errors import ConfigError, DataError, given, nearest, such_rows
from metasched.tasks.preparation import Cells, RowName, as_numbers, as_texts, is_number

MOST_CLASSES = 1000
MANY_WHOLE_NUMBERS = 20
"""More different whole numbers than this count as classes, with a warning."""
MOST_WHOLE_NUMBERS = 100
"""More different whole numbers than this may be classes or amounts, so the user has to say which."""
MOST_STRAY = 0.1
"""Up to this share of texts among many different numbers are probably mistakes."""
MOST_NAMED = 3
"""A warning names at most this many labels and counts the others."""
MOST_TYPO_ROWS = 2
"""A label that only one side has is probably a typo if it has at most this many rows."""
ALIKE = 0.8
"""How similar, from 0 to 1, two spellings of the same word are."""


@dataclass(frozen=True)
class Labelling:
    """For each part, the labels (n,) int and the classes they index or, if ``classes`` is None, numbers (n,) float64.

    ``text`` says that the labels were written as text. ``notes`` say what was done, ``warnings`` what looks wrong.
    """

    values: Mapping[str, NDArray[Any]]
    classes: Mapping[str, tuple[str, ...]] | None
    text: bool
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def label(
    cells: Mapping[str, Cells],
    target: Collection[str],
    row_names: Mapping[str, RowName],
    *,
    title: str = "label",
    regression: bool | None = None,
    order: Sequence[str] = (),
) -> Labelling:
    """Make the labels of every part from the texts or numbers of its rows. ``target`` names the target's parts.

    Numbers that are not all whole are predicted as numbers unless ``regression`` is False; everything else is a class.
    All parts, the target's and the sources', share their classes if every source has at least one of the target's;
    otherwise each has its own. Classes come in ``order``; other classes follow, sorted. Messages call the labels
    ``title``.
    """
    for part, own in cells.items():
        empty = [row for row, text in enumerate(as_texts(own)) if text is None]
        if empty:
            raise DataError(
                f"{row_names[part](empty[0])}: '{title}' is empty ({such_rows(len(empty))}); only rows of the target "
                "may have no label; fill the cell, or leave out the row"
            )
    texts = [part for part, own in cells.items() if not _are_numbers(own)]
    if regression and texts:
        as_numbers(title, cells[texts[0]], row_names[texts[0]])
        raise DataError(
            f"{row_names[texts[0]](0)}: '{title}' is text, so there are no numbers to predict; leave out regression"
        )
    if texts:
        if regression is None:
            _refuse_stray_texts(cells, row_names, title)
        return _classes(cells, target, row_names, numeric=False, title=title, order=order)
    numbers = {part: as_numbers(title, own, row_names[part]) for part, own in cells.items()}
    together = np.concatenate(list(numbers.values()))
    if regression or (regression is None and np.any(together != np.floor(together))):
        note = (
            f"'{title}' contains fractions, so numbers are predicted; to predict classes: {given('regression', False)}"
        )
        return Labelling(numbers, None, text=False, notes=() if regression else (note,))
    different = len(np.unique(together))
    if regression is None and different > MOST_WHOLE_NUMBERS:
        raise ConfigError(
            f"'{title}' has {different:,} different whole numbers; if they are amounts, give "
            f"{given('regression', True)}; if they are classes, give {given('regression', False)}"
        )
    labelling = _classes(numbers, target, row_names, numeric=True, title=title, order=order)
    if regression is None and different > MANY_WHOLE_NUMBERS:
        line = (
            f"'{title}' has {different:,} different whole numbers, which are taken as classes; if they are amounts, "
            f"give {given('regression', True)}"
        )
        return replace(labelling, warnings=(*labelling.warnings, line))
    return labelling


def _classes(
    cells: Mapping[str, Cells],
    target: Collection[str],
    row_names: Mapping[str, RowName],
    *,
    numeric: bool,
    title: str,
    order: Sequence[str],
) -> Labelling:
    texts = {part: [str(text) for text in as_texts(own)] for part, own in cells.items()}
    names = {part: set(own) for part, own in texts.items()}
    wanted = set[str]().union(*(names[part] for part in target))
    every = wanted.union(*names.values())
    if len(every) > MOST_CLASSES:
        raise DataError(
            f"'{title}' has {len(every):,} different values, more than {MOST_CLASSES:,} classes; group them"
        )

    def ordered(own: set[str]) -> tuple[str, ...]:
        rest = sorted(own.difference(order), key=float if numeric else None)
        return (*(name for name in order if name in own), *rest)

    alone = [part for part, own in names.items() if not own & wanted]
    warnings: list[str] = []
    if alone:
        classes = {part: ordered(wanted if part in target else own) for part, own in names.items()}
        notes = [f"'{alone[0]}' has none of the target's labels, so every source has its own labels"]
    else:
        classes = dict.fromkeys(cells, ordered(every))
        warnings, typos = find_typos(texts, target, row_names)
        more = ordered(every - wanted - typos)
        notes = [f"no row of the target has label {', '.join(more)}"] if more else []
    values = {}
    for part, own in texts.items():
        number = {name: index for index, name in enumerate(classes[part])}
        values[part] = np.array([number[text] for text in own], np.int64)
    return Labelling(values, classes, text=not numeric, notes=tuple(notes), warnings=tuple(warnings))


def _refuse_stray_texts(cells: Mapping[str, Cells], row_names: Mapping[str, RowName], title: str) -> None:
    """Refuse a text among many different numbers. A single ``n.a.`` in a column of prices would make all prices
    classes.
    """
    texts = {part: [str(text) for text in as_texts(own)] for part, own in cells.items()}
    numbers = {text for text in set[str]().union(*texts.values()) if is_number(text)}
    stray = [(part, row, text) for part, own in texts.items() for row, text in enumerate(own) if text not in numbers]
    count = sum(map(len, texts.values()))
    if len(numbers) > MOST_WHOLE_NUMBERS and len(stray) <= count * MOST_STRAY:
        part, row, text = stray[0]
        raise DataError(
            f"{row_names[part](row)}: '{title}' is '{text}', where {count - len(stray):,} of {count:,} labels are "
            f"numbers; correct the cell, or give {given('regression', False)} if all of them are classes"
        )


def _are_numbers(cells: Cells) -> bool:
    """Whether all are numbers, or texts that read as numbers. 007 is a name."""
    array = np.asarray(cells)
    if array.dtype.kind != "O":
        return array.dtype.kind in "fiu"
    texts = {cell for cell in array if isinstance(cell, str)}
    return all(is_number(text) and not (len(text) > 1 and text[0] == "0" and text.isdigit()) for text in texts)


def find_typos(
    texts: Mapping[str, Sequence[str]], target: Collection[str], row_names: Mapping[str, RowName]
) -> tuple[list[str], set[str]]:
    """Find labels that look misspelt. Only the sources or only the target have them, and they are rare or spelt like
    others.

    They are returned with one line about those of the sources and one about those of the target, if there are any.
    """
    theirs = {part: own for part, own in texts.items() if part not in target}
    ours = {part: own for part, own in texts.items() if part in target}
    lines, found = [], set()
    for here, there, fault in ((theirs, ours, "not in the target"), (ours, theirs, "in no source")):
        counts = Counter(text for own in here.values() for text in own)
        known = {text for own in there.values() for text in own}
        typos = [label for label in counts if label not in known and _is_typo(label, counts[label], known)]
        typos.sort(key=counts.__getitem__)
        found.update(typos)
        named = []
        for label in typos[:MOST_NAMED]:
            part = next(part for part, own in here.items() if label in own)
            near = None if is_number(label) else nearest(label, sorted(known))
            rows = f"{counts[label]:,} row{'' if counts[label] == 1 else 's'}"
            hint = f"; did you mean '{near}'?" if near is not None else ""
            named.append(f"'{label}' ({row_names[part](here[part].index(label))}, {rows}{hint})")
        if len(typos) > MOST_NAMED:
            named.append(f"{len(typos) - MOST_NAMED:,} more")
        if typos:
            listed = " and ".join(part for part in (", ".join(named[:-1]), named[-1]) if part)
            subject = f"label {listed} is" if len(typos) == 1 else f"labels {listed} are"
            lines.append(f"{subject} {fault}; fix the spelling, or ignore this if it is intended")
    return lines, found


def _is_typo(label: str, count: int, known: Collection[str]) -> bool:
    """Whether a label that the other side lacks is rare, or spelt like one of its labels. Labels with digits never are
    typos.
    """
    return count <= MOST_TYPO_ROWS or (not any(map(str.isdigit, label)) and nearest(label, known, ALIKE) is not None)
