"""Folds stratified by label, and copies of a learner, each of which never sees one of the folds.

A row that a model was trained on says little about what the next batch would teach it. With K folds, the reward of a
draw is the mean over k of the reward of its batch, computed on fold k with the weights of copy k. All copies get the
same scheduled batches as the learner itself. Only their target rows differ.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike, NDArray

from metasched.learners.losses import Rows
from metasched.tasks import RowNumbers


class Folds(NamedTuple):
    """Folds of q of n rows, stacked: ``held`` (k, q, …), and ``kept`` (k, n − q, …), the rows that a copy trains on."""

    kept: Rows
    held: Rows


def stratified_folds(labels: ArrayLike, folds: int, *, equal: bool = False, seed: int = 0) -> NDArray[np.int64]:
    """The fold (n,) of every row. Rows are sorted by label, in random order within a label, and dealt out like cards.

    Every fold has its share of every label, up to one row. The first n % K folds have one row more than the others.
    With ``equal`` all folds have n // K rows, and those left over are in none (−1). Equal seeds give equal folds.

    >>> stratified_folds([0, 0, 0, 1, 1], 2).tolist()
    [0, 0, 1, 1, 0]
    >>> stratified_folds([0, 0, 0, 1, 1], 2, equal=True).tolist()
    [1, 0, 0, -1, 1]
    """
    given = np.asarray(labels)
    rank = np.random.default_rng(seed).permutation(len(given))
    if equal:
        # Folds of equal size have always used the inverse permutation. Stored results depend on both orders.
        rank = np.argsort(rank)
    order = np.lexsort((rank, given))
    numbers = np.empty(len(given), np.int64)
    numbers[order] = np.arange(len(given)) % folds
    if equal:
        numbers[order[len(given) // folds * folds :]] = -1
    return numbers


def equal_splits(labels: ArrayLike, folds: int) -> list[tuple[RowNumbers, RowNumbers]]:
    """Row numbers (rest, held out) of folds of equal size. Rows that are left over are in every rest.

    Because of the equal sizes, one compiled program serves all folds. With fewer rows than folds there are no splits.
    """
    numbers = stratified_folds(labels, folds, equal=True)
    if len(numbers) < folds:
        return []
    return [(np.flatnonzero(numbers != fold), np.flatnonzero(numbers == fold)) for fold in range(folds)]


def folds_of(rows: Rows, folds: int) -> tuple[Folds, ...]:
    """The K = ``folds`` ways to hold out rows. With 0 there are none.

    Only arrays of the same shape can be stacked, so there are up to two groups: the folds with one more row, and the
    others.
    """
    if folds == 0:
        return ()
    numbers = stratified_folds(rows.labels, folds)
    larger = len(numbers) % folds
    groups = [group for group in (range(larger), range(larger, folds)) if group]
    return tuple(
        Folds(
            rows.take(np.stack([np.flatnonzero(numbers != fold) for fold in group])),
            rows.take(np.stack([np.flatnonzero(numbers == fold) for fold in group])),
        )
        for group in groups
    )


def over_replicas(function: Callable[..., Any], axes: Sequence[int | None]) -> Callable[..., Any]:
    """Make ``function`` work on stacked replicas: arguments with axis 0 are stacked, the others are shared."""
    if jax.default_backend() != "cpu" or len(jax.devices()) > 1:
        return jax.vmap(function, in_axes=tuple(axes))

    # On a CPU one after another costs nothing extra, and rounds exactly like a replica alone. Batched matrix products
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
    """Call ``function(fold, copy)`` for every copy and the fold that it never saw. The results of each group are
    stacked.
    """
    return [over_replicas(function, (0, 0))(group, mine) for group, mine in zip(folds, copies, strict=True)]


def mean_reward(done: list[tuple[Any, jax.Array]]) -> tuple[tuple[Any, ...], jax.Array]:
    """From the copies and rewards (k, …) of each group: the copies, and the mean reward over all of them."""
    return tuple(copy for copy, _ in done), jnp.concatenate([rewards for _, rewards in done]).mean(axis=0)
