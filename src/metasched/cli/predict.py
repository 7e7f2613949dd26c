"""``metasched predict``: predict new rows with the model of a run."""

from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import tyro
from rich.markup import escape
from rich.table import Table

from metasched.cli.common import Options, app, pairs, print_json, put, stderr, stdout
from metasched.errors import ConfigError, DataError
from metasched.untrusted import opened

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


FIRST_COLUMNS = b"row,prediction"
"""The first columns of a file of predictions."""
SHOWN = 10
"""How many rows are printed if no file is asked for."""

RunFolder = Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN")]
RowsPath = Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="ROWS")]


@app.command
def predict(
    run: RunFolder,
    rows: RowsPath,
    out: Path | None = None,
    seed: int | None = None,
    data: Options = (),
    json: bool = False,
) -> None:
    """Predict new rows with the model of a run.

    Example: metasched predict runs/a new.csv --out predictions.csv

    Args:
        run: The folder of a comparison (its final model is used), of a run, of several seeds (the mean of their models
            is used), or of a saved model.
        rows: A table (.csv, .tsv or .parquet, with the columns of training), an .npz file with inputs, or a folder of
            images. If it has labels, the accuracy is printed too, or the metric of the training.
        out: Write every prediction to this CSV file; without it the first rows are printed.
        seed: Use only the model of this seed.
        data: An option of the table, key=value, such as separator=';'; may be repeated.
        json: Print as JSON.
    """
    from metasched.comparison.predictions import columns, table
    from metasched.datasets.rows import Reading, read_rows
    from metasched.files import write_whole
    from metasched.runs.train import load_model

    replaced = out is not None and _in_place_of(out, rows)
    model = load_model(run, seed=seed)
    about = model.about
    found = read_rows(rows, Reading(about.shape, about.preparation, about.classes), **pairs("--data", data))
    try:
        answers = columns(model, found.names, found.inputs)
        score = model.score(found.inputs[found.labelled], found.answers) if len(found.labelled) else None
    except DataError as error:
        raise DataError(f"{rows}: {error}") from None
    if out is not None:
        write_whole(out, table(answers))
    for note in found.notes:
        stderr().print(f"note: {escape(f'{rows}: {note}')}", highlight=False, soft_wrap=True)
    count = len(found.names)
    name = "score" if about.metric is None and not model.classes else about.judge.word
    if score is not None:
        score = about.judge.shown(score)
    if json:
        result: dict[str, Any] = {"rows": count}
        if score is not None:
            result |= {
                (about.metric or name).replace("-", "_").replace(" ", "_"): score,
                "labelled_rows": len(found.labelled),
            }
        plain = {key: np.asarray(column).tolist() for key, column in answers.items()}
        print_json(result | ({"predictions": plain} if out is None else {"out": str(out), "replaced": replaced}))
        return
    if out is None:
        stdout().print(_as_table(answers, bool(model.classes)))
    more = f"; the first {SHOWN} are shown, and --out writes all of them" if out is None and count > SHOWN else ""
    put(f"{count:,} {'row' if count == 1 else 'rows'} predicted{more}")
    if score is not None:
        put(f"{name} {score:.4f} on {len(found.labelled):,} rows with labels")
    if out is not None:
        put(f"Predictions: {out}{' (replaces the earlier file)' if replaced else ''}")


def _in_place_of(out: Path, rows: Path) -> bool:
    """Whether the new predictions replace earlier ones. Any other file in their place is refused."""
    if not out.exists():
        return False
    if rows.exists() and out.samefile(rows):
        raise ConfigError(f"{out}: is the file with the rows to predict; choose another --out")
    if out.is_dir():
        raise ConfigError(f"{out}: is a folder; give --out a file, such as {out / 'predictions.csv'}")
    with opened(out, "choose another --out") as stream:
        begin = stream.read(len(FIRST_COLUMNS))
    if begin not in (b"", FIRST_COLUMNS):
        raise ConfigError(f"{out}: already exists and is not a file of predictions; choose another --out, or remove it")
    return begin == FIRST_COLUMNS


def _as_table(answers: "Mapping[str, Sequence[Any]]", classes: bool) -> Table:
    """Show the first rows. Of the probabilities, only the highest is shown."""
    shown = {name: column for name, column in answers.items() if not (classes and name.startswith("p("))}
    if classes:
        shown["probability"] = np.max([answers[name] for name in answers if name not in shown], axis=0)
    table = Table(box=None, header_style="bold")
    for name in shown:
        table.add_column(name, justify="left" if name == "prediction" else "right")
    for line in islice(zip(*shown.values(), strict=True), SHOWN):
        table.add_row(*(escape(cell) if isinstance(cell, str) else f"{cell:.4g}" for cell in line))
    return table
