"""Rewards re-estimated while training runs, by task and label, old ones fading: what refreshing schedulers share."""

from collections.abc import Callable
from typing import NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from metasched.errors import ConfigError
from metasched.planning.policy import Policy
from metasched.schedulers import arms
from metasched.schedulers.arms import Arms
from metasched.tasks import TaskSet


class PlanLike(Protocol):
    """What the planned schedulers take of a plan; ``ms.plan`` makes one."""

    tasks: TaskSet
    transitions: NDArray[np.float64]
    indices: NDArray[np.float64]
    discount: float
    policy: Policy
    batch_size: int
    cursor: str


class Cursors(NamedTuple):
    """Labels at the tasks' cursors, followed by the scheduler itself: labels of all tasks end to end, and their sizes.

    A scheduler is told a reward without the label that earned it, so a refreshing one walks along with the tasks.
    All are int32: ``labels`` (rows,), ``starts``, ``sizes`` and ``cursors`` (N,).
    """

    labels: jax.Array
    starts: jax.Array
    sizes: jax.Array
    cursors: jax.Array


def cursors_of(plan: PlanLike, num_tasks: int) -> Cursors:
    """The cursors of a plan's tasks, all at the first row; one more arm, to abstain, has one row of label 0."""
    spare = num_tasks - len(plan.tasks.tasks)
    sizes = np.array([*plan.tasks.sizes, *[1] * spare], np.int32)
    labels = np.concatenate([*(task.labels for task in plan.tasks.tasks), np.zeros(spare, np.int32)])
    starts = np.cumsum(sizes) - sizes
    return Cursors(*(jnp.asarray(part, jnp.int32) for part in (labels, starts, sizes, np.zeros_like(sizes))))


def heads_at(walk: Cursors) -> jax.Array:
    """Labels (N,) at the cursors."""
    return walk.labels[walk.starts + walk.cursors]


def mover(plan: PlanLike) -> Callable[[Cursors, jax.Array], Cursors]:
    """``move(walk, task)``: the cursors after a draw of ``task``.

    Every draw moves the task's cursor by one batch, and the others rest, unless cursors are global. Arms beyond the
    tasks abstain: they move nothing.
    """
    step, rested, tasks = plan.batch_size, plan.cursor == "rested", len(plan.tasks.tasks)

    def move(walk: Cursors, task: jax.Array) -> Cursors:
        everyone = jnp.arange(len(walk.cursors))
        moves = everyone == task if rested else jnp.full(len(everyone), task < tasks)
        return walk._replace(cursors=jnp.where(moves, (walk.cursors + step) % walk.sizes, walk.cursors))

    return move


def transitions_of(plan: PlanLike, num_tasks: int) -> jax.Array:
    """P (N, C, C) of a plan in float32; an arm to abstain stays at label 0."""
    matrices = np.zeros((num_tasks, *plan.transitions.shape[1:]), np.float32)
    matrices[: len(plan.transitions)] = plan.transitions
    matrices[len(plan.transitions) :, 0, 0] = 1
    return jnp.asarray(matrices)


def require_plan(plan: PlanLike | None, name: str, num_tasks: int, refresh: int) -> PlanLike:
    """``plan``, or what to do about its absence or its not fitting."""
    if plan is None:
        raise ConfigError(f"scheduler '{name}' needs a plan; make one with metasched.plan(tasks) and pass plan=")
    planned = len(plan.tasks.tasks)
    if num_tasks == planned + 1 and refresh == 0:
        raise ConfigError(f"'{name}' has no index for abstaining before any reward; give refresh of 1 or more")
    if num_tasks not in (planned, planned + 1):
        raise ConfigError(f"the plan is for {planned} tasks, the scheduler for {num_tasks}; plan again")
    return plan


def shrunk(sums: jax.Array, weights: jax.Array, seen: Arms) -> jax.Array:
    """Reward estimates (N, C, …) from faded sums and weights, each drawn to its task's mean by one observation.

    A label seen once counts half, one never seen not at all: r̂ = (Σ + μ_i) / (W + 1).
    """
    mean = seen.mean.reshape(-1, *[1] * (sums.ndim - 1))
    return (sums + mean) / (weights + 1)


def bonus(seen: Arms, upper: float, xi: float) -> jax.Array:
    """What curiosity adds to the index of each task (N,): U·spread·√(ξ·log t / V_i), infinite for a task never drawn.

    A Gittins index moves by as much as all its rewards do, so a bonus on a task's rewards may be added to its index.
    V_i fades with the rewards: a task left alone is tried again after a while.
    """
    time = jnp.maximum(seen.visits.sum(), 1)
    return arms.upper_bound(seen._replace(mean=jnp.zeros_like(seen.mean)), time, upper, xi, "fixed") * jnp.where(
        seen.visits > 0, arms.spread(seen), 1
    )
