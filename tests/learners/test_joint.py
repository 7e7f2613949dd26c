"""Joint training, against the same loop spelled out with Optax on the host."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import metasched as ms
from helpers import Stop, make_own_label_tasks, make_tasks, stop_after
from metasched.errors import ConfigError
from metasched.learners.joint import target_batch
from metasched.learners.networks import mlp, num_outputs
from metasched.learners.stream import device_data
from scenes import follow

NETWORK = mlp(3, (6,))
ORDER = [2, 0, 2, 1, 2, 0]


def config(**changes):
    known = {"batch_size": 4, "meta_updates": 2, "batches_per_update": 3, "outer_rate": 0.05, "validation_batch": "all"}
    return ms.TrainConfig(**{**known, **changes})


def by_hand(tasks, order, weight=1.0, rate=0.05, steps=6):
    """Six steps of Adam, its rate falling to a tenth, on weight · loss(source) + loss(target)."""
    weights = NETWORK.init(jax.random.split(jax.random.key(0), 3)[0], tasks.validation.inputs[:1])
    adam = optax.adam(optax.exponential_decay(rate, steps - 1, 0.1))
    state, cursors = adam.init(weights), [0] * len(tasks.tasks)

    def loss(weights, x, y):
        return -jax.nn.log_softmax(NETWORK.apply(weights, x))[jnp.arange(len(y)), y].mean()

    for task in order:
        total = jax.grad(loss)(weights, *tasks.validation)
        if task < len(cursors):
            rows = [(cursors[task] + offset) % len(tasks.tasks[task]) for offset in range(4)]
            cursors[task] = (cursors[task] + 4) % len(tasks.tasks[task])
            own = jax.grad(loss)(weights, tasks.tasks[task].inputs[rows], tasks.tasks[task].labels[rows])
            total = jax.tree.map(lambda a, b: weight * a + b, own, total)
        change, state = adam.update(total, state, weights)
        weights = optax.apply_updates(weights, change)
    return weights


@pytest.mark.parametrize("weight", [1.0, 0.3])
def test_it_is_adam_on_source_and_target_together(tasks, weight):
    run = ms.train(tasks, NETWORK, follow(ORDER), config(source_weight=weight), learner="joint")
    expected = by_hand(tasks, ORDER, weight)
    found = run.parameters[0].weights
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=2e-5), found, expected)
    assert run.records[-1]["tasks"] == ORDER[3:]
    assert run.records[-1]["samples"] == 24


def test_abstaining_trains_on_the_target_alone(tasks):
    order = [3, 0, 3, 1, 3, 3]
    run = ms.train(tasks, NETWORK, follow(order), config(abstain=True), learner="joint")
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, atol=2e-5), run.parameters[0].weights, by_hand(tasks, order)
    )
    assert run.records[-1]["abstained"] == 4
    assert run.records[-1]["samples"] == 8


def test_target_only_takes_as_many_steps_as_any_other(tasks):
    run = ms.train(tasks, NETWORK, "target-only", config(), learner="joint")
    expected = by_hand(tasks, [3] * 6)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=2e-5), run.parameters[0].weights, expected)
    assert run.records[-1]["samples"] == 0


def test_label_sets_of_their_own_have_heads_of_their_own():
    tasks = make_own_label_tasks()
    settings = config(meta_updates=12, batches_per_update=10, outer_rate=0.02)
    run = ms.train(tasks, mlp(num_outputs(tasks), (16,)), "cyclic", settings, learner="joint")
    assert run.final[0]["test_accuracy"] > 0.9


def test_target_rows_are_drawn_anew_for_every_step():
    tasks = make_tasks(validation=40)
    settings = config(validation_batch="uniform").resolve(tasks)
    rows = device_data(tasks, settings).validation
    key = jax.random.key_data(jax.random.key(0))
    first, second = (np.asarray(target_batch(settings, rows, key, jnp.int32(number)).inputs) for number in (0, 1))
    assert first.shape == (4, 4)
    assert len(np.unique(first, axis=0)) == 4
    assert not np.array_equal(first, second)


def test_cut_off_it_goes_on_to_the_same_numbers_and_side_by_side_is_alone(tasks, tmp_path):
    known = {"config": config(reward="transfer", meta_updates=5), "learner": "joint", "seeds": (0, 1)}
    whole = ms.train(tasks, NETWORK, "thompson", **known)
    with pytest.raises(Stop):
        ms.train(
            *(tasks, NETWORK, "thompson"), **known, out=tmp_path / "a", on_record=stop_after(4), checkpoint_seconds=0
        )
    assert ms.train(tasks, NETWORK, "thompson", **known, out=tmp_path / "a").records == whole.records
    assert ms.train(tasks, NETWORK, "thompson", **known, seeds_at_once=2).records == whole.records
    assert whole.outcomes[0].spec.learner == "joint"


@pytest.mark.parametrize(
    "change",
    [
        *({"steps_per_batch": 2}, {"inner_rates": "layer"}, {"inner_layers": "head"}),
    ],
    ids=lambda change: next(iter(change)),
)
def test_what_only_algorithm_1_has_is_refused(tasks, tmp_path, change):
    with pytest.raises(ConfigError, match="is for Algorithm 1; leave it out with the joint learner"):
        ms.train(tasks, NETWORK, "cyclic", config(**change), learner="joint", out=tmp_path / "a")
    assert list(tmp_path.iterdir()) == []


def test_a_learner_that_is_not_there_is_named(tasks):
    with pytest.raises(ConfigError, match="unknown learner 'jiont'; did you mean 'joint'"):
        ms.train(tasks, NETWORK, "cyclic", config(), learner="jiont")
