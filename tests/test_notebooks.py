"""The notebooks of examples/notebooks run in a real kernel, and show what is stored in them."""

import json
import re
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent.parent / "examples" / "notebooks"
NEEDS = {"own_files": ["sklearn", "altair", "pyarrow", "pandas"], "pytorch_loop": ["torch"], "mixing_text": []}
LARGEST = 100_000
"""Bytes of a notebook with its outputs."""


def test_every_notebook_is_tested():
    assert {path.stem for path in FOLDER.glob("*.ipynb")} == set(NEEDS)


@pytest.mark.parametrize("name", NEEDS)
def test_stored_outputs_are_small_and_without_errors(name):
    path = FOLDER / f"{name}.ipynb"
    assert path.stat().st_size < LARGEST
    cells = [cell for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    kinds = {output["output_type"] for cell in cells for output in cell["outputs"]}
    assert kinds <= {"stream", "display_data", "execute_result"}


@pytest.mark.slow
@pytest.mark.parametrize("name", NEEDS)
def test_a_notebook_runs_and_shows_what_its_text_says(name):
    nbformat = pytest.importorskip("nbformat")
    for module in ("nbclient", "ipykernel", *NEEDS[name]):
        pytest.importorskip(module)
    from notebooks import executed

    path = FOLDER / f"{name}.ipynb"
    stored, now = nbformat.read(path, as_version=4), executed(path)
    for before, after in zip(stored.cells, now.cells, strict=True):
        assert forms(before) == forms(after), after.source
    words = "\n".join(said(output) for cell in now.cells for output in cell.get("outputs", []))
    CLAIMS[name](words)


def forms(cell):
    """In which forms the outputs of a cell are there, such as text and HTML."""
    return [sorted(output.get("data", [output.output_type])) for output in cell.get("outputs", [])]


def said(output):
    return output.get("text") or output.data["text/plain"]


def own_files(words):
    assert re.search(r"^compare: (\d+) of \1 fits, finished in", words, re.M)
    assert "Choosing helps here" in words
    assert re.search(r"^uniform +0\.\d+ ± ", words, re.M), "the table is missing in the text"
    assert re.search(r"^north .* keep$", words, re.M)


def pytorch_loop(words):
    assert float(re.search(r"'good': ([\d.]+)", words)[1]) > 0.6


def mixing_text(words):
    uniform, thompson = map(float, re.findall(r"([\d.]+) bits per byte", words))
    assert thompson < uniform


CLAIMS = {"own_files": own_files, "pytorch_loop": pytorch_loop, "mixing_text": mixing_text}
