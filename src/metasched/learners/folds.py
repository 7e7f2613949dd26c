"""Held-out folds of the target's labels: copies of a learner, each of which never trains on one of them.

A row that a model has been trained on says little about what the next batch would teach it. With K folds the reward of
a draw is the mean over k of the reward of that batch, measured on fold k at the weights of copy k. All copies get the
same scheduled batches as the learner itself; only their target rows differ.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike, NDArray

from metasched.learners.losses import Rows
from metasched.learners.replicas import over_replicas


class Folds(NamedTuple):
    """Folds of q of n rows, stacked: ``held`` (k, q, …), and ``kept`` (k, n − q, …), the rows that a copy trains on."""

    kept: Rows
    held: Rows


def fold_numbers(labels: ArrayLike, folds: int) -> NDArray[np.int64]:
    """The fold (n,) of every row: labels, in turn and by chance among equals, are dealt out like cards.

    So every fold has its share of every label, up to one row, and n // K rows, or one more in the first n % K folds.

    >>> fold_numbers([0, 0, 0, 1, 1], 2).tolist()
    [1, 0, 0, 1, 0]
    """
    given = np.asarray(labels)
    numbers = np.empty(len(given), np.int64)
    order = np.lexsort((np.random.default_rng(0).permutation(len(given)), given))
    numbers[order] = np.arange(len(given)) % folds
    return numbers


def folds_of(rows: Rows, folds: int) -> tuple[Folds, ...]:
    """The K = ``folds`` ways to hold rows out, larger folds first; none with 0."""
    if folds == 0:
        return ()
    numbers = fold_numbers(rows.labels, folds)
    larger = len(numbers) % folds
    groups = [group for group in (range(larger), range(larger, folds)) if group]
    return tuple(
        Folds(
            rows.take(np.stack([np.flatnonzero(numbers != fold) for fold in group])),
            rows.take(np.stack([np.flatnonzero(numbers == fold) for fold in group])),
        )
        for group in groups
    )


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
