"""One-step rollout: improve a base policy by asking, for each task, what follows if it is drawn on first.

For a base policy with value J the rollout policy chooses the largest r(s, i) + γ E J(s'), which is never worse than
the base policy (D. P. Bertsekas, J. N. Tsitsiklis, C. Wu, Journal of Heuristics 3, 1997). J is exact where the joint
states can be listed. Otherwise it is the mean of simulated runs: the k-th draw of a task meets the same random number
in each of them, whatever is drawn first, and the base policy's choice stands unless another task is better by two
standard errors.
"""

import math

import numpy as np

from metasched.planning.approximate import TIE, FrozenIndices, choose_frozen, frozen_indices
from metasched.planning.bellman import numpy_bellman
from metasched.planning.checks import Floats, Integers
from metasched.planning.exact import value_of
from metasched.planning.policy import Choose, Policy, joint_states

LISTED = 4096  # up to this many joint states the base policy is evaluated exactly


def choose_rollout(
    indices: FrozenIndices, *, candidates: int = 3, runs: int = 32, horizon: int | None = None, seed: int = 0
) -> Choose:
    """Rollout of frozen Gittins.

    Args:
        indices: the base policy.
        candidates: when simulating, only this many tasks with the largest frozen indices are tried.
        runs: simulated runs for each candidate.
        horizon: draws in a run; by default until the discount has fallen below 5 %, and at most 300.
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
