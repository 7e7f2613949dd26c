"""Gittins indices: ours against markovianbandit-pkg, in time and, near discount 1, in digits."""

import time
from functools import partial

import common  # first: it sets the number of threads
import markovianbandit
import mpmath
import numpy as np

from metasched.planning import gittins_index


def reference(P, r, discount):
    """Largest-remaining-index in 40 digits."""
    size = len(r)
    with mpmath.workdps(40):
        P = mpmath.matrix(P.tolist())
        for c in range(size):
            P[c, c] = 1 - sum(P[c, other] for other in range(size) if other != c)
        index, chosen = np.empty(size), []
        for _ in range(size):
            system = mpmath.eye(size)
            for row in range(size):
                for column in chosen:
                    system[row, column] -= mpmath.mpf(discount) * P[row, column]
            d = mpmath.lu_solve(system, mpmath.matrix(r.tolist()))
            b = mpmath.lu_solve(system, mpmath.ones(size, 1))
            ratio = [d[c] / b[c] for c in range(size)]
            best = max(set(range(size)) - set(chosen), key=ratio.__getitem__)
            index[best] = float(ratio[best])
            chosen.append(best)
    return index


def theirs(P, r, discount):
    """A new bandit each time: it remembers its indices."""
    return markovianbandit.rested_bandit_from_P1_R1(P, r).gittins_indices(discount=discount)


def main() -> None:
    """Print seconds and errors."""
    random = np.random.default_rng(0)
    P, r = random.dirichlet(np.ones(10), 10), random.uniform(size=10)
    theirs(P, r, 0.9)  # compiles
    for size in (100, 300, 1000):
        P, r = random.dirichlet(np.ones(size), size), random.uniform(size=size)
        sides = partial(gittins_index, P, r, 0.99), partial(theirs, P, r, 0.99)
        ours, peer = common.fastest(*sides, repeats=7, clock=time.process_time)
        gap = np.abs(gittins_index(P, r, 0.99) - theirs(P, r, 0.99)).max()
        print(
            f"C = {size}: ours {ours:.4f} s, markovianbandit {peer:.4f} s, {peer / ours:.1f} times; "
            f"they differ by {gap:.0e}"
        )
    P, r = random.dirichlet(np.ones(20), 20), random.uniform(size=20)
    for nines in (2, 4, 6, 9):
        discount = 1 - 10.0**-nines
        exact = reference(P, r, discount)
        errors = [np.abs(index(P, r, discount) - exact).max() for index in (gittins_index, theirs)]
        print(f"C = 20, discount 1 - 1e-{nines}: error ours {errors[0]:.0e}, markovianbandit {errors[1]:.0e}")


if __name__ == "__main__":
    main()
