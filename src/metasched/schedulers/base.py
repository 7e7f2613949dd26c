"""The protocol of every scheduler: pure functions over arrays.

The same object runs inside a jitted ``lax.scan``, under ``vmap`` over seeds, and eagerly. It knows nothing about
networks or data. It only sees the label at each task's cursor, and the reward of each batch or of each row of a mixed
batch.
"""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple, TypeAlias

import jax

State: TypeAlias = Any
"""A flat pytree of arrays. Random schedulers store ``jax.random.key_data`` in it, so that it can be saved."""

Family: TypeAlias = Literal["static", "active", "control"]
"""Static: fixed beforehand. Active: follows rewards or labels. Control: only for comparison."""


class Scheduler(NamedTuple):
    """Decides from which of N tasks the next batch, or each of its rows, comes.

    ``labels`` int32 (N,) are the labels at the tasks' cursors when the draw was made, in all functions. A reward may
    come late, or after those of later draws, but always with the labels of its own draw.

    For a mixed batch of B rows, a scheduler chooses B tasks and gets B rewards. The last two functions do this in one
    call. A scheduler without them still works: its rows are chosen one after another, each as if the rows before it had
    already brought the mean reward of their task (``metasched.schedulers.rows``).

    Attributes:
        init: ``init(key) -> state``; ``key`` is a ``jax.random.key``.
        select: ``select(state, labels) -> task``, an int32 scalar in 0 … N−1.
        update: ``update(state, labels, task, reward) -> state``, called once after every batch. ``reward`` is a float32
            scalar.
        family: the kind of schedule.
        select_rows: ``select_rows(state, labels, count) -> tasks``, int32 ``(count,)``. For schedulers that draw at
            random: every row is drawn separately.
        update_rows: ``update_rows(state, labels (B, N), tasks (B,), rewards (B,)) -> state``, called once after every
            mixed batch. Row b had the labels ``labels[b]`` before it. By default ``update`` is called row by row. A
            scheduler that forgets needs this function, so that its memory fades once per batch and not once per row.

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
    """Derive the key of one draw of a random scheduler.

    Args:
        stored: ``jax.random.key_data`` of the stream, as a state stores it.
        turn: the number of the draw.

    Returns:
        The ``jax.random.key`` of this draw.

    Examples:
        >>> import jax
        >>> key = ms.schedulers.key_of_draw(jax.random.key_data(jax.random.key(0)), 3)
        >>> 0 <= float(jax.random.uniform(key)) < 1
        True
    """
    return jax.random.fold_in(jax.random.wrap_key_data(stored), turn)
