"""Task sets from CSV and Parquet files: one file with a column that names the source, or a folder with a file per
source.
"""

import csv
import os
from array import array
from codecs import getincrementaldecoder
from collections.abc import Collection, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metasched.datasets.store import sha256
from metasched.errors import ConfigError, DataError, given, such_rows, unknown
from metasched.optional import require
from metasched.tasks import Provenance, RowName, TaskSet
from metasched.tasks.assemble import Goal
from metasched.tasks.preparation import is_number, shown
from metasched.tasks.table import Table, by_source, columns_of, from_tables
from metasched.untrusted import file_size, refuse_beyond_memory

SEPARATORS = {".csv": ",", ".tsv": "\t"}
SUFFIXES = (*SEPARATORS, ".parquet")
UNREAD = (".xlsx", ".xls", ".ods", ".csv.gz", ".csv.zip")
"""Tables that are not read. One in a folder is refused: its rows would be missing without a word."""
LARGEST_BYTES = 1024**3
_MISSING = {"NA", "N/A", "n/a", "#N/A", "NaN", "nan", "NULL", "null"}
"""Texts that stand for an empty cell among numbers."""
_BLOCK = 2**20
_LARGEST_BLOCK = 2**31 - 1
_LONGEST_HEADER = 2**20


def table_files(folder: Path, endings: tuple[str, ...] = SUFFIXES) -> list[Path]:
    """The tables directly in a folder, by name."""
    return sorted(
        path
        for path in folder.iterdir()
        if path.name.lower().endswith(endings) and path.is_file() and not path.name.startswith((".", "~$"))
    )


def from_columns(
    path: str | os.PathLike[str],
    *,
    target: str | int | None = None,
    target_labels: int | None = None,
    seed: int = 0,
    label: str = "label",
    source: str = "source",
    categorical: Sequence[str] | str = (),
    drop: Sequence[str] | str = (),
    keep: Sequence[str] | str = (),
    missing: str | None = None,
    standardise: bool = True,
    regression: bool | None = None,
    bins: int = 10,
    separator: str | None = None,
    decimal: str = ".",
    allow_overlap: bool = False,
    unlabelled: str | os.PathLike[str] | None = None,
    limit: int = LARGEST_BYTES,
) -> TaskSet:
    r"""Read a task set from a ``.csv``, ``.tsv`` or ``.parquet`` file, or from a folder of them. Needs the extra
    ``tables``.

    In a folder every file is a source with the name of the file. A single file has a column ``source`` that names the
    source of each row. Rows keep their order. Sources called ``validation`` and ``test`` are the target's rows.

    A row of the target may have an empty label. Such rows are ``TaskSet.unlabelled``. By default all labelled rows of
    the target are then for validation, and none for test.

    Args:
        path: the file or folder.
        target: the source that is the target. Its rows are divided into validation and test.
        target_labels: how many of them are for validation, in proportion to the labels; by default half, but at most
            100, or all if the target has unlabelled rows.
        seed: the seed that draws these rows.
        label: the column to predict: text, whole numbers (classes), or other numbers (regression).
        source: the column that names the source of a row, for a single file.
        categorical: columns of numbers that stand for categories. Columns of text are always categories.
        drop: columns to leave out.
        keep: columns to use although they look like row numbers. Without it, a column is left out if it is
            called ``id``, ``index``, ``…_id`` or ``Unnamed: 0``, or has no name, and if its whole numbers or texts are
            all different in every file.
        missing: ``"mean"`` fills an empty number with the mean of the source rows and makes an empty text its own
            category. By default empty cells are refused.
        standardise: scale numbers to mean 0 and standard deviation 1 over the source rows.
        regression: whether to predict numbers; by default only if the labels are numbers that are not all whole.
        bins: number of bins of these numbers, which schedulers see as labels.
        separator: the character between the cells of a CSV file. By default a comma, or a tab in ``.tsv``.
        decimal: the decimal point of a CSV file.
        allow_overlap: allow rows that are both validation and test rows.
        unlabelled: a file with more rows of the target without a label. Its label column is empty or missing.
        limit: the largest total size of the files in bytes. Larger files are refused without reading them.

    Returns:
        The task set.

    Examples:
        >>> from pathlib import Path
        >>> visits = [f"{'ab'[n % 2]},{n},{'yes' if n % 3 else 'no'}" for n in range(40)]
        >>> _ = Path("visits.csv").write_text("\n".join(["shop,age,bought", *visits]))
        >>> ms.datasets.from_columns("visits.csv", source="shop", label="bought", target="b")
        TaskSet('visits', tasks=['a'], sizes=[20])
    """
    path = Path(path)
    codes, unused, kept = listed(categorical), listed(drop), listed(keep)
    more = None if unlabelled is None else Path(unlabelled)
    for file in table_files(path, UNREAD) if path.is_dir() else ():
        raise DataError(f"{file}: this kind of file is not read; save it as CSV, or move it out of the folder")
    files = table_files(path) if path.is_dir() else [path]
    files = [file for file in files if more is None or not (more.exists() and file.samefile(more))]
    every = files if more is None else [*files, more]
    sizes = {file: file_size(file) for file in every}
    if label in unused or label in codes:
        raise ConfigError(f"'{label}' is the column to predict; remove it from drop and categorical")
    for name in {*unused} & {*kept}:
        raise ConfigError(f"'{name}' is in both drop and keep; remove it from one of them")
    names = {name for file in every for name in column_names(file, separator)} if unused else set()
    for name in unused:
        if name not in names:
            raise unknown("column to drop", name, names)
    largest = max(every, key=sizes.__getitem__)
    refuse_large(largest, sum(sizes.values()), limit)
    remedy = "give fewer rows, or Parquet files and drop columns that are not needed"
    refuse_beyond_memory(largest, sum(bytes_of_cells(file, sizes[file], unused) for file in every), remedy)

    def read(file: Path) -> Table:
        columns = read_columns(
            file, label=label, text=(source, *codes), drop=unused, separator=separator, decimal=decimal, limit=limit
        )
        rows = np.arange(len(next(iter(columns.values()), ())))
        origin = Provenance(file.name, rows, {file.name: sha256(file)})
        return Table(str(file), columns, row_name_in(file, separator), origin)

    tables: dict[str, Table] = {}
    if path.is_dir():
        for file in files:
            if file.stem in tables:
                raise DataError(f"{file}: '{file.stem}' occurs twice; use one file per source: rename or remove one")
            tables[file.stem] = read(file)
    else:
        tables = by_source(read(path), source)
    wanted = None if target is None else str(target)  # sources may have numbers as names
    goal = Goal(wanted, target_labels, seed, label, regression, bins, allow_overlap)
    return from_tables(
        path.stem,
        tables,
        goal,
        categorical=codes,
        missing=missing,
        standardise=standardise,
        keep=kept,
        unlabelled=None if more is None else read(more),
    )


def listed(names: Sequence[str] | str) -> tuple[str, ...]:
    """Names as a sequence, or as one text with commas between them."""
    return tuple(name.strip() for name in names.split(",") if name.strip()) if isinstance(names, str) else tuple(names)


def read_columns(
    path: Path,
    *,
    label: str | None = None,
    text: Collection[str] = (),
    drop: Collection[str] = (),
    separator: str | None = None,
    decimal: str = ".",
    limit: int = LARGEST_BYTES,
) -> dict[str, NDArray[Any]]:
    """The columns of a ``.csv``, ``.tsv`` or ``.parquet`` file by name, rows in their order.

    Numbers are integers, or floats with NaN for an empty cell. Texts are objects with None or ``""`` for an empty cell.
    The first line of a CSV file names its columns, and its text is UTF-8; the columns in ``text`` are text even if they
    look like numbers (``01`` stays ``01``). So is ``label``. In this column numbers with a decimal comma get a point,
    and ``NA`` among numbers is an empty cell. A file with more bytes than ``limit``, packed or unpacked, is refused
    without reading it. The other arguments are those of :func:`from_columns`.
    """
    refuse_large(path, file_size(path), limit)
    if path.suffix.lower() == ".parquet":
        table = _read_parquet(path, drop, limit)
    else:
        texts = text if label is None else (label, *text)
        table = _read_csv(path, texts, _separator(path, separator), decimal)
    if not table.num_rows:
        raise DataError(f"{path}: has no rows; add some, or leave it out")
    try:
        columns = columns_of(table, str(path), drop)
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: has text that is not UTF-8 ({error}); write it again") from None
    if label in columns and columns[label].dtype.kind == "O":
        columns[label] = _label_cells(columns[label], decimal)
    return columns


def _label_cells(cells: NDArray[np.object_], decimal: str) -> NDArray[np.object_]:
    """Labels are read as text. Give numbers among them the form that they would have in a column of numbers."""
    if decimal == ",":
        cells = np.array([_with_point(cell) for cell in cells], object)
    said = {cell for cell in cells if cell}
    missing = said & _MISSING
    if missing and said > missing and all(is_number(cell) for cell in said - missing):
        cells = np.array([None if cell in missing else cell for cell in cells], object)
    return cells


def _with_point(cell: Any) -> Any:
    """Replace the decimal comma of a number by a point. Leave any other cell as it is."""
    if not isinstance(cell, str) or "," not in cell:
        return cell
    pointed = cell.replace(",", ".", 1)
    return pointed if is_number(pointed) else cell


def column_names(path: Path, separator: str | None = None) -> list[str]:
    """The names of a file's columns, without reading its rows. Empty if it is not a table."""
    if path.suffix.lower() == ".parquet":
        arrow, reader = require("pyarrow", "tables"), require("pyarrow.parquet", "tables")
        try:
            return list(reader.read_schema(path).names)
        except (arrow.ArrowException, OSError, ValueError):
            return []
    with path.open(newline="", encoding="utf-8-sig", errors="replace") as stream:
        first = stream.readline(_LONGEST_HEADER)
        try:
            return next(csv.reader([first], delimiter=_separator(path, separator)), [])
        except csv.Error:  # a name that is too long for that reader
            return []


def refuse_large(path: Path, size: int, limit: int) -> None:
    """Refuse a file with more bytes to read than the limit allows."""
    if size > limit:
        raise DataError(
            f"{path}: {size:,} bytes to read, more than the limit of {limit:,}; give fewer rows, or raise the limit "
            f"with {given('limit', size)}"
        )


def bytes_of_cells(path: Path, size: int, drop: Collection[str]) -> int:
    """About how many bytes a file's columns take in memory: the size of a text file, what a Parquet file declares."""
    if path.suffix.lower() != ".parquet":
        return size
    arrow, reader = require("pyarrow", "tables"), require("pyarrow.parquet", "tables")
    try:
        with reader.ParquetFile(path) as file:
            names = [name for name in file.schema_arrow.names if name not in drop]
            return 8 * int(file.metadata.num_rows) * len(names)
    except (arrow.ArrowException, OSError, ValueError):
        return 0  # reading the file will say what is wrong


def row_name_in(path: Path, separator: str | None = None) -> RowName:
    """The place of a row in a file: ``mine/a.csv line 7`` in a text file (line 1 is the header), else ``… row 6``."""
    if path.suffix.lower() == ".parquet":
        return lambda row: f"{path} row {row + 1}"
    lines = cache(lambda: _line_numbers(path, _separator(path, separator)))
    return lambda row: _named(path, row + 1, lines())


def _separator(path: Path, separator: str | None) -> str:
    between = separator or SEPARATORS.get(path.suffix.lower(), ",")
    if len(between) != 1 or between in '"\r\n' or not between.isascii():
        raise ConfigError(f"{path}: separator is {separator!r}; give one character, such as {given('separator', ';')}")
    return between


def _line(path: Path, record: int, separator: str) -> str:
    """The place of a record. The header is record 0."""
    return _named(path, record, _line_numbers(path, separator))


def _named(path: Path, record: int, lines: Sequence[int]) -> str:
    return f"{path} line {lines[record]}" if record < len(lines) else f"{path} row {record}"


def _line_numbers(path: Path, separator: str) -> Sequence[int]:
    """The line on which each record ends, including the header. Blank lines are not records."""
    lines = array("q")
    with path.open(newline="", encoding="utf-8-sig", errors="replace") as stream:
        reader = csv.reader(stream, delimiter=separator)
        with suppress(csv.Error):  # A cell is too long for that reader, so the lines of what follows are unknown.
            lines.extend(reader.line_num for cells in reader if cells)
    return lines


def _read_csv(path: Path, text: Collection[str], separator: str, decimal: str) -> Any:
    arrow, reader = require("pyarrow", "tables"), require("pyarrow.csv", "tables")
    ragged: list[Any] = []

    def keep(row: Any) -> str:
        ragged.append(row)
        return "skip"

    if decimal not in (".", ",") or decimal == separator:
        raise ConfigError(
            f"{path}: decimal is {decimal!r} and separator is {separator!r}; give {given('decimal', '.')} or ','"
        )
    quotes = _check_text(path)

    def table_of(block: int) -> Any:
        ragged.clear()
        return reader.read_csv(
            path,
            read_options=reader.ReadOptions(use_threads=False, block_size=block),
            parse_options=reader.ParseOptions(delimiter=separator, newlines_in_values=True, invalid_row_handler=keep),
            convert_options=reader.ConvertOptions(
                decimal_point=decimal, column_types=dict.fromkeys(text, arrow.string())
            ),
        )

    try:
        try:
            table = table_of(_BLOCK)
        except arrow.ArrowException:
            # Types are inferred from the first block. If a later block has other cells, the file is read as a single
            # block.
            table = table_of(min(path.stat().st_size + 1, _LARGEST_BLOCK))
    except (arrow.ArrowException, OSError) as error:
        raise DataError(f"{path}: cannot be read as a CSV file ({str(error).splitlines()[0]}); correct it") from None
    _check_header(path, table.column_names, separator, separator == _separator(path, None))
    if ragged:
        row = ragged[0]
        cells = f"{row.actual_columns} cell{'s' * (row.actual_columns != 1)}"
        raise DataError(
            f"{_line(path, row.number - 1, separator)}: has {cells}, the first line names "
            f"{row.expected_columns} ({such_rows(len(ragged))}); correct them: cells with '{separator}' need quotes"
        )
    if quotes % 2 and any("\n" in str(cell) for row in table[-1:].to_pylist() for cell in row.values()):
        raise DataError(
            f"{_line(path, table.num_rows - 1, separator)}: a quote after this line is never closed; close or remove it"
        )
    return table


def _check_text(path: Path) -> int:
    """How many quotes the file has. Raise unless it is UTF-8."""
    quotes, decoder = 0, getincrementaldecoder("utf-8")()
    with path.open("rb") as stream:
        try:
            while piece := stream.read(_BLOCK):
                quotes += piece.count(b'"')
                decoder.decode(piece)
            decoder.decode(b"", final=True)
        except UnicodeDecodeError:
            raise DataError(f"{path} line {_foreign_line(path)}: is not UTF-8 text; save the file as UTF-8") from None
    return quotes


def _foreign_line(path: Path) -> int:
    """The number of the first line that is not UTF-8."""
    with path.open("rb") as stream:
        for number, line in enumerate(stream, start=1):
            try:
                line.decode()
            except UnicodeDecodeError:
                return number
    return 1


def _check_header(path: Path, names: list[str], separator: str, usual: bool) -> None:
    others = [other for other in ";,\t|" if other != separator and other in names[0]]
    if len(names) == 1 and others:
        apart = f"if its cells are separated by {others[0]!r}, "
        fix = f"give {given('separator', others[0])}" if usual else f"save it with {separator!r} like the others"
        raise DataError(f"{path}: has one column, {shown(names[0])}; {apart}{fix}")
    unnamed = [str(place) for place, name in enumerate(names, start=1) if not name]
    if len(unnamed) > 1:
        raise DataError(
            f"{path}: columns {', '.join(unnamed)} have no name; name them in the first line, or write the file "
            "without them"
        )
    if all(is_number(name) for name in names):
        raise DataError(f"{path}: the first line contains numbers; put a line with the names of the columns before it")


def _read_parquet(path: Path, drop: Collection[str], limit: int) -> Any:
    arrow, reader = require("pyarrow", "tables"), require("pyarrow.parquet", "tables")
    types = require("pyarrow.types", "tables")
    try:
        with reader.ParquetFile(path) as file:
            shape = file.metadata
            groups = (shape.row_group(number).total_byte_size for number in range(shape.num_row_groups))
            refuse_large(path, max(sum(groups), 8 * shape.num_rows * shape.num_columns), limit)
            schema = file.schema_arrow
        texts = [field.name for field in schema if types.is_string(field.type) or types.is_large_string(field.type)]
        kept = [name for name in schema.names if name not in drop]
        return reader.read_table(path, columns=kept, read_dictionary=texts, partitioning=None)
    except DataError:
        raise
    except (arrow.ArrowException, OSError, ValueError) as error:  # ValueError: names that are not UTF-8
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise DataError(f"{path}: cannot be read as a Parquet file ({reason}); write it again") from None
