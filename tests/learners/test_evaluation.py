"""What is measured on test rows, and the few-shot test on the target's own rows."""

import numpy as np
import pytest

import metasched as ms
from helpers import make_tasks
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
