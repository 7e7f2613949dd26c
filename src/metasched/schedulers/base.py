"""The protocol every scheduler follows: three pure functions over arrays.

The same object runs inside a jitted ``lax.scan``, under ``vmap`` over seeds, and eagerly. It knows nothing of networks
or data; it sees the label at each task's cursor and the reward of each batch.
"""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple, TypeAlias

import jax

State: TypeAlias = Any
"""A flat pytree of arrays; random schedulers keep ``jax.random.key_data`` in it, so that it can be stored."""

Family: TypeAlias = Literal["static", "active", "control"]
"""Static: fixed beforehand. Active: follows rewards or labels. Control: there to compare with."""


class Scheduler(NamedTuple):
    """Decides from which of N tasks the next batch comes.

    ``labels`` int32 (N,) are the labels at the tasks' cursors when the draw was made, in both functions: a reward may
    come late, and after others, but always with the labels of its own draw.

    Attributes:
        init: ``init(key) -> state``; ``key`` is a ``jax.random.key``.
        select: ``select(state, labels) -> task``, an int32 scalar in 0 … N−1.
        update: ``update(state, labels, task, reward) -> state``, once after every batch; ``reward`` is a float32
            scalar.
        family: what kind of schedule it is.

    Examples:
        >>> import jax
        >>> scheduler = ms.schedulers.cyclic(3)
        >>> labels = np.zeros(3, "int32")
        >>> state = scheduler.init(jax.random.key(0))
        >>> task = scheduler.select(state, labels)
        >>> state = scheduler.update(state, labels, task, 0.5)
        >>> int(task), int(scheduler.select(state, labels))
        (0, 1)
    """

    init: Callable[[jax.Array], State]
    select: Callable[[State, jax.Array], jax.Array]
    update: Callable[[State, jax.Array, jax.Array, jax.Array], State]
    family: Family = "active"


def key_of_draw(stored: jax.Array, turn: jax.Array) -> jax.Array:
    """The key of one draw of a random scheduler.

    Args:
        stored: ``jax.random.key_data`` of the stream, as a state keeps it.
        turn: the number of the draw.

    Returns:
        A ``jax.random.key`` of its own.

    Examples:
        >>> import jax
        >>> key = ms.schedulers.key_of_draw(jax.random.key_data(jax.random.key(0)), 3)
        >>> 0 <= float(jax.random.uniform(key)) < 1
        True
    """
    return jax.random.fold_in(jax.random.wrap_key_data(stored), turn)
