"""Reading plain text tables of numbers."""

from pathlib import Path

import numpy as np

from metasched.errors import DataError
from metasched.tasks import Inputs


def read_table(path: Path, columns: int, delimiter: str | None = None) -> Inputs:
    """A table (rows, ``columns``) of float32; an error names the file and, where it is known, the row."""
    try:
        table = np.loadtxt(path, dtype=np.float32, delimiter=delimiter, ndmin=2)
    except (ValueError, UnicodeDecodeError) as error:
        reason = str(error).splitlines()[0].split(";")[0]
        raise DataError(f"{path}: not a table of numbers ({reason}); fetch the file again") from None
    if table.shape[1] != columns:
        raise DataError(f"{path}: has {table.shape[1]} columns, expected {columns}; fetch the file again")
    return table
