"""Turns the columns of a table into inputs of a network, in the same way for training and prediction.

Numbers are standardised, and texts become one-hot. The means, scales and categories for this come only from the rows of
the sources. They are part of the task set, and are stored with a model as JSON.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from metasched.errors import ConfigError, DataError, given, such_rows
from metasched.tasks.arrays import Inputs

MOST_CATEGORIES = 100
"""A column with more different texts than this is refused, because it has names or typos rather than categories."""
LARGEST = 1e100
"""Numbers beyond this, positive or negative, are refused, because their squares would overflow."""
ABSENT = "(missing)"
"""The category of an empty cell."""

Cells: TypeAlias = Sequence[Any] | NDArray[Any]
Columns: TypeAlias = Mapping[str, Cells]
"""Cells by the name of the column. None, NaN and the empty text mean that a cell is missing."""
RowName: TypeAlias = Callable[[int], str]
"""How messages call a row: ``mine/shop1.csv line 7``."""


def _row_name(row: int) -> str:
    return f"row {row + 1}"


class Column(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A column, and what its cells become: one number (cell − ``mean``) / ``scale``, or one-hot over ``categories``.

    ``fill`` replaces a missing cell. If it is None, missing cells are refused.
    """

    name: str
    kind: Literal["number", "category"]
    mean: float = 0.0
    scale: float = 1.0
    fill: float | str | None = None
    categories: tuple[str, ...] = ()

    @property
    def width(self) -> int:
        """The number of inputs of a cell."""
        return 1 if self.kind == "number" else len(self.categories)

    def inputs(self, cells: Cells, row_name: RowName) -> Inputs:
        """(n, width) float32."""
        if self.kind == "number":
            numbers = as_numbers(self.name, cells, row_name)
            gaps = np.isnan(numbers)
            self._refuse(gaps, row_name)
            numbers[gaps] = self.fill
            standard: Inputs = ((numbers - self.mean) / self.scale).astype(np.float32)
            return standard[:, None]
        texts = as_texts(cells)
        self._refuse(np.array([text is None for text in texts], bool), row_name)
        number: dict[Any, int] = {text: index for index, text in enumerate(self.categories)}
        hot = np.array([number.get(self.fill if text is None else text, -1) for text in texts], np.int64)
        one_hot: Inputs = (hot[:, None] == np.arange(self.width)).astype(np.float32)
        return one_hot

    def unknown(self, cells: Cells) -> int:
        """How many cells have a category that is not among ``categories``. Their inputs are all zero."""
        if self.kind == "number":
            return 0
        return sum((self.fill if text is None else text) not in self.categories for text in as_texts(cells))

    def _refuse(self, gaps: NDArray[np.bool_], row_name: RowName) -> None:
        if self.fill is None and gaps.any():
            raise DataError(
                f"{row_name(int(np.argmax(gaps)))}: column '{self.name}' is empty ({such_rows(int(gaps.sum()))}); fill "
                f"it, or give {given('missing', 'mean')}"
            )


class Preparation(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the rows of a table become inputs. ``label`` is the column to predict, and may contain text.

    >>> fitted = Preparation.fit({"age": [20, 40], "sex": ["f", "m"]}, label="ill")
    >>> fitted.inputs({"sex": ["m", "?"], "age": [30, 50]}).tolist()
    [[0.0, 0.0, 1.0], [2.0, 0.0, 0.0]]

    A category that no source row has becomes all zeros, as above. So it says nothing, rather than something wrong.
    """

    columns: tuple[Column, ...]
    label: str
    text_labels: bool = False

    @classmethod
    def fit(
        cls,
        columns: Columns,
        *,
        label: str,
        text_labels: bool = False,
        categorical: Sequence[str] = (),
        standardise: bool = True,
        missing: str | None = None,
        row_name: RowName = _row_name,
    ) -> "Preparation":
        """Fit the preparation to the rows of all sources. ``columns`` has their cells, without the label column.

        Columns of text are categories, and so are columns of numbers in ``categorical``. With ``standardise``, numbers
        get mean 0 and standard deviation 1 over these rows; a constant column only gets mean 0. ``missing="mean"``
        fills an empty number with the mean and makes an empty text its own category. None refuses both.
        """
        if missing not in (None, "mean"):
            raise ConfigError(f"missing is {missing!r}; give 'mean', or leave it out to refuse empty cells")
        if not columns:
            raise DataError(f"there is no column to learn from apart from '{label}'; give at least one")
        for name in categorical:
            if name not in columns:
                listed = ", ".join(columns)
                raise ConfigError(f"categorical names '{name}', which is not a column to learn from: {listed}")
        fitted = [
            _category(name, cells, missing, name in categorical, row_name)
            if name in categorical or _holds_text(cells)
            else _number(name, cells, missing, standardise, row_name)
            for name, cells in columns.items()
        ]
        return cls(columns=tuple(fitted), label=label, text_labels=text_labels)

    def inputs(self, columns: Columns, row_name: RowName = _row_name) -> Inputs:
        """The inputs (n, width) float32: the columns in the order of training. Other columns are ignored."""
        for column in self.columns:
            if column.name not in columns:
                raise DataError(
                    f"the rows have no column '{column.name}'; add it, because the model was trained with it"
                )
        sizes = {len(columns[column.name]) for column in self.columns}
        if len(sizes) > 1:
            raise DataError(
                f"columns differ in length ({', '.join(map(str, sorted(sizes)))} rows); give all of them the same "
                "length"
            )
        found = np.empty((min(sizes, default=0), sum(column.width for column in self.columns)), np.float32)
        begin = 0
        for column in self.columns:  # one column at a time: all together would take the memory twice
            found[:, begin : begin + column.width] = column.inputs(columns[column.name], row_name)
            begin += column.width
        return found


def as_numbers(name: str, cells: Cells, row_name: RowName) -> NDArray[np.float64]:
    """Cells as numbers, with NaN for a missing cell. Texts that read as numbers count as numbers."""
    array = np.asarray(cells)
    if array.dtype.kind in "fiub":
        numbers = array.astype(np.float64)
    else:
        numbers = np.empty(len(array))
        for row, cell in enumerate(array):
            try:
                numbers[row] = np.nan if _is_missing(cell) else float(cell)
            except (TypeError, ValueError):
                raise DataError(
                    f"{row_name(row)}: column '{name}' has {shown(cell)} where a number should be; correct the cell"
                ) from None
    if numbers.size and max(np.fmax.reduce(numbers), -np.fmin.reduce(numbers)) > LARGEST:
        row = int(np.argmax(np.abs(numbers) > LARGEST))
        raise DataError(
            f"{row_name(row)}: column '{name}' is {numbers[row]:g}, too large to learn from; correct or drop the row"
        )
    return numbers


def as_texts(cells: Cells) -> list[str | None]:
    """Cells as texts, with None for a missing cell. Both 3 and 3.0 become ``"3"``."""
    if isinstance(cells, np.ndarray) and cells.dtype.kind in "fiub":
        values, numbers = np.unique(
            cells, return_inverse=True
        )  # Few cells are different, and each becomes a text only once.
        return [texts[number] for texts in [as_texts(list(values))] for number in numbers.tolist()]
    return [cell or None if type(cell) is str else None if _is_missing(cell) else _text(cell) for cell in cells]


def is_number(text: str) -> bool:
    """Whether a text reads as a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def shown(cell: Any) -> str:
    """A cell for a message: quoted, and cut if it is long."""
    text = str(cell)
    return repr(text if len(text) <= 40 else text[:39] + "…")


def _number(name: str, cells: Cells, missing: str | None, scaled: bool, row_name: RowName) -> Column:
    numbers = as_numbers(name, cells, row_name)
    present = numbers[~np.isnan(numbers)]
    mean = float(present.mean()) if present.size else 0.0
    fill = mean if missing == "mean" else None
    if not scaled:
        return Column(name=name, kind="number", fill=fill)
    spread = float(present.std()) if present.size and present.min() < present.max() else 0.0
    if not spread:
        return Column(name=name, kind="number", mean=float(present[0]) if present.size else 0.0, fill=fill)
    return Column(name=name, kind="number", mean=mean, scale=spread, fill=fill)


def _category(name: str, cells: Cells, missing: str | None, wanted: bool, row_name: RowName) -> Column:
    texts = as_texts(cells)
    if not wanted:
        _refuse_stray_text(name, texts, row_name)
    categories = sorted({text for text in texts if text is not None})
    if len(categories) > MOST_CATEGORIES:
        raise DataError(
            f"{row_name(0)}: column '{name}' has {len(categories):,} different texts, more than {MOST_CATEGORIES}; "
            f"leave it out with {given('drop', [name])}, or group its values"
        )
    fill = ABSENT if missing == "mean" else None
    if fill and None in texts:
        categories.append(fill)
    return Column(name=name, kind="category", fill=fill, categories=tuple(categories))


def _refuse_stray_text(name: str, texts: Sequence[str | None], row_name: RowName) -> None:
    """Refuse a column with mostly numbers and a few texts: a slip of the pen, or commas instead of points."""
    strays = [row for row, text in enumerate(texts) if text is not None and not is_number(text)]
    count = sum(text is not None for text in texts)
    if strays and len(strays) < count / 2:
        if all(_has_decimal_comma(texts[row]) for row in strays):
            raise DataError(
                f"{row_name(strays[0])}: column '{name}' has {shown(texts[strays[0]])}, a decimal comma where other "
                f"rows have a point ({such_rows(len(strays))}); write all files with the same decimal sign"
            )
        raise DataError(
            f"{row_name(strays[0])}: column '{name}' has {shown(texts[strays[0]])} among numbers ("
            f"{such_rows(len(strays))}); correct these cells, or give {given('categorical', [name])}"
        )
    commas = sum(map(_has_decimal_comma, texts))
    if commas > count / 2:
        first = next(row for row, text in enumerate(texts) if text is not None and "," in text)
        raise DataError(
            f"{row_name(first)}: column '{name}' has {shown(texts[first])}; if that is a number, give "
            f"{given('decimal', ',')}"
        )


def _has_decimal_comma(text: str | None) -> bool:
    return text is not None and "," in text and is_number(text.replace(",", ".", 1))


def _holds_text(cells: Cells) -> bool:
    array = np.asarray(cells)
    return array.dtype.kind not in "fiub" and any(isinstance(cell, str) and cell for cell in array)


def _is_missing(cell: Any) -> bool:
    if isinstance(cell, str):
        return not cell
    return cell is None or (isinstance(cell, float | np.floating) and bool(np.isnan(cell)))


def _text(cell: Any) -> str:
    if isinstance(cell, bool | np.bool_):
        return str(bool(cell)).lower()
    if isinstance(cell, float | np.floating) and float(cell).is_integer():
        return str(int(cell))
    return str(cell)
