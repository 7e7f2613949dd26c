"""The paper's MDP scheduler, and a version that re-estimates its rewards."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from metasched.errors import number, whole_number
from metasched.planning.gittins import gittins_index_jax
from metasched.schedulers import arms
from metasched.schedulers.arms import Arms
from metasched.schedulers.base import Scheduler
from metasched.schedulers.gittins import PlanLike, require_plan, transitions_of


class MdpState(NamedTuple):
    """Rewards by task; faded sums, weights and the present A by task, own label and label of another task (N, C, C).

    ``transitions`` (N, C, C) come from the plan and do not change, as in the Gittins scheduler.
    """

    seen: Arms
    sums: jax.Array
    weights: jax.Array
    coupled: jax.Array
    transitions: jax.Array


def mdp(
    num_tasks: int,
    plan: PlanLike | None = None,
    refresh: int = 10,
    forget: float = 0.99,
    upper: float = 0.5,
    xi: float = 1.1,
) -> Scheduler:
    """Draw the task that the joint decision problem of all tasks chooses in the state of all labels at the cursors.

    With ``refresh=0`` this is the policy of ``plan``, which uses the initial model's rewards: a table if the joint
    problem was solved exactly, or a call to the planner if the problem is too large for a table. With ``refresh`` ≥ 1,
    the reward of task i at label c is re-estimated for every label c' that the tasks then showed, Â[i, c, c']. The
    choice then uses *frozen* indices: while task i is drawn the others rest, so its index is that of the rewards mean
    over j of Â[i, c, s_j], where s_j is the label of task j (its own label for j = i). This is exact for separable
    rewards, and within a few hundredths of the optimum for coupled rewards.

    Args:
        num_tasks: N.
        plan: the result of :func:`metasched.plan`.
        refresh: how many batches apart rewards are re-estimated. 0 is the scheduler of the paper.
        forget: the factor by which the weight of a reward falls with every batch, if ``refresh`` is not 0.
        upper: U of the bonus for tasks that were seldom drawn, if ``refresh`` is not 0.
        xi: ξ > 1 of this bonus.

    Returns:
        The scheduler, which is active.

    Examples:
        >>> plan = ms.plan(tasks, learner=ms.Joint(batch_size=10))
        >>> chooser = ms.Chooser(ms.schedulers.mdp(2, plan, refresh=0), tasks, 10, batching="per_source")
        >>> chooser.ask().task == plan.policy.action([task.labels[0] for task in tasks.tasks])
        True
    """
    every = whole_number("refresh", refresh, least=0)
    known = require_plan(plan, "mdp", num_tasks, every)
    fade = number("forget", forget, above=0, most=1)
    width, weight = number("upper", upper, least=0), number("xi", xi, above=1)
    if every == 0:
        return _planned(known)
    tasks = jnp.arange(num_tasks)

    def init(key: jax.Array) -> MdpState:
        transitions = transitions_of(known, num_tasks)
        nothing = jnp.zeros_like(transitions)
        return MdpState(arms.first(num_tasks, key), nothing, nothing, nothing, transitions)

    def select(state: MdpState, labels: jax.Array) -> jax.Array:
        met = jax.nn.one_hot(labels, state.coupled.shape[-1]).sum(axis=0)
        others = jnp.einsum("icd,d->ic", state.coupled, met) - state.coupled[tasks, :, labels]
        own = jnp.diagonal(state.coupled, axis1=1, axis2=2)
        indices = gittins_index_jax(state.transitions, (others + own) / num_tasks, known.discount)
        return arms.best(indices[tasks, labels] + arms.bonus(state.seen, width, weight))

    def update(state: MdpState, labels: jax.Array, task: jax.Array, reward: jax.Array) -> MdpState:
        seen = arms.observe(state.seen, task, reward, fade)
        return learned(state, seen, labels[None], jnp.asarray(task)[None], jnp.asarray(reward)[None])

    def update_rows(state: MdpState, labels: jax.Array, tasks: jax.Array, rewards: jax.Array) -> MdpState:
        return learned(state, arms.observe_rows(state.seen, tasks, rewards, fade), labels, tasks, rewards)

    def learned(state: MdpState, seen: Arms, labels: jax.Array, task: jax.Array, reward: jax.Array) -> MdpState:
        own = labels[jnp.arange(len(task)), task]
        sums = (state.sums * fade).at[task[:, None], own[:, None], labels].add(reward[:, None])
        weights = (state.weights * fade).at[task[:, None], own[:, None], labels].add(1)
        due = (seen.turn <= 2 * num_tasks) | (seen.turn // every > state.seen.turn // every)
        coupled = jnp.where(due, arms.shrunk(sums, weights, seen), state.coupled)
        return MdpState(seen, sums, weights, coupled, state.transitions)

    return Scheduler(init, select, update, update_rows=update_rows)


def _planned(plan: PlanLike) -> Scheduler:
    """The plan's policy: a table of actions, which is the state, or a call to the host if there is no table."""
    actions = plan.policy.actions
    if actions is not None:
        table = np.asarray(actions, np.int8 if len(plan.transitions) < 128 else np.int32)
        return Scheduler(
            lambda key: jnp.asarray(table),
            lambda table, labels: table[tuple(labels)].astype(jnp.int32),
            lambda table, labels, task, reward: table,
        )
    result: Any = jax.ShapeDtypeStruct((), np.int32)  # type: ignore[no-untyped-call]

    def choose(labels: Any) -> Any:
        return np.int32(plan.policy.action(np.asarray(labels, np.int64)))

    def select(state: jax.Array, labels: jax.Array) -> jax.Array:
        task: jax.Array = jax.pure_callback(choose, result, labels, vmap_method="sequential")
        return task

    return Scheduler(lambda key: jnp.zeros((), jnp.int32), select, lambda state, labels, task, reward: state)
