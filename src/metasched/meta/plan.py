"""``plan``: transitions of every task, rewards of every label, and what they say about the task to draw on.

Brings the initial model of a learner together with the planners, which know nothing of networks.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from metasched.dependence import transition_matrix
from metasched.errors import ConfigError
from metasched.meta.config import TrainConfig
from metasched.meta.initial import initial_model
from metasched.meta.networks import Network
from metasched.planning import Policy, coupled_rewards, gittins_index, solve_joint
from metasched.planning.replay import replay
from metasched.planning.rewards import Probe, probe
from metasched.tasks import TaskSet

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Plan:
    """Everything that index and MDP schedulers are made from.

    Attributes:
        tasks: the task set it is for.
        transitions: P (N, C, C) between the labels at a task's cursor, from one batch to the next.
        probe: rewards r (N, C) and A (N, C, C') of the initial model.
        discount: γ.
        coupled: whether the joint reward is mean over j of A[i, s_i, s_j], or r[i, s_i] alone.
        indices: Gittins indices (N, C) for r; −∞ for a label that never occurs.
        policy: of the joint problem.
        batch_size: rows that a draw moves the cursor.
    """

    tasks: TaskSet
    transitions: Floats
    probe: Probe
    discount: float
    coupled: bool
    indices: Floats
    policy: Policy
    batch_size: int

    def gittins_action(self, heads: NDArray[np.int64]) -> int:
        """The task whose label at the cursor has the largest index; the lowest one of several."""
        return int(np.argmax(self.indices[np.arange(len(heads)), heads]))

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
        seed: of the initial weights; the same that :func:`metasched.train` starts from.
    """
    if stride not in ("batch", "row"):
        raise ConfigError(f"stride is '{stride}'; give batch or row")
    if rewards not in ("auto", "coupled", "separable"):
        raise ConfigError(f"rewards is '{rewards}'; give auto, coupled or separable")
    if rewards == "coupled" and not tasks.shared_labels:
        raise ConfigError("coupled rewards need one label set for all tasks and the target; use rewards separable")
    settings = (config or TrainConfig()).resolve(tasks)
    fit, right, weights = initial_model(tasks, network, settings, seed)
    found = probe(fit, right, weights, settings.inner_rate, settings.steps_per_batch, tasks)
    classes = found.accuracy.shape[1]
    moves = settings.batch_size if stride == "batch" else 1
    transitions = np.stack(
        [transition_matrix(task.labels, classes, smoothing=smoothing, stride=moves) for task in tasks.tasks]
    )
    coupled = tasks.shared_labels and rewards != "separable"
    indices = gittins_index(transitions, found.accuracy, discount)
    joint = coupled_rewards(found.by_class) if coupled else found.accuracy
    return Plan(
        tasks=tasks,
        transitions=transitions,
        probe=found,
        discount=discount,
        coupled=coupled,
        indices=np.where(found.present, indices, -np.inf),
        policy=solve_joint(transitions, joint, discount, method),
        batch_size=settings.batch_size,
    )
