import time
import warnings

import numpy as np
import pytest
from sklearn import metrics as oracle

from metasched.learners.metrics import METRICS, NAMES, metric_of

CLASSES = [name for name in NAMES if METRICS[name].kind == "classification"]


def made_up(classes, rows=120, seed=0):
    """Probabilities with ties among them, labels, and weights of which some are 0."""
    random = np.random.default_rng(seed)
    labels = random.integers(0, classes, rows)
    logits = random.normal(size=(rows, classes)).round(1) + 0.8 * np.eye(classes)[labels]
    outputs = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    return outputs, labels, random.integers(0, 4, rows).astype(float)


def by_scikit(name, outputs, labels, weights):
    kept = weights > 0
    outputs, labels, weights = outputs[kept], labels[kept], weights[kept]
    said, given = outputs.argmax(axis=1), {"sample_weight": weights}
    if name == "accuracy":
        return oracle.accuracy_score(labels, said, **given)
    if name == "balanced-accuracy":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # predictions of a class that does not occur
            return oracle.balanced_accuracy_score(labels, said, **given)
    if name == "f1":
        return oracle.f1_score(labels, said, average="macro", **given)
    if name == "log-loss":
        return oracle.log_loss(labels, outputs, labels=range(outputs.shape[1]), **given)
    if outputs.shape[1] == 2:
        return oracle.roc_auc_score(labels, outputs[:, 1], **given)
    return oracle.roc_auc_score(labels, outputs, multi_class="ovr", average="macro", **given)


@pytest.mark.parametrize("classes", [2, 3, 7])
@pytest.mark.parametrize("name", CLASSES)
def test_metrics_of_classes_are_scikit_learns(name, classes):
    outputs, labels, weights = made_up(classes)
    metric = METRICS[name]
    alone = by_scikit(name, outputs, labels, np.ones(len(labels)))
    assert metric.score(outputs, labels) == pytest.approx(alone, abs=1e-12)
    weighted = by_scikit(name, outputs, labels, weights)
    assert metric.score(outputs, labels, weights) == pytest.approx(weighted, abs=1e-12)


@pytest.mark.parametrize("numbers", [1, 3])
def test_metrics_of_numbers_are_scikit_learns(numbers):
    random = np.random.default_rng(0)
    truth = 1e4 + random.normal(size=(50, numbers)) * 30
    said, weights = truth + random.normal(size=truth.shape) * 20, random.integers(0, 3, 50).astype(float)
    for given in (None, weights):
        mae = oracle.mean_absolute_error(truth, said, sample_weight=given)
        assert METRICS["mae"].score(said, truth, given) == pytest.approx(mae, rel=1e-10)
        r2 = oracle.r2_score(truth, said, sample_weight=given, multioutput="variance_weighted")
        assert METRICS["r2"].score(said, truth, given) == pytest.approx(r2, abs=1e-9)


def test_r2_counts_squared_errors_in_a_unit_where_one_is_given():
    assert METRICS["r2"].score([1.0, 3.0], [2.0, 3.0], unit=2.0) == pytest.approx(0.75)


@pytest.mark.parametrize("name", NAMES)
def test_many_sets_of_weights_at_once_are_each_of_them_alone(name):
    outputs, labels, _ = made_up(3)
    if METRICS[name].kind == "regression":
        outputs, labels = outputs[:, :1], labels[:, None] + 0.0
    weights = np.random.default_rng(1).multinomial(len(labels), np.ones(len(labels)) / len(labels), 20)
    together = METRICS[name].scores(outputs, labels, weights)
    alone = [METRICS[name].score(outputs, labels, row) for row in weights]
    repeated = [METRICS[name].score(np.repeat(outputs, row, axis=0), np.repeat(labels, row, axis=0)) for row in weights]
    np.testing.assert_allclose(together, alone, rtol=1e-12)
    np.testing.assert_allclose(together, repeated, rtol=1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_a_thousand_bootstrap_samples_of_a_thousand_rows_take_moments(name):
    outputs, labels, _ = made_up(3, rows=1000)
    if METRICS[name].kind == "regression":
        outputs, labels = outputs[:, :1], labels[:, None] + 0.0
    weights = np.random.default_rng(1).multinomial(1000, np.ones(1000) / 1000, 1000)
    began = time.process_time()
    METRICS[name].scores(outputs, labels, weights)
    assert time.process_time() - began < 10  # it takes about a tenth of a second


def test_a_class_that_weights_leave_out_does_not_count():
    outputs, labels, _ = made_up(3)
    kept = labels != 2
    for name in CLASSES:
        dropped = METRICS[name].score(outputs[kept], labels[kept])
        assert METRICS[name].score(outputs, labels, kept.astype(float)) == pytest.approx(dropped)


@pytest.mark.parametrize("classes", [2, 3])
def test_one_class_alone_cannot_be_ranked(classes):
    outputs, labels, _ = made_up(classes)
    assert METRICS["auc"].score(outputs, np.zeros_like(labels)) == 0.5


def test_a_bold_error_costs_a_finite_log_loss():
    assert METRICS["log-loss"].score([[1.0, 0.0]], [1]) == pytest.approx(-np.log(1e-7))


def test_scores_are_values_turned_so_that_higher_is_better():
    for metric in METRICS.values():
        sign = -1 if metric.name in ("log-loss", "mae") else 1
        assert metric.oriented(0.3) == sign * 0.3
        assert metric.shown(metric.oriented(0.3)) == 0.3
        assert str(metric.shown(0.0)) == "0.0"


def test_the_margin_of_errors_follows_the_unit_of_the_numbers():
    assert METRICS["mae"].margin_of(50.0) == pytest.approx(1.0)
    assert METRICS["mae"].margin_of() == 0
    assert {metric.margin_of(50.0) for metric in METRICS.values() if metric.name != "mae"} == {0.02}


def test_what_a_guess_scores():
    random = np.random.default_rng(0)
    labels = random.integers(0, 4, 100_000)
    uniform = np.full((len(labels), 4), 0.25)
    at_random = np.eye(4)[random.integers(0, 4, len(labels))]
    for name in ("auc", "log-loss"):
        metric = METRICS[name]
        assert metric.guess(4) == pytest.approx(metric.oriented(metric.score(uniform, labels)))
    for name in ("accuracy", "balanced-accuracy", "f1"):
        assert METRICS[name].guess(4) == pytest.approx(METRICS[name].score(at_random, labels), abs=0.01)
    assert METRICS["r2"].guess(4, 3.0) == 0
    assert METRICS["mae"].guess(4, 3.0) == -3


def test_what_is_left_open_is_what_runs_have_always_reported():
    assert metric_of(None).name == "accuracy"
    assert metric_of(None, balanced=True).name == "balanced-accuracy"
    assert metric_of(None, regression=True).name == "r2"
    assert metric_of("auc", balanced=True).name == "auc"
