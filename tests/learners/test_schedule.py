"""The schedule inside the compiled loop is the one that ask/tell gives for the same rewards."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from metasched.meta import loop
from metasched.meta.networks import mlp

import metasched as ms
from helpers import make_tasks
from metasched.schedulers.base import Scheduler

UPDATES, BATCHES = 3, 9


def from_fixed_key(scheduler):
    """The same scheduler with chance that does not depend on who starts it."""
    return scheduler._replace(init=lambda key: scheduler.init(jax.random.key(3)))


def with_notes(scheduler):
    """The same scheduler, which also keeps every reward it is told."""
    length = UPDATES * BATCHES
    return Scheduler(
        lambda key: (scheduler.init(key), jnp.int32(0), jnp.zeros(length)),
        lambda state, labels: scheduler.select(state[0], labels),
        lambda state, labels, task, reward: (
            scheduler.update(state[0], labels, task, reward),
            state[1] + 1,
            state[2].at[state[1]].set(reward),
        ),
    )


@pytest.mark.parametrize(
    ("name", "cursor"),
    [("ucb", "rested"), ("thompson", "rested"), ("exp3", "rested"), ("gittins", "rested"), ("gittins", "global")],
)
def test_ask_and_tell_repeat_the_compiled_loops_draws(name, cursor):
    tasks = make_tasks(sizes=(60, 50, 40))
    config = ms.TrainConfig(
        batch_size=4, meta_updates=UPDATES, batches_per_update=BATCHES, inner_rate=0.1, reward="gain", cursor=cursor
    )
    plan = ms.plan(tasks, mlp(3, (8,)), config) if ms.schedulers.needs_plan(name) else None
    scheduler = from_fixed_key(ms.schedulers.make(name, num_tasks=3, plan=plan))
    program = loop.prepare(tasks, mlp(3, (8,)), with_notes(scheduler), config)
    state, log, _ = program.chunk(program.data, program.test, loop.start(program, 0), 0, UPDATES)
    rewards = np.asarray(state.stream.scheduler[2])
    drawn = np.asarray(log.tasks[:UPDATES]).ravel()

    chooser = ms.Chooser(scheduler, tasks, batch_size=4, cursor=cursor)
    rows = np.zeros((3, 3), int)
    for turn, (task, reward) in enumerate(zip(drawn, rewards, strict=True)):
        draw = chooser.ask()
        assert draw.task == task, f"turn {turn}"
        rows[task] += np.bincount(tasks.tasks[task].labels[draw.rows], minlength=3)
        chooser.tell(draw, float(reward))
    assert rows.tolist() == np.asarray(state.stream.drawn).tolist()
    assert len(set(drawn.tolist())) == 3
    assert len(set(rewards.tolist())) > 20
