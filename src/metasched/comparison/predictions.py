"""Predictions for rows without labels, as a CSV file."""

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any

from metasched.learners.predictor import Predictor
from metasched.tasks import Inputs

PREDICTIONS = "predictions.csv"
"""Inside the folder of a comparison: the predictions for the target's unlabelled rows."""


def columns(model: Predictor, names: Sequence[str], inputs: Any) -> dict[str, Sequence[Any]]:
    """The columns by name: the name of each row, the prediction, and the probability of each class."""
    predicted = model.predict(inputs)
    if model.classes:
        chances = model.predict_proba(inputs).T
        named = {f"p({name})": chance for name, chance in zip(model.classes, chances, strict=True)}
        return {"row": names, "prediction": predicted.tolist(), **named}
    numbers = predicted.reshape(len(predicted), -1).T
    titles = [f"prediction {number}" for number in range(1, len(numbers) + 1)] if len(numbers) > 1 else ["prediction"]
    return {"row": names, **dict(zip(titles, numbers, strict=True))}


def table(answers: Mapping[str, Sequence[Any]]) -> bytes:
    """The columns as a CSV file."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([list(answers), *zip(*answers.values(), strict=True)])
    return text.getvalue().encode()


def as_csv(model: Predictor, names: Sequence[str], inputs: Inputs) -> bytes:
    """The predictions of a model for rows, as a CSV file."""
    return table(columns(model, names, inputs))
