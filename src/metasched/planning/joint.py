"""Which task to draw from in each joint state of all tasks: the Markov decision process over Cᴺ states.

State s = (s_1, …, s_N) holds the label at every task's cursor. Drawing from task i pays r(s, i) and moves s_i by P_i;
the other tasks rest. The optimal value solves V(s) = max_i r(s, i) + γ Σ_c P_i[s_i, c] V(s with s_i = c).
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import numpy as np
from numpy.typing import ArrayLike

from metasched.errors import DataError, MetaschedError, unknown, whole_number
from metasched.planning.approximate import FrozenIndices, choose_frozen, choose_myopic, choose_rollout, choose_top
from metasched.planning.bellman import jax_bellman, numpy_bellman, table_bytes
from metasched.planning.checks import Floats, as_chains, as_discount, as_positive, first_true, spell
from metasched.planning.exact import Solution, optimal, value_of
from metasched.planning.payoffs import Payoffs, Separable, as_payoffs
from metasched.planning.policy import Policy, joint_states
from metasched.planning.sizing import accelerator_bytes, available_bytes, choose_method, refuse_if_larger, widest

METHODS = ("auto", "numpy", "jax", "lp", "myopic", "frozen-gittins", "rollout", "top-k")
"""The methods of :func:`solve_joint`."""


class Problem(NamedTuple):
    """Stochastic matrices (N, C, C), rewards and discount."""

    chains: Floats
    payoffs: Payoffs
    discount: float


def solve_joint(
    Ps: ArrayLike,
    rewards: ArrayLike | Payoffs,
    discount: float,
    method: str = "auto",
    *,
    tolerance: float = 1e-8,
    max_iterations: int = 100_000,
    memory_limit: float | None = None,
    time_budget: float = 60.0,
    decision_budget: float = 0.05,
    top: int | None = None,
) -> Policy:
    """Compute the policy for N tasks whose labels are Markov chains that move when their task is drawn.

    A row of zeros marks a label that never occurs. Pad tasks with fewer labels with such rows. A state with such a
    label is never entered, and its value means nothing.

    Args:
        Ps: transition matrices (N, C, C) of one draw of each task, whose rows sum to one.
        rewards: r[i, s_i] as (N, C); :func:`coupled_rewards`; or r[i, s_1, …, s_N] as (N, C, …, C).
        discount: γ in [0, 1).
        method: ``"numpy"`` and ``"jax"`` solve exactly, on the host and on JAX's device, and ``"lp"`` by linear
            programming; ``"frozen-gittins"``, ``"rollout"``, ``"top-k"`` and ``"myopic"`` decide state by state, for
            any number of tasks. ``"auto"`` takes the best method that is feasible, and ``policy.reason`` says why.
        tolerance: the residual max |TV − V| to reach. Because of rounding it cannot go below about 1e-15 / (1 − γ).
        max_iterations: the sweeps after which an exact solver stops and reports its residual.
        memory_limit: the bytes that an exact solver may use; by default the free memory of the host or device.
        time_budget: the seconds that ``"auto"`` allows an exact solver.
        decision_budget: the seconds that ``"auto"`` and ``"top-k"`` allow one decision.
        top: k of ``"top-k"``; by default the largest up to 4 that keeps to ``decision_budget``.

    Returns:
        The policy, with the value of every joint state if they could be listed.

    Examples:
        >>> chains = [[[0.9, 0.1], [0.5, 0.5]], [[0.5, 0.5], [0.1, 0.9]]]
        >>> policy = ms.planning.solve_joint(chains, [[0.2, 0.6], [0.3, 0.4]], 0.9)
        >>> policy.action([1, 0]), policy.residual < 1e-8
        (0, True)
    """
    problem = _problem(Ps, rewards, discount)
    tolerance, max_iterations = as_positive(tolerance, "tolerance"), whole_number("max_iterations", max_iterations, 1)
    time_budget = as_positive(time_budget, "time_budget")
    decision_budget = as_positive(decision_budget, "decision_budget")
    limit = None if memory_limit is None else as_positive(memory_limit, "memory_limit")
    shape = problem.payoffs.shape
    width = widest(shape, problem.discount, decision_budget)
    if top is not None:
        width = min(whole_number("top", top, 1), shape[0])
    if method not in METHODS:
        raise unknown("method", method, METHODS)
    reason = "asked for"
    if method == "auto":
        method, reason = choose_method(
            shape,
            problem.discount,
            separable=isinstance(problem.payoffs, Separable),
            memory_limit=limit,
            time_budget=time_budget,
            decision_budget=decision_budget,
        )
    planners: dict[str, Callable[[], Policy]] = {
        "numpy": lambda: _tabular(problem, limit, table_bytes, lambda: optimal(numpy_bellman(*problem), *wanted)),
        "jax": lambda: _tabular(problem, limit or accelerator_bytes(), table_bytes, lambda: _with_jax(problem, wanted)),
        "lp": lambda: _tabular(problem, limit, _lp_bytes, lambda: _linear_program(problem)),
        "myopic": lambda: Policy(shape, choose_myopic(problem.payoffs)),
        "frozen-gittins": lambda: Policy(shape, choose_frozen(FrozenIndices(*problem))),
        "rollout": lambda: Policy(shape, choose_rollout(FrozenIndices(*problem))),
        "top-k": lambda: Policy(shape, choose_top(FrozenIndices(*problem), width)),
    }
    wanted = (problem.discount, tolerance, max_iterations)
    return replace(planners[method](), method=method, reason=reason)


def evaluate_policy(Ps: ArrayLike, rewards: ArrayLike | Payoffs, discount: float, policy: Any) -> Floats:
    """Compute the expected discounted reward of following a policy.

    Args:
        Ps: as in :func:`solve_joint`.
        rewards: as in :func:`solve_joint`.
        discount: γ in [0, 1).
        policy: a :class:`Policy`, or the task chosen in each state, (C, …, C).

    Returns:
        The value (C, …, C) of each joint state.

    Examples:
        >>> chains, rewards = [[[1.0]], [[1.0]]], [[0.2], [0.7]]
        >>> ms.planning.evaluate_policy(chains, rewards, 0.5, np.array([[0]])).round(6).tolist()
        [[0.4]]
    """
    problem = _problem(Ps, rewards, discount)
    tasks, classes = problem.payoffs.shape
    refuse_if_larger(
        (tasks, classes), table_bytes(tasks, classes), available_bytes(), "evaluation", "simulate the policy"
    )
    shape = (classes,) * tasks
    actions = policy.actions if isinstance(policy, Policy) else np.asarray(policy)
    if actions is None:
        actions = np.array([policy.action(state) for state in joint_states(tasks, classes)]).reshape(shape)
    if actions.shape != shape or actions.dtype.kind not in "iu":
        raise DataError(f"policy has shape {actions.shape} and dtype {actions.dtype}; give integers {shape}")
    where = first_true((actions < 0) | (actions >= tasks))
    if where is not None:
        raise DataError(f"policy[{spell(where)}] is {actions[where]}; give an index of a task, 0 … {tasks - 1}")
    value: Floats = value_of(numpy_bellman(*problem), problem.discount, actions.reshape(-1)).value
    return value.reshape(shape)


def _problem(Ps: ArrayLike, rewards: ArrayLike | Payoffs, discount: float) -> Problem:
    chains = as_chains(Ps)
    return Problem(chains, as_payoffs(rewards, (chains.shape[0], chains.shape[1])), as_discount(discount))


def _tabular(
    problem: Problem, limit: float | None, size: Callable[[int, int], int], solve: Callable[[], Solution]
) -> Policy:
    """The policy of an exact solver, after checking that all states fit into memory."""
    tasks, classes = problem.payoffs.shape
    need = size(tasks, classes)
    instead = "use method='top-k' or 'frozen-gittins'"
    refuse_if_larger((tasks, classes), need, limit or available_bytes(), "an exact solution", instead)
    solution = solve()
    shape = (classes,) * tasks
    actions = np.asarray(solution.actions).reshape(shape)
    return Policy(
        (tasks, classes),
        choose=lambda labels: int(actions[tuple(labels)]),
        value=np.asarray(solution.value).reshape(shape),
        actions=actions,
        residual=solution.residual,
        error_bound=solution.residual / (1 - problem.discount),
        iterations=solution.iterations,
        memory=need,
    )


def _with_jax(problem: Problem, wanted: tuple[float, float, int]) -> Solution:
    with jax.enable_x64(True):
        return optimal(jax_bellman(*problem), *wanted)


def _lp_bytes(tasks: int, classes: int) -> int:
    """The bytes of the constraints, plus three times as much for HiGHS's own copies and factors."""
    return 4 * int(classes**tasks) * tasks * (12 * (classes + 1) + 8)


def _linear_program(problem: Problem) -> Solution:
    """Optimal values by the paper's linear program, solved by HiGHS, for small problems and as a second opinion.

        minimise Σ_s V(s)   subject to   V(s) ≥ r(s, i) + γ Σ_s' P_i(s, s') V(s')   for all s, i

    (D. P. de Farias, B. Van Roy, Operations Research 51, 2003). P_i is I ⊗ … ⊗ P_i ⊗ … ⊗ I, kept sparse: each of the
    N·Cᴺ constraints has at most C + 1 coefficients.
    """
    from scipy import sparse
    from scipy.optimize import linprog

    chains, payoffs, discount = problem
    tasks, classes = payoffs.shape
    states = classes**tasks
    blocks = []
    for task in range(tasks):
        before, after = sparse.identity(classes**task), sparse.identity(classes ** (tasks - 1 - task))
        move = sparse.kron(sparse.kron(before, sparse.csr_array(chains[task])), after)
        blocks.append(discount * move - sparse.identity(states))
    rewards = payoffs.table(tuple(range(tasks)), np.zeros(tasks, np.int64)).reshape(-1)
    result = linprog(
        np.ones(states),
        A_ub=sparse.vstack(blocks, format="csr"),
        b_ub=-rewards,
        bounds=(None, None),
        method="highs",
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    if not result.success:
        raise MetaschedError(f"the linear program was not solved: {result.message}; use method='numpy'")
    bellman, V = numpy_bellman(*problem), np.asarray(result.x, np.float64)
    improved = bellman.sweep(V, None)
    actions = bellman.greedy(V, improved, 1e-9 * payoffs.scale)
    return Solution(V, actions, float(np.abs(improved - V).max()), iterations=1)
