"""The joint problem as the paper's linear program, solved by HiGHS: small problems, and a second opinion.

    minimise Σ_s V(s)   subject to   V(s) ≥ r(s, i) + γ Σ_s' P_i(s, s') V(s')   for all s, i

(D. P. de Farias, B. Van Roy, Operations Research 51, 2003). P_i is I ⊗ … ⊗ P_i ⊗ … ⊗ I, kept sparse: each of the N·Cᴺ
constraints has at most C + 1 coefficients.
"""

import numpy as np

from metasched.errors import MetaschedError
from metasched.planning.checks import Floats
from metasched.planning.payoffs import Payoffs


def lp_bytes(tasks: int, classes: int) -> int:
    """Bytes of the constraints, with as much again three times for HiGHS's own copies and factors."""
    return 4 * int(classes**tasks) * tasks * (12 * (classes + 1) + 8)


def lp_value(chains: Floats, payoffs: Payoffs, discount: float) -> Floats:
    """Optimal values (Cᴺ,) of the linear program for chains (N, C, C)."""
    from scipy import sparse
    from scipy.optimize import linprog

    tasks, classes, _ = chains.shape
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
    value: Floats = np.asarray(result.x, np.float64)
    return value
