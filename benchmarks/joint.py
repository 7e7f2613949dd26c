"""The joint problem: ours against quantecon's modified policy iteration, and against HiGHS on the weather chains."""

import sys
import time

import common  # first: it sets the number of threads
import numpy as np

from metasched.planning import coupled_rewards, solve_joint

TASKS, LABELS = 5, 10
RESIDUAL = 1e-8


def quantecon_problem(Ps, A, discount):
    """The problem as quantecon takes it: one sparse row for each pair of state and task."""
    from quantecon.markov import DiscreteDP
    from scipy.sparse import csr_matrix

    tasks, classes, _ = Ps.shape
    states = classes**tasks
    labels = np.stack(np.unravel_index(np.arange(states), (classes,) * tasks), axis=1)
    columns = np.empty((states, tasks, classes), np.int32)
    entries = np.empty((states, tasks, classes))
    for task in range(tasks):
        stride = classes ** (tasks - 1 - task)
        base = np.arange(states) - labels[:, task] * stride
        columns[:, task] = base[:, None] + np.arange(classes) * stride
        entries[:, task] = Ps[task][labels[:, task]]
    rows = np.arange(0, states * tasks * classes + 1, classes, dtype=np.int32)
    Q = csr_matrix((entries.ravel(), columns.ravel(), rows), shape=(states * tasks, states))
    rewards = coupled_rewards(A).at(labels).ravel()
    return DiscreteDP(rewards, Q, discount, np.repeat(np.arange(states), tasks), np.tile(np.arange(tasks), states))


def solve_theirs(problem, discount):
    """Stops at the same span as ours: their epsilon bounds the value, ours the residual."""
    epsilon = 2 * RESIDUAL * discount / (1 - discount)
    return problem.solve(method="modified_policy_iteration", epsilon=epsilon, max_iter=10**6)


def solve_ours(Ps, A, discount):
    """From matrices and scores to a policy; building the table of rewards is part of it."""
    return solve_joint(Ps, coupled_rewards(A), discount, "numpy", tolerance=RESIDUAL)


def memory(who, discount):
    """Print the bytes that building and solving add to a warm process."""
    small, large = common.random_problem(2, 3), common.random_problem(TASKS, LABELS)
    if who == "ours":
        solve_ours(*small, discount)
        before = common.resident_bytes()
        solve_ours(*large, discount)
    else:
        solve_theirs(quantecon_problem(*small, discount), discount)
        before = common.resident_bytes()
        solve_theirs(quantecon_problem(*large, discount), discount)
    print(common.peak_bytes() - before)


def against_quantecon(discount):
    """Seconds, residuals, bytes on random chains."""
    Ps, A = common.random_problem(TASKS, LABELS)
    problem = quantecon_problem(Ps, A, discount)
    solve_theirs(quantecon_problem(*common.random_problem(2, 3), discount), discount)  # compiles
    ours, build, peer = common.fastest(
        lambda: solve_ours(Ps, A, discount),
        lambda: quantecon_problem(Ps, A, discount),
        lambda: solve_theirs(problem, discount),
        repeats=5,
        clock=time.process_time,
    )
    policy, v = solve_ours(Ps, A, discount), solve_theirs(problem, discount).v
    residual = np.abs(problem.bellman_operator(v) - v).max()
    extra = [common.memory_in_child(__file__, who, str(discount)) for who in ("ours", "theirs")]
    print(
        f"{LABELS**TASKS:,} states, discount {discount}: ours {ours:.3f} s, quantecon {build + peer:.3f} s of which "
        f"{peer:.3f} s solving, {(build + peer) / ours:.1f} times ({peer / ours:.1f} by solving alone); residuals "
        f"{policy.residual:.0e} and {residual:.0e}, values within {np.abs(policy.value.ravel() - v).max():.0e}; extra "
        f"memory {extra[0] / 2**20:.0f} and {extra[1] / 2**20:.0f} MiB, {extra[1] / extra[0]:.1f} times"
    )


def against_highs(discount):
    """Seconds on the weather chains."""
    weather = np.stack([common.WEATHER] * TASKS)
    scores = np.random.default_rng(0).uniform(size=(TASKS, 4, 4))
    answers = {}
    ours, peer = common.fastest(
        lambda: answers.update(ours=solve_ours(weather, scores, discount)),
        lambda: answers.update(theirs=solve_joint(weather, coupled_rewards(scores), discount, "lp")),
        repeats=7,
        clock=time.process_time,
    )
    gap = np.abs(answers["ours"].value - answers["theirs"].value).max()
    print(
        f"1,024 states (weather), discount {discount}: ours {ours * 1e3:.1f} ms, HiGHS {peer * 1e3:.0f} ms, "
        f"{peer / ours:.0f} times; values within {gap:.0e}"
    )


if __name__ == "__main__":
    if len(sys.argv) > 1:
        memory(sys.argv[1], float(sys.argv[2]))
    else:
        for discount in (0.9, 0.99):
            against_quantecon(discount)
            against_highs(discount)
