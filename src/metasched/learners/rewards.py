"""What a scheduled batch was worth: rewards by name. A new one is a function and a line in ``_REGISTRY``."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
from jax import lax

from metasched.errors import ConfigError, unknown
from metasched.learners.losses import Objective, Rows, score, target_loss
from metasched.learners.networks import Weights


class Judged(NamedTuple):
    """Loss and score of a model on the target's rows that decide rewards."""

    loss: jax.Array
    score: jax.Array


class Turn(NamedTuple):
    """One scheduled batch, as a reward sees it.

    Attributes:
        number: t, batches since the weights that the learner starts from, counting from 1.
        before: the weights before the batch.
        after: the weights that the batch made of them.
        was: the model before the batch, judged.
        now: the model after it, judged.
        batch: its rows (B, …), read under head ``head``.
        head: int32 scalar.
        target: the target's labelled rows that rewards are measured on.
    """

    number: jax.Array
    before: Weights
    after: Weights
    was: Judged
    now: Judged
    batch: Rows
    head: jax.Array
    target: Rows


Reward: TypeAlias = Callable[[Objective, Turn], jax.Array]
"""``reward(objective, turn) -> scalar``, traceable; larger is better. What it does not read is never computed."""


def scaled(objective: Objective, turn: Turn) -> jax.Array:
    """The paper's time-invariant reward r = 1 − √t·(1 − accuracy); t counts batches since the initial weights."""
    del objective
    return 1 - jnp.sqrt(turn.number.astype(jnp.float32)) * (1 - turn.now.score)


def accuracy(objective: Objective, turn: Turn) -> jax.Array:
    """The score of the model after the batch."""
    del objective
    return turn.now.score


def gain(objective: Objective, turn: Turn) -> jax.Array:
    """By how much the batch lowered the target's loss."""
    del objective
    return turn.was.loss - turn.now.loss


_REGISTRY: Mapping[str, Reward] = {
    "scaled": scaled,
    "accuracy": accuracy,
    "gain": gain,
}


def names() -> tuple[str, ...]:
    """The rewards that settings know by name."""
    return tuple(_REGISTRY)


def find(reward: str | Reward) -> Reward:
    """The reward of that name; a function of your own is handed back."""
    if callable(reward):
        return reward
    if not isinstance(reward, str):
        raise ConfigError(f"reward is {reward!r}; give a name or a function of an objective and a turn")
    if reward not in _REGISTRY:
        raise unknown("reward", reward, _REGISTRY)
    return _REGISTRY[reward]


def judge(objective: Objective, weights: Weights, rows: Rows) -> Judged:
    """What most rewards are made from; no gradient flows through it."""
    fixed = lax.stop_gradient(weights)
    return Judged(target_loss(objective, fixed, rows), score(objective, fixed, rows))


def one_of(rewards: Sequence[Reward], which: jax.Array, objective: Objective, turn: Turn) -> jax.Array:
    """The reward number ``which``, decided when the program runs."""

    def of(reward: Reward) -> Any:
        return lambda: jnp.asarray(reward(objective, turn), jnp.float32)

    if len(rewards) == 1:
        only: jax.Array = of(rewards[0])()
        return only
    worth: jax.Array = lax.switch(which, [of(reward) for reward in rewards])
    return worth
