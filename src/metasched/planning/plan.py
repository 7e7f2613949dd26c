"""From transitions and rewards to a plan: which task to draw from, given the labels at all cursors. It knows no
network.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from metasched.dependence import transition_matrix
from metasched.errors import ConfigError, unknown
from metasched.planning.checks import Floats, as_discount
from metasched.planning.gittins import gittins_index
from metasched.planning.joint import METHODS, solve_joint
from metasched.planning.payoffs import coupled_rewards
from metasched.planning.policy import Policy
from metasched.tasks import Labels, TaskSet
from metasched.tasks.cursors import advance, batch_rows, labels_at, starts_of


class Probe(NamedTuple):
    """The rewards of the initial model.

    Attributes:
        accuracy: r (N, C), validation accuracy after fitting label c of task i; 0 for a label that never occurs.
        by_class: A (N, C, C'), the same on validation class c' alone. A class without validation rows has the accuracy
            over all rows.
        present: (N, C), whether label c occurs in task i.
    """

    accuracy: Floats
    by_class: Floats
    present: NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Plan:
    """A plan for the schedulers ``gittins`` and ``mdp``. Expensive parts are computed when they are first used.

    Attributes:
        tasks: the task set it is for.
        transitions: P (N, C, C) between the labels at a task's cursor, from one batch to the next.
        discount: γ.
        coupled: whether the joint reward is mean over j of A[i, s_i, s_j], or r[i, s_i] alone.
        batch_size: rows that a draw moves the cursor.
        cursor: whether cursors rest when their task is not drawn, or are global.
        method: of the joint problem.
        measure: makes the rewards.

    Examples:
        >>> plan = ms.plan(tasks, learner=ms.Joint(batch_size=10, batching="per_source"))
        >>> plan.probe.accuracy.shape, plan.indices.shape
        ((2, 2), (2, 2))
        >>> plan.gittins_action(np.array([0, 1])) in (0, 1)
        True
        >>> int(plan.rows_drawn("gittins", batches=6).sum())
        60
    """

    tasks: TaskSet
    transitions: Floats
    discount: float
    coupled: bool
    batch_size: int
    cursor: str
    method: str
    measure: Callable[[], Probe]

    @cached_property
    def probe(self) -> Probe:
        """Rewards r (N, C) and A (N, C, C') of the initial model."""
        return self.measure()

    @cached_property
    def indices(self) -> Floats:
        """The Gittins indices (N, C) for r; −∞ for a label that never occurs."""
        indices = gittins_index(self.transitions, self.probe.accuracy, self.discount)
        return np.where(self.probe.present, indices, -np.inf)

    @cached_property
    def policy(self) -> Policy:
        """The solution of the joint problem."""
        rewards = coupled_rewards(self.probe.by_class) if self.coupled else self.probe.accuracy
        return solve_joint(self.transitions, rewards, self.discount, self.method)

    def gittins_action(self, labels: NDArray[np.int64]) -> int:
        """Choose the task whose label at the cursor has the largest index; of equal ones the lowest.

        Args:
            labels: (N,), at the cursors.

        Returns:
            The number of the task, from 0.
        """
        return int(np.argmax(self.indices[np.arange(len(labels)), labels]))

    def rows_drawn(self, method: Literal["gittins", "mdp"], batches: int) -> NDArray[np.int64]:
        """Count the rows that a policy would draw, if cursors rest when their task is not drawn.

        Args:
            method: the policy, such as ``"gittins"``.
            batches: the number of batches.

        Returns:
            Counts (N, C) by task and label.
        """
        choose = self.gittins_action if method == "gittins" else self.policy.action
        labels = [task.labels for task in self.tasks.tasks]
        return replay(choose, labels, self.indices.shape[1], self.batch_size, batches)


def make(
    tasks: TaskSet,
    measure: Callable[[], Probe],
    *,
    batch_size: int,
    cursor: str = "rested",
    discount: float = 0.99,
    stride: Literal["batch", "row"] = "batch",
    smoothing: float = 0.0,
    rewards: Literal["auto", "coupled", "separable"] = "auto",
    method: str = "auto",
) -> Plan:
    """Make the plan for these tasks with the rewards from ``measure``. The options are those of ``ms.plan``."""
    if stride not in ("batch", "row"):
        raise ConfigError(f"stride is '{stride}'; give batch or row")
    if rewards not in ("auto", "coupled", "separable"):
        raise ConfigError(f"rewards is '{rewards}'; give auto, coupled or separable")
    if rewards == "coupled" and not tasks.shared_labels:
        raise ConfigError("coupled rewards need one label set for all tasks and the target; use rewards separable")
    if method not in METHODS:
        raise unknown("method", method, METHODS)
    gamma = as_discount(discount)
    classes = max(len(task.classes) for task in tasks.tasks)
    moves = batch_size if stride == "batch" else 1
    transitions = np.stack(
        [transition_matrix(task.labels, classes, smoothing=smoothing, stride=moves) for task in tasks.tasks]
    )
    coupled = tasks.shared_labels and rewards != "separable"
    return Plan(tasks, transitions, gamma, coupled, batch_size, cursor, method, measure)


def replay(
    choose: Callable[[NDArray[np.int64]], int],
    labels: Sequence[Labels],
    num_classes: int,
    batch_size: int,
    batches: int,
) -> NDArray[np.int64]:
    """The rows (N, C), by task and label, that would be drawn in ``batches`` batches of ``batch_size`` rows, without
    training.

    ``choose(labels (N,)) -> task`` sees the labels at the cursors. The cursor of the chosen task moves on by the batch
    and wraps round; the others rest.
    """
    sizes, rows = np.array([len(own) for own in labels]), np.concatenate(labels).astype(np.int64)
    starts, cursors = starts_of(sizes), np.zeros_like(sizes)
    drawn = np.zeros((len(sizes), num_classes), np.int64)
    for _ in range(batches):
        task = choose(labels_at(rows, starts, cursors))
        batch = starts[task] + batch_rows(cursors[task], sizes[task], batch_size)
        drawn[task] += np.bincount(rows[batch], minlength=num_classes)
        cursors = advance(cursors, sizes, task, batch_size, "rested")
    return drawn
