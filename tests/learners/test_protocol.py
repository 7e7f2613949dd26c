"""What the engine asks of a learner: the promises of ``init`` and ``update``, for every learner."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers import make_tasks
from metasched import AlgorithmOne, schedulers
from metasched.learners import engine
from metasched.learners.protocol import Update
from metasched.learners.stream import Stream, device_data
from scenes import objective_for, schedule_for


class Learning:
    """A learner on small tasks, its functions compiled; λ of every seed has a state."""

    def __init__(self, learner):
        tasks = make_tasks()
        cheap = {"gradient": "first-order"} if learner is AlgorithmOne else {}
        self.objective = objective_for(tasks, learner=learner, batches_per_update=2, **cheap)
        self.data = device_data(tasks, self.objective.settings)
        made = engine.LEARNERS[learner](self.objective, schedule_for(schedulers.uniform(3)))
        self.init = jax.jit(made.init)
        self.update = jax.jit(made.update)
        self.several = jax.jit(jax.vmap(made.update, in_axes=(None, 0)))

    def first(self, seed, **hyperparameters):
        usual = engine.hyperparameters_of(self.objective.settings)
        return self.init(self.data, seed, usual._replace(**hyperparameters))


@pytest.fixture(scope="module", params=engine.LEARNERS, ids=lambda learner: learner.name)
def learning(request):
    return Learning(request.param)


def equal(a, b):
    return all(np.array_equal(x, y) for x, y in zip(*map(jax.tree.leaves, (a, b)), strict=True))


def test_a_state_has_a_stream_the_updates_made_and_the_hyperparameters(learning):
    state = learning.first(3, inner_rate=jnp.float32(0.2), reward_index=jnp.int32(0))
    assert isinstance(state.stream, Stream)
    assert int(state.update) == 0
    assert float(state.hyperparameters.inner_rate) == pytest.approx(0.2)
    for number in (1, 2):
        state, _ = learning.update(learning.data, state)
        assert int(state.update) == number
    assert float(state.hyperparameters.inner_rate) == pytest.approx(0.2)


def test_a_state_can_be_stored_as_arrays_of_plain_numbers(learning):
    for leaf in jax.tree.leaves(learning.first(0)):
        assert np.asarray(leaf).dtype.kind in "fiu"


def test_every_random_number_follows_from_the_seed(learning):
    first, again, other = (learning.first(seed) for seed in (0, 0, 1))
    assert equal(first, again)
    assert not equal(first, other)
    assert equal(*(learning.update(learning.data, state) for state in (first, again)))


def test_an_update_says_what_it_did(learning):
    state = learning.first(0)
    after, update = learning.update(learning.data, state)
    assert isinstance(update, Update)
    assert update.loss.shape == update.validation_accuracy.shape == update.rate.shape == ()
    assert update.tasks.shape == (2,)
    assert set(update.tasks.tolist()) <= {0, 1, 2}
    drawn = np.bincount(update.tasks, minlength=3) * learning.objective.settings.batch_size
    assert (after.stream.drawn - state.stream.drawn).sum(axis=1).tolist() == drawn.tolist()
    predicted = learning.objective.network.apply(update.weights, learning.data.validation.inputs).argmax(axis=1)
    expected = (predicted == learning.data.validation.labels).mean()
    assert float(update.validation_accuracy) == pytest.approx(float(expected))
    assert not equal(update.weights, update.initial)


def test_updates_side_by_side_are_those_alone(learning):
    states = [learning.first(seed) for seed in (0, 1)]
    together = learning.several(learning.data, jax.tree.map(lambda *leaves: jnp.stack(leaves), *states))
    for place, state in enumerate(states):
        jax.tree.map(
            lambda a, b, place=place: np.testing.assert_allclose(a[place], b, atol=1e-5),
            together,
            learning.update(learning.data, state),
        )
