"""What comes out of a run: a network with its weights, which names what it sees."""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Protocol, TypeAlias, runtime_checkable

import jax
import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import softmax

from metasched.errors import ConfigError, DataError
from metasched.files import write_whole
from metasched.learners import model_file
from metasched.learners.evaluation import full_scorer, pieces, read_score
from metasched.learners.losses import Objective, Rows, outputs
from metasched.learners.model_file import About
from metasched.learners.networks import Cnn, Heads, Mlp, Network, Weights
from metasched.learners.settings import Joint
from metasched.optional import require
from metasched.tasks import Inputs, Labels, TaskSet, as_inputs, as_targets


@runtime_checkable
class Frame(Protocol):
    """A DataFrame of pandas or polars, as far as it is needed: cells by the names of its columns."""

    @property
    def columns(self) -> Iterable[str]:
        """Names of the columns."""

    def __getitem__(self, name: str, /) -> ArrayLike:
        """The cells of one."""


Table: TypeAlias = Mapping[str, ArrayLike] | Frame


@dataclass(frozen=True, eq=False, repr=False)
class Model:
    """A trained network, to be used: ``run.model()`` gives one, :func:`metasched.load_model` reads one back.

    Rows are read as in training: an array ``(n, *shape)`` of numbers, or of ``uint8`` pixels, which are divided by
    255; or, where training had a table, its columns by name (a dict or a DataFrame), as files have them.

    Attributes:
        about: what it was trained on, and how it reads rows.
        network: its two functions.
        weights: theirs.

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
    def classes(self) -> tuple[str, ...]:
        """What :meth:`predict` may answer, in the order of :meth:`predict_proba`'s columns; empty in regression."""
        return self.about.classes

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one input."""
        return self.about.shape

    def predict(self, inputs: Table | ArrayLike) -> NDArray[Any]:
        """What the model says of every row.

        Args:
            inputs: the rows.

        Returns:
            The class name (n,); in regression the number (n,), or the numbers (n, d).
        """
        read = self._outputs(inputs)
        if self.about.variance is None:
            return np.asarray(np.take(self.classes, read.argmax(axis=1)))
        return read[:, 0] if read.shape[1] == 1 else read

    def predict_proba(self, inputs: Table | ArrayLike) -> NDArray[np.float32]:
        """The probability of every class: softmax of the target's outputs.

        Args:
            inputs: the rows.

        Returns:
            (n, classes) float32; rows sum to one.
        """
        if self.about.variance is not None:
            raise ConfigError("a model of numbers has no probabilities of classes; call predict")
        read = self._outputs(inputs)[:, : len(self.classes)]
        return np.asarray(softmax(read, axis=1))

    def score(self, inputs: Table | ArrayLike, answers: ArrayLike) -> float:
        """What a run reports as test accuracy, of these rows.

        Args:
            inputs: the rows.
            answers: (n,) class names, or their numbers from 0; in regression targets (n,) or (n, d).

        Returns:
            The share of right answers, or its mean over classes where the run was so set; in regression 1 − squared
            error / variance of the validation targets.
        """
        rows = self._rows(inputs, answers)
        stack = jax.tree.map(lambda leaf: leaf[None], self.weights)
        (sums,) = full_scorer(self._objective)(stack, rows)
        counts = np.bincount(np.asarray(rows.labels), minlength=self.about.width)
        return read_score(self._objective, sums, counts).accuracy

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write ``model.safetensors`` and ``model.json`` into a folder; a model that is there is replaced.

        Args:
            folder: made if it is not there.
        """
        model_file.write(Path(folder), self.about, self.weights)

    def save_onnx(self, path: str | os.PathLike[str]) -> None:
        """Write the network as ONNX, for programs without Python or JAX (extra ``onnx``).

        It takes inputs ``(rows, *shape)`` float32, prepared as in training, and gives the probabilities of
        :meth:`predict_proba`, or in regression the numbers of :meth:`predict`.

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

    def __repr__(self) -> str:
        layers = "own network" if self.about.network is None else type(self.about.network).__name__.lower()
        answers = f"one of {', '.join(self.classes)}" if self.classes else "numbers"
        return f"Model({layers} trained on {self.about.data}: inputs {self.shape} to {answers})"

    @cached_property
    def _objective(self) -> Objective:
        about = self.about
        settings = Joint(precision=about.precision, balanced_accuracy=about.balanced_accuracy)
        return Objective(
            self.network, settings, Heads(len(about.heads), about.width, about.heads), variance=about.variance
        )

    @cached_property
    def _read(self) -> Any:
        return jax.jit(partial(outputs, self._objective, head=self._objective.heads.target))

    def _outputs(self, inputs: Table | ArrayLike) -> NDArray[np.float32]:
        """What the target's head says (n, width); in regression (n, d)."""
        rows = self._inputs(inputs)
        unlabelled = Rows(rows, np.zeros(len(rows), np.int32))  # type: ignore[arg-type]
        found = [np.asarray(self._read(self.weights, piece.inputs))[:count] for piece, count in pieces(unlabelled)]
        return np.concatenate(found)

    def _inputs(self, inputs: Table | ArrayLike) -> Inputs:
        if self.about.preparation is not None and isinstance(inputs, Mapping | Frame):
            names = inputs if isinstance(inputs, Mapping) else inputs.columns
            inputs = self.about.preparation.inputs({name: np.asarray(inputs[name]) for name in names})
        rows = as_inputs("inputs", inputs)  # type: ignore[arg-type]
        if rows.ndim != len(self.shape) + 1 or rows.shape[1:] != self.shape:
            wanted = ", ".join(["rows", *map(str, self.shape)])
            raise DataError(f"inputs have shape {rows.shape}, but the model reads ({wanted}); give rows of that shape")
        if not len(rows):
            raise DataError("there are no rows to predict; give at least one")
        bad = np.flatnonzero(~np.isfinite(rows).reshape(len(rows), -1).all(axis=1))
        if bad.size:
            raise DataError(f"row {bad[0] + 1} holds NaN or infinity ({bad.size} such rows); drop or fill those rows")
        return rows

    def _rows(self, inputs: Table | ArrayLike, answers: ArrayLike) -> Rows:
        rows = self._inputs(inputs)
        targets = None if self.about.variance is None else as_targets("answers", answers)
        given = np.asarray(answers) if targets is None else targets
        if len(given) != len(rows):
            raise DataError(f"there are {len(rows)} rows and {len(given)} answers; give one for each row")
        labels = self._labels(given) if targets is None else np.zeros(len(rows), np.int32)
        return Rows(rows, labels, targets)  # type: ignore[arg-type]

    def _labels(self, answers: NDArray[Any]) -> Labels:
        """The number of every class name; a number stands for itself."""
        numbered = answers.dtype.kind in "iu"
        known = {str(number) if numbered else name: number for number, name in enumerate(self.classes)}
        labels = np.array([known.get(str(answer), -1) for answer in answers], np.int32)
        wrong = np.flatnonzero(labels < 0)
        if wrong.size:
            raise DataError(
                f"row {wrong[0] + 1} is labelled '{answers[wrong[0]]}', which is no class of the model "
                f"({', '.join(self.classes)}); mend the label or leave the labels out"
            )
        return labels


def model_of(objective: Objective, tasks: TaskSet, weights: Weights) -> Model:
    """The model that an objective measures with those weights.

    Where sources that have more classes than the target share its head, their surplus is called ``#4``, ``#5``, ….
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
        precision=settings.precision,
        balanced_accuracy=settings.balanced_accuracy,
        preparation=tasks.preparation,
    )
    return Model(about, objective.network, weights)


def read_model(folder: Path, network: Network | None = None) -> Model:
    """The model in that very folder; ``network`` for one that was trained with a network made in Python."""
    return Model(*model_file.read(folder, network))
