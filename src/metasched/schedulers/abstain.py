"""One more arm: no source this time."""

import jax
import jax.numpy as jnp

from metasched.schedulers.base import Scheduler, State


def with_abstain(scheduler: Scheduler) -> Scheduler:
    """Let a scheduler of N + 1 arms choose among N tasks and, with arm N, none of them.

    Build it for one task more: ``with_abstain(make("ucb", num_tasks=N + 1))``. The learner hands over the labels under
    the cursors of its N tasks; the last arm, which has no rows, always shows label 0. Whoever asks reads ``task == N``
    as *train on nothing*: no row is drawn, no cursor moves, the model stays as it is, and the arm is told the reward
    measured then, like any other. What learns from rewards will thus leave sources that hurt; a static scheduler
    abstains in its turn, whatever the rewards.
    """

    def select(state: State, heads: jax.Array) -> jax.Array:
        return scheduler.select(state, jnp.append(heads, jnp.zeros((), heads.dtype)))

    return Scheduler(scheduler.init, select, scheduler.update)
