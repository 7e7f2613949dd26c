"""The paper's Gittins index scheduler, and a version that re-estimates its rewards. Also what it needs from a plan."""

from typing import NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from metasched.errors import ConfigError, number, whole_number
from metasched.planning.gittins import gittins_index_jax
from metasched.planning.policy import Policy
from metasched.schedulers import arms
from metasched.schedulers.arms import Arms
from metasched.schedulers.base import Scheduler


class PlanLike(Protocol):
    """A plan for N tasks of C labels, as ``ms.plan`` makes it.

    Examples:
        >>> plan = ms.plan(tasks, learner=ms.Joint(batch_size=10))
        >>> plan.transitions.shape, plan.discount, plan.indices.shape, plan.policy.shape
        ((2, 2, 2), 0.99, (2, 2), (2, 2))
    """

    @property
    def transitions(self) -> NDArray[np.float64]:
        """P (N, C, C) between the labels at a task's cursor, from one batch to the next."""

    @property
    def discount(self) -> float:
        """γ."""

    @property
    def indices(self) -> NDArray[np.float64]:
        """Gittins indices (N, C) of the initial model's rewards."""

    @property
    def policy(self) -> Policy:
        """The solution of the joint problem."""


def transitions_of(plan: PlanLike, num_tasks: int) -> jax.Array:
    """P (N, C, C) of a plan in float32. An arm to abstain always stays at label 0."""
    matrices = np.zeros((num_tasks, *plan.transitions.shape[1:]), np.float32)
    matrices[: len(plan.transitions)] = plan.transitions
    matrices[len(plan.transitions) :, 0, 0] = 1
    return jnp.asarray(matrices)


def require_plan(plan: PlanLike | None, name: str, num_tasks: int, refresh: int) -> PlanLike:
    """Return ``plan``, or say what to do if it is missing or does not fit."""
    if plan is None:
        raise ConfigError(f"scheduler '{name}' needs a plan; make one with metasched.plan(tasks) and pass plan=")
    planned = len(plan.transitions)
    if num_tasks == planned + 1 and refresh == 0:
        raise ConfigError(f"'{name}' has no index for abstaining before any reward; give refresh of 1 or more")
    if num_tasks not in (planned, planned + 1):
        raise ConfigError(f"the plan is for {planned} tasks, the scheduler for {num_tasks}; plan again")
    return plan


class GittinsState(NamedTuple):
    """Rewards by task, faded sums and weights by task and label (N, C), and the present indices (N, C).

    ``transitions`` (N, C, C) come from the plan and do not change. They are part of the state and not of the functions,
    so that one compiled program serves any plan.
    """

    seen: Arms
    sums: jax.Array
    weights: jax.Array
    indices: jax.Array
    transitions: jax.Array


def gittins(
    num_tasks: int,
    plan: PlanLike | None = None,
    refresh: int = 10,
    forget: float = 0.99,
    upper: float = 0.5,
    xi: float = 1.1,
) -> Scheduler:
    """Draw θ_t = argmax_i ν_i(label at the cursor of task i), the task whose next rows promise most, and for how long.

    Reference: Gittins, *Journal of the Royal Statistical Society B* 41, 1979; the paper's Algorithm "Gittins Index
    Scheduler".

    Args:
        num_tasks: N.
        plan: the result of :func:`metasched.plan`, with transitions and the indices of the initial model's rewards.
        refresh: how many batches apart the indices are recomputed from the rewards of training. With 0, as in the
            paper, the indices of the initial model are used for ever. They lock onto one task, however badly it does.
        forget: the factor by which the weight of a reward falls with every batch, if ``refresh`` is not 0.
        upper: U of the bonus for tasks that were seldom drawn, if ``refresh`` is not 0 (see :func:`~.arms.bonus`).
        xi: ξ > 1 of this bonus.

    Returns:
        The scheduler, which is active.

    Examples:
        >>> plan = ms.plan(tasks, learner=ms.Joint(batch_size=10), method="myopic")
        >>> chooser = ms.Chooser(ms.schedulers.gittins(2, plan, refresh=0), tasks, 10, batching="per_source")
        >>> chooser.ask().task == plan.gittins_action(np.array([task.labels[0] for task in tasks.tasks]))
        True
    """
    every = whole_number("refresh", refresh, least=0)
    known = require_plan(plan, "gittins", num_tasks, every)
    fade = number("forget", forget, above=0, most=1)
    width, weight = number("upper", upper, least=0), number("xi", xi, above=1)
    tasks = jnp.arange(num_tasks)
    if every == 0:
        planned = np.asarray(known.indices, np.float32)
        return Scheduler(
            lambda key: jnp.asarray(planned),
            lambda indices, labels: arms.best(indices[tasks, labels]),
            lambda indices, labels, task, reward: indices,
        )

    def init(key: jax.Array) -> GittinsState:
        transitions = transitions_of(known, num_tasks)
        nothing = jnp.zeros(transitions.shape[:2], jnp.float32)
        return GittinsState(arms.first(num_tasks, key), nothing, nothing, nothing, transitions)

    def select(state: GittinsState, labels: jax.Array) -> jax.Array:
        return arms.best(state.indices[tasks, labels] + arms.bonus(state.seen, width, weight))

    def update(state: GittinsState, labels: jax.Array, task: jax.Array, reward: jax.Array) -> GittinsState:
        return learned(state, arms.observe(state.seen, task, reward, fade), labels[task], task, reward)

    def update_rows(state: GittinsState, labels: jax.Array, tasks: jax.Array, rewards: jax.Array) -> GittinsState:
        own = labels[jnp.arange(len(tasks)), tasks]
        return learned(state, arms.observe_rows(state.seen, tasks, rewards, fade), own, tasks, rewards)

    def learned(state: GittinsState, seen: Arms, own: jax.Array, task: jax.Array, reward: jax.Array) -> GittinsState:
        sums = (state.sums * fade).at[task, own].add(reward)
        weights = (state.weights * fade).at[task, own].add(1)
        # Every task must be drawn before its index means anything. Then the indices are refreshed at regular intervals.
        due = (seen.turn <= 2 * num_tasks) | (seen.turn // every > state.seen.turn // every)
        indices = jax.lax.cond(
            due,
            lambda: gittins_index_jax(state.transitions, arms.shrunk(sums, weights, seen), known.discount),
            lambda: state.indices,
        )
        return GittinsState(seen, sums, weights, indices, state.transitions)

    return Scheduler(init, select, update, update_rows=update_rows)
