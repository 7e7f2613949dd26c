"""The protocol every scheduler follows: pure functions over arrays.

The same object runs inside a jitted ``lax.scan``, under ``vmap`` over seeds, and eagerly. It knows nothing of networks
or data; it sees the label at each task's cursor and the reward of each batch, or of each row of a mixed batch.
"""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple, TypeAlias

import jax

State: TypeAlias = Any
"""A flat pytree of arrays; random schedulers keep ``jax.random.key_data`` in it, so that it can be stored."""

Family: TypeAlias = Literal["static", "active", "control"]
"""Static: fixed beforehand. Active: follows rewards or labels. Control: there to compare with."""


class Scheduler(NamedTuple):
    """Decides from which of N tasks the next batch comes, or each row of the next batch.

    ``labels`` int32 (N,) are the labels at the tasks' cursors when the draw was made, in all functions: a reward may
    come late, and after others, but always with the labels of its own draw.

    A mixed batch of B rows asks a scheduler for B tasks and tells it B rewards. The last two functions do this at
    once. A scheduler without them still works: its rows are chosen one after another, each as if the rows before it
    had already brought the mean reward of their task (``metasched.schedulers.rows``).

    Attributes:
        init: ``init(key) -> state``; ``key`` is a ``jax.random.key``.
        select: ``select(state, labels) -> task``, an int32 scalar in 0 … N−1.
        update: ``update(state, labels, task, reward) -> state``, once after every batch; ``reward`` is a float32
            scalar.
        family: what kind of schedule it is.
        select_rows: ``select_rows(state, labels, count) -> tasks``, int32 ``(count,)``. For schedulers that draw at
            random: every row is drawn on its own.
        update_rows: ``update_rows(state, labels (B, N), tasks (B,), rewards (B,)) -> state``, once after every mixed
            batch; row b had the labels ``labels[b]`` before it. By default ``update``, row by row. A scheduler that
            forgets has one, so that its memory fades once for each batch and not once for each row.

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
    select_rows: Callable[[State, jax.Array, int], jax.Array] | None = None
    update_rows: Callable[[State, jax.Array, jax.Array, jax.Array], State] | None = None


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
