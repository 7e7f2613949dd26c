"""Columns of an Arrow table as arrays: what CSV and Parquet files, data frames and Hugging Face data sets become."""

from collections.abc import Collection
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metasched.errors import DataError, given
from metasched.optional import require


def columns_of(table: Any, name: str, drop: Collection[str] = ()) -> dict[str, NDArray[Any]]:
    """The columns of a ``pyarrow.Table``, but for those in ``drop``, as arrays.

    Numbers are integers or floats with NaN where one is missing, truth values booleans, texts objects with None where
    one is missing. Anything else (dates, lists) is refused with ``name``, what messages call the table.
    """
    repeated = {column for column in table.column_names if table.column_names.count(column) > 1}
    if repeated:
        raise DataError(f"{name}: two columns are named '{min(repeated)}'; rename one")
    return {column: _array(table[column], name, column) for column in table.column_names if column not in drop}


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
    raise DataError(
        f"{name}: column '{title}' holds {kind}; make it numbers or text, or leave it out with {given('drop', [title])}"
    )


def _texts(column: Any, name: str, title: str) -> NDArray[np.object_]:
    """Equal cells share one string, so that a small file never becomes large."""
    encoded = column.combine_chunks()
    if not hasattr(encoded, "dictionary"):
        encoded = encoded.dictionary_encode()
    texts: NDArray[np.object_] = np.array([*encoded.dictionary.to_pylist(), None], object)
    numbers = np.asarray(encoded.indices.cast("int64").fill_null(len(texts) - 1))
    if not ((numbers >= 0) & (numbers < len(texts))).all():
        raise DataError(f"{name}: column '{title}' is damaged (a cell points to no text); write the file again")
    return np.asarray(texts[numbers])
