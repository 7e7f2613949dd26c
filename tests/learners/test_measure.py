"""What is measured on test rows, and the few-shot test on the target's own rows."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from metasched.meta import loop
from metasched.meta.networks import mlp

import metasched as ms
from helpers import make_tasks
from metasched import schedulers


def finished(tasks, **config):
    """A program, its records, and the state and models after the last meta-update."""
    settings = ms.TrainConfig(**{"batch_size": 4, "meta_updates": 3, "eval_every": 1, **config})
    program = loop.prepare(tasks, mlp(3, (6,)), schedulers.cyclic(len(tasks.tasks)), settings)
    records = [record for _, chunk in loop.run(program, {0: loop.start(program, 0)}) for record in chunk]
    state, _, last = program.chunk(program.data, program.test, loop.start(program, 0), 0, settings.meta_updates)
    return program, records, state, last


def accuracy(program, weights, rows):
    return float((np.asarray(program.learner.network.apply(weights, rows.inputs).argmax(axis=1)) == rows.labels).mean())


def test_accuracy_by_class_weighted_by_its_rows_is_the_accuracy():
    tasks = make_tasks(test=90)
    _, records, _, _ = finished(tasks, eval_rows=50)
    final = records[-1]["final"]
    counts = np.bincount(tasks.test.labels, minlength=3)
    weighted = np.dot(final["test_accuracy_by_class"], counts) / counts.sum()
    assert weighted == pytest.approx(final["test_accuracy"])
    assert final["balanced_test_accuracy"] == pytest.approx(np.mean(final["test_accuracy_by_class"]))
    subset = np.random.default_rng(0).permutation(90)[:50]
    counts = np.bincount(tasks.test.labels[subset], minlength=3)
    for record in records:
        assert record["test_rows"] == 50
        assert np.dot(record["test_accuracy_by_class"], counts) / 50 == pytest.approx(record["test_accuracy"])


def test_a_class_that_no_test_row_has_is_none():
    tasks = make_tasks(test=60)
    kept = np.flatnonzero(tasks.test.labels != 1)
    tasks = ms.TaskSet.from_arrays(
        {task.name: (task.inputs, task.labels) for task in tasks.tasks},
        validation=(tasks.validation.inputs, tasks.validation.labels),
        test=(tasks.test.inputs[kept], tasks.test.labels[kept]),
        classes=tasks.classes,
    )
    _, records, _, _ = finished(tasks)
    shares = records[-1]["final"]["test_accuracy_by_class"]
    assert shares[1] is None
    assert None not in (shares[0], shares[2])


def test_both_models_of_the_last_meta_update_are_measured():
    program, records, _, last = finished(make_tasks(test=90))
    final = records[-1]["final"]
    assert final["test_accuracy"] == pytest.approx(accuracy(program, last.adapted, program.tasks.test))
    assert final["initial_test_accuracy"] == pytest.approx(accuracy(program, last.initial, program.tasks.test))
    start = loop.start(program, 0).parameters.weights
    assert records[0]["initial_test_accuracy"] == pytest.approx(accuracy(program, start, program.tasks.test))


@pytest.mark.parametrize(("steps", "validation"), [(5, 10), (2, 3)])
def test_adapting_on_the_target_is_so_many_steps_of_sgd_on_its_rows_in_turn(steps, validation):
    tasks = make_tasks(test=90, validation=validation)
    program, records, state, last = finished(tasks, adapt_on_target=steps, inner_rate=0.3)
    rate, weights = float(jnp.exp(state.parameters.log_rate)), last.adapted
    size = min(4, validation)
    for step in range(steps):
        rows = [(step * size + offset) % validation for offset in range(size)]
        x, y = tasks.validation.inputs[rows], tasks.validation.labels[rows]

        def loss(weights, x=x, y=y):
            return -jax.nn.log_softmax(program.learner.network.apply(weights, x))[jnp.arange(len(y)), y].mean()

        weights = jax.tree.map(lambda w, g: w - rate * g, weights, jax.grad(loss)(weights))
    found = program.further(program.data, state, last.adapted)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-5), found, weights)
    assert records[-1]["final"]["target_adapted_test_accuracy"] == pytest.approx(accuracy(program, weights, tasks.test))


def test_without_it_nothing_more_is_reported():
    _, records, _, _ = finished(make_tasks())
    assert "target_adapted_test_accuracy" not in records[-1]["final"]
