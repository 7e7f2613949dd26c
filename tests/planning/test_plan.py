"""From transitions and rewards to a plan; the rewards are made up here, no network is asked."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import metasched as ms
from helpers import make_own_label_tasks, make_tasks
from metasched.errors import ConfigError
from metasched.planning import gittins_index
from metasched.planning.plan import Probe, make, replay


def probe_of(tasks, seed=0):
    """Made-up rewards of every label that occurs."""
    classes = max(len(task.classes) for task in tasks.tasks)
    by_class = np.random.default_rng(seed).random((len(tasks.tasks), classes, len(tasks.classes)))
    present = np.array([[label in task.labels for label in range(classes)] for task in tasks.tasks])
    return Probe(np.where(present, by_class.mean(axis=2), 0), by_class * present[:, :, None], present)


def planned_for(tasks, **options):
    return make(tasks, partial(probe_of, tasks), **{"batch_size": 3, "discount": 0.9, **options})


@pytest.fixture(scope="module")
def planned():
    return planned_for(make_tasks(sizes=(40, 50, 30)))


def test_the_chain_moves_by_a_batch_and_by_a_row_on_request(planned):
    tasks = planned.tasks
    one = ms.dependence.transition_matrix(tasks.tasks[0].labels, 3)
    np.testing.assert_allclose(planned.transitions[0], np.linalg.matrix_power(one, 3))
    literal = planned_for(tasks, stride="row")
    np.testing.assert_allclose(literal.transitions[0], one)


def test_indices_are_those_of_the_probed_rewards(planned):
    expected = gittins_index(planned.transitions, planned.probe.accuracy, 0.9)
    np.testing.assert_array_equal(planned.indices, expected)
    labels = np.array([0, 2, 1])
    assert planned.gittins_action(labels) == np.argmax(expected[[0, 1, 2], labels])


def test_separable_rewards_make_the_joint_policy_the_index_policy():
    plan = planned_for(make_tasks(sizes=(40, 50, 30)), rewards="separable")
    assert not plan.coupled
    for labels in np.ndindex(3, 3, 3):
        chosen = plan.policy.action(np.array(labels))
        index = plan.indices[np.arange(3), labels]
        assert index[chosen] == pytest.approx(index.max(), abs=1e-9)


def test_rewards_are_measured_once_and_only_when_asked_for(planned):
    calls = []

    def measure():
        calls.append(1)
        return probe_of(planned.tasks)

    plan = make(planned.tasks, measure, batch_size=3)
    assert calls == []
    assert plan.indices.shape == (3, 3)
    assert plan.policy.action(np.zeros(3, int)) in range(3)
    assert calls == [1]


def test_a_label_that_never_occurs_is_never_preferred():
    random = np.random.default_rng(0)

    def rows(labels):
        return random.normal(size=(len(labels), 4)), labels

    tasks = ms.TaskSet.from_arrays(
        {"a": rows([0, 1] * 10), "b": rows([0, 1, 2] * 10)},
        validation=rows([0, 1, 2] * 3),
        test=rows([0, 1, 2] * 3),
    )
    plan = planned_for(tasks)
    assert plan.indices[0, 2] == -np.inf
    assert np.isfinite(plan.indices[1]).all()


def test_rows_drawn_add_up(planned):
    for method in ("gittins", "mdp"):
        assert planned.rows_drawn(method, 100).sum() == 300


def test_labels_of_their_own_are_planned_separably():
    tasks = make_own_label_tasks()
    plan = planned_for(tasks)
    assert not plan.coupled
    assert plan.policy.action(np.array([3, 1])) in (0, 1)
    with pytest.raises(ConfigError, match="coupled rewards need one label set"):
        planned_for(tasks, rewards="coupled")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"stride": "day"}, "stride is 'day'"),
        ({"rewards": "high"}, "rewards is 'high'"),
        ({"discount": 1.0}, "discount is 1"),
        ({"smoothing": -1.0}, "smoothing is -1"),
        ({"method": "magic"}, "unknown method 'magic'"),
    ],
)
def test_bad_options_are_named(options, message):
    with pytest.raises(ConfigError, match=message):
        planned_for(make_tasks(), **options)


@settings(max_examples=60)
@given(st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=9), min_size=1, max_size=4), st.integers(1, 20))
def test_replayed_rows_are_those_of_a_plain_walk_with_cursors(sequences, batch_size):
    seen = []

    def choose(labels):
        seen.append(labels.tolist())
        return int(labels.sum() + len(seen)) % len(sequences)

    drawn = replay(choose, [np.array(own, np.int32) for own in sequences], 4, batch_size, 12)
    expected, cursors = np.zeros((len(sequences), 4), int), [0] * len(sequences)
    for step, labels in enumerate(seen):
        assert labels == [own[cursor] for own, cursor in zip(sequences, cursors, strict=True)]
        task = (sum(labels) + step + 1) % len(sequences)
        for _ in range(batch_size):
            expected[task, sequences[task][cursors[task]]] += 1
            cursors[task] = (cursors[task] + 1) % len(sequences[task])
    np.testing.assert_array_equal(drawn, expected)
