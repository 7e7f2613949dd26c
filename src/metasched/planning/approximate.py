"""Choices past tabular size, each computed for one joint state when it is asked for.

*Frozen Gittins*: while task i is drawn on the other tasks rest, so their labels are constants until the next switch.
Freeze them, compute the Gittins index of task i's label under the rewards that remain, and choose the largest. Exact
for separable rewards (Gittins' theorem), a heuristic for coupled ones.

*Top-k*: let the k tasks with the largest frozen indices move, freeze the rest, and solve that joint problem exactly.

*Myopic*: the largest immediate reward.
"""

import numpy as np

from metasched.planning.bellman import numpy_bellman
from metasched.planning.checks import Floats, Integers
from metasched.planning.exact import optimal
from metasched.planning.gittins import eliminate
from metasched.planning.payoffs import Payoffs, Tabular, Tasks
from metasched.planning.policy import Choose, first_best

TIE = 1e-12  # indices and rewards closer than this, in units of the largest reward, are equal: the lower task wins
KEPT = 64  # small joint problems whose solution is kept


def frozen_indices(chains: Floats, payoffs: Payoffs, discount: float, labels: Integers) -> Floats:
    """The frozen Gittins index of every task, (…, N) for labels (…, N) at the cursors, each computed from scratch."""
    classes = chains.shape[-1]
    rewards = payoffs.frozen(labels)
    matrices = np.broadcast_to(chains, (*rewards.shape, classes)).reshape(-1, classes, classes)
    index = eliminate(matrices, rewards.reshape(-1, classes), discount).reshape(rewards.shape)
    return np.take_along_axis(index, labels[..., None], -1)[..., 0]


class FrozenIndices:
    """Frozen Gittins indices that are recomputed only where the choice could depend on it.

    An index is a maximum of weighted means of the task's rewards, so it moves by no more than they do: with r' and r
    the rewards now and when ν was last computed,

        ν(c) + min (r' − r)  ≤  ν'(c)  ≤  ν(c) + max (r' − r).

    A task whose upper bound is below another task's lower bound cannot lead, and its stale index stays. The others
    are recomputed, so that choices never differ from those of :func:`frozen_indices`.
    """

    def __init__(self, chains: Floats, payoffs: Payoffs, discount: float) -> None:
        tasks, self.classes = payoffs.shape
        self.chains, self.payoffs, self.discount = chains, payoffs, discount
        self.tie = TIE * payoffs.scale
        self.each = np.arange(tasks)
        self.rewards = payoffs.frozen(np.zeros(tasks, np.int64)).copy()
        self.index = eliminate(chains, self.rewards, discount)
        self.recomputed = tasks

    def leaders(self, labels: Integers, count: int) -> Tasks:
        """The ``count`` tasks with the largest frozen indices, largest first, ties to the lower task."""
        rewards = self.payoffs.frozen(labels)
        change = rewards - self.rewards
        rise, fall = change.max(axis=1), change.min(axis=1)
        known = self.index[self.each, labels]
        lower = known + fall
        bar = np.partition(lower, -count)[-count] - 2 * self.tie
        contenders = known + rise >= bar
        stale = np.flatnonzero(contenders & ((rise != 0) | (fall != 0)))
        if stale.size:
            self.rewards[stale] = rewards[stale]
            self.index[stale] = eliminate(self.chains[stale], rewards[stale], self.discount)
            self.recomputed += stale.size
            known[stale] = self.index[stale, labels[stale]]
        values = np.where(contenders, known, -np.inf)
        chosen = []
        for _ in range(count):
            best = first_best(values, self.tie)
            chosen.append(best)
            values[best] = -np.inf
        return tuple(chosen)


def choose_frozen(indices: FrozenIndices) -> Choose:
    """The task with the largest frozen Gittins index."""
    return lambda labels: indices.leaders(labels, 1)[0]


def choose_myopic(payoffs: Payoffs) -> Choose:
    """The task with the largest immediate reward."""
    return lambda labels: first_best(payoffs.at(labels), TIE * payoffs.scale)


def choose_top(indices: FrozenIndices, count: int) -> Choose:
    """The optimal choice among the ``count`` leading tasks while the others stay where they are.

    The small problem stays the same until another task leads or one of the others has moved, so its solution is kept.
    """
    chains, payoffs, discount = indices.chains, indices.payoffs, indices.discount
    solved: dict[tuple[Tasks, bytes], Integers] = {}

    def choose(labels: Integers) -> int:
        tasks = tuple(sorted(indices.leaders(labels, count)))
        key = (tasks, np.delete(labels, tasks).tobytes())
        if key not in solved:
            if len(solved) >= KEPT:
                solved.clear()
            small = Tabular(payoffs.table(tasks, labels))
            bellman = numpy_bellman(chains[list(tasks)], small, discount)
            solution = optimal(bellman, discount, 1e-8 * payoffs.scale, max_iterations=5000)
            solved[key] = solution.actions.reshape((indices.classes,) * count)
        return tasks[int(solved[key][tuple(labels[list(tasks)])])]

    return choose
