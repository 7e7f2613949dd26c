"""Run the notebooks of examples/notebooks and keep their outputs: ``python tools/notebooks.py``.

Each notebook runs in a kernel of its own and in an empty folder, so that it needs nothing that you have.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).parent.parent / "examples" / "notebooks"
SECONDS = 1800
"""For one cell. Only a notebook that hangs takes so long."""


def executed(path: Path) -> nbformat.NotebookNode:
    """A notebook with the outputs of running it now; an error in a cell is raised."""
    notebook = nbformat.read(path, as_version=4)
    with TemporaryDirectory() as folder:
        NotebookClient(notebook, timeout=SECONDS, resources={"metadata": {"path": folder}}).execute()
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)  # when it ran
    return notebook


if __name__ == "__main__":
    for path in sorted(FOLDER.glob("*.ipynb")):
        nbformat.write(executed(path), path)
