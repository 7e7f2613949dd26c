"""Every registered scheduler at once: what the protocol promises."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from metasched import schedulers
from metasched.errors import ConfigError

NAMES = schedulers.names()
CONTEXT = {"passes": [2, 3, 1, 2]}


def choices(scheduler, steps, seed=0, num_tasks=4, jit=False):
    state = scheduler.init(jax.random.key(seed))
    select, update = (jax.jit(scheduler.select), jax.jit(scheduler.update)) if jit else scheduler[1:]
    heads = jnp.zeros(num_tasks, jnp.int32)
    taken = []
    for step in range(steps):
        task = select(state, heads)
        state = update(state, task, jnp.float32(np.sin(step)))
        taken.append(int(task))
    return taken


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("num_tasks", [1, 2, 7, 10_000])
def test_always_a_valid_task(name, num_tasks):
    taken = choices(schedulers.make(name, num_tasks=num_tasks), 30, num_tasks=num_tasks)
    assert all(0 <= task < num_tasks for task in taken)


@pytest.mark.parametrize("name", NAMES)
def test_same_key_same_choices(name):
    scheduler = schedulers.make(name, num_tasks=4, context=CONTEXT)
    assert choices(scheduler, 40, seed=5) == choices(scheduler, 40, seed=5)


@pytest.mark.parametrize("name", NAMES)
def test_compiled_scanned_and_mapped_choices_equal_the_eager_ones(name):
    scheduler = schedulers.make(name, num_tasks=4, context=CONTEXT)
    rewards = jnp.sin(jnp.arange(25, dtype=jnp.float32))

    def scanned(seed):
        def step(state, reward):
            task = scheduler.select(state, jnp.zeros(4, jnp.int32))
            return scheduler.update(state, task, reward), task

        return jax.lax.scan(step, scheduler.init(jax.random.key(seed)), rewards)[1]

    mapped = jax.vmap(scanned)(jnp.arange(3))
    for seed in range(3):
        eager = choices(scheduler, 25, seed=seed)
        assert choices(scheduler, 25, seed=seed, jit=True) == eager
        assert mapped[seed].tolist() == eager


@pytest.mark.parametrize("name", NAMES)
def test_state_is_plain_arrays_that_keep_shape_and_type(name):
    scheduler = schedulers.make(name, num_tasks=4, context=CONTEXT)
    state = scheduler.init(jax.random.key(0))
    after = scheduler.update(state, jnp.int32(1), jnp.float32(0.5))
    for before, later in zip(jax.tree.leaves(state), jax.tree.leaves(after), strict=True):
        assert np.asarray(before).dtype.kind in "iuf"
        assert (before.shape, before.dtype) == (later.shape, later.dtype)


def test_cyclic_takes_one_batch_of_each_task_in_turn():
    assert choices(schedulers.make("cyclic", num_tasks=3), 8) == [0, 1, 2, 0, 1, 2, 0, 1]


def test_sequential_finishes_a_task_before_the_next():
    scheduler = schedulers.make("sequential", num_tasks=4, context=CONTEXT)
    assert choices(scheduler, 10) == [0, 0, 1, 1, 1, 2, 3, 3, 0, 0]


def test_uniform_takes_every_task_equally_often():
    taken = choices(schedulers.make("uniform", num_tasks=4), 2000, jit=True)
    expected = 500
    chi_squared = sum((taken.count(task) - expected) ** 2 / expected for task in range(4))
    assert chi_squared < 16.3  # the 99.9 % point with 3 degrees of freedom


def test_uniform_differs_between_keys():
    scheduler = schedulers.make("uniform", num_tasks=4)
    assert choices(scheduler, 20, seed=0) != choices(scheduler, 20, seed=1)


class TestMake:
    def test_suggests_the_nearest_name(self):
        with pytest.raises(ConfigError, match="unknown scheduler 'cyclik'; did you mean 'cyclic'"):
            schedulers.make("cyclik", num_tasks=3)

    def test_refuses_an_option_the_scheduler_does_not_have(self):
        with pytest.raises(ConfigError, match="unknown option of scheduler 'cyclic' 'speed'"):
            schedulers.make("cyclic", num_tasks=3, speed=2)

    def test_refuses_no_tasks(self):
        with pytest.raises(ConfigError, match="num_tasks is 0"):
            schedulers.make("cyclic", num_tasks=0)

    @pytest.mark.parametrize("passes", [[1, 2], [1, 0, 2]])
    def test_refuses_passes_that_do_not_fit(self, passes):
        with pytest.raises(ConfigError, match="passes is"):
            schedulers.make("sequential", num_tasks=3, passes=passes)
