"""Chunks of meta-updates as one compiled program: scheduler, inner loop, outer step and measuring, all of it."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from metasched.errors import DataError
from metasched.meta.checks import check_losses, check_network, lanes_that_fit, settle_memory
from metasched.meta.config import TrainConfig
from metasched.meta.evaluate import (
    Measured,
    Scorer,
    adapt_further,
    full_scorer,
    measure,
    measured_subset,
)
from metasched.meta.inner import Data, device_data
from metasched.meta.networks import Network, Weights
from metasched.meta.objective import Learner, Losses, Rows, heads_of, squared_error
from metasched.meta.outer import MetaParameters, MetaState, first_state, meta_update, optimiser
from metasched.schedulers.base import Scheduler
from metasched.tasks import TaskSet

CHUNK = 64
"""Most meta-updates of one call to the compiled program."""


class Log(NamedTuple):
    """What a chunk writes down, one row for each meta-update (CHUNK, …)."""

    loss: jax.Array
    validation_accuracy: jax.Array
    tasks: jax.Array
    drawn: jax.Array
    inner_rate: jax.Array
    measured: Measured


class Last(NamedTuple):
    """The models of the latest meta-update: the initial weights it started from, and the adapted ones."""

    initial: Weights
    adapted: Weights


class Program(NamedTuple):
    """A learner with its data and compiled loop; :func:`prepare` makes one, any number of seeds run it.

    ``together`` seeds run side by side in one program; 1 means one after another.
    """

    learner: Learner
    tasks: TaskSet
    data: Data
    test: Rows
    outer: optax.GradientTransformation
    together: int
    chunk: Callable[[Data, Rows, MetaState, Any, Any], tuple[MetaState, Log, Last]]
    further: Callable[[Data, MetaParameters, Weights], Weights]
    full_score: Scorer


def prepare(
    tasks: TaskSet,
    network: Network,
    scheduler: Scheduler,
    config: TrainConfig,
    *,
    losses: Losses | None = None,
    outer: optax.GradientTransformation | None = None,
    together: int = 1,
) -> Program:
    """Check the settings against the tasks, copy the data to the device and set up compilation."""
    config = config.resolve(tasks)
    regression = tasks.target_size is not None
    losses = losses or (Losses(squared_error, squared_error) if regression else Losses())
    check_network(tasks, network, config)
    check_losses(tasks, losses)
    config = settle_memory(tasks, network, config, together)
    targets = tasks.validation.targets
    variance = None if targets is None else float(np.var(targets, axis=0).sum())
    if variance == 0:
        raise DataError(f"{tasks.name}: the validation targets are all equal, so errors have no unit; give more rows")
    learner = Learner(network, scheduler, config, heads_of(tasks, config), losses, variance)
    chosen = optimiser(config, outer)
    run, further = partial(_chunk, learner, chosen), partial(adapt_further, learner)
    if together > 1:
        run = jax.vmap(run, in_axes=(None, None, 0, None, None))
        further = jax.vmap(further, in_axes=(None, 0, 0))
    data = device_data(tasks, config)
    test = measured_subset(tasks, config.eval_rows)
    return Program(learner, tasks, data, test, chosen, together, jax.jit(run), jax.jit(further), full_scorer(learner))


def side_by_side(tasks: TaskSet, network: Network, config: TrainConfig, seeds: int) -> int:
    """Seeds to run in one program: one on a CPU; on accelerators as many as fit, a multiple of the devices."""
    if jax.default_backend() == "cpu":
        return 1
    devices = len(jax.devices())
    return devices * min(-(-seeds // devices), lanes_that_fit(tasks, network, config.resolve(tasks)))


def _chunk(
    learner: Learner,
    outer: optax.GradientTransformation,
    data: Data,
    test: Rows,
    state: MetaState,
    first: jax.Array,
    count: jax.Array,
) -> tuple[MetaState, Log, Last]:
    """``count`` ≤ CHUNK meta-updates after the first ``first``; test rows are measured when their turn comes.

    ``first`` is the number that ``state.update`` has; given apart, it is one number for all seeds, and measuring is
    skipped for real where it is not due.
    """
    config = learner.config
    every = config.eval_every or 1

    def one(number: jax.Array, carry: tuple[MetaState, Log, Last]) -> tuple[MetaState, Log, Last]:
        state, log, _ = carry
        initial = state.parameters.weights
        rate = jnp.exp(_mean_log_rate(state))
        state, outcome = meta_update(learner, data, outer, state)
        update = first + number + 1
        measured = jax.lax.cond(
            (update % every == 0) | (update == config.meta_updates),
            lambda: measure(learner, outcome.adapted, initial, test),
            lambda: jax.tree.map(lambda part: jnp.full(part.shape, jnp.nan), empty.measured),
        )
        entry = Log(
            outcome.loss,
            outcome.validation_accuracy,
            outcome.tasks,
            state.stream.drawn.sum(axis=1),
            rate,
            measured,
        )
        log = jax.tree.map(lambda column, value: column.at[number].set(value), log, entry)
        return state, log, Last(initial, outcome.adapted)

    width, numbers = learner.heads.width, len(data.sizes)
    empty = Log(
        *(jnp.zeros(()), jnp.zeros(()), jnp.zeros(config.batches_per_update or 0, jnp.int32)),
        *(jnp.zeros(numbers, jnp.int32), jnp.zeros(())),
        Measured(jnp.zeros(width), jnp.zeros(width)),
    )
    blank = jax.tree.map(lambda entry: jnp.zeros((CHUNK, *entry.shape), entry.dtype), empty)
    weights = state.parameters.weights
    done: tuple[MetaState, Log, Last] = jax.lax.fori_loop(0, count, one, (state, blank, Last(weights, weights)))
    return done


def _mean_log_rate(state: MetaState) -> jax.Array:
    """The mean over all rates there are."""
    leaves = jax.tree.leaves(state.parameters.log_rate)
    return jnp.concatenate([leaf.ravel() for leaf in leaves]).mean()


def start(program: Program, seed: int) -> MetaState:
    """The state of a run that has made no meta-update yet."""
    return first_state(program.learner, program.data, seed, program.outer)
