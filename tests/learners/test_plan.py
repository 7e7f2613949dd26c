import numpy as np
import pytest

import metasched as ms
from helpers import make_tasks
from metasched.errors import ConfigError
from metasched.planning import gittins_index

CONFIG = ms.TrainConfig(batch_size=3, inner_rate=0.3, steps_per_batch=5)


@pytest.fixture(scope="module")
def planned():
    return ms.plan(make_tasks(sizes=(40, 50, 30)), config=CONFIG, discount=0.9)


def test_the_chain_moves_by_a_batch_and_by_a_row_on_request(planned):
    tasks = planned.tasks
    one = ms.dependence.transition_matrix(tasks.tasks[0].labels, 3)
    np.testing.assert_allclose(planned.transitions[0], np.linalg.matrix_power(one, 3))
    literal = ms.plan(tasks, config=CONFIG, stride="row")
    np.testing.assert_allclose(literal.transitions[0], one)


def test_indices_are_those_of_the_probed_rewards(planned):
    expected = gittins_index(planned.transitions, planned.probe.accuracy, 0.9)
    np.testing.assert_array_equal(planned.indices, expected)
    labels = np.array([0, 2, 1])
    assert planned.gittins_action(labels) == np.argmax(expected[[0, 1, 2], labels])


def test_separable_rewards_make_the_joint_policy_the_index_policy():
    plan = ms.plan(make_tasks(sizes=(40, 50, 30)), config=CONFIG, discount=0.9, rewards="separable")
    assert not plan.coupled
    for labels in np.ndindex(3, 3, 3):
        chosen = plan.policy.action(np.array(labels))
        index = plan.indices[np.arange(3), labels]
        assert index[chosen] == pytest.approx(index.max(), abs=1e-9)


def test_the_initial_model_is_the_one_that_training_starts_from(planned):
    run = ms.train(planned.tasks, config=ms.TrainConfig(batch_size=3, meta_updates=1, batches_per_update=0))
    accuracy = run.records[0]["validation_accuracy"]
    no_step = ms.plan(planned.tasks, config=ms.TrainConfig(batch_size=3, inner_rate=1e-12))
    np.testing.assert_allclose(no_step.probe.accuracy[no_step.probe.present], accuracy, atol=1e-6)


def test_a_label_that_never_occurs_is_never_preferred():
    random = np.random.default_rng(0)

    def rows(labels):
        return random.normal(size=(len(labels), 4)), labels

    tasks = ms.TaskSet.from_arrays(
        {"a": rows([0, 1] * 10), "b": rows([0, 1, 2] * 10)},
        validation=rows([0, 1, 2] * 3),
        test=rows([0, 1, 2] * 3),
    )
    plan = ms.plan(tasks, config=CONFIG)
    assert plan.indices[0, 2] == -np.inf
    assert np.isfinite(plan.indices[1]).all()


def test_rows_drawn_add_up(planned):
    for method in ("gittins", "mdp"):
        assert planned.rows_drawn(method, 100).sum() == 300


def test_labels_of_their_own_are_planned_separably():
    random = np.random.default_rng(0)

    def rows(count, classes):
        return random.normal(size=(count, 4)), random.integers(0, classes, count)

    tasks = ms.TaskSet.from_arrays(
        {"a": rows(40, 4), "b": rows(40, 2)},
        validation=rows(30, 3),
        test=rows(20, 3),
        classes={"a": "pqrs", "b": "tu", "target": "xyz"},
    )
    plan = ms.plan(tasks, config=CONFIG)
    assert not plan.coupled
    assert plan.probe.by_class.shape == (2, 4, 3)
    with pytest.raises(ConfigError, match="coupled rewards need one label set"):
        ms.plan(tasks, config=CONFIG, rewards="coupled")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"stride": "day"}, "stride is 'day'"),
        ({"rewards": "high"}, "rewards is 'high'"),
        ({"discount": 1.0}, "discount is 1"),
        ({"smoothing": -1.0}, "smoothing is -1"),
        ({"method": "magic"}, "unknown method 'magic'"),
        ({"network": "rnn"}, "unknown network"),
        ({"config": ms.TrainConfig(batch_size=99)}, "batch_size is 99"),
    ],
)
def test_bad_options_are_named(options, message):
    with pytest.raises(ConfigError, match=message):
        ms.plan(make_tasks(), **{"config": CONFIG, **options})
