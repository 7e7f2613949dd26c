"""A reference model: an estimator with its parameters, used and stored like a trained network."""

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from metasched.learners.predictor import Predictor
from metasched.references import model_file
from metasched.references.fit import Parameters
from metasched.references.model_file import About
from metasched.references.rows import flat
from metasched.tasks import Inputs

_ROWS = {
    "target": "target rows of {}",
    "pooled": "pooled rows of {}",
    "weighted": "pooled rows of {}, target × 10",
    "greedy": "greedily chosen sources of {}",
    "chosen": "weighted sources of {}",
}


@dataclass(frozen=True, eq=False, repr=False)
class ReferenceModel(Predictor):
    """A linear model, a forest, boosting, or the majority class. :func:`metasched.load_model` reads it back.

    Attributes:
        about: what it was fitted on, and how it reads rows.
        parameters: the parameters, as plain arrays.
    """

    about: About
    parameters: Parameters

    @property
    def title(self) -> str:
        """The estimator, and what it was fitted on."""
        regression, estimator = self.about.variance is not None, str(self.about.estimator)
        if estimator == "majority":
            return f"{'mean of the labels' if regression else 'majority class'} of {self.about.data}"
        if estimator == "linear":
            estimator = "ridge regression" if regression else "logistic regression"
        return f"{estimator} on {_ROWS[self.about.rows].format(self.about.data)}"

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write ``model.safetensors`` and ``model.json`` into a folder. A model that is already there is replaced.

        Args:
            folder: the folder, which is made if it does not exist.
        """
        model_file.write(Path(folder), self.about, self.parameters)

    def _outputs(self, rows: Inputs) -> NDArray[np.float32]:
        return self._exact(rows).astype(np.float32)

    def _choices(self, rows: Inputs) -> NDArray[np.int64]:
        # Rounding to float32 can make two probabilities equal.
        return np.asarray(np.argmax(self._exact(rows), axis=1))

    def _exact(self, rows: Inputs) -> NDArray[np.float64]:
        return self.parameters.outputs(flat(rows), len(self.classes))
