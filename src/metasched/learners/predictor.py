"""What every model can do, whatever its kind: a network, a linear model, trees, or the mean of several models."""

import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
from msgspec import Struct
from numpy.typing import ArrayLike, NDArray

from metasched.errors import ConfigError, DataError, such_rows
from metasched.learners.metrics import Metric, MetricName, metric_of
from metasched.learners.networks import Size
from metasched.notebook import html
from metasched.tasks import Inputs, Labels, Preparation, Targets, as_inputs, as_targets


@runtime_checkable
class Frame(Protocol):
    """A DataFrame of pandas or polars, as far as it is needed: columns and their cells."""

    @property
    def columns(self) -> Iterable[str]:
        """The names of the columns."""

    def __getitem__(self, name: str, /) -> ArrayLike:
        """The cells of a column."""


Table: TypeAlias = Mapping[str, ArrayLike] | Frame


class Facts(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a model was trained on, how it reads rows, and what it predicts.

    ``classes`` is empty in regression. ``variance`` is the unit of squared errors in regression, and None otherwise.
    ``preparation`` turns the columns of a table into inputs, if training used a table. ``metric`` is the metric by
    which the model is judged; None means the usual one: accuracy, or R².
    """

    data: str
    shape: tuple[Size, ...]
    classes: tuple[str, ...]
    variance: float | None
    balanced_accuracy: bool
    preparation: Preparation | None = None
    metric: MetricName | None = None

    @property
    def judge(self) -> Metric:
        """The metric of the model's scores."""
        return metric_of(self.metric, balanced=self.balanced_accuracy, regression=self.variance is not None)


@dataclass(frozen=True, eq=False, repr=False)
class Predictor(ABC):
    """A model that predicts. ``run.model()`` returns one, and :func:`metasched.load_model` reads one.

    It is a trained network (:class:`metasched.Model`), a reference model (linear, forest, boosting), or the mean of
    several models.

    Rows are read as in training: as an array ``(n, *shape)`` of numbers, or of ``uint8`` pixels, which are divided by
    255. If training used a table, rows are columns by name (a dict or a DataFrame), as they are in files.

    Attributes:
        about: what it was trained on, and how it reads rows.

    Examples:
        >>> run.model().save("winds")
        >>> model = ms.load_model("winds")
        >>> model.title
        'mlp trained on arrays'
        >>> model.classes, model.shape
        (('calm', 'storm'), (4,))
        >>> set(model.predict(tasks.test.inputs).tolist()) <= {"calm", "storm"}
        True
        >>> model.predict_proba(tasks.test.inputs).shape
        (50, 2)
        >>> 0 <= model.score(*tasks.test) <= 1
        True
    """

    about: Facts

    @property
    @abstractmethod
    def title(self) -> str:
        """What the model is, in a few words."""

    @property
    def classes(self) -> tuple[str, ...]:
        """The possible predictions of :meth:`predict`, in the order of the columns of :meth:`predict_proba`. Empty in
        regression.
        """
        return self.about.classes

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one input."""
        return self.about.shape

    @abstractmethod
    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write the model into a folder, replacing a model that is already there. :func:`metasched.load_model` reads
        it.

        Args:
            folder: the folder, which is made if it does not exist.
        """

    def predict(self, inputs: Table | ArrayLike) -> NDArray[Any]:
        """Predict every row.

        Args:
            inputs: the rows.

        Returns:
            The class names (n,). In regression the numbers (n,), or (n, d) for several numbers per row.
        """
        rows = self._inputs(inputs)
        if self.about.variance is None:
            return np.asarray(np.take(self.classes, self._choices(rows)))
        numbers = self._outputs(rows)
        return numbers[:, 0] if numbers.shape[1] == 1 else numbers

    def predict_proba(self, inputs: Table | ArrayLike) -> NDArray[np.float32]:
        """Predict the probability of every class.

        Args:
            inputs: the rows.

        Returns:
            An array (n, classes) of float32. Rows sum to one.
        """
        if self.about.variance is not None:
            raise ConfigError("a regression model has no class probabilities; call predict")
        return self._outputs(self._inputs(inputs))

    def score(self, inputs: Table | ArrayLike, answers: ArrayLike) -> float:
        """Score the model on rows, as a run computes its test accuracy.

        Args:
            inputs: the rows.
            answers: the class names (n,), or their numbers from 0. In regression the targets (n,) or (n, d).

        Returns:
            The score by the ``metric`` that the model was trained for. Without one, this is the accuracy (balanced over
            classes if the run was), or in regression 1 − squared error / variance of the validation targets. The
            log-loss and the mean absolute error have a minus sign, so that higher is always better.
        """
        rows = self._inputs(inputs)
        given = np.asarray(answers) if self.about.variance is None else as_targets("answers", answers)
        if len(given) != len(rows):
            raise DataError(f"there are {len(rows)} rows but {len(given)} answers; give one for each row")
        return self._score(rows, self._labels(given) if self.about.variance is None else given)

    @abstractmethod
    def _outputs(self, rows: Inputs) -> NDArray[np.float32]:
        """The probabilities (n, classes) of checked rows (n, *shape); in regression numbers (n, d)."""

    def _choices(self, rows: Inputs) -> NDArray[np.int64]:
        """The number (n,) of the predicted class."""
        return np.asarray(np.argmax(self._outputs(rows), axis=1))

    def _score(self, rows: Inputs, answers: Labels | Targets) -> float:
        """The score of checked rows with the numbers of their classes (n,), or with targets (n, d)."""
        if self.about.variance is not None:
            found = self._outputs(rows)
            if found.shape != answers.shape:
                raise DataError(
                    f"answers have shape {answers.shape}, but the model predicts {found.shape}; give answers of "
                    "that shape"
                )
            if not self.about.judge.by_row:
                return self._judged(found, answers)
            return float(1 - ((found - answers) ** 2).sum(axis=1, dtype=np.float64).mean() / self.about.variance)
        if not self.about.judge.by_row:
            return self._judged(self._outputs(rows), answers)
        right = self._choices(rows) == answers
        if self.about.judge.name != "balanced-accuracy":
            return float(right.mean())
        return float(np.mean([right[answers == label].mean() for label in np.unique(answers)]))

    def _judged(self, outputs: NDArray[np.float32], answers: Labels | Targets) -> float:
        """The score by a metric that is not a mean over rows."""
        return self.about.judge.oriented(self.about.judge.score(outputs, answers))

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
            raise DataError(
                f"row {bad[0] + 1} contains NaN or infinity ({such_rows(bad.size)}); drop or fill those rows"
            )
        return rows

    def _labels(self, answers: NDArray[Any]) -> Labels:
        """The number of every class name. A number stands for itself."""
        numbered = answers.dtype.kind in "iu"
        known = {str(number) if numbered else name: number for number, name in enumerate(self.classes)}
        labels = np.array([known.get(str(answer), -1) for answer in answers], np.int32)
        wrong = np.flatnonzero(labels < 0)
        if wrong.size:
            raise DataError(
                f"row {wrong[0] + 1} is labelled '{answers[wrong[0]]}', which is not a class of the model "
                f"({', '.join(self.classes)}); correct the label, or leave out the labels"
            )
        return labels

    def __repr__(self) -> str:
        answers = f"one of {', '.join(self.classes)}" if self.classes else "numbers"
        return f"{type(self).__name__}({self.title}: inputs {self.shape} to {answers})"

    def _repr_html_(self) -> str:
        answers = ", ".join(self.classes) if self.classes else "numbers"
        columns = [] if self.about.preparation is None else [each.name for each in self.about.preparation.columns]
        rows = [
            ("reads", ", ".join(columns) or f"inputs of shape {self.shape}"),
            ("predicts", answers),
            ("judged by", self.about.judge.word),
        ]
        return html.page(html.line(self.title, strong=True), html.table(["", ""], rows))
