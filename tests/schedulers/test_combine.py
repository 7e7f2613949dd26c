"""One of several schedulers, chosen by its state."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers import made
from metasched.schedulers import switch
from metasched.schedulers.base import Scheduler

TASKS, TURNS = 3, 25
NAMES = ("cyclic", "uniform", "ucb", "thompson", "gittins")
LABELS = np.random.default_rng(1).integers(0, 2, (TURNS, TASKS)).astype(np.int32)
REWARDS = np.random.default_rng(2).normal(size=(TURNS, TASKS)).astype(np.float32)


@pytest.fixture(scope="module")
def several():
    return [made(name, TASKS) for name in NAMES]


def walk(scheduler, state):
    """The tasks drawn in 25 turns, and the last state."""

    def turn(state, now):
        labels, rewards = now
        task = scheduler.select(state, labels)
        return scheduler.update(state, labels, task, rewards[task]), task

    return jax.lax.scan(turn, state, (jnp.asarray(LABELS), jnp.asarray(REWARDS)))


@pytest.mark.parametrize("which", range(len(NAMES)))
def test_draws_as_the_chosen_one_does_alone_and_tells_no_other(several, which):
    scheduler = switch(several, which)
    key = jax.random.key(5)
    alone, expected = jax.jit(lambda: walk(several[which], several[which].init(key)))()[::-1]
    last, drawn = jax.jit(lambda: walk(scheduler, scheduler.init(key)))()
    assert drawn.tolist() == alone.tolist()
    for number, (mine, its) in enumerate(zip(last.states, several, strict=True)):
        wanted = expected if number == which else its.init(key)
        jax.tree.map(np.testing.assert_array_equal, mine, wanted)


def test_eagerly_as_well(several):
    for which in (0, 2):
        scheduler, key = switch(several[:3], which), jax.random.key(5)
        state, alone = scheduler.init(key), several[which].init(key)
        for labels, rewards in zip(jnp.asarray(LABELS[:8]), REWARDS[:8], strict=True):
            task = scheduler.select(state, labels)
            assert int(task) == int(several[which].select(alone, labels))
            state = scheduler.update(state, labels, task, jnp.float32(rewards[task]))
            alone = several[which].update(alone, labels, task, jnp.float32(rewards[task]))


def test_side_by_side_every_lane_follows_its_own(several):
    scheduler = switch(several)
    seeds = jnp.arange(len(NAMES))

    def lane(which, seed):
        return walk(scheduler, scheduler.init(jax.random.key(seed))._replace(which=which))[1]

    drawn = jax.jit(jax.vmap(lane))(jnp.arange(len(NAMES), dtype=jnp.int32), seeds)
    for number, its in enumerate(several):
        alone = jax.jit(lambda its=its, number=number: walk(its, its.init(jax.random.key(number)))[1])()
        assert drawn[number].tolist() == alone.tolist(), NAMES[number]


def test_which_is_part_of_the_state():
    always = [Scheduler(lambda key: (), lambda state, labels, n=n: n, lambda state, *_: state) for n in (0, 1)]
    scheduler = switch(always, which=1)
    state = scheduler.init(jax.random.key(0))
    assert int(scheduler.select(state, jnp.zeros(2, jnp.int32))) == 1
    assert int(scheduler.select(state._replace(which=jnp.int32(0)), jnp.zeros(2, jnp.int32))) == 0
