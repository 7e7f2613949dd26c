"""New rows for a trained model: from a table, an ``.npz`` file or a folder of images, with their labels if there are
any.

Rows become inputs as in training: columns are matched by name and prepared by the
:class:`~metasched.tasks.Preparation`, and images get the size of the training images.
"""

import csv
import math
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from metasched.datasets.images import LARGEST_BYTES as LARGEST_IMAGES
from metasched.datasets.images import SUFFIXES as IMAGES
from metasched.datasets.images import read_image
from metasched.datasets.npz import open_npz
from metasched.datasets.tables import (
    LARGEST_BYTES,
    SEPARATORS,
    column_names,
    listed,
    read_columns,
    refuse_large,
    row_name_in,
)
from metasched.datasets.tables import SUFFIXES as TABLES
from metasched.errors import ConfigError, DataError
from metasched.files import natural_order
from metasched.tasks import TEST, Inputs, Preparation, RowName, as_inputs, from_pixels
from metasched.tasks.preparation import as_numbers, as_texts, is_number
from metasched.untrusted import file_size

MOST_NAMED = 5
"""How many arrays of a file a message names."""


class Reading(NamedTuple):
    """How a model reads rows: the shape of an input, the preparation of a table, and the classes.

    Without classes it predicts numbers.
    """

    shape: tuple[int, ...]
    preparation: Preparation | None
    classes: tuple[str, ...]


class NewRows(NamedTuple):
    """Inputs (n, *shape), a name for each row (n,), and the answers that came with them, if any.

    ``labelled`` are the numbers of the rows with an answer, and ``answers`` (n,) or (n, d) are these answers: class
    names, numbers of classes, or targets in regression. ``notes`` are for people.
    """

    inputs: Inputs
    names: list[str]
    labelled: NDArray[np.int64]
    answers: NDArray[Any]
    notes: tuple[str, ...] = ()


def read_rows(path: Path, reading: Reading, **options: Any) -> NewRows:
    """Read the rows of a file or folder. ``options`` are those of :func:`~metasched.datasets.tables.read_columns`."""
    suffix = path.suffix.lower()
    table = suffix in TABLES
    if options and not table:
        raise ConfigError(f"{path}: options ({', '.join(options)}) are for tables; leave them out")
    if path.is_dir():
        return _from_images(path, reading)
    if not path.exists():
        raise DataError(f"{path}: no such file or folder")
    file_size(path)
    if suffix == ".npz":
        return _from_npz(path, reading)
    if not table:
        raise DataError(f"{path}: rows come as {', '.join(TABLES)} or .npz, or as a folder of images; give one of them")
    if reading.preparation is not None:
        return _from_table(path, reading, reading.preparation, options)
    if suffix == ".parquet" or options:
        raise DataError(f"{path}: the model was trained on arrays, not on a table; give a .csv of numbers or .npz")
    return _from_numbers(path, reading)


def _unlabelled(inputs: Inputs, names: list[str] | None = None) -> NewRows:
    counted = names or [str(row + 1) for row in range(len(inputs))]
    return NewRows(inputs, counted, np.empty(0, np.int64), np.empty(0))


def _check(answers: NDArray[Any], reading: Reading, row_name: RowName) -> None:
    """Refuse a row with a class that the model does not have."""
    known = set(map(str, range(len(reading.classes)))) if answers.dtype.kind in "iu" else set(reading.classes)
    for row, answer in enumerate(answers if reading.classes else ()):
        if str(answer) not in known:
            raise DataError(
                f"{row_name(row)}: is labelled '{answer}', which is not a class of the model "
                f"({', '.join(reading.classes)}); correct the label, or leave out the labels"
            )


def _from_table(path: Path, reading: Reading, preparation: Preparation, options: Mapping[str, Any]) -> NewRows:
    texts = [column.name for column in preparation.columns if column.kind == "category"]
    wanted = {preparation.label, *(column.name for column in preparation.columns)}
    try:
        there = column_names(path, options.get("separator"))
        drop = [*listed(options.get("drop", ())), *(name for name in there if name not in wanted)]
        columns = read_columns(path, label=preparation.label, text=texts, **{**options, "drop": drop})
    except TypeError as error:
        raise ConfigError(f"{path}: an option is unknown or of the wrong type ({error})") from error
    absent = [column.name for column in preparation.columns if column.name not in columns]
    if absent:
        raise DataError(
            f"{path}: has no column '{absent[0]}', only {', '.join(there)}; add it, because the model was "
            "trained with it"
        )
    row_name = row_name_in(path, options.get("separator"))
    rows = _unlabelled(preparation.inputs(columns, row_name))
    strange = {column.name: column.unknown(columns[column.name]) for column in preparation.columns}
    notes = tuple(
        f"in {count:,} rows, column '{name}' has a category that no source row had; it is ignored"
        for name, count in strange.items()
        if count
    )
    cells = columns.get(preparation.label)
    said = [] if cells is None else as_texts(cells)
    labelled = np.array([row for row, text in enumerate(said) if text is not None], np.int64)
    if cells is None or not labelled.size:
        return rows._replace(notes=notes)
    known = cells[labelled]
    if not reading.classes or (not preparation.text_labels and all(is_number(str(cell)) for cell in known)):
        known = as_numbers(preparation.label, known, lambda row: row_name(int(labelled[row])))
    answers = np.array(as_texts(known)) if reading.classes else known
    _check(answers, reading, lambda row: row_name(int(labelled[row])))
    return rows._replace(labelled=labelled, answers=answers, notes=notes)


def _from_numbers(path: Path, reading: Reading) -> NewRows:
    """A CSV file with only inputs, each row flat. A first line with names is skipped."""
    width = math.prod(reading.shape)
    refuse_large(path, path.stat().st_size, LARGEST_BYTES)
    found: list[NDArray[np.float32]] = []
    with path.open(newline="", encoding="utf-8-sig", errors="replace") as stream:
        lines = csv.reader(stream, delimiter=SEPARATORS[path.suffix.lower()])
        for number, cells in enumerate(_records(path, lines)):
            if number == 0 and not any(map(is_number, cells)):
                continue
            where = f"{path} line {lines.line_num}"
            if len(cells) != width:
                raise DataError(f"{where}: has {len(cells)} cells, but the model needs {width} numbers; give {width}")
            odd = [cell for cell in cells if not is_number(cell) or not math.isfinite(float(cell))]
            if odd:
                raise DataError(f"{where}: has {odd[0][:40]!r} where a number should be; correct it or drop the row")
            found.append(np.array(cells, np.float64).astype(np.float32))
    if not found:
        raise DataError(f"{path}: has no rows; add some")
    return _unlabelled(np.stack(found).reshape(-1, *reading.shape))


def _records(path: Path, lines: Any) -> Iterator[list[str]]:
    """The lines that are not blank."""
    try:
        yield from filter(None, lines)
    except csv.Error as error:
        raise DataError(f"{path} line {lines.line_num}: is not a line of a table ({error}); correct it") from None


def _from_npz(path: Path, reading: Reading) -> NewRows:
    """Read ``inputs``, with ``labels`` or ``targets`` if there are any. Of a task set, read the test rows."""
    with open_npz(path) as content:
        under = "" if "inputs" in content else f"{TEST}/"
        if f"{under}inputs" not in content:
            listed = ", ".join(islice(content, MOST_NAMED)) + (", …" if len(content) > MOST_NAMED else "")
            raise DataError(
                f"{path}: has no array 'inputs', nor '{TEST}/inputs' of a task set with test rows, only "
                f"{listed or 'none at all'}; save the rows to predict as 'inputs': np.savez(path, inputs=…)"
            )
        rows = _unlabelled(as_inputs(str(path), content[f"{under}inputs"]))
        key = f"{under}labels" if reading.classes else f"{under}targets"
        if under:
            rows = rows._replace(notes=("the file holds a task set; these are its test rows",))
        if key not in content:
            return rows
        answers = content[key]
        names = next((content[key] for key in ("classes", "target/classes") if key in content), None)
        if reading.classes and names is not None and answers.dtype.kind in "iu":
            if answers.size and not 0 <= answers.min() <= answers.max() < len(names):
                raise DataError(f"{path}: '{key}' has numbers outside 0 … {len(names) - 1}; use only these")
            answers = names[answers]
        _check(answers, reading, lambda row: f"{path} row {row + 1}")
        return rows._replace(labelled=np.arange(len(answers)), answers=answers)


def _from_images(root: Path, reading: Reading) -> NewRows:
    """Images in a folder, or in folders that name their class if the model has it, in natural order."""
    shape = reading.shape
    if len(shape) not in (2, 3) or shape[2:] not in ((), (3,)):
        raise DataError(f"{root}: the model needs inputs of shape {shape}, and images do not fit; give an .npz file")
    files = [path for path in (*root.glob("*"), *root.glob("[!.]*/*")) if path.suffix.lower() in IMAGES]
    files.sort(key=lambda path: (natural_order(path.name), path.parent.name))
    if not files:
        raise DataError(
            f"{root}: holds no images, neither directly nor in folders of classes; give a folder with images"
        )
    taken = 4 * math.prod(shape) * len(files)
    if taken > LARGEST_IMAGES:
        raise DataError(f"{root}: {len(files):,} images take {taken:,} bytes, too many at once; split the folder")
    inputs = np.stack([from_pixels(read_image(root, path, shape)) for path in files])
    rows = _unlabelled(inputs, [str(path.relative_to(root)) for path in files])
    classes = [path.parent.name if path.parent != root else None for path in files]
    labelled = np.array([row for row, name in enumerate(classes) if name in reading.classes], np.int64)
    return rows._replace(labelled=labelled, answers=np.array([classes[row] for row in labelled]))
