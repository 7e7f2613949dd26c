"""Models by the folder of a run, of several seeds, or of a saved model."""

import os
from pathlib import Path

from metasched.learners.model import Model, read_model
from metasched.learners.networks import Network
from metasched.runs.folder import model_folder


def load_model(folder: str | os.PathLike[str], network: Network | None = None, *, seed: int | None = None) -> Model:
    """The model that :meth:`Model.save`, or a run that has ended, left in a folder; no code of it runs.

    Args:
        folder: which; of several seeds, the one that holds theirs.
        network: your own, for a model that was trained with one.
        seed: of several seeds, this one; by default the first.

    Returns:
        The model.

    Raises:
        MetaschedError: for a folder without a model, a seed that it does not have, or a model of which a byte has
            changed.

    Examples:
        >>> run.model().save("winds")
        >>> again = ms.load_model("winds")
        >>> bool((again.predict(tasks.test.inputs) == run.model().predict(tasks.test.inputs)).all())
        True
    """
    return read_model(model_folder(Path(folder), seed), network)
