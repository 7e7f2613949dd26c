"""The joint problem on an accelerator: time of a sweep against the bytes it must move, and of a whole solution.

A sweep must at least read V and the reward of every task in every state, and write V: (N + 2) · 8 bytes for each state.
Divided by the memory's bandwidth that is the floor. For example, on a GPU:

    python benchmarks/joint_gpu.py --tasks 7 8

and on a CPU, to see that it works: python benchmarks/joint_gpu.py --tasks 5 --bandwidth 2e10
"""

import argparse
import time

import common  # first: it sets the number of threads of the host
import jax
import numpy as np

from metasched.planning import bellman, coupled_rewards, solve_joint
from metasched.planning.bellman import table_bytes
from metasched.planning.payoffs import Coupled


def main() -> None:
    """Read the options and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, nargs="+", default=[7, 8], help="10 labels each: 10^tasks joint states")
    parser.add_argument("--discount", type=float, default=0.9)
    parser.add_argument("--tolerance", type=float, default=1e-8)
    parser.add_argument("--bandwidth", type=float, default=4.3e12, help="bytes a second, 4.3e12 measured on an H200")
    parser.add_argument("--long", type=int, nargs="+", help="strides from which a matrix product is used, to compare")
    parser.add_argument("--sweeps", type=int, default=20, help="sweeps to time")
    options = parser.parse_args()
    print(f"{jax.devices()[0].device_kind}, JAX {jax.__version__}, float64")
    for tasks in options.tasks:
        for long in options.long or [bellman.LONG]:
            bellman.LONG = long
            jax.clear_caches()
            measure(tasks, options)


def measure(tasks, options):
    """Print one line for 10^tasks joint states."""
    labels, states = 10, 10**tasks
    Ps, A = common.random_problem(tasks, labels)
    with jax.enable_x64(True):
        operator = bellman.jax_bellman(Ps, Coupled(A), options.discount)
        V = operator.sweep(operator.constant(0.0), None).block_until_ready()  # compiles
        seconds = []
        for _ in range(options.sweeps):
            start = time.perf_counter()
            V = operator.sweep(V, None).block_until_ready()
            seconds.append(time.perf_counter() - start)
        del operator, V
    moved = (tasks + 2) * 8 * states
    floor, sweep = moved / options.bandwidth, float(np.median(seconds))
    start = time.perf_counter()
    policy = solve_joint(Ps, coupled_rewards(A), options.discount, "jax", tolerance=options.tolerance)
    whole = time.perf_counter() - start
    print(
        f"{states:,} states, stride {bellman.LONG}: {moved / 1e9:.3g} GB a sweep, floor {floor * 1e3:.3g} ms at "
        f"{options.bandwidth / 1e12:.3g} TB/s, measured {sweep * 1e3:.3g} ms, {sweep / floor:.2f} times the floor; "
        f"solved in {whole:.2f} s (compiling and copying the values to the host included), {policy.iterations} sweeps, "
        f"residual {policy.residual:.1e}, {table_bytes(tasks, labels) / 1e9:.3g} GB set aside"
    )


if __name__ == "__main__":
    main()
