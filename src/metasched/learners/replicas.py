"""The same function for many models: runs side by side, and copies of a learner that each hold one fold out.

A row that a model has been trained on says little about what the next batch would teach it. With K folds the reward of
a draw is the mean over k of the reward of that batch, computed on fold k at the weights of copy k. All copies get the
same scheduled batches as the learner itself; only their target rows differ.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from metasched.learners.folds import Folds


def over_replicas(function: Callable[..., Any], axes: Sequence[int | None]) -> Callable[..., Any]:
    """``function`` for stacked replicas: the arguments whose axis is 0 are stacked, the others are shared."""
    if jax.default_backend() != "cpu" or len(jax.devices()) > 1:
        return jax.vmap(function, in_axes=tuple(axes))

    # On a CPU one after another costs nothing, and rounds exactly as a replica alone does: batched matrix products
    # would differ in the last bits, and a run would depend on its neighbours.
    def one_by_one(*arguments: Any) -> Any:
        def one(mine: Sequence[Any]) -> Any:
            own = iter(mine)
            return function(
                *(given if axis is None else next(own) for given, axis in zip(arguments, axes, strict=True))
            )

        stacked = [given for given, axis in zip(arguments, axes, strict=True) if axis == 0]
        return jax.lax.map(one, stacked)

    return one_by_one


def copies_of(model: Any, folds: tuple[Folds, ...]) -> tuple[Any, ...]:
    """A copy of the model for each fold, stacked like the folds."""
    counts = [len(group.held.labels) for group in folds]
    return tuple(
        jax.tree.map(lambda leaf, count=count: jnp.broadcast_to(leaf, (count, *leaf.shape)), model) for count in counts
    )


def each_copy(function: Callable[[Folds, Any], Any], folds: tuple[Folds, ...], copies: tuple[Any, ...]) -> list[Any]:
    """``function(fold, copy)`` for every copy and the fold that it does not know: stacked results for each group."""
    return [over_replicas(function, (0, 0))(group, mine) for group, mine in zip(folds, copies, strict=True)]


def mean_reward(done: list[tuple[Any, jax.Array]]) -> tuple[tuple[Any, ...], jax.Array]:
    """Copies and rewards (k,) of each group: the copies, and the mean reward over all of them."""
    return tuple(copy for copy, _ in done), jnp.concatenate([rewards for _, rewards in done]).mean()
