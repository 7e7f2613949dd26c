"""Choices for joint problems that are too large for a table. Each is computed for one joint state on request.

*Frozen Gittins*: while task i is drawn, the other tasks rest, so their labels are constants until the next switch.
Freeze them, compute the Gittins index of task i's label under the rewards that remain, and choose the largest. Exact
for separable rewards (Gittins' theorem), a heuristic for coupled ones.

*Top-k*: let the k tasks with the largest frozen indices move, freeze the rest, and solve that joint problem exactly.

*Myopic*: the largest immediate reward.

*Rollout*: improve a base policy by computing, for each task, what follows if it is drawn first. For a base policy with
value J the rollout policy chooses the largest r(s, i) + γ E J(s'), which is never worse than the base policy (D. P.
Bertsekas, J. N. Tsitsiklis, C. Wu, Journal of Heuristics 3, 1997). J is exact where the joint states can be listed.
Otherwise it is the mean of simulated runs: the k-th draw of a task meets the same random number in each of them,
whatever is drawn first, and the base policy's choice stays unless another task is better by two standard errors.
"""

import math

import numpy as np

from metasched.planning.bellman import numpy_bellman
from metasched.planning.checks import Floats, Integers
from metasched.planning.exact import optimal, value_of
from metasched.planning.gittins import eliminate
from metasched.planning.payoffs import Payoffs, Tabular, Tasks
from metasched.planning.policy import Choose, Policy, first_best, joint_states

TIE = 1e-12  # indices and rewards closer than this, in units of the largest reward, are equal: the lower task wins
KEPT = 64  # small joint problems whose solution is kept
LISTED = 4096  # up to this many joint states the base policy is evaluated exactly


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
        """The ``count`` tasks with the largest frozen indices, largest first. Ties go to the lower task."""
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
    """The optimal choice among the ``count`` leading tasks while the others do not move.

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


def choose_rollout(
    indices: FrozenIndices, *, candidates: int = 3, runs: int = 32, horizon: int | None = None, seed: int = 0
) -> Choose:
    """Rollout of frozen Gittins.

    Args:
        indices: the base policy.
        candidates: when simulating, only this many tasks with the largest frozen indices are tried.
        runs: simulated runs for each candidate.
        horizon: the draws in a run. By default until the discount has fallen below 5 %, but at most 300.
        seed: the random numbers of a joint state depend on it and on the state, so that choices repeat.
    """
    tasks, classes = indices.payoffs.shape
    if classes**tasks <= LISTED:
        return _choose_exact(indices)
    base = Policy(indices.payoffs.shape, choose_frozen(indices)).action
    discount, payoffs = indices.discount, indices.payoffs
    if horizon is None:
        horizon = 1 if discount == 0 else min(300, max(1, math.ceil(math.log(0.05) / math.log(discount))))
    cumulative = indices.chains.cumsum(axis=2)
    cumulative[:, :, -1] = np.inf

    def run(first: int, labels: Integers, numbers: Floats) -> float:
        labels, task, total, weight = labels.copy(), first, 0.0, 1.0
        drawn = [0] * tasks
        for _ in range(horizon):
            total += weight * float(payoffs.frozen(labels)[task, labels[task]])
            weight *= discount
            number = numbers[task, drawn[task]]
            drawn[task] += 1
            labels[task] = np.searchsorted(cumulative[task, labels[task]], number, side="right")
            task = base(labels)
        return total

    def choose(labels: Integers) -> int:
        numbers = np.random.default_rng([seed, *labels.tolist()]).random((runs, tasks, horizon))
        leader, *others = indices.leaders(labels, min(candidates, tasks))
        usual = np.array([run(leader, labels, row) for row in numbers])
        margins = {}
        for task in sorted(others):
            gain = np.array([run(task, labels, row) for row in numbers]) - usual
            margins[task] = gain.mean() - 2 * gain.std() / math.sqrt(runs)
        best = max(margins, key=margins.__getitem__, default=leader)
        return best if margins.get(best, 0.0) > TIE * payoffs.scale else leader

    return choose


def _choose_exact(indices: FrozenIndices) -> Choose:
    """The greedy policy for the exact value of frozen Gittins, as a table."""
    chains, payoffs, discount = indices.chains, indices.payoffs, indices.discount
    tasks, classes = payoffs.shape
    index = frozen_indices(chains, payoffs, discount, joint_states(tasks, classes))
    base = np.argmax(index >= index.max(axis=1, keepdims=True) - indices.tie, axis=1)
    bellman = numpy_bellman(chains, payoffs, discount)
    V = value_of(bellman, discount, base).value
    tie = TIE * payoffs.scale / (1 - discount)
    actions = bellman.greedy(V, bellman.sweep(V, None), tie).reshape((classes,) * tasks)
    return lambda labels: int(actions[tuple(labels)])
