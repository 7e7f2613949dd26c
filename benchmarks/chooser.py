"""Microseconds for one ask and one tell: our UCB beside mabwiser's UCB1, in the same run.

Run with: pip install mabwiser && python benchmarks/chooser.py
"""

import time
from collections.abc import Callable

import numpy as np
from mabwiser.mab import MAB, LearningPolicy

import metasched as ms

ROUNDS = 7


def ours(num_tasks: int) -> Callable[[float], None]:
    """One ask and one tell of a chooser."""
    chooser = ms.Chooser("ucb", [1000] * num_tasks, batch_size=32)

    def step(reward: float) -> None:
        chooser.tell(chooser.ask(), reward)

    return step


def mabwiser(num_tasks: int) -> Callable[[float], None]:
    """One predict and one partial_fit of mabwiser, which must see every arm once before it can predict."""
    bandit = MAB(list(range(num_tasks)), LearningPolicy.UCB1(alpha=1.25))
    bandit.fit(list(range(num_tasks)), np.linspace(0, 1, num_tasks).tolist())

    def step(reward: float) -> None:
        bandit.partial_fit([bandit.predict()], [reward])

    return step


def microseconds(step: Callable[[float], None], steps: int) -> tuple[float, float]:
    """Best and median over rounds, after one to warm up."""
    rewards = np.random.default_rng(0).uniform(size=steps).tolist()
    taken = []
    for _ in range(ROUNDS + 1):
        begin = time.perf_counter()
        for reward in rewards:
            step(reward)
        taken.append((time.perf_counter() - begin) / steps * 1e6)
    return min(taken[1:]), float(np.median(taken[1:]))


def main() -> None:
    """Print one line for each library and number of tasks."""
    print(f"{'µs per ask + tell':20}{'tasks':>8}{'best':>8}{'median':>8}")
    for num_tasks, steps in ((10, 1000), (1000, 200)):
        for name, make in (("metasched ucb", ours), ("mabwiser UCB1", mabwiser)):
            best, middle = microseconds(make(num_tasks), steps)
            print(f"{name:20}{num_tasks:8,}{best:8.0f}{middle:8.0f}")


if __name__ == "__main__":
    main()
