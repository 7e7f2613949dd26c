"""The weights of models in the final one: against loops over the same random weights of rows, and at the limits."""

import numpy as np
import pytest
from scipy import stats
from sklearn.utils.class_weight import compute_sample_weight

from metasched.comparison.estimate import Part
from metasched.comparison.selection import (
    GUESS,
    LEAST_WEIGHT,
    MOST_MODELS,
    RESAMPLES,
    TEMPERATURE,
    class_weights,
    likelihoods,
    mean_part,
    weights,
)
from metasched.learners.metrics import METRICS


def said(sharpness, rows=25, seed=0):
    """A model that gives the right one of two classes higher odds the sharper it is."""
    random = np.random.default_rng(seed)
    labels = np.random.default_rng(99).integers(0, 2, rows)
    odds = sharpness * (2 * labels - 1) + random.normal(size=rows)
    right = 1 / (1 + np.exp(-odds))
    return Part(np.stack([1 - right, right], axis=1), labels, np.arange(rows))


PARTS = {f"model {number}": said(sharpness, seed=number) for number, sharpness in enumerate((0.5, 0.8, 0.9, 0.2))}


def test_weights_are_the_mean_over_random_weights_of_rows():
    count = 25
    right = np.array([part.outputs[np.arange(count), part.answers] for part in PARTS.values()])
    logs = np.log(right * (1 - GUESS) + GUESS / 2)
    total = np.zeros(len(PARTS))
    for drawn in np.random.default_rng(0).dirichlet(np.ones(count), RESAMPLES):
        chances = np.exp(TEMPERATURE * count * (logs * drawn).sum(axis=1))
        total += chances / chances.sum()
    total /= RESAMPLES
    kept = {name: share for name, share in zip(PARTS, total, strict=True) if share >= LEAST_WEIGHT}
    expected = {name: share / sum(kept.values()) for name, share in kept.items()}
    found = weights(PARTS)
    assert found == pytest.approx(expected)
    assert list(found) == sorted(expected, key=expected.get, reverse=True)


def test_models_that_say_the_same_weigh_the_same_and_at_most_so_many_are_left():
    found = weights({str(number): PARTS["model 0"] for number in range(12)})
    assert found == pytest.approx({str(number): 1 / MOST_MODELS for number in range(MOST_MODELS)})


def test_a_model_that_is_clearly_the_best_is_left_alone():
    sure = PARTS["model 0"]._replace(outputs=np.eye(2)[PARTS["model 0"].answers])
    assert next(iter(weights({**PARTS, "sure": sure}).items())) == ("sure", pytest.approx(0.85, abs=0.01))
    many = Part(np.tile(sure.outputs, (8, 1)), np.tile(sure.answers, 8), np.arange(8 * len(sure.rows)))
    poor = many._replace(outputs=np.full_like(many.outputs, 0.5))
    assert weights({"poor": poor, "sure": many}) == {"sure": 1.0}


def test_one_row_never_decides():
    part = PARTS["model 0"]
    outputs = np.eye(2)[part.answers]
    outputs[0] = outputs[0][::-1]
    assert likelihoods(part._replace(outputs=outputs)).min() == pytest.approx(np.log(GUESS / 2))


def test_in_regression_errors_are_normal_with_the_variance_found():
    random = np.random.default_rng(0)
    answers = random.normal(size=(30, 1))
    errors = random.normal(scale=0.3, size=(30, 1))
    found = likelihoods(Part(answers + errors, answers, np.arange(30)))
    known = stats.norm.logpdf(errors[:, 0], scale=np.sqrt(np.mean(errors**2)))
    assert found == pytest.approx(known + 0.5 * np.log(2 * np.pi), abs=1e-5)
    perfect = likelihoods(Part(answers, answers, np.arange(30)))
    assert np.isfinite(perfect).all()
    assert perfect.min() > found.max()


def test_the_mean_is_weighted():
    shares = {"model 1": 0.75, "model 3": 0.25}
    found = mean_part(PARTS, shares)
    wanted = 0.75 * PARTS["model 1"].outputs + 0.25 * PARTS["model 3"].outputs
    assert found.outputs == pytest.approx(wanted, abs=1e-6)
    assert np.array_equal(found.answers, PARTS["model 1"].answers)


def rare(rows=60, count=6):
    """Labels with a rare class, and models: one that ignores it, and one that finds it with a few false alarms."""
    labels = (np.arange(rows) < count).astype(int)
    ignores = np.tile([[0.95, 0.05]], (rows, 1))
    finds = np.where(labels[:, None] == 1, [[0.3, 0.7]], [[0.6, 0.4]])
    finds[count : count + 10] = [0.4, 0.6]
    return {name: Part(outputs, labels, np.arange(rows)) for name, outputs in (("ignores", ignores), ("finds", finds))}


@pytest.mark.parametrize("name", ["balanced-accuracy", "f1"])
def test_where_classes_count_the_same_a_model_that_ignores_the_rare_one_is_left_out(name):
    parts = rare()
    assert next(iter(weights(parts))) == "ignores"
    assert weights(parts, METRICS[name]) == {"finds": 1.0}
    assert weights(parts, METRICS["auc"]) == weights(parts)


def test_classes_weigh_the_same():
    labels = np.array([0, 0, 0, 2])
    assert class_weights(labels) == pytest.approx([2 / 3, 2 / 3, 2 / 3, 2])
    known = compute_sample_weight("balanced", labels)
    assert class_weights(labels) == pytest.approx(known)


def test_a_mean_that_is_clearly_worse_by_the_metric_than_one_model_is_not_used():
    labels = (np.arange(60) < 20).astype(int)
    finds = np.where(labels[:, None] == 1, [[0.49, 0.51]], [[0.51, 0.49]])
    said = np.where(np.arange(60) % 8 == 0, 1 - labels, labels)
    bold = np.where(np.eye(2)[said] == 1, 0.9, 0.1)
    parts = {name: Part(given, labels, np.arange(60)) for name, given in (("finds", finds), ("bold", bold))}
    assert weights(parts)["bold"] > 0.5
    assert METRICS["f1"].score(finds, labels) > METRICS["f1"].score(mean_part(parts, weights(parts)).outputs, labels)
    assert weights(parts, METRICS["f1"]) == {"finds": 1.0}
