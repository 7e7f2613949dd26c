"""What mixing costs: a step of joint training on a mixed batch, beside one on a batch of one source.

    python benchmarks/mixed_cost.py --sources 10 1000 --schedulers uniform thompson mirror ucb

Both are told ``adam_transfer``, by row and by batch, and train the same network on as many rows: 35 batches of 20 in an
update, 30 target rows. A scheduler that draws at random chooses all rows at once; ``ucb`` chooses them one after
another. One thread; medians of processor time.
"""

import argparse
import os
import time
from collections.abc import Callable
from typing import Any

os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-1:])

import jax  # noqa: E402
from common import medians  # noqa: E402
from reward_cost import made_up_tasks  # noqa: E402

import metasched as ms  # noqa: E402
from metasched.learners import engine, rewards  # noqa: E402
from metasched.learners.checks import checked_objective  # noqa: E402
from metasched.learners.inner import Schedule  # noqa: E402
from metasched.schedulers.rows import by_rows  # noqa: E402

BATCHES, ROWS = 35, 20


def side(tasks: ms.TaskSet, name: str, batching: str) -> Callable[[], Any]:
    """One update, always from the same state."""
    settings = ms.Joint(
        batching=batching,  # type: ignore[arg-type]
        batch_size=ROWS,
        batches_per_update=BATCHES,
        target_batch="all",
        updates=1000,
        eval_every=1000,
    )
    number = len(tasks.tasks)
    scheduler = ms.schedulers.make(name, num_tasks=number)
    chooser = by_rows(scheduler, number) if batching == "mixed" else scheduler
    schedule = Schedule(chooser, (rewards.find(rewards.DEFAULT),))
    program = engine.prepare(tasks, checked_objective(tasks, "mlp", settings), schedule)
    data, test = program.rows.data, program.rows.test
    first = program.start(data, 0, engine.hyperparameters_of(settings))
    state = program.chunk(data, test, first, 0, 1)[0]  # every source of ten has been drawn by now
    return lambda: jax.block_until_ready(program.chunk(data, test, state, 0, 1))


def main() -> None:
    """Print a line for each number of sources and scheduler."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sources", nargs="+", type=int, default=[10, 1000])
    parser.add_argument("--schedulers", nargs="+", default=["uniform", "thompson", "mirror", "ucb"])
    parser.add_argument("--repeats", type=int, default=7)
    asked = parser.parse_args()
    for sources in asked.sources:
        tasks = made_up_tasks((784,), max(ROWS, BATCHES * ROWS // sources), sources)
        for name in asked.schedulers:
            sides = {batching: side(tasks, name, batching) for batching in ("per_source", "mixed")}
            alone, mixed = medians(sides, asked.repeats, time.process_time).values()
            each = [seconds / BATCHES * 1e3 for seconds in (alone, mixed)]
            print(
                f"{sources:5} sources, {name:9} {each[0]:7.3f} ms {each[1]:7.3f} ms {mixed / alone:5.2f} ×", flush=True
            )


if __name__ == "__main__":
    main()
