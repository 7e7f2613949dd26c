"""What ``gittins`` and ``mdp`` take of a plan."""

from typing import Protocol

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from metasched.errors import ConfigError
from metasched.planning.policy import Policy


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
    """P (N, C, C) of a plan in float32; an arm to abstain stays at label 0."""
    matrices = np.zeros((num_tasks, *plan.transitions.shape[1:]), np.float32)
    matrices[: len(plan.transitions)] = plan.transitions
    matrices[len(plan.transitions) :, 0, 0] = 1
    return jnp.asarray(matrices)


def require_plan(plan: PlanLike | None, name: str, num_tasks: int, refresh: int) -> PlanLike:
    """``plan``, or what to do about its absence or its not fitting."""
    if plan is None:
        raise ConfigError(f"scheduler '{name}' needs a plan; make one with metasched.plan(tasks) and pass plan=")
    planned = len(plan.transitions)
    if num_tasks == planned + 1 and refresh == 0:
        raise ConfigError(f"'{name}' has no index for abstaining before any reward; give refresh of 1 or more")
    if num_tasks not in (planned, planned + 1):
        raise ConfigError(f"the plan is for {planned} tasks, the scheduler for {num_tasks}; plan again")
    return plan
