"""Frozen Gittins, a decision at a time: lazy indices against recomputing every index for every decision.

The peer is our own batched elimination of all tasks at once, the fastest way to recompute; a loop over tasks is slower
still and stands beside it. Decisions follow the policy from random labels, as in training: only the chosen task moves.
A joint state that returns is answered from memory, so the first decisions, where none does, are shown apart.
"""

import time

import common  # first: it sets the number of threads
import numpy as np

from metasched.planning import coupled_rewards, gittins_index, solve_joint
from metasched.planning.approximate import TIE, frozen_indices
from metasched.planning.policy import first_best


def follow(tasks, classes, discount, decisions, first, compare_every):
    """Time ``decisions`` of the policy, every ``compare_every``-th of them from scratch too."""
    random = np.random.default_rng(1)
    Ps, A = common.random_problem(tasks, classes)
    payoffs = coupled_rewards(A)
    policy = solve_joint(Ps, payoffs, discount, "frozen-gittins")
    labels, cumulative = random.integers(classes, size=tasks), Ps.cumsum(axis=2)
    lazy, full, differ = [], [], 0
    for decision in range(decisions):
        start = time.process_time()
        task = policy.action(labels)
        lazy.append(time.process_time() - start)
        if decision % compare_every == 0:
            start = time.process_time()
            other = first_best(frozen_indices(Ps, payoffs, discount, labels), TIE * payoffs.scale)
            full.append(time.process_time() - start)
            differ += task != other
        labels[task] = min(classes - 1, np.searchsorted(cumulative[task, labels[task]], random.random()))
    rewards = payoffs.frozen(labels)
    start = time.process_time()
    for i in range(0, tasks, max(1, tasks // 50)):
        gittins_index(Ps[i], rewards[i], discount)
    one_by_one = (time.process_time() - start) * max(1, tasks // 50)
    each = np.mean(full)
    print(
        f"N = {tasks}, C = {classes}, discount {discount}: {decisions} decisions, {np.mean(lazy) * 1e6:.0f} µs each, "
        f"all indices {each * 1e6:.0f} µs, {each / np.mean(lazy):.0f} times (the first {first}: "
        f"{each / np.mean(lazy[:first]):.0f} times; against a loop over tasks: "
        f"{one_by_one / np.mean(lazy):.0f} times); {differ} of {len(full)} choices differ"
    )


if __name__ == "__main__":
    for discount in (0.9, 0.99):
        follow(100, 10, discount, decisions=1000, first=100, compare_every=1)
    for discount in (0.9, 0.99):
        follow(1000, 100, discount, decisions=300, first=100, compare_every=30)
