"""Draws in proportion to size: what you get by pouring all sources together and shuffling."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from metasched.errors import ConfigError
from metasched.schedulers.base import Scheduler, key_of_draw
from metasched.schedulers.uniform import UniformState


def proportional(num_tasks: int, sizes: Sequence[int] | None = None) -> Scheduler:
    """Draw each task with a probability proportional to its number of rows.

    Args:
        num_tasks: N.
        sizes: the rows of each task. By default all are equal, as in :func:`~metasched.schedulers.uniform`.

    Returns:
        The scheduler, which is static.

    Examples:
        >>> chooser = ms.Chooser("proportional", {"web": 900, "books": 100})
        >>> draws = [chooser.ask() for _ in range(200)]
        >>> chooser.shares()["web"] > 0.8
        True
    """
    rows = np.ones(num_tasks) if sizes is None else np.asarray(sizes, np.float64)
    if rows.shape != (num_tasks,) or not (np.isfinite(rows).all() and (rows >= 0).all() and rows.sum() > 0):
        raise ConfigError(f"sizes are {sizes}; give the number of rows of each of the {num_tasks} tasks")
    with np.errstate(divide="ignore"):
        chances = np.log(rows / rows.sum()).astype(np.float32)

    def draw(state: UniformState, shape: tuple[int, ...]) -> jax.Array:
        tasks: jax.Array = jax.random.categorical(key_of_draw(state.key, state.turn), jnp.asarray(chances), shape=shape)
        return tasks.astype(jnp.int32)

    def later(state: UniformState, *_: jax.Array) -> UniformState:
        return state._replace(turn=state.turn + 1)

    return Scheduler(
        lambda key: UniformState(jax.random.key_data(key), jnp.int32(0)),
        lambda state, labels: draw(state, ()),
        later,
        family="static",
        select_rows=lambda state, labels, count: draw(state, (count,)),
        update_rows=later,
    )
