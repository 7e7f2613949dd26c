"""The reward of a scheduled batch, or of each row of a mixed batch: rewards by name.

A new reward is a function and a line in ``_REGISTRY``.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
from jax import lax

from metasched.errors import ConfigError, unknown
from metasched.learners.losses import (
    Objective,
    Rows,
    goodness,
    row_goodness,
    row_losses,
    score,
    target_loss,
    task_loss,
)
from metasched.learners.networks import Weights

__all__ = [
    "Evaluation",
    "Turn",
    "accuracy",
    "adam_transfer",
    "alignment",
    "find",
    "gain",
    "names",
    "scaled",
    "transfer",
]


class Evaluation(NamedTuple):
    """The loss and the score of a model on the target rows that decide rewards.

    Attributes:
        loss: the mean loss.
        score: the accuracy; in regression 1 − squared error / variance.

    Examples:
        >>> ms.rewards.Evaluation(loss=0.7, score=0.5).score
        0.5
    """

    loss: jax.Array
    score: jax.Array


class Turn(NamedTuple):
    """One scheduled batch, as a reward function sees it.

    Attributes:
        number: t, the number of batches since the learner's initial weights, counting from 1.
        before: the weights before the batch.
        after: the weights after the batch.
        was: the evaluation of the model before the batch.
        now: the evaluation of the model after it.
        batch: its rows (B, …), read under head ``head``.
        head: int32 scalar. In a mixed batch (B,), the head of each row.
        trains: whether the batch trained anything. False if the scheduler abstained. In a mixed batch (B,).
        target: the target's labelled rows that rewards are measured on.
        slope: the direction in which the target's accuracy rises, ∇a(w; T), at most ``slope_every`` − 1 batches old.
        step_sizes: the factors by which the optimiser multiplies each weight's gradient, up to a common factor: 1 / (√v
            + ε) for Adam. None if it steps along the gradient itself.

    Examples:
        >>> def rise(objective, turn):  # your own reward: by how much the batch raised the score
        ...     return turn.now.score - turn.was.score
        >>> learner = ms.Joint(batch_size=10, updates=1)
        >>> len(ms.train(tasks, "ucb", learner=learner, reward=rise).records)
        1
    """

    number: jax.Array
    before: Weights
    after: Weights
    was: Evaluation
    now: Evaluation
    batch: Rows
    head: jax.Array
    trains: jax.Array
    target: Rows
    slope: Weights
    step_sizes: Weights | None = None


Reward: TypeAlias = Callable[[Objective, Turn], jax.Array]
"""``reward(objective, turn) -> scalar``, traceable; larger is better. Values that it does not use are never computed.
For a mixed batch a reward may return one number for each row, (B,). A scalar is credited to all rows alike.
"""


def scaled(objective: Objective, turn: Turn) -> jax.Array:
    """The paper's time-invariant reward r = 1 − √t·(1 − accuracy), where t counts batches since the initial weights.

    Args:
        objective: the objective; not used here.
        turn: the batch.

    Returns:
        A scalar.

    Examples:
        >>> "scaled" in ms.rewards.names()
        True
    """
    del objective
    return 1 - jnp.sqrt(turn.number.astype(jnp.float32)) * (1 - turn.now.score)


def accuracy(objective: Objective, turn: Turn) -> jax.Array:
    """The score of the model after the batch.

    Args:
        objective: the objective; not used here.
        turn: the batch.

    Returns:
        A scalar.

    Examples:
        >>> ms.rewards.find("accuracy") is ms.rewards.accuracy
        True
    """
    del objective
    return turn.now.score


def gain(objective: Objective, turn: Turn) -> jax.Array:
    """How much the batch lowered the target's loss.

    Args:
        objective: the objective; not used here.
        turn: the batch.

    Returns:
        A scalar.

    Examples:
        >>> learner = ms.Joint(batch_size=10, updates=1)
        >>> ms.train(tasks, "ucb", learner=learner, reward="gain").outcomes[0].spec.reward
        'gain'
    """
    del objective
    return turn.was.loss - turn.now.loss


def transfer(objective: Objective, turn: Turn) -> jax.Array:
    """How fast the target's accuracy rises when the model learns this batch: ⟨∇a(w; S), ∇a(w; T)⟩ / ‖∇a(w; T)‖.

    Here a is the mean probability of the right label, w are the weights before the batch S, and T are the target's
    labelled rows. The reward does not depend on the step size or the time. Rows with shuffled labels average to zero,
    and rows with consistently wrong labels earn less, so zero is the reward of abstaining. If tasks have their own
    heads, only the weights of the shared body count. The reward is one derivative of a(·; S) along ∇a(w; T), so ∇a(w;
    S) itself is never formed. At the same cost, every row of a mixed batch has its own reward: the derivative of its
    own probability.

    Args:
        objective: the objective.
        turn: the batch.

    Returns:
        A scalar; for a mixed batch one number for each row, (B,).

    Examples:
        >>> ms.rewards.find("transfer") is ms.rewards.transfer
        True
    """
    return _transfer(objective, turn, turn.slope)


def adam_transfer(objective: Objective, turn: Turn) -> jax.Array:
    """:func:`transfer` along the step that the optimiser makes: ⟨∇a(w; S), d⟩ / ‖d‖ with d = ∇a(w; T) / (√v + ε).

    Adam divides every gradient by √v, the root of its running mean square. A batch moves the weights along
    ∇a(w; S) / √v, and so raises the target's accuracy by its inner product with ∇a(w; T). If the optimiser has no v,
    and on the inner steps of Algorithm 1, this is the same as :func:`transfer`.

    Args:
        objective: the objective.
        turn: the batch.

    Returns:
        A scalar; for a mixed batch one number for each row, (B,).

    Examples:
        >>> "adam_transfer" in ms.rewards.names()
        True
    """
    if turn.step_sizes is None:
        return transfer(objective, turn)
    return _transfer(objective, turn, jax.tree.map(jnp.multiply, turn.slope, turn.step_sizes))


def _transfer(objective: Objective, turn: Turn, slope: Weights) -> jax.Array:
    """The derivative along a slope, by batch or by row, divided by the length of the slope."""
    direction, rows, head = _shared(objective, slope), turn.batch, turn.head
    length = _inner(direction, direction)
    score = row_goodness if jnp.ndim(turn.trains) else goodness
    _, along = jax.jvp(lambda weights: score(objective, weights, rows, head), (turn.before,), (direction,))
    return jnp.where(turn.trains & (length > 0), along / jnp.sqrt(jnp.where(length > 0, length, 1)), 0)


def alignment(objective: Objective, turn: Turn) -> jax.Array:
    """The cosine between the gradients of the batch's loss and of the target's, over the weights that tasks share.

    In a mixed batch every row has its own cosine, which needs a backward pass for each row.

    Reference: Albalak, Raffel, Wang, *Improving Few-Shot Generalization by Exploring and Exploiting Auxiliary Data*,
    arXiv:2302.00674.

    Args:
        objective: the objective.
        turn: the batch.

    Returns:
        A scalar from −1 to 1; for a mixed batch one number for each row, (B,).

    Examples:
        >>> ms.rewards.find("alignment") is ms.rewards.alignment
        True
    """
    wanted = _shared(objective, jax.grad(target_loss, argnums=1)(objective, turn.before, turn.target))

    def cosine(mine: Weights) -> jax.Array:
        mine = _shared(objective, mine)
        lengths = jnp.sqrt(_inner(mine, mine) * _inner(wanted, wanted))
        return _inner(mine, wanted) / jnp.where(lengths > 0, lengths, 1)

    if not jnp.ndim(turn.trains):
        mine = jax.grad(task_loss, argnums=1)(objective, turn.before, None, turn.batch, turn.head)
        return jnp.where(turn.trains, cosine(mine), 0)

    def row_cosine(row: Rows, head: jax.Array) -> jax.Array:
        def loss(weights: Weights) -> jax.Array:
            return row_losses(objective, weights, row.take(None), head, objective.losses.task)[0]

        return cosine(jax.grad(loss)(turn.before))

    # A cosine needs the length of each row's gradient, so here every row has its own gradient.
    return jnp.where(turn.trains, jax.vmap(row_cosine)(turn.batch, turn.head), 0)


def target_slope(objective: Objective, weights: Weights, rows: Rows) -> Weights:
    """∇a(w; T), the direction in which the target's accuracy rises."""
    return jax.grad(goodness, argnums=1)(objective, lax.stop_gradient(weights), rows, objective.heads.target)


def _shared(objective: Objective, slope: Weights) -> Weights:
    """The part of a slope that belongs to weights shared by all tasks: all of it, or all except the output layer."""
    if objective.heads.number == 1 or objective.network.head is None:
        return slope
    head = objective.network.head(slope)
    return jax.tree.map(lambda part, mine: jnp.zeros_like(part) if mine else part, slope, head)


def _inner(left: Weights, right: Weights) -> jax.Array:
    """⟨left, right⟩."""
    return jnp.sum(jnp.stack(jax.tree.leaves(jax.tree.map(jnp.vdot, left, right))))


DEFAULT = "adam_transfer"
"""The default reward outside the paper's experiments."""
_REGISTRY: Mapping[str, Reward] = {
    "scaled": scaled,
    "accuracy": accuracy,
    "gain": gain,
    "transfer": transfer,
    "adam_transfer": adam_transfer,
    "alignment": alignment,
}


def names() -> tuple[str, ...]:
    """List the names of the built-in rewards.

    Returns:
        Their names.

    Examples:
        >>> ms.rewards.names()
        ('scaled', 'accuracy', 'gain', 'transfer', 'adam_transfer', 'alignment')
    """
    return tuple(_REGISTRY)


def find(reward: str | Reward) -> Reward:
    """Find a reward by its name.

    Args:
        reward: one of :func:`names`, or your own function, which is returned unchanged.

    Returns:
        ``reward(objective, turn) -> scalar``.

    Examples:
        >>> ms.rewards.find("gain") is ms.rewards.gain
        True
    """
    if callable(reward):
        return reward
    if not isinstance(reward, str):
        raise ConfigError(f"reward is {reward!r}; give a name or a function of an objective and a turn")
    if reward not in _REGISTRY:
        raise unknown("reward", reward, _REGISTRY)
    return _REGISTRY[reward]


def evaluate(objective: Objective, weights: Weights, rows: Rows) -> Evaluation:
    """The evaluation from which most rewards are computed. No gradient flows through it."""
    fixed = lax.stop_gradient(weights)
    return Evaluation(target_loss(objective, fixed, rows), score(objective, fixed, rows))


def one_of(rewards: Sequence[Reward], which: jax.Array, objective: Objective, turn: Turn) -> jax.Array:
    """The reward number ``which``, decided when the program runs: a scalar, or (B,) for a mixed batch."""

    def of(reward: Reward) -> Any:
        return lambda: jnp.broadcast_to(jnp.asarray(reward(objective, turn), jnp.float32), jnp.shape(turn.trains))

    if len(rewards) == 1:
        only: jax.Array = of(rewards[0])()
        return only
    worth: jax.Array = lax.switch(which, [of(reward) for reward in rewards])
    return worth
