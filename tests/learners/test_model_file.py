"""Arrays of a pytree under names, bit for bit, and refused where they are of another."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
import pytest

from metasched.errors import RunError
from metasched.learners.model_file import flatten, unflatten


class Pair(NamedTuple):
    first: object
    second: object


def test_trees_come_back_bit_for_bit():
    tree = Pair([jnp.float32([0.1, -0.0, 1e-38])], {"k": jnp.uint32(7), "n": jnp.int32([[1], [2]])})
    again = unflatten(tree, flatten(tree), "a file", "run")
    assert np.asarray(again.first[0]).tobytes() == np.asarray(tree.first[0]).tobytes()
    assert again.second["n"].tolist() == [[1], [2]]
    assert again.second["k"].dtype == jnp.uint32


def test_a_tree_of_another_run_is_refused():
    tensors = flatten({"a": jnp.zeros(3)})
    with pytest.raises(RunError, match="it belongs to another run"):
        unflatten({"a": jnp.zeros(4)}, tensors, "a file", "run")
    with pytest.raises(RunError, match="it belongs to another run"):
        unflatten({"b": jnp.zeros(3)}, tensors, "a file", "run")
