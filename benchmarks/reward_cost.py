"""What a reward costs: steps of both learners with each reward, beside those of a static schedule, which reads none.

    python benchmarks/reward_cost.py --networks mlp cnn --learners joint meta

All draw round robin, so that they train on the same batches: 35 of 20 rows in an update (cnn: 10 of 10), 30 target
rows. One schedule ignores its reward and the others read it. ``transfer / k`` keeps the target's gradient for k
batches; ``K folds`` is transfer measured by K copies of the learner on rows that they never train on. One thread;
medians of processor time.
"""

import argparse
import os
import time
from collections.abc import Callable
from typing import Any

os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-1:])

import jax  # noqa: E402
import numpy as np  # noqa: E402
from common import medians  # noqa: E402
from meta_ours import reads_its_reward  # noqa: E402

import metasched as ms  # noqa: E402
from metasched.learners import engine, rewards  # noqa: E402
from metasched.learners.checks import checked_objective  # noqa: E402
from metasched.learners.inner import Schedule  # noqa: E402
from metasched.learners.settings import LEARNERS  # noqa: E402

CLASSES, SOURCES, TARGET_ROWS = 10, 5, 30
SHAPES = {"mlp": (784,), "cnn": (32, 32, 3)}
BATCHES = {"mlp": (35, 20), "cnn": (10, 10)}
"""Batches of an update and rows of a batch."""
SIDES: dict[str, tuple[str, dict[str, Any]]] = {
    "no reward": ("transfer", {}),
    "scaled": ("scaled", {}),
    "gain": ("gain", {}),
    "alignment": ("alignment", {}),
    "transfer": ("transfer", {}),
    "transfer / 4": ("transfer", {"slope_every": 4}),
    "transfer / 8": ("transfer", {"slope_every": 8}),
    "5 folds": ("transfer", {"reward_folds": 5}),
}
"""Reward and settings; the first side is told the reward and does not read it."""


def made_up_tasks(shape: tuple[int, ...], rows_each: int, number: int = SOURCES) -> ms.TaskSet:
    """Sources of random rows around one centre a class."""
    random = np.random.default_rng(0)
    centres = random.normal(size=(CLASSES, *shape))

    def rows(count: int) -> tuple[Any, Any]:
        labels = random.integers(0, CLASSES, count)
        return (0.3 * centres[labels] + random.normal(size=(count, *shape))).astype("float32"), labels

    sources = {f"source-{place}": rows(rows_each) for place in range(number)}
    classes = [str(label) for label in range(CLASSES)]
    return ms.TaskSet.from_arrays(sources, validation=rows(TARGET_ROWS), test=rows(100), classes=classes)


def side(tasks: ms.TaskSet, network: str, learner: str, name: str, updates: int) -> Callable[[], Any]:
    """So many updates, always from the same state."""
    reward, changes = SIDES[name]
    batches, rows = BATCHES[network]
    settings = LEARNERS[learner](
        batching="per_source",
        batch_size=rows,
        batches_per_update=batches,
        target_batch="all",
        updates=1000,
        eval_every=1000,
        **changes,
    )
    scheduler = ms.schedulers.cyclic(SOURCES) if name == "no reward" else reads_its_reward(SOURCES)
    objective = checked_objective(tasks, network, settings)
    program = engine.prepare(tasks, objective, Schedule(scheduler, (rewards.find(reward),)))
    state = program.start(program.rows.data, 0, engine.hyperparameters_of(settings))
    return lambda: jax.block_until_ready(program.chunk(program.rows.data, program.rows.test, state, 0, updates))


def main() -> None:
    """Print one table for each network and learner."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", nargs="+", choices=list(SHAPES), default=list(SHAPES))
    parser.add_argument("--learners", nargs="+", choices=list(LEARNERS), default=list(LEARNERS))
    parser.add_argument("--sides", nargs="+", choices=list(SIDES), default=list(SIDES))
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--updates", type=int, default=1, help="in each turn")
    asked = parser.parse_args()
    for network in asked.networks:
        batches, rows = BATCHES[network]
        tasks = made_up_tasks(SHAPES[network], batches * rows)
        for learner in asked.learners:
            names = ["no reward", *(name for name in asked.sides if name != "no reward")]
            sides = {name: side(tasks, network, learner, name, asked.updates) for name in names}
            found = medians(sides, asked.repeats, time.process_time)
            print(f"{network}, {learner}: a step of {rows} rows")
            for name, seconds in found.items():
                each, ratio = seconds / asked.updates / batches * 1e3, seconds / found["no reward"]
                print(f"  {name:14} {each:8.3f} ms {ratio:6.2f} ×", flush=True)


if __name__ == "__main__":
    main()
