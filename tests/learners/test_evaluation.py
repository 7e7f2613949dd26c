"""What is measured on test rows, and the few-shot test on the target's own rows."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn import metrics

import metasched as ms
from helpers import make_regression, make_tasks
from metasched.learners import engine
from metasched.learners.evaluation import evaluation_order
from metasched.learners.networks import mlp
from metasched.runs import runner
from scenes import program_for, run_all, start


class Finished:
    """A program, its records, and the state and models after the last meta-update."""

    def __init__(self, tasks, **config):
        self.program = program_for(tasks, **{"updates": 3, "gradient": "first-order", **config})
        self.records = run_all(self.program, {0: start(self.program)})[0]
        self.final = self.records[-1]["final"]
        self.state, _, self.last = self.program.chunk(
            self.program.rows.data,
            self.program.rows.test,
            start(self.program),
            0,
            self.program.objective.settings.updates,
        )

    def accuracy(self, weights, rows):
        predicted = np.asarray(self.program.objective.network.apply(weights, rows.inputs).argmax(axis=1))
        return float((predicted == rows.labels).mean())


@pytest.fixture(scope="module")
def finished():
    """90 test rows, 50 of them measured after each of three meta-updates."""
    return Finished(make_tasks(test=90), eval_rows=50)


def test_accuracy_by_class_weighted_by_its_rows_is_the_accuracy(finished):
    tasks, final = finished.program.rows.tasks, finished.final
    counts = np.bincount(tasks.test.labels, minlength=3)
    weighted = np.dot(final["test_accuracy_by_class"], counts) / counts.sum()
    assert weighted == pytest.approx(final["test_accuracy"])
    assert final["balanced_test_accuracy"] == pytest.approx(np.mean(final["test_accuracy_by_class"]))
    subset = np.random.default_rng(0).permutation(90)[:50]
    counts = np.bincount(tasks.test.labels[subset], minlength=3)
    for record in finished.records:
        assert record["test_rows"] == 50
        assert np.dot(record["test_accuracy_by_class"], counts) / 50 == pytest.approx(record["test_accuracy"])


def test_both_models_of_the_last_meta_update_are_measured(finished):
    test, last = finished.program.rows.tasks.test, finished.last
    assert finished.final["test_accuracy"] == pytest.approx(finished.accuracy(last.weights, test))
    assert finished.final["initial_test_accuracy"] == pytest.approx(finished.accuracy(last.initial, test))
    first = start(finished.program).parameters.weights
    measured = finished.accuracy(first, finished.program.rows.test)
    assert finished.records[0]["initial_test_accuracy"] == pytest.approx(measured)


def test_a_class_that_no_test_row_has_is_none():
    tasks = make_tasks(test=60)
    kept = np.flatnonzero(tasks.test.labels != 1)
    tasks = ms.TaskSet.from_arrays(
        {task.name: (task.inputs, task.labels) for task in tasks.tasks},
        validation=(tasks.validation.inputs, tasks.validation.labels),
        test=(tasks.test.inputs[kept], tasks.test.labels[kept]),
        classes=tasks.classes,
    )
    found = Finished(tasks)
    shares = found.final["test_accuracy_by_class"]
    assert shares[1] is None
    assert None not in (shares[0], shares[2])
    assert found.final["balanced_test_accuracy"] == pytest.approx((shares[0] + shares[2]) / 2)


REFERENCES = {
    "accuracy": lambda known, said: metrics.accuracy_score(known, said.argmax(1)),
    "balanced-accuracy": lambda known, said: metrics.balanced_accuracy_score(known, said.argmax(1)),
    "f1": lambda known, said: metrics.f1_score(known, said.argmax(1), average="macro"),
    "log-loss": lambda known, said: -metrics.log_loss(known, said / said.sum(1, dtype=np.float64)[:, None]),
    "auc": lambda known, said: np.mean([metrics.roc_auc_score(known == label, said[:, label]) for label in range(3)]),
    "r2": lambda known, said: metrics.r2_score(known, said, multioutput="variance_weighted"),
    "mae": lambda known, said: -metrics.mean_absolute_error(known, said),
}
LEARNERS = {
    "joint": ms.Joint(updates=3, batch_size=5, eval_every=2, eval_rows=20),
    "meta": ms.AlgorithmOne(updates=3, batch_size=5, eval_every=2, eval_rows=20),
}


class TestMetrics:
    """What a run stores is the score that scikit-learn finds for the predictions of its model."""

    @pytest.mark.parametrize("learner", LEARNERS)
    @pytest.mark.parametrize("name", [name for name in REFERENCES if name not in ("r2", "mae")])
    def test_of_classes(self, learner, name):
        tasks = make_tasks(test=60)
        settings = replace(LEARNERS[learner], metric=name)
        run = ms.train(tasks, "uniform", learner=settings, network=mlp(3, (6,)))
        said = run.model().predict_proba(tasks.test.inputs)
        wanted = REFERENCES[name]
        assert run.final[0]["test_accuracy"] == pytest.approx(wanted(tasks.test.labels, said), rel=1e-5)
        assert run.model().score(*tasks.test) == run.final[0]["test_accuracy"]
        some = evaluation_order(tasks)[:20]
        assert run.records[-1]["test_accuracy"] == pytest.approx(wanted(tasks.test.labels[some], said[some]), rel=1e-5)
        assert run.outcomes[0].metric.name == name
        assert "test_accuracy" not in run.records[0]
        plain = ms.train(tasks, "uniform", learner=LEARNERS[learner], network=mlp(3, (6,)))
        for mine, other in zip(run.records, plain.records, strict=True):
            assert mine["validation_accuracy"] == other["validation_accuracy"]
            assert mine.get("test_accuracy_by_class") == other.get("test_accuracy_by_class")

    def test_of_numbers(self):
        tasks = make_regression()
        run = ms.train(tasks, "uniform", learner=replace(LEARNERS["joint"], metric="mae"), network=mlp(2, (6,)))
        wanted = REFERENCES["mae"](tasks.test.targets, run.model().predict(tasks.test.inputs))
        assert run.final[0]["test_accuracy"] == pytest.approx(wanted, rel=1e-5)
        assert run.model().score(tasks.test.inputs, tasks.test.targets) == run.final[0]["test_accuracy"]
        assert run.outcomes[0].about.deviation == pytest.approx(np.sqrt(tasks.validation.targets.var(axis=0).mean()))

    def test_a_long_log_of_outputs_is_cut_into_shorter_chunks_without_another_number(self, monkeypatch):
        tasks = make_tasks(test=60)
        settings = ms.Joint(updates=7, batch_size=5, eval_every=1, eval_rows=20, metric="log-loss")
        whole = ms.train(tasks, "uniform", learner=settings, network=mlp(3, (6,)))
        monkeypatch.setattr(engine, "LOGGED_NUMBERS", 2 * 2 * 20 * 3)
        runner._PROGRAMS._programs.clear()
        cut = ms.train(tasks, "uniform", learner=settings, network=mlp(3, (6,)))
        assert cut.records == whole.records

    def test_side_by_side_is_alone(self):
        tasks = make_tasks(test=60)
        settings = replace(LEARNERS["joint"], metric="auc")
        how = {"learner": settings, "network": mlp(3, (6,)), "seeds": 3}
        both = [ms.train(tasks, "thompson", seeds_at_once=count, **how).final for count in (1, 2)]
        assert both[0] == both[1]
