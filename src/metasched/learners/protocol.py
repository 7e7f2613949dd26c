"""What the engine asks of a learner: three pure functions, in the manner of a scheduler's."""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import jax

from metasched.learners.networks import Weights
from metasched.learners.stream import Data


class Knobs(NamedTuple):
    """Settings that may differ between runs of one compiled program.

    Attributes:
        reward: number of the reward that the scheduler is told, int32 ().
        inner: the inner rate that the run begins with.
        outer: the outer rate at the first update.
    """

    reward: jax.Array
    inner: jax.Array
    outer: jax.Array


State: TypeAlias = Any
"""A NamedTuple of arrays with at least ``stream`` (:class:`Stream`), ``update`` (updates made, int32 ()) and ``knobs``;
storing it is a checkpoint."""


class Update(NamedTuple):
    """What one update did.

    Attributes:
        loss: of the target's rows that it trained on.
        validation_accuracy: on all of the target's labelled rows.
        tasks: int32 (m,), the task of each scheduled batch; N where none was drawn.
        rate: the learning rate that was used, a scalar.
        weights: the model to measure and to hand out.
        initial: the model that the update started from.
    """

    loss: jax.Array
    validation_accuracy: jax.Array
    tasks: jax.Array
    rate: jax.Array
    weights: Weights
    initial: Weights


class Learner(NamedTuple):
    """Learns from the batches that a scheduler chooses.

    Attributes:
        init: ``init(data, seed, knobs) -> state``; every random number of a run follows from the seed.
        update: ``update(data, state) -> state, update``: m scheduled batches, and one outer step where there is one.
        further: ``further(data, state, weights) -> weights``: ``adapt_on_target`` more steps on the target's rows.
    """

    init: Callable[[Data, Any, Knobs], State]
    update: Callable[[Data, State], tuple[State, Update]]
    further: Callable[[Data, State, Weights], Weights]
