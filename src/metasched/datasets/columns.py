"""Task sets from CSV and Parquet files: one with a column that says where a row is from, or a folder, one a source."""

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from metasched.datasets.store import sha256
from metasched.datasets.tables import LARGEST_BYTES, SUFFIXES, column_names, read_columns, refuse_large, row_name_in
from metasched.errors import ConfigError, DataError, unknown
from metasched.tasks import Provenance, TaskSet
from metasched.tasks.assemble import Goal
from metasched.tasks.table import Table, by_source, from_tables
from metasched.untrusted import file_size


def table_files(folder: Path) -> list[Path]:
    """The tables directly in a folder, by name."""
    return sorted(
        path
        for path in folder.iterdir()
        if path.suffix.lower() in SUFFIXES and path.is_file() and not path.name.startswith(".")
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
    missing: str | None = None,
    standardise: bool = True,
    regression: bool | None = None,
    bins: int = 10,
    separator: str | None = None,
    decimal: str = ".",
    allow_overlap: bool = False,
    limit: int = LARGEST_BYTES,
) -> TaskSet:
    r"""Read a task set from a ``.csv``, ``.tsv`` or ``.parquet`` file, or from a folder of them; needs the extra
    ``tables``.

    In a folder every file is a source, named by the file; a file alone has a column ``source`` that names the source of
    each row. Rows keep their order. Where sources are named ``validation`` and ``test`` these are the target's rows.

    Args:
        path: the file or folder.
        target: the source that is the target; its rows are divided into validation and test.
        target_labels: how many of them are for validation, in proportion to the labels; by default half, at most 100.
        seed: decides which.
        label: the column to predict: text, whole numbers (classes), or other numbers (regression).
        source: the column that names the source of a row, in a file alone.
        categorical: columns of numbers that stand for categories; columns of text are categories anyway.
        drop: columns to leave out.
        missing: ``"mean"`` fills an empty number with the mean of the source rows and makes an empty text a category of
            its own; by default empty cells are refused.
        standardise: give numbers mean 0 and standard deviation 1 over the source rows.
        regression: predict the numbers in ``label``; by default if they are not all whole.
        bins: of these numbers, which schedulers see as labels.
        separator: between the cells of a CSV file; by default a comma, or a tab in ``.tsv``.
        decimal: the decimal point of a CSV file.
        allow_overlap: let a validation row be a test row too.
        limit: files with more bytes than this, all together, are refused unread.

    Returns:
        The task set.

    Raises:
        MetaschedError: for a column, cell or source that does not fit; the line names the file and the row.

    Examples:
        >>> from pathlib import Path
        >>> visits = [f"{'ab'[n % 2]},{n},{'yes' if n % 3 else 'no'}" for n in range(40)]
        >>> _ = Path("visits.csv").write_text("\n".join(["shop,age,bought", *visits]))
        >>> ms.datasets.from_columns("visits.csv", source="shop", label="bought", target="b")
        TaskSet('visits', tasks=['a'], sizes=[20])
    """
    path = Path(path)
    codes, unused = _listed(categorical), _listed(drop)
    files = table_files(path) if path.is_dir() else [path]
    sizes = {file: file_size(file) for file in files}
    if label in unused or label in codes:
        raise ConfigError(f"'{label}' is the column to predict; leave it out of drop and categorical")
    names = {name for file in files for name in column_names(file, separator)} if unused else set()
    for name in unused:
        if name not in names:
            raise unknown("column to drop", name, names)
    refuse_large(max(files, key=sizes.__getitem__), sum(sizes.values()), limit)

    def read(file: Path) -> Table:
        columns = read_columns(
            file, text=(label, source, *codes), drop=unused, separator=separator, decimal=decimal, limit=limit
        )
        rows = np.arange(len(next(iter(columns.values()), ())))
        return Table(
            str(file), columns, row_name_in(file, separator), Provenance(file.name, rows, {file.name: sha256(file)})
        )

    if path.is_dir():
        tables = {}
        for file in files:
            if file.stem in tables:
                raise DataError(f"{file}: '{file.stem}' is there twice; one file a source: rename or remove one")
            tables[file.stem] = read(file)
    else:
        tables = by_source(read(path), source)
    goal = Goal(
        target=None if target is None else str(target),
        target_labels=target_labels,
        seed=seed,
        label=label,
        regression=regression,
        bins=bins,
        allow_overlap=allow_overlap,
    )
    return from_tables(path.stem, tables, goal, categorical=codes, missing=missing, standardise=standardise)


def _listed(names: Sequence[str] | str) -> tuple[str, ...]:
    """Names as a sequence, or as one text with commas."""
    return tuple(name.strip() for name in names.split(",") if name.strip()) if isinstance(names, str) else tuple(names)
