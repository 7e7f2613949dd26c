"""The result of a run: a network with its weights, and what it needs to read rows."""

import os
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from metasched.files import write_whole
from metasched.learners import model_file
from metasched.learners.evaluation import full_scorer, pieces, predictions, read_score
from metasched.learners.losses import Objective, Rows, Unit, device_unit, outputs
from metasched.learners.model_file import About
from metasched.learners.networks import Cnn, Heads, Mlp, Network, Weights
from metasched.learners.one_thread import one_thread
from metasched.learners.predictor import Predictor
from metasched.learners.settings import Joint
from metasched.optional import require
from metasched.tasks import Inputs, Labels, Targets, TaskSet


@dataclass(frozen=True, eq=False, repr=False)
class Model(Predictor):
    """A trained network. ``run.model()`` returns one, and :func:`metasched.load_model` reads one.

    Rows are read as in training: as an array ``(n, *shape)`` of numbers, or of ``uint8`` pixels, which are divided by
    255. If training used a table, rows are columns by name (a dict or a DataFrame), as they are in files.

    Attributes:
        about: what it was trained on, and how it reads rows.
        network: its two functions.
        weights: its weights.

    Examples:
        >>> model = run.model()
        >>> model
        Model(mlp trained on arrays: inputs (4,) to one of calm, storm)
        >>> set(model.predict(tasks.test.inputs).tolist()) <= {"calm", "storm"}
        True
        >>> model.predict_proba(tasks.test.inputs).shape
        (50, 2)
        >>> model.score(*tasks.test) == run.final[0]["test_accuracy"]
        True
        >>> model.save("winds")
    """

    about: About
    network: Network
    weights: Weights

    @property
    def title(self) -> str:
        """The network, and what it was trained on."""
        layers = "own network" if self.about.network is None else type(self.about.network).__name__.lower()
        return f"{layers} trained on {self.about.data}"

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write ``model.safetensors`` and ``model.json`` into a folder. A model that is already there is replaced.

        Args:
            folder: the folder, which is made if it does not exist.
        """
        model_file.write(Path(folder), self.about, self.weights)

    def save_onnx(self, path: str | os.PathLike[str]) -> None:
        """Write the network as ONNX, for programs without Python or JAX (extra ``onnx``).

        The network takes inputs ``(rows, *shape)`` float32, prepared as in training. It returns the probabilities of
        ``predict_proba`` or, in regression, the numbers of ``predict``.

        Args:
            path: the file.

        Examples:
            >>> run.model().save_onnx("winds.onnx")
        """
        convert = require("jax2onnx", "onnx").to_onnx

        def answer(inputs: jax.Array) -> jax.Array:
            read = outputs(self._objective, self.weights, inputs, self._objective.heads.target)
            return jax.nn.softmax(read[:, : len(self.classes)]) if self.classes else read

        graph = convert(answer, [("rows", *self.shape)], model_name=self.about.data)
        write_whole(Path(path), graph.SerializeToString())

    @cached_property
    def _objective(self) -> Objective:
        about = self.about
        settings = Joint(precision=about.precision, balanced_accuracy=about.balanced_accuracy, metric=about.metric)
        unit = None
        if about.variance is not None:  # the first models were trained on targets in their own unit
            unit = Unit(about.variance, about.centre or (0.0,), about.scale or (1.0,))
        return Objective(self.network, settings, Heads(len(about.heads), about.width, about.heads), unit=unit)

    @cached_property
    def _read(self) -> Any:
        return jax.jit(partial(outputs, self._objective, head=self._objective.heads.target))

    def _logits(self, rows: Inputs) -> NDArray[np.float32]:
        """The outputs of the target's head (n, width); in regression (n, d)."""
        unlabelled = Rows(rows, np.zeros(len(rows), np.int32))  # type: ignore[arg-type]
        with one_thread():
            found = [np.asarray(self._read(self.weights, piece.inputs))[:count] for piece, count in pieces(unlabelled)]
        return np.concatenate(found)

    def _outputs(self, rows: Inputs) -> NDArray[np.float32]:
        return predictions(self._objective, self._logits(rows))

    def _choices(self, rows: Inputs) -> NDArray[np.int64]:
        # Based on the outputs, as a run counts right answers, because rounding can make two probabilities equal.
        return np.asarray(np.argmax(self._logits(rows), axis=1))

    def _score(self, rows: Inputs, answers: Labels | Targets) -> float:
        """Compute the score as the run did, bit for bit."""
        if not self.about.judge.by_row:
            return super()._score(rows, answers)
        known = (np.zeros(len(rows), np.int32), answers) if self.about.variance is not None else (answers, None)
        stack = jax.tree.map(lambda leaf: leaf[None], self.weights)
        given = Rows(rows, *known)  # type: ignore[arg-type]
        with one_thread():
            (sums,) = full_scorer(self._objective)(stack, given, device_unit(self._objective.unit))
        return read_score(self._objective, sums, np.bincount(known[0], minlength=self.about.width)).main


def model_of(objective: Objective, tasks: TaskSet, weights: Weights) -> Model:
    """The model of an objective with these weights.

    If sources with more classes than the target share its head, the extra classes are called ``#4``, ``#5``, ….
    """
    settings, heads, layers = objective.settings, objective.heads, objective.network.apply
    surplus = (f"#{number + 1}" for number in range(len(tasks.classes), heads.classes[heads.target]))
    about = About(
        data=tasks.name,
        network=layers if isinstance(layers, Mlp | Cnn) else None,
        shape=tasks.shape,
        classes=(*tasks.classes, *surplus) if objective.variance is None else (),
        heads=heads.classes,
        width=heads.width,
        variance=objective.variance,
        centre=() if objective.unit is None else objective.unit.centre,
        scale=() if objective.unit is None else objective.unit.scale,
        precision=settings.precision,
        balanced_accuracy=settings.balanced_accuracy,
        metric=settings.metric,
        preparation=tasks.preparation,
    )
    return Model(about, objective.network, weights)


def read_model(folder: Path, network: Network | None = None) -> Model:
    """Read the model in exactly this folder. ``network`` is for a model whose network was made in Python."""
    return Model(*model_file.read(folder, network))
