"""Pytrees of arrays as named arrays, and back: what checkpoints and models store."""

from collections.abc import Mapping
from typing import Any, TypeAlias, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from metasched.errors import RunError

Tensors: TypeAlias = dict[str, NDArray[Any]]
Tree = TypeVar("Tree")


def flatten(tree: Any) -> Tensors:
    """Every array of a pytree under the path of its leaf.

    >>> list(flatten([{"w": np.zeros(2)}]))
    ["[0]['w']"]
    """
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {jax.tree_util.keystr(path): np.asarray(leaf) for path, leaf in leaves}


def size(tree: Any) -> int:
    """Bytes of all arrays of a pytree.

    >>> size([{"w": np.zeros(2, np.float32)}])
    8
    """
    return sum(int(leaf.nbytes) for leaf in jax.tree.leaves(tree))


def unflatten(template: Tree, tensors: Mapping[str, NDArray[Any]], holder: str, kind: str) -> Tree:
    """The pytree that :func:`flatten` took apart; ``template`` gives its structure, shapes and types.

    An error names the ``holder`` of the arrays, and the ``kind`` of thing (run, network) that they seem to belong to.
    """
    leaves, structure = jax.tree_util.tree_flatten_with_path(template)
    restored = []
    for path, leaf in leaves:
        name = jax.tree_util.keystr(path)
        stored = tensors.get(name)
        if stored is None or stored.shape != leaf.shape or stored.dtype != leaf.dtype:
            raise RunError(f"{holder} has no array '{name}' of shape {leaf.shape}; it is of another {kind}")
        restored.append(jnp.asarray(stored))
    tree: Tree = jax.tree_util.tree_unflatten(structure, restored)
    return tree
