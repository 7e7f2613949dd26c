"""Task sets from tables: columns of numbers and text, one table for each source or one for all sources."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metasched.errors import DataError, few, given, meant, such_rows, unknown
from metasched.optional import require
from metasched.tasks.arrays import RowNumbers
from metasched.tasks.assemble import Goal, SourceRows, assemble, target_parts
from metasched.tasks.identify import identifying, note
from metasched.tasks.preparation import Preparation, RowName, as_texts
from metasched.tasks.task import Provenance
from metasched.tasks.taskset import TaskSet

MOST_DROPPED = 10
"""A message names at most this many columns to leave out."""


@dataclass(frozen=True)
class Table:
    """Rows as columns. Messages call the table ``name``, and a row as ``row_name`` says."""

    name: str
    columns: Mapping[str, NDArray[Any]]
    row_name: RowName
    provenance: Provenance

    def __len__(self) -> int:
        return len(self.provenance.rows)

    def take(self, rows: RowNumbers) -> "Table":
        """These rows, in this order."""
        return replace(
            self,
            columns={name: cells[rows] for name, cells in self.columns.items()},
            row_name=lambda row: self.row_name(int(rows[row])),
            provenance=self.provenance.take(rows),
        )

    def without(self, names: Collection[str]) -> "Table":
        """The same rows without these columns."""
        return replace(self, columns={name: cells for name, cells in self.columns.items() if name not in names})


def by_source(table: Table, column: str) -> dict[str, Table]:
    """One table for each text in this column, without the column itself, in the order of their first rows."""
    if column not in table.columns:
        hint = meant(column, table.columns)
        raise DataError(
            f"{table.name}: has no column '{column}' that names the source of a row; "
            f"{f'{hint}N' if hint else 'n'}ame it with {given('source')}, one of {few(list(table.columns))}"
        )
    texts = as_texts(table.columns[column])
    if None in texts:
        raise DataError(f"{table.row_name(texts.index(None))}: '{column}' is empty; fill in the source of the row")
    rest = table.without([column])
    rows: dict[str, list[int]] = {}
    for row, text in enumerate(texts):
        rows.setdefault(str(text), []).append(row)
    return {name: rest.take(np.array(own)) for name, own in rows.items()}


def from_tables(
    name: str,
    tables: Mapping[str, Table],
    goal: Goal,
    *,
    categorical: Sequence[str] = (),
    missing: str | None = None,
    standardise: bool = True,
    keep: Collection[str] = (),
    unlabelled: Table | None = None,
) -> TaskSet:
    """A task set from one table for each source and the target. :class:`Preparation` makes the inputs.

    Columns that only identify rows are left out, except those in ``keep``. ``unlabelled`` has more rows of the target,
    without labels.
    """
    own = target_parts(list(tables), goal.target, name)
    for column in keep:
        if all(column not in table.columns for table in tables.values()):
            raise unknown("column to keep", column, {each for table in tables.values() for each in table.columns})
    needless = identifying([table.columns for table in tables.values()], {goal.label, *keep, *categorical})
    tables = {key: table.without(needless) for key, table in tables.items()}
    features = _features(tables, goal.label)
    sources = [table for key, table in tables.items() if key not in own]
    preparation = Preparation.fit(
        _Joined([table.columns for table in sources], features),
        label=goal.label,
        categorical=categorical,
        standardise=standardise,
        missing=missing,
        row_name=lambda row: _row_name(sources, row),
    )
    prepared = {key: _prepared(table, preparation, table.columns[goal.label]) for key, table in tables.items()}
    more = unlabelled
    if more is not None:
        _check_unlabelled(more, features, goal.label, next(iter(tables.values())).name)
    notes = [note(column) for column in needless]
    notes += _notes(preparation, [tables[part] for part in own], missing, standardise)
    without = None if more is None else _prepared(more, preparation, np.full(len(more), None))
    return assemble(name, prepared, goal, notes, preparation, without)


class _Joined(Mapping[str, NDArray[Any]]):
    """Columns of several tables, one below the other. Each is made when it is asked for, and not stored."""

    def __init__(self, tables: Sequence[Mapping[str, NDArray[Any]]], names: Sequence[str]) -> None:
        self.tables, self.names = tables, names

    def __getitem__(self, name: str) -> NDArray[Any]:
        return np.concatenate([columns[name] for columns in self.tables])

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)

    def __contains__(self, name: object) -> bool:
        return name in self.names


def _prepared(table: Table, preparation: Preparation, labels: NDArray[Any]) -> SourceRows:
    return SourceRows(preparation.inputs(table.columns, table.row_name), labels, table.row_name, table.provenance)


def _check_unlabelled(table: Table, features: Sequence[str], label: str, like: str) -> None:
    """Raise unless a table of unlabelled rows has every column to learn from, and no label."""
    lacks = [column for column in features if column not in table.columns]
    if lacks:
        raise DataError(f"{table.name}: lacks {_few(lacks)}, unlike {like}; give all the same columns")
    said = [row for row, text in enumerate(as_texts(table.columns.get(label, ()))) if text is not None]
    if said:
        raise DataError(
            f"{table.row_name(said[0])}: has a '{label}' ({such_rows(len(said))}), but this file "
            "is for rows without one; move labelled rows to the target, or empty that column"
        )


def _row_name(tables: Sequence[Table], row: int) -> str:
    """How messages call a row of the joined tables."""
    starts = np.cumsum([0, *(len(table) for table in tables)])
    number = int(np.searchsorted(starts, row, side="right")) - 1
    return tables[number].row_name(row - int(starts[number]))


def _features(tables: Mapping[str, Table], label: str) -> list[str]:
    """The columns to learn from, in the order of the first table. Every table must have them all, and the label."""
    first = next(iter(tables.values()))
    for table in tables.values():
        if "" in table.columns:
            before = list(table.columns)[: list(table.columns).index("")]
            which = f"the column after '{before[-1]}'" if before else "the first column"
            raise DataError(f"{table.name}: {which} has no name; name it, or write the table without it")
        if label not in table.columns:
            hint = meant(label, table.columns)
            raise DataError(
                f"{table.name}: has no column '{label}' to predict; "
                f"{f'{hint}N' if hint else 'n'}ame it with {given('label')}, one of {few(list(table.columns))}"
            )
        lacks = [column for column in first.columns if column not in table.columns]
        besides = [column for column in table.columns if column not in first.columns]
        if lacks or besides:
            faults = [f"lacks {_few(lacks)}"] * bool(lacks) + [f"has {_few(besides)}"] * bool(besides)
            raise DataError(
                f"{table.name}: {' and '.join(faults)}, unlike {first.name}; "
                f"{'rename' if lacks and besides else 'give all the same'} columns{_or_drop(tables, label)}"
            )
    return [column for column in first.columns if column != label]


def _or_drop(tables: Mapping[str, Table], label: str) -> str:
    """How to continue with the columns that all tables have, if there are any, and only a few columns differ."""
    every = dict.fromkeys(column for table in tables.values() for column in table.columns if column != label)
    uneven = [column for column in every if not all(column in table.columns for table in tables.values())]
    if len(uneven) == len(every) or len(uneven) > MOST_DROPPED:
        return ""
    return f", or leave out the columns that only some files have: {given('drop', uneven)}"


def _few(names: Sequence[str]) -> str:
    more = f" and {len(names) - 3} more columns" if len(names) > 3 else ""
    return ", ".join(f"'{name}'" for name in names[:3]) + more


def _notes(preparation: Preparation, target: Sequence[Table], missing: str | None, standardise: bool) -> list[str]:
    """What was done with the columns, in words."""
    numbers = [column for column in preparation.columns if column.kind == "number"]
    categories = [column for column in preparation.columns if column.kind == "category"]
    notes = ["the rows of every source keep their order"]
    if numbers:
        how = "standardised by the source rows" if standardise else "as they are"
        notes.append(f"{_count(len(numbers), 'column', 'columns')} of numbers, {how}")
    if categories:
        named = ", ".join(f"{column.name} ({column.width})" for column in categories[:5])
        more = f" and {len(categories) - 5} more" if len(categories) > 5 else ""
        notes.append(f"{_count(len(categories), 'column', 'columns')} of categories, one-hot: {named}{more}")
    if missing:
        notes.append("empty numbers are replaced by the mean of the source rows, empty texts are their own category")
    for column in categories:
        unseen = sum(column.unknown(table.columns[column.name]) for table in target)
        if unseen:
            notes.append(f"{_count(unseen, 'target row has', 'target rows have')} a '{column.name}' that no source has")
    return notes


def _count(number: int, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}"


def columns_of(table: Any, name: str, drop: Collection[str] = ()) -> dict[str, NDArray[Any]]:
    """The columns of a ``pyarrow.Table``, except those in ``drop``, as arrays.

    Numbers are integers, or floats with NaN for a missing one. Truth values are booleans. Texts are objects with None
    for a missing one. Anything else (dates, lists) is refused. Messages call the table ``name``.
    """
    names = table.column_names
    repeated = {column for column, times in Counter(names).items() if times > 1}
    if repeated:
        raise DataError(f"{name}: two columns are named '{min(repeated)}'; rename one")
    return {column: _array(table[column], name, column) for column in names if column not in drop}


def _array(column: Any, name: str, title: str) -> NDArray[Any]:
    types = require("pyarrow.types", "tables")
    kind = column.type
    if types.is_null(kind):
        return np.full(len(column), np.nan)
    if types.is_boolean(kind) and column.null_count:
        return _array(column.cast("int8"), name, title)
    if types.is_boolean(kind) or types.is_integer(kind) or types.is_floating(kind):
        return np.asarray(column.to_numpy())
    if types.is_decimal(kind):
        return np.asarray(column.cast("float64").to_numpy())
    values = kind.value_type if types.is_dictionary(kind) else kind
    if types.is_string(values) or types.is_large_string(values) or types.is_string_view(values):
        return _texts(column, name, title)
    if types.is_dictionary(kind):
        return _array(column.cast(values), name, title)
    if types.is_binary(kind):
        raise DataError(f"{name}: column '{title}' has bytes that are not UTF-8; save the file as UTF-8")
    what = "dates or times" if types.is_temporal(kind) else kind
    raise DataError(
        f"{name}: column '{title}' contains {what}; convert it to numbers or text, or leave it out with "
        f"{given('drop', [title])}"
    )


def _texts(column: Any, name: str, title: str) -> NDArray[np.object_]:
    """Equal cells share one string, so that a small file never becomes large in memory."""
    encoded = column.combine_chunks()
    if not hasattr(encoded, "dictionary"):
        encoded = encoded.dictionary_encode()
    texts: NDArray[np.object_] = np.array([*encoded.dictionary.to_pylist(), None], object)
    numbers = np.asarray(encoded.indices.cast("int64").fill_null(len(texts) - 1))
    if not ((numbers >= 0) & (numbers < len(texts))).all():
        raise DataError(f"{name}: column '{title}' is damaged (a cell points to no text); write the file again")
    return np.asarray(texts[numbers])
