"""Microseconds for one ask and one tell: our UCB beside mabwiser's UCB1, and mixed batches beside single rows.

A mixed batch of 32 rows is chosen, and its 32 rewards are told, at once. Beside it a chooser of single rows is asked
and told 32 times. All are measured in turn, in the same run.

Run with: pip install mabwiser && python benchmarks/chooser.py
"""

import time
from collections.abc import Callable

import numpy as np

import metasched as ms

ROUNDS, ROWS = 7, 32
Turn = Callable[[float], None]


def ours(num_tasks: int) -> Turn:
    """One ask and one tell of a chooser."""
    chooser = ms.Chooser("ucb", [1000] * num_tasks, batch_size=ROWS, batching="per_source")

    def step(reward: float) -> None:
        chooser.tell(chooser.ask(), reward)

    return step


def mabwiser(num_tasks: int) -> Turn:
    """One predict and one partial_fit of mabwiser, which must see every arm once before it can predict."""
    from mabwiser.mab import MAB, LearningPolicy

    bandit = MAB(list(range(num_tasks)), LearningPolicy.UCB1(alpha=1.25))
    bandit.fit(list(range(num_tasks)), np.linspace(0, 1, num_tasks).tolist())

    def step(reward: float) -> None:
        bandit.partial_fit([bandit.predict()], [reward])

    return step


def mixed(scheduler: str) -> Callable[[int], Turn]:
    """One ask and one tell of a mixed batch."""

    def make(num_tasks: int) -> Turn:
        chooser, noise = ms.Chooser(scheduler, [1000] * num_tasks, batch_size=ROWS), np.linspace(-1, 1, ROWS)

        def step(reward: float) -> None:
            chooser.tell(chooser.ask(), reward + noise)

        return step

    return make


def row_by_row(scheduler: str) -> Callable[[int], Turn]:
    """As many asks and tells as a batch has rows."""

    def make(num_tasks: int) -> Turn:
        chooser, noise = ms.Chooser(scheduler, [1000] * num_tasks), np.linspace(-1, 1, ROWS).tolist()

        def step(reward: float) -> None:
            for one in noise:
                chooser.tell(chooser.ask(), reward + one)

        return step

    return make


def microseconds(steps: dict[str, Turn], count: int) -> dict[str, list[float]]:
    """Of one step, by round, after one round to warm up; all take turns, so that a busy machine slows all alike."""
    rewards = np.random.default_rng(0).uniform(size=count).tolist()
    taken: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(ROUNDS + 1):
        for name, step in steps.items():
            begin = time.process_time()
            for reward in rewards:
                step(reward)
            taken[name].append((time.process_time() - begin) / count * 1e6)
    return {name: times[1:] for name, times in taken.items()}


def main() -> None:
    """Print one line for each of them and each number of tasks."""
    print(f"{'µs per ask + tell':28}{'tasks':>8}{'best':>9}{'median':>9}")
    for num_tasks, count in ((10, 300), (1000, 60)):
        kinds: dict[str, Callable[[int], Turn]] = {"metasched ucb": ours, "mabwiser UCB1": mabwiser}
        for name in ("ucb", "thompson"):
            kinds |= {f"{name}, {ROWS} rows mixed": mixed(name), f"{name}, {ROWS} single rows": row_by_row(name)}
        steps = {}
        for name, make in kinds.items():
            try:
                steps[name] = make(num_tasks)
            except ImportError:
                print(f"{name}: not installed")
        for name, times in microseconds(steps, count).items():
            print(f"{name:28}{num_tasks:8,}{min(times):9.0f}{np.median(times):9.0f}")


if __name__ == "__main__":
    main()
