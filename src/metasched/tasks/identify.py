"""Columns that only identify rows, such as row numbers written by pandas. Nothing can be learned from them."""

import re
from collections.abc import Collection, Sequence

import numpy as np

from metasched.errors import given
from metasched.tasks.preparation import Cells, Columns, as_texts

_NAMES = re.compile(r"|id|index|.*_id|unnamed: \d+(\.\d+)*|__index_level_\d+__", re.IGNORECASE)
"""The names of such columns. The last two are given by pandas."""


def identifying(tables: Sequence[Columns], spared: Collection[str] = ()) -> list[str]:
    """The columns that only identify rows, judged by their names and values. Columns in ``spared`` are never among
    them.

    In every table with such a column, all its cells are different, and they are whole numbers or text.

    >>> identifying([{"": [0, 1], "age": [20, 21]}, {"": [0, 1], "age": [30, 31]}])
    ['']
    """
    found: dict[str, list[Cells]] = {}
    for columns in tables:
        for name, cells in columns.items():
            if name not in spared and _NAMES.fullmatch(name):
                found.setdefault(name, []).append(cells)
    return [
        name
        for name, parts in found.items()
        if max(map(len, parts)) > 1 and all(_are_all_different(cells) for cells in parts)
    ]


def note(name: str) -> str:
    """The note for users about a column that is left out."""
    called = f"column '{name}'" if name else "the column without a name"
    keep = f"; to learn from it: {given('keep', [name])}" if name else ""
    return f"{called} only identifies rows (no value occurs twice in a file), so it is left out{keep}"


def _are_all_different(cells: Cells) -> bool:
    """Whether all cells are different, and none is empty, a fraction or a truth value."""
    array = np.asarray(cells)
    if array.dtype.kind == "b" or (array.dtype.kind == "f" and not np.all(array == np.floor(array))):
        return False
    texts = as_texts(array)
    return None not in texts and len(set(texts)) == len(texts)
