"""``plan``: transitions of every task, rewards of every label, and what they say about the task to draw on.

Brings the initial model of a learner together with the planners, which know nothing of networks.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from metasched.dependence import transition_matrix
from metasched.errors import ConfigError, unknown
from metasched.meta.config import TrainConfig
from metasched.meta.initial import initial_model
from metasched.meta.networks import Network
from metasched.planning import Policy, coupled_rewards, gittins_index, solve_joint
from metasched.planning.checks import as_discount
from metasched.planning.joint import METHODS
from metasched.planning.replay import replay
from metasched.planning.rewards import Probe, prober
from metasched.tasks import TaskSet

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Plan:
    """Everything that index and MDP schedulers are made from; what costs time is computed when first asked for.

    Attributes:
        tasks: the task set it is for.
        transitions: P (N, C, C) between the labels at a task's cursor, from one batch to the next.
        discount: γ.
        coupled: whether the joint reward is mean over j of A[i, s_i, s_j], or r[i, s_i] alone.
        batch_size: rows that a draw moves the cursor.
        cursor: whether cursors rest when their task is not drawn, or are global.
        method: of the joint problem.
    """

    tasks: TaskSet
    transitions: Floats
    discount: float
    coupled: bool
    batch_size: int
    cursor: str
    method: str
    _probe: Callable[[], Probe]

    @cached_property
    def probe(self) -> Probe:
        """Rewards r (N, C) and A (N, C, C') of the initial model."""
        return self._probe()

    @cached_property
    def indices(self) -> Floats:
        """Gittins indices (N, C) for r; −∞ for a label that never occurs."""
        indices = gittins_index(self.transitions, self.probe.accuracy, self.discount)
        return np.where(self.probe.present, indices, -np.inf)

    @cached_property
    def policy(self) -> Policy:
        """The solution of the joint problem."""
        rewards = coupled_rewards(self.probe.by_class) if self.coupled else self.probe.accuracy
        return solve_joint(self.transitions, rewards, self.discount, self.method)

    def gittins_action(self, labels: NDArray[np.int64]) -> int:
        """The task whose label at the cursor has the largest index; the lowest one of several."""
        return int(np.argmax(self.indices[np.arange(len(labels)), labels]))

    def rows_drawn(self, method: Literal["gittins", "mdp"], batches: int) -> NDArray[np.int64]:
        """Rows (N, C) by task and label that a policy would draw in so many batches, cursors at rest when unused."""
        choose = self.gittins_action if method == "gittins" else self.policy.action
        labels = [task.labels for task in self.tasks.tasks]
        return replay(choose, labels, self.indices.shape[1], self.batch_size, batches)


def plan(
    tasks: TaskSet,
    network: Network | str = "auto",
    config: TrainConfig | None = None,
    *,
    discount: float = 0.99,
    stride: Literal["batch", "row"] = "batch",
    smoothing: float = 0.0,
    rewards: Literal["auto", "coupled", "separable"] = "auto",
    method: str = "auto",
    seed: int = 0,
) -> Plan:
    """Probe the initial model and solve for the task to draw on.

    The arguments are those of :func:`planner`, and the ``seed`` of the initial weights: the same that
    :func:`metasched.train` starts from.
    """
    return planner(
        tasks,
        network,
        config,
        discount=discount,
        stride=stride,
        smoothing=smoothing,
        rewards=rewards,
        method=method,
    )(seed)


def planner(
    tasks: TaskSet,
    network: Network | str = "auto",
    config: TrainConfig | None = None,
    *,
    discount: float = 0.99,
    stride: Literal["batch", "row"] = "batch",
    smoothing: float = 0.0,
    rewards: Literal["auto", "coupled", "separable"] = "auto",
    method: str = "auto",
) -> Callable[[int], Plan]:
    """Plans by the seed of the initial weights; whatever they share is prepared once.

    Args:
        tasks: the sources and the target.
        network: a :class:`Network`, or ``"auto"``, ``"mlp"``, ``"cnn"``.
        config: gives the batch size, and the learning rate and steps (``steps_per_batch``) of each probe.
        discount: γ in [0, 1).
        stride: ``"batch"`` uses P^B, the chain of batch starts; ``"row"``, the paper's letter, uses P.
        smoothing: pseudo-counts in each row of P.
        rewards: of the joint problem; ``"auto"`` is coupled where tasks and target share their labels, and separable
            where they do not, since then no label of one task is a class of another.
        method: of the joint problem; see :func:`metasched.planning.solve_joint`.
    """
    if stride not in ("batch", "row"):
        raise ConfigError(f"stride is '{stride}'; give batch or row")
    if rewards not in ("auto", "coupled", "separable"):
        raise ConfigError(f"rewards is '{rewards}'; give auto, coupled or separable")
    if rewards == "coupled" and not tasks.shared_labels:
        raise ConfigError("coupled rewards need one label set for all tasks and the target; use rewards separable")
    if method not in METHODS:
        raise unknown("method", method, METHODS)
    gamma = as_discount(discount)
    settings = (config or TrainConfig()).resolve(tasks)
    classes = max(len(task.classes) for task in tasks.tasks)
    moves = settings.batch_size if stride == "batch" else 1
    transitions = np.stack(
        [transition_matrix(task.labels, classes, smoothing=smoothing, stride=moves) for task in tasks.tasks]
    )
    loss, hits, start = initial_model(tasks, network, settings)
    measure = prober(loss, hits, settings.inner_rate, settings.steps_per_batch, tasks)

    def planned(seed: int) -> Plan:
        return Plan(
            tasks=tasks,
            transitions=transitions,
            discount=gamma,
            coupled=tasks.shared_labels and rewards != "separable",
            batch_size=settings.batch_size,
            cursor=settings.cursor,
            method=method,
            _probe=lambda: measure(start(seed)),
        )

    return planned
