"""Joint training, against the same loop spelled out with Optax on the host."""

from itertools import chain

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import metasched as ms
from helpers import Stop, make_own_label_tasks, make_tasks, stop_after
from metasched.errors import ConfigError, RunError
from metasched.learners.networks import mlp, num_outputs
from metasched.learners.stream import device_data, target_batch
from scenes import follow

NETWORK = mlp(3, (6,))
ORDER = [2, 0, 2, 1, 2, 0]
ROWS = [[2, 0, 2, 2], [1, 1, 0, 2], [0, 0, 0, 0], [2, 1, 0, 2], [1, 2, 2, 1], [0, 1, 2, 2]]


def config(**changes):
    known = {"batch_size": 4, "updates": 2, "batches_per_update": 3, "learning_rate": 0.05, "target_batch": "all"}
    return ms.Joint(**{**known, **changes})


def by_hand(tasks, order, weight=1.0, rate=0.05, steps=6):
    """Six steps of Adam, its rate falling to a tenth, on weight · loss(source) + loss(target).

    ``order`` has the tasks of each batch's rows; a task for which there are no rows has no part in the mean over four.
    """
    weights = NETWORK.init(jax.random.split(jax.random.key(0), 3)[0], tasks.validation.inputs[:1])
    adam = optax.adam(optax.exponential_decay(rate, steps - 1, 0.1))
    state, cursors = adam.init(weights), [0] * len(tasks.tasks)

    def loss(weights, x, y):
        return -jax.nn.log_softmax(NETWORK.apply(weights, x))[jnp.arange(len(y)), y].mean()

    for batch in order:
        total = jax.grad(loss)(weights, *tasks.validation)
        for task in batch:
            if task < len(cursors):
                source, row = tasks.tasks[task], cursors[task] % len(tasks.tasks[task])
                cursors[task] += 1
                own = jax.grad(loss)(weights, source.inputs[[row]], source.labels[[row]])
                total = jax.tree.map(lambda a, b: weight * a / 4 + b, own, total)
        change, state = adam.update(total, state, weights)
        weights = optax.apply_updates(weights, change)
    return weights


def assert_close(found, expected):
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=2e-5), found, expected)


@pytest.mark.parametrize("weight", [1.0, 0.3])
def test_it_is_adam_on_source_and_target_together(tasks, weight):
    settings = config(source_weight=weight, batching="per_source")
    run = ms.train(tasks, follow(ORDER), network=NETWORK, learner=settings)
    assert_close(run.parameters[0].weights, by_hand(tasks, [[task] * 4 for task in ORDER], weight))
    assert run.records[-1]["tasks"] == ORDER[3:]
    assert run.records[-1]["samples"] == 24


@pytest.mark.parametrize("weight", [1.0, 0.3])
def test_a_mixed_batch_is_the_next_row_of_each_task_named(tasks, weight):
    run = ms.train(tasks, follow([*chain(*ROWS)]), network=NETWORK, learner=config(source_weight=weight))
    assert_close(run.parameters[0].weights, by_hand(tasks, ROWS, weight))
    assert run.records[-1]["drawn"] == np.bincount([*chain(*ROWS)]).tolist()
    assert "tasks" not in run.records[-1]


def test_abstaining_trains_on_the_target_alone(tasks):
    order = [3, 0, 3, 1, 3, 3]
    run = ms.train(tasks, follow(order), network=NETWORK, learner=config(batching="per_source"), abstain=True)
    assert_close(run.parameters[0].weights, by_hand(tasks, [[task] * 4 for task in order]))
    assert run.records[-1]["abstained"] == 4
    assert run.records[-1]["samples"] == 8


def test_rows_of_a_mixed_batch_that_are_nobodys_leave_the_others_their_weight(tasks):
    order = [[3, 0, 3, 1], [3, 3, 3, 3], [2, 2, 1, 0], [3, 2, 2, 3], [3, 3, 3, 0], [1, 3, 3, 3]]
    run = ms.train(tasks, follow([*chain(*order)]), network=NETWORK, learner=config(), abstain=True)
    assert_close(run.parameters[0].weights, by_hand(tasks, order))
    assert run.records[-1]["abstained"] == 14
    assert run.records[-1]["samples"] == 10
    assert run.outcomes[0].schedule == ((2, 2, 2, 6), (1, 1, 2, 8))


@pytest.mark.parametrize("batching", ["mixed", "per_source"])
def test_target_only_takes_as_many_steps_as_any_other(tasks, batching):
    run = ms.train(tasks, "target-only", network=NETWORK, learner=config(batching=batching))
    assert_close(run.parameters[0].weights, by_hand(tasks, [[3] * 4] * 6))
    assert run.records[-1]["samples"] == 0


def test_label_sets_of_their_own_have_heads_of_their_own():
    tasks = make_own_label_tasks()
    settings = config(updates=12, batches_per_update=10, learning_rate=0.02)
    run = ms.train(tasks, "cyclic", network=mlp(num_outputs(tasks), (16,)), learner=settings)
    assert run.final[0]["test_accuracy"] > 0.9


def test_target_rows_are_drawn_anew_for_every_step():
    tasks = make_tasks(validation=40)
    settings = config(target_batch="uniform").resolve(tasks)
    rows = device_data(tasks, settings).validation
    key = jax.random.key_data(jax.random.key(0))
    first, second = (np.asarray(target_batch(settings, rows, key, jnp.int32(number)).inputs) for number in (0, 1))
    assert first.shape == (4, 4)
    assert len(np.unique(first, axis=0)) == 4
    assert not np.array_equal(first, second)


def test_cut_off_it_goes_on_to_the_same_numbers_and_side_by_side_is_alone(tasks, tmp_path):
    known = {"network": NETWORK, "learner": config(updates=5), "seeds": (0, 1)}
    whole = ms.train(tasks, "thompson", **known)
    with pytest.raises(Stop):
        ms.train(tasks, "thompson", **known, out=tmp_path / "a", on_record=stop_after(4), checkpoint_seconds=0)
    assert ms.train(tasks, "thompson", **known, out=tmp_path / "a").records == whole.records
    assert ms.train(tasks, "thompson", **known, seeds_at_once=2).records == whole.records
    assert whole.outcomes[0].spec.learner == "joint"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"steps_per_batch": 2}, "Joint: steps_per_batch is a setting of ms.AlgorithmOne"),
        ({"inner_rate": 0.1}, "Joint: inner_rate is a setting of ms.AlgorithmOne"),
        ({"outer_rate": 0.1}, "Joint: outer_rate is now learning_rate"),
        ({"meta_updates": 3}, "Joint: meta_updates is now updates"),
        ({"reward": "gain"}, "Joint: reward is now an argument of ms.train"),
        ({"row_weights": True}, "Joint: row_weights no longer exists; leave it out"),
    ],
)
def test_a_setting_that_it_does_not_have_is_refused_by_name(change, message):
    with pytest.raises(ConfigError, match=message):
        config(**change)


def test_rows_of_the_best_classes_are_for_algorithm_1(tasks):
    with pytest.raises(ConfigError, match="target_batch ucb is for Algorithm 1; give uniform or all"):
        ms.train(tasks, learner=config(target_batch="ucb"))


def test_its_records_call_the_rate_a_learning_rate(tasks):
    record = ms.train(tasks, "cyclic", network=NETWORK, learner=config()).records[0]
    assert record["learning_rate"] == pytest.approx(0.05)
    assert "inner_rate" not in record


def test_a_loss_that_is_no_longer_finite_blames_the_learning_rate(tasks):
    with pytest.raises(RunError, match=r"finite at learning rate .*; lower learning_rate \(now"):
        ms.train(tasks, "cyclic", network=NETWORK, learner=config(learning_rate=1e30, optimiser="sgd"))
