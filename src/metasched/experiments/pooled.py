"""What practitioners would try first: a linear model and gradient boosting on all rows pooled together."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from metasched.optional import require
from metasched.tasks import TaskSet

MODELS = {"pooled linear": "a linear model on all rows", "pooled boosting": "gradient boosting on all rows"}
"""Their names in the results, and descriptions."""
SEEDS = (0, 1, 2)
"""A few seeds are enough, because only the target's labelled rows differ between them."""


def pooled(tasks: TaskSet, seed: int) -> Mapping[str, float]:
    """Test accuracy of each model, fitted on the rows of all sources and the target's labelled rows, all with the same
    weight.

    Logistic regression gets standardised columns. Boosting looks at a tenth of the columns for each split, because
    images have hundreds.
    """
    linear = require("sklearn.linear_model", "references").LogisticRegression(max_iter=200)
    scale = require("sklearn.preprocessing", "references").StandardScaler()
    ensemble = require("sklearn.ensemble", "references")
    boosting = ensemble.HistGradientBoostingClassifier(max_features=0.1, early_stopping=False, random_state=seed)
    made: dict[str, Any] = {
        "pooled linear": require("sklearn.pipeline", "references").make_pipeline(scale, linear),
        "pooled boosting": boosting,
    }
    splits: list[Any] = [*tasks.tasks, tasks.validation]
    inputs = np.concatenate([split.inputs.reshape(len(split.labels), -1) for split in splits])
    labels = np.concatenate([split.labels for split in splits])
    test = tasks.test.inputs.reshape(len(tasks.test.labels), -1)
    return {name: float((made[name].fit(inputs, labels).predict(test) == tasks.test.labels).mean()) for name in MODELS}
