"""Task sets from data in the memory of other libraries: data frames, Hugging Face data sets, PyTorch data sets.

None of these libraries is imported. Frames and Hugging Face data sets export Arrow tables (extra ``tables``), and the
items of a PyTorch data set become arrays one by one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metasched.errors import ConfigError, DataError
from metasched.optional import require
from metasched.tasks.arrays import as_inputs
from metasched.tasks.assemble import Goal, SourceRows, assemble
from metasched.tasks.preparation import RowName
from metasched.tasks.table import Table, by_source, columns_of, from_tables
from metasched.tasks.task import Provenance
from metasched.tasks.taskset import TaskSet


def from_frame(
    name: str, frame: Any, source: str, drop: Sequence[str], goal: Goal, preparation: Mapping[str, Any]
) -> TaskSet:
    """One frame with a column ``source``, or a mapping from sources to frames."""
    if isinstance(frame, Mapping):
        tables = {str(key): _table(_arrow(own, str(key)), str(key), drop) for key, own in frame.items()}
    else:
        tables = by_source(_table(_arrow(frame, name), name, drop), source)
    return from_tables(name, tables, goal, **preparation)


def from_huggingface(
    name: str,
    datasets: Mapping[str, Any],
    inputs: str | None,
    drop: Sequence[str],
    goal: Goal,
    preparation: Mapping[str, Any],
) -> TaskSet:
    """Data sets by source. ``inputs`` names a single column of images or arrays to learn from."""
    for key, dataset in datasets.items():
        for column in (goal.label, inputs or goal.label):
            if column not in dataset.features:
                raise DataError(f"'{key}' has no column '{column}', only {', '.join(dataset.features)}")
    names = {key: getattr(dataset.features[goal.label], "names", None) for key, dataset in datasets.items()}
    goal = replace(goal, order=_joined(names.values()))
    if inputs is not None:
        numpy = {key: dataset.with_format("numpy") for key, dataset in datasets.items()}
        items = {key: [(row[inputs], row[goal.label]) for row in dataset] for key, dataset in numpy.items()}
        return assemble(name, {key: _source_rows(key, own, names[key]) for key, own in items.items()}, goal)
    try:
        tables = {key: _table(dataset.with_format("arrow")[:], key, drop) for key, dataset in datasets.items()}
    except DataError as error:
        raise DataError(f"{error}; to learn from a single column of images or arrays, give inputs=") from None
    for key, table in tables.items():
        named = _named(table.columns[goal.label], names[key], table.row_name)
        tables[key] = replace(table, columns={**table.columns, goal.label: named})
    return from_tables(name, tables, goal, **preparation)


def from_torch(name: str, datasets: Mapping[str, Any], classes: Sequence[str] | None, goal: Goal) -> TaskSet:
    """Map-style data sets of pairs (input, label) by source."""
    sources, names = {}, {}
    for key, dataset in datasets.items():
        if not hasattr(dataset, "__len__"):
            raise ConfigError(f"'{key}' has no length; give map-style data sets, whose items are numbered")
        names[key] = classes or getattr(dataset, "classes", None)
        sources[key] = _source_rows(key, [dataset[row] for row in range(len(dataset))], names[key])
    notes = []
    shapes = [source.inputs.shape[1:] for source in sources.values()]
    if any(len(shape) == 3 and shape[0] in (1, 3) and shape[2] not in (1, 3) for shape in shapes):  # channels first
        sources = {key: replace(source, inputs=np.moveaxis(source.inputs, 1, -1)) for key, source in sources.items()}
        notes.append("the channels of images are last: (height, width, channels)")
    return assemble(name, sources, replace(goal, order=_joined(names.values())), notes)


def _joined(names: Any) -> tuple[str, ...]:
    """The class names of all sources, each once."""
    return tuple(dict.fromkeys(str(name) for own in names for name in own or ()))


def _arrow(frame: Any, name: str) -> Any:
    arrow = require("pyarrow", "tables")
    try:
        if hasattr(frame, "iloc"):  # pandas: rows by position, whatever their index says
            return arrow.Table.from_pandas(frame, preserve_index=False)
        return arrow.table(frame)
    except (arrow.ArrowException, TypeError, ValueError) as error:
        reason = str(error.args[-1]).splitlines()[0]
        raise DataError(
            f"{name}: not a data frame of numbers and text ({reason}); give every column one type"
        ) from None


def _table(table: Any, name: str, drop: Sequence[str]) -> Table:
    if not table.num_rows:
        raise DataError(f"{name}: has no rows; add some, or leave it out")
    return Table(name, columns_of(table, name, drop), _row_name(name), Provenance(name, np.arange(table.num_rows)))


def _source_rows(name: str, items: Sequence[Any], names: Sequence[str] | None) -> SourceRows:
    """Pairs (input, label) as arrays."""
    row_name = _row_name(name)
    if not items:
        raise DataError(f"{name}: has no rows; add some, or leave it out")
    inputs: list[NDArray[Any]] = []
    labels: list[Any] = []
    for row, item in enumerate(items):
        if not isinstance(item, tuple | list) or len(item) != 2:
            raise DataError(f"{row_name(row)}: is not a pair (input, label); give data sets of such pairs")
        inputs.append(np.asarray(item[0]))
        labels.append(item[1] if isinstance(item[1], str) else np.asarray(item[1])[()])
        if inputs[row].shape != inputs[0].shape:
            raise DataError(
                f"{row_name(row)}: has shape {inputs[row].shape}, but others have {inputs[0].shape}; give all "
                "of them the same shape"
            )
        if np.ndim(labels[row]):
            raise DataError(
                f"{row_name(row)}: its label has shape {np.shape(labels[row])}; give one number or text per row"
            )
    arrays = np.stack(inputs)
    return SourceRows(
        as_inputs(name, arrays if arrays.ndim > 1 else arrays[:, None]),
        _named(np.array(labels), names, row_name),
        row_name,
        Provenance(name, np.arange(len(items))),
    )


def _named(labels: NDArray[Any], names: Sequence[str] | None, row_name: RowName) -> NDArray[Any]:
    """Replace numbers 0 … C−1 by the names that they stand for."""
    if not names or labels.dtype.kind not in "iu":
        return labels
    wrong = np.flatnonzero((labels < 0) | (labels >= len(names)))
    if wrong.size:
        row = int(wrong[0])
        raise DataError(f"{row_name(row)}: has label {labels[row]}, outside 0 … {len(names) - 1}; leave the row out")
    return np.asarray(np.array([str(name) for name in names], object)[labels])


def _row_name(name: str) -> RowName:
    return lambda row: f"row {row + 1} of '{name}'"
