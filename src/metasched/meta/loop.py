"""Algorithm 1 from the first meta-update to the last: what the compiled step returns, as records for people."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from metasched.errors import RunError
from metasched.meta.config import TrainConfig
from metasched.meta.inner import Data, Learner, Rows, device_data, heads_of, hits
from metasched.meta.networks import Network, Weights
from metasched.meta.outer import MetaState, Outcome, first_state, meta_update
from metasched.schedulers.base import Scheduler
from metasched.tasks import Inputs, Labels, TaskSet

Record = dict[str, Any]
"""What happened in one meta-update, as JSON types."""

EVALUATION_CHUNK = 1000


class Program(NamedTuple):
    """A learner with its data and compiled step; :func:`prepare` makes one, any number of seeds run it."""

    learner: Learner
    tasks: TaskSet
    data: Data
    step: Callable[[Data, MetaState], tuple[MetaState, Outcome]]
    test_accuracy: Callable[[Weights, int | None], tuple[float, int]]


def prepare(tasks: TaskSet, network: Network, scheduler: Scheduler, config: TrainConfig) -> Program:
    """Check the settings against the tasks, copy the data to the device and set up compilation."""
    learner = Learner(network, scheduler, config.resolve(tasks), heads_of(tasks))
    data = device_data(tasks)
    return Program(learner, tasks, data, jax.jit(partial(meta_update, learner)), _evaluator(learner, tasks))


def start(program: Program, seed: int) -> MetaState:
    """The state of a run that has made no meta-update yet."""
    return first_state(program.learner, program.data, seed)


def run(program: Program, state: MetaState) -> Iterator[tuple[MetaState, Record]]:
    """Meta-updates from ``state`` to the last, one at a time; the last record also has the full test accuracy.

    Test accuracy at update k is that of the model adapted *in* update k, before its outer step; while training it is
    measured on ``eval_rows`` fixed test rows, at the end on all of them (``final``).
    """
    config = program.learner.config
    for update in range(int(state.update) + 1, config.meta_updates + 1):
        before = state.parameters
        state, outcome = program.step(program.data, state)
        if not np.isfinite(outcome.loss):
            raise RunError(
                f"the loss is no longer finite at meta-update {update}; lower inner_rate (now starts at "
                f"{config.inner_rate:g}, learned {float(jnp.exp(before.log_rate)):.3g}) or outer_rate"
            )
        drawn = np.asarray(state.stream.drawn)
        record: Record = {
            "update": update,
            "samples": int(drawn.sum()),
            "drawn": drawn.sum(axis=1).tolist(),
            "abstained": update * (config.batches_per_update or 0) - int(drawn.sum()) // config.batch_size,
            "tasks": np.asarray(outcome.tasks).tolist(),
            "loss": float(outcome.loss),
            "validation_accuracy": float(outcome.validation_accuracy),
            "inner_rate": float(jnp.exp(before.log_rate)),
        }
        last = update == config.meta_updates
        if last or update % config.eval_every == 0:
            record["test_accuracy"], record["test_rows"] = program.test_accuracy(outcome.adapted, config.eval_rows)
        if last:
            accuracy, rows = program.test_accuracy(outcome.adapted, None)
            initial, _ = program.test_accuracy(before.weights, None)
            record["final"] = {
                "test_accuracy": accuracy,
                "initial_test_accuracy": initial,
                "test_rows": rows,
                "drawn_by_label": drawn.tolist(),
            }
        yield state, record


def _evaluator(learner: Learner, tasks: TaskSet) -> Callable[[Weights, int | None], tuple[float, int]]:
    """``accuracy(weights, rows)``: on that many test rows, the same for every run; None means all."""
    order = np.random.default_rng(0).permutation(len(tasks.test.labels))

    @jax.jit
    def correct(weights: Weights, inputs: jax.Array, labels: jax.Array, count: jax.Array) -> jax.Array:
        real = jnp.arange(len(labels)) < count
        return jnp.sum(hits(learner, weights, Rows(inputs, labels)) & real)

    def accuracy(weights: Weights, rows: int | None) -> tuple[float, int]:
        chosen = order[:rows]
        total = 0
        for begin in range(0, len(chosen), EVALUATION_CHUNK):
            part = chosen[begin : begin + EVALUATION_CHUNK]
            inputs, labels = _pad(tasks.test.inputs[part], tasks.test.labels[part])
            total += int(correct(weights, inputs, labels, jnp.int32(len(part))))
        return total / len(chosen), len(chosen)

    return accuracy


def _pad(inputs: Inputs, labels: Labels) -> tuple[Inputs, Labels]:
    """Grow a last, short chunk to the common size, so that one compiled function serves all."""
    missing = EVALUATION_CHUNK - len(labels)
    if not missing:
        return inputs, labels
    return np.pad(inputs, [(0, missing)] + [(0, 0)] * (inputs.ndim - 1)), np.pad(labels, (0, missing))
