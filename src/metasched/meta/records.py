"""What the compiled loop logged, as records for people: one for each meta-update of each seed."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from numpy.typing import ArrayLike, NDArray

from metasched.meta.evaluate import read_score
from metasched.meta.networks import Weights
from metasched.meta.outer import MetaState
from metasched.meta.program import Last, Log, Program

Record = dict[str, Any]
"""What happened in one meta-update, as JSON types."""


class Rates(NamedTuple):
    """The inner and the outer rate that a run begins with."""

    inner: float
    outer: float


def records_of(
    program: Program,
    seeds: Sequence[int],
    alive: dict[int, bool],
    log: Log,
    done: int,
    count: int,
    rates: Mapping[int, Rates],
) -> list[Record]:
    """Records of one chunk, seed after seed; a seed that diverges is struck from ``alive``."""
    config = program.learner.config
    usual = Rates(config.inner_rate, config.outer_rate)
    counts = _class_counts(program, program.test.labels)
    records: list[Record] = []
    for lane, seed in enumerate(seeds):
        mine = log if program.together == 1 else jax.tree.map(lambda column, lane=lane: column[lane], log)
        for number in range(count):
            if not alive[seed]:
                break
            row: Log = jax.tree.map(lambda column, number=number: column[number], mine)
            update = done + number + 1
            if np.isfinite(row.loss):
                records.append({"seed": seed, **_record(program, row, update, counts)})
                continue
            alive[seed] = False
            cause = _cause(rates.get(seed, usual), float(row.inner_rate))
            records.append({"seed": seed, "update": update, "diverged": cause})
    return records


def _cause(began: Rates, rate: float) -> str:
    """The likely reason of a loss that is no longer finite, and what to do about it."""
    if not np.isfinite(rate) or rate > 2 * began.inner:
        return (
            f"the loss is no longer finite: the inner rate grew from {began.inner:g} to {rate:.3g}; "
            f"lower outer_rate (now {began.outer:g}) or give outer_clip"
        )
    return (
        f"the loss is no longer finite: the inner loop overflowed at rate {rate:.3g}; "
        f"lower inner_rate (now starts at {began.inner:g}) or give outer_clip"
    )


def _record(program: Program, row: Log, update: int, counts: NDArray[np.int64]) -> Record:
    """One meta-update; ``counts`` (width,) are the rows by class of the test subset that is measured meanwhile."""
    config = program.learner.config
    drawn = int(row.drawn.sum())
    record: Record = {
        "update": update,
        "samples": drawn,
        "drawn": row.drawn.tolist(),
        "abstained": update * (config.batches_per_update or 0) - drawn // config.batch_size,
        "tasks": row.tasks.tolist(),
        "loss": float(row.loss),
        "validation_accuracy": float(row.validation_accuracy),
        "inner_rate": float(row.inner_rate),
    }
    if np.isfinite(row.measured.adapted).all():
        adapted = read_score(program.learner, np.asarray(row.measured.adapted, np.float64), counts)
        initial = read_score(program.learner, np.asarray(row.measured.initial, np.float64), counts)
        record |= {
            "test_accuracy": adapted.accuracy,
            "initial_test_accuracy": initial.accuracy,
            "test_accuracy_by_class": adapted.by_class,
            "test_rows": int(counts.sum()),
        }
    return record


def _class_counts(program: Program, labels: ArrayLike) -> NDArray[np.int64]:
    """How many of the labels there are of each class (width,)."""
    return np.bincount(np.asarray(labels), minlength=program.learner.heads.width)


def add_final(
    program: Program,
    seeds: Sequence[int],
    alive: Mapping[int, bool],
    stacked: MetaState,
    last: Last,
    records: Sequence[Record],
) -> None:
    """Measure the last models on all test rows and put the result into each seed's last record."""
    counts = _class_counts(program, program.tasks.test.labels)
    adapted, initial = _full_score(program, last.adapted), _full_score(program, last.initial)
    tuned = None
    if program.learner.config.adapt_on_target:
        tuned = _full_score(program, program.further(program.data, stacked.parameters, last.adapted))
    drawn = np.asarray(stacked.stream.drawn).reshape(-1, *stacked.stream.drawn.shape[-2:])
    for lane, seed in enumerate(seeds):
        if not alive[seed]:
            continue
        record = [record for record in records if record["seed"] == seed][-1]
        score = read_score(program.learner, adapted[lane], counts)
        record["final"] = {
            "test_accuracy": score.accuracy,
            "balanced_test_accuracy": score.balanced,
            "test_accuracy_by_class": score.by_class,
            "initial_test_accuracy": read_score(program.learner, initial[lane], counts).accuracy,
            "test_rows": int(counts.sum()),
            "drawn_by_label": drawn[lane].tolist(),
        }
        if tuned is not None:
            record["final"]["target_adapted_test_accuracy"] = read_score(program.learner, tuned[lane], counts).accuracy


def _full_score(program: Program, weights: Weights) -> NDArray[np.float64]:
    """Sums of marks (seeds, width) of one model, or of several stacked, over all test rows."""
    if program.together == 1:
        weights = jax.tree.map(lambda leaf: leaf[None], weights)
    return program.full_score(weights, program.tasks)
