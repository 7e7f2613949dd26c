"""Task sets from tables: columns of numbers and text, one table a source or one for all."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from metasched.errors import DataError, given, meant
from metasched.tasks.arrays import RowNumbers
from metasched.tasks.assemble import Goal, Part, assemble, target_parts
from metasched.tasks.preparation import Place, Preparation, as_texts
from metasched.tasks.provenance import Provenance

if TYPE_CHECKING:
    from metasched.tasks.taskset import TaskSet


MOST_DROPPED = 10
"""Columns that a message names, at most, as what to leave out."""


@dataclass(frozen=True)
class Table:
    """Rows as columns; ``name`` is what messages call them, ``place`` where a row is."""

    name: str
    columns: Mapping[str, NDArray[Any]]
    place: Place
    provenance: Provenance

    def __len__(self) -> int:
        return len(self.provenance.rows)

    def take(self, rows: RowNumbers) -> "Table":
        """Those rows, in that order."""
        return replace(
            self,
            columns={name: cells[rows] for name, cells in self.columns.items()},
            place=lambda row: self.place(int(rows[row])),
            provenance=self.provenance.take(rows),
        )


def by_source(table: Table, column: str) -> dict[str, Table]:
    """One table for each text in that column, which is left out, in the order of their first rows."""
    if column not in table.columns:
        raise DataError(
            f"{table.name}: has no column '{column}' that says where a row is from; {meant(column, table.columns)}"
            f"Name it with {given('source')}, one of {', '.join(table.columns)}"
        )
    texts = as_texts(table.columns[column])
    if None in texts:
        raise DataError(f"{table.place(texts.index(None))}: '{column}' is empty; say where the row is from")
    rest = replace(table, columns={name: cells for name, cells in table.columns.items() if name != column})
    rows: dict[str, list[int]] = {}
    for row, text in enumerate(texts):
        rows.setdefault(str(text), []).append(row)
    return {name: rest.take(np.array(own)) for name, own in rows.items()}


def from_tables(
    kind: "type[TaskSet]",
    name: str,
    tables: Mapping[str, Table],
    goal: Goal,
    *,
    categorical: Sequence[str] = (),
    missing: str | None = None,
    standardise: bool = True,
) -> "TaskSet":
    """A task set from one table for each source and the target; inputs are made as :class:`Preparation` says."""
    own = target_parts(list(tables), goal.target, name)
    features = _features(tables, goal.label)
    sources = [table for key, table in tables.items() if key not in own]
    preparation = Preparation.fit(
        {column: np.concatenate([table.columns[column] for table in sources]) for column in features},
        label=goal.label,
        categorical=categorical,
        standardise=standardise,
        missing=missing,
        place=_place_among(sources),
    )
    parts = {
        key: Part(
            preparation.inputs(table.columns, table.place), table.columns[goal.label], table.place, table.provenance
        )
        for key, table in tables.items()
    }
    notes = _notes(preparation, tables, own, missing, standardise)
    return assemble(kind, name, parts, goal, notes, preparation)


def _features(tables: Mapping[str, Table], label: str) -> list[str]:
    """The columns to learn from, in the order of the first table; every table must have them all, and the label."""
    first = next(iter(tables.values()))
    for table in tables.values():
        if label not in table.columns:
            raise DataError(
                f"{table.name}: has no column '{label}' to predict; {meant(label, table.columns)}"
                f"Name it with {given('label')}, one of {', '.join(table.columns)}"
            )
        lacks = [column for column in first.columns if column not in table.columns]
        besides = [column for column in table.columns if column not in first.columns]
        if lacks or besides:
            faults = [f"lacks {_few(lacks)}"] * bool(lacks) + [f"has {_few(besides)} besides"] * bool(besides)
            raise DataError(
                f"{table.name}: {' and '.join(faults)}, unlike {first.name}; "
                f"{'rename' if lacks and besides else 'give all the same'} columns{_or_drop(tables, label)}"
            )
    return [column for column in first.columns if column != label]


def _or_drop(tables: Mapping[str, Table], label: str) -> str:
    """How to go on with the columns that all tables have, where there are such, and few others."""
    every = dict.fromkeys(column for table in tables.values() for column in table.columns if column != label)
    uneven = [column for column in every if not all(column in table.columns for table in tables.values())]
    if len(uneven) == len(every) or len(uneven) > MOST_DROPPED:
        return ""
    return f", or leave out what not all have: {given('drop', uneven)}"


def _few(names: Sequence[str]) -> str:
    more = f" and {len(names) - 3} more columns" if len(names) > 3 else ""
    return ", ".join(f"'{name}'" for name in names[:3]) + more


def _place_among(tables: Sequence[Table]) -> Place:
    """Where a row of the tables laid one after another is."""
    starts = np.cumsum([0, *(len(table) for table in tables)])

    def place(row: int) -> str:
        number = int(np.searchsorted(starts, row, side="right")) - 1
        return tables[number].place(row - int(starts[number]))

    return place


def _notes(
    preparation: Preparation, tables: Mapping[str, Table], own: Sequence[str], missing: str | None, standardise: bool
) -> list[str]:
    """What became of the columns, in words."""
    numbers = [column for column in preparation.columns if column.kind == "number"]
    categories = [column for column in preparation.columns if column.kind == "category"]
    said = ["the rows of every source keep their order"]
    if numbers:
        how = "standardised by the source rows" if standardise else "as they are"
        said.append(f"{_count(len(numbers), 'column', 'columns')} of numbers, {how}")
    if categories:
        named = ", ".join(f"{column.name} ({column.width})" for column in categories[:5])
        more = f" and {len(categories) - 5} more" if len(categories) > 5 else ""
        said.append(f"{_count(len(categories), 'column', 'columns')} of categories, one-hot: {named}{more}")
    if missing:
        said.append("empty numbers are the mean of the source rows, empty texts a category of their own")
    for column in categories:
        strange = sum(column.unknown(tables[part].columns[column.name]) for part in own)
        if strange:
            said.append(f"{_count(strange, 'target row has', 'target rows have')} a '{column.name}' that no source has")
    return said


def _count(number: int, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}"
