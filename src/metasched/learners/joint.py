"""Joint training: one model, and each step uses a batch of source rows and a batch of target rows."""

from functools import partial
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import optax
from jax import lax

from metasched.learners.folds import Folds, copies_of, each_copy, mean_reward
from metasched.learners.inner import Schedule, first_slope, slope_now
from metasched.learners.losses import Objective, score, target_loss, task_loss
from metasched.learners.meta import optimiser, seed_keys
from metasched.learners.networks import Weights
from metasched.learners.protocol import Hyperparameters, Learner, Update, batch_tasks
from metasched.learners.rewards import Turn, evaluate, one_of
from metasched.learners.settings import Joint
from metasched.learners.stream import (
    Batch,
    Data,
    Stream,
    advance,
    first_stream,
    loss_arguments,
    next_batch,
    target_batch,
    without,
)

FIRST_STEPS = 5
EPSILON = 1e-5


class Parameters(NamedTuple):
    """The trained parameters."""

    weights: Weights


class ModelState(NamedTuple):
    """What one step passes on to the next: the model, and ``slope`` if it is kept for several steps."""

    parameters: Parameters
    optimiser: Any
    slope: Weights | None


class JointState(NamedTuple):
    """Everything that one step passes on to the next. Storing it makes a checkpoint. ``copies`` are stacked like the
    folds.
    """

    model: ModelState
    copies: tuple[ModelState, ...]
    stream: Stream
    key: jax.Array
    update: jax.Array
    hyperparameters: Hyperparameters

    @property
    def parameters(self) -> Parameters:
        """The parameters that are trained on all of the target's rows."""
        return self.model.parameters


def joint(objective: Objective, schedule: Schedule) -> Learner:
    """Joint training as a learner: w ← optimiser(w, ∇[s·ℓ(w; S) + ℓ(w; T)]), s = ``source_weight``.

    S is the scheduled batch, under the head of its task; T are ``batch_size`` of the target's labelled rows, drawn
    again for every step, or all of them (``target_batch="all"``, or if there are no more). An update has m such steps.
    If the scheduler abstains, the step uses only T. The optimiser's rate falls geometrically from the first step to the
    last.
    """
    settings = cast(Joint, objective.settings)
    batches = settings.batches_per_update or 0
    steps = settings.updates * max(batches, 1)

    def stepper(rate: Any) -> optax.GradientTransformation:
        return optimiser(settings, rate, steps)

    def init(data: Data, seed: Any, hyperparameters: Hyperparameters) -> JointState:
        weights_key, scheduler_key, target_key = seed_keys(seed)
        parameters = Parameters(objective.network.init(weights_key, data.validation.inputs[:1]))
        model = ModelState(
            parameters, stepper(hyperparameters.outer_rate).init(parameters), first_slope(settings, parameters.weights)
        )
        return JointState(
            model._replace(slope=None) if data.folds else model,
            copies_of(model, data.folds),
            first_stream(schedule.scheduler, data, objective.heads.width, scheduler_key, schedule.sums),
            jax.random.key_data(target_key),
            jnp.int32(0),
            hyperparameters,
        )

    def trained(
        data: Data, state: JointState, model: ModelState, batch: Batch | None, number: jax.Array
    ) -> tuple[ModelState, jax.Array]:
        """The model after a step on the batch and on target rows, and their loss before it."""
        target = target_batch(settings, data.validation, state.key, number)

        def loss(parameters: Parameters) -> tuple[jax.Array, jax.Array]:
            on_target = target_loss(objective, parameters.weights, target)
            if batch is None:
                return on_target, on_target
            alone = objective.abstain and not batch.trains.ndim
            share = settings.source_weight * batch.trains if alone else settings.source_weight
            scheduled = loss_arguments(objective, data, batch)
            return share * task_loss(objective, parameters.weights, *scheduled) + on_target, on_target

        (_, on_target), gradient = jax.value_and_grad(loss, has_aux=True)(model.parameters)
        change, moments = stepper(state.hyperparameters.outer_rate).update(gradient, model.optimiser, model.parameters)
        return ModelState(optax.apply_updates(model.parameters, change), moments, model.slope), on_target

    def valued(
        data: Data, state: JointState, before: ModelState, after: ModelState, batch: Batch, number: jax.Array
    ) -> tuple[ModelState, jax.Array]:
        """The model after the step, the slope that it keeps, and the reward of the batch."""
        old, new = before.parameters.weights, after.parameters.weights
        slope = slope_now(objective, data, old, before.slope, number + 1)
        was, now = (evaluate(objective, weights, data.reward_rows) for weights in (old, new))
        _, rows, head = loss_arguments(objective, data, batch)
        sizes = step_sizes(before.optimiser, before.parameters)
        turn = Turn(number + 1, old, new, was, now, rows, head, batch.trains, data.reward_rows, slope, sizes)
        reward = one_of(schedule.rewards, state.hyperparameters.reward_index, objective, turn)
        return after._replace(slope=None if before.slope is None else slope), reward

    def step(data: Data, state: JointState, place: jax.Array) -> tuple[JointState, tuple[jax.Array, jax.Array]]:
        number = state.update * max(batches, 1) + place
        batch = next_batch(schedule.scheduler, objective, data, state.stream) if batches else None
        model, on_target = trained(data, state, state.model, batch, number)
        if batch is None:
            return state._replace(model=model), (on_target, jnp.int32(0))

        def one(fold: Folds, copy: ModelState) -> tuple[ModelState, jax.Array]:
            known = without(data, fold)
            return valued(known, state, copy, trained(known, state, copy, batch, number)[0], batch, number)

        if data.folds:
            copies, reward = mean_reward(each_copy(one, data.folds, state.copies))
        else:
            copies, (model, reward) = (), valued(data, state, state.model, model, batch, number)
        stream = advance(schedule.scheduler, settings, data, state.stream, batch, reward)
        return state._replace(model=model, copies=copies, stream=stream), (on_target, batch.chosen)

    def update(data: Data, state: JointState) -> tuple[JointState, Update]:
        following, (losses, tasks) = lax.scan(partial(step, data), state, jnp.arange(max(batches, 1)))
        accuracy = score(objective, following.parameters.weights, data.validation)
        rate = state.hyperparameters.outer_rate * settings.rate_decay ** (
            state.update * max(batches, 1) / max(steps - 1, 1)
        )
        following = following._replace(update=state.update + 1)
        tasks = batch_tasks(tasks[:batches])
        return following, Update(
            losses[-1], accuracy, tasks, rate, following.parameters.weights, state.parameters.weights
        )

    return Learner(init, update)


def step_sizes(optimiser: Any, parameters: Parameters) -> Weights | None:
    """1 / (√v + ε) of Adam and its variants, from their state. None for an optimiser without a v for each weight.

    In the first few steps v comes from so few gradients that dividing by it would amplify noise. Then all values are 1.
    """
    squares, counts = (
        [found for _, found in optax.tree_utils.tree_get_all_with_path(optimiser, name)] for name in ("nu", "count")
    )
    shapes = jax.tree.map(jnp.shape, parameters)
    # An optimiser that treats some weights separately, or all as one vector, has mean squares in another form.
    fitting = [found for found in squares if jax.tree.map(jnp.shape, found) == shapes]
    if not fitting or not counts:
        return None
    mean, steps = fitting[0], counts[0]
    # Bias correction for Adam's usual decay. For another decay it is wrong by a factor that is the same for all
    # weights.
    unbiased = 1 - 0.999 ** jnp.maximum(steps, 1).astype(jnp.float32)
    sizes = jax.tree.map(lambda v: jnp.where(steps > FIRST_STEPS, 1 / (jnp.sqrt(v / unbiased) + EPSILON), 1.0), mean)
    return cast(Weights, sizes.weights)
