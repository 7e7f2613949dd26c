"""``metasched predict``: put the model of a run to use."""

import csv
import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import tyro
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from metasched.cli.common import Options, app, pairs, print_json, stderr
from metasched.errors import ConfigError, DataError

if TYPE_CHECKING:
    from metasched.datasets.rows import NewRows
    from metasched.learners.model import Model

SHOWN = 10
"""Rows that are printed where no file is asked for."""

Place = Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN")]
Source = Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="ROWS")]


@app.command
def predict(
    run: Place,
    rows: Source,
    out: Path | None = None,
    seed: int | None = None,
    data: Options = (),
    json: bool = False,
) -> None:
    """Predict new rows with the model of a run.

    Example: metasched predict runs/a new.csv --out predictions.csv

    Args:
        run: The folder of a run, of several seeds, or of a saved model.
        rows: A table (.csv, .tsv, .parquet; columns by name as in training), an .npz file with inputs, or a folder of
            images. With labels in it, accuracy is printed too.
        out: Write every prediction to this CSV file; without it the first rows are printed.
        seed: Of several seeds, this one; by default the first.
        data: An option of the table, key=value, such as separator=';'; may be repeated.
        json: Print as JSON.
    """
    from metasched.datasets.rows import Reading, read_rows
    from metasched.files import write_whole
    from metasched.learners.model import load_model
    from metasched.runs.folder import model_folder

    if out is not None and out.exists() and rows.exists() and out.samefile(rows):
        raise ConfigError(f"{out}: holds the rows to predict; choose another --out")
    model = load_model(model_folder(run, seed))
    about = model.about
    found = read_rows(rows, Reading(about.shape, about.preparation, about.classes), **pairs("--data", data))
    try:
        heading, lines = _lines(model, found)
        score = model.score(found.inputs[found.labelled], found.answers) if len(found.labelled) else None
    except DataError as error:
        raise DataError(f"{rows}: {error}") from None
    for note in found.notes:
        stderr().print(f"note: {escape(f'{rows}: {note}')}", highlight=False, soft_wrap=True)
    if out is not None:
        write_whole(out, _as_csv([heading, *lines]))
    name = "score" if not model.classes else "balanced accuracy" if about.balanced_accuracy else "accuracy"
    if json:
        told = {"rows": len(lines), "predictions": [dict(zip(heading, line, strict=True)) for line in lines]}
        measured = {} if score is None else {name.replace(" ", "_"): score, "labelled_rows": len(found.labelled)}
        print_json((told if out is None else {"rows": len(lines), "out": str(out)}) | measured)
        return
    if out is None:
        Console().print(_as_table(heading, lines[:SHOWN]))
    more = f"; the first {SHOWN} are shown, --out writes all" if out is None and len(lines) > SHOWN else ""
    print(f"{len(lines):,} {'row' if len(lines) == 1 else 'rows'} predicted{more}")
    if score is not None:
        print(f"{name} {score:.4f} on {len(found.labelled):,} rows with labels")
    if out is not None:
        print(f"Predictions: {out}")


def _lines(model: "Model", found: "NewRows") -> tuple[list[str], list[list[str]]]:
    """The names of the columns, and for every row its name, what is predicted and how likely each class is."""
    predicted = model.predict(found.inputs)
    if model.classes:
        chances = model.predict_proba(found.inputs)
        heading = ["row", "prediction", *(f"p({name})" for name in model.classes)]
        cells: Iterator[Sequence[str]] = (
            [str(name), *(f"{chance:.6f}" for chance in row)] for name, row in zip(predicted, chances, strict=True)
        )
    else:
        numbers = predicted.reshape(len(predicted), -1)
        wide = numbers.shape[1] > 1
        heading = ["row", *([f"prediction {n + 1}" for n in range(numbers.shape[1])] if wide else ["prediction"])]
        cells = ([np.format_float_positional(number, trim="0") for number in row] for row in numbers)
    return heading, [[name, *line] for name, line in zip(found.names, cells, strict=True)]


def _as_csv(lines: Sequence[Sequence[str]]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(lines)
    return text.getvalue().encode()


def _as_table(heading: Sequence[str], lines: Sequence[Sequence[str]]) -> Table:
    table = Table(box=None, header_style="bold")
    for name in heading:
        table.add_column(escape(name), justify="left" if name == "prediction" else "right")
    for line in lines:
        table.add_row(*map(escape, line))
    return table
