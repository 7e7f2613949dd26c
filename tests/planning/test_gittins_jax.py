import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metasched.planning import gittins_index
from metasched.planning.gittins_jax import gittins_index_jax


@settings(max_examples=12, deadline=None)
@given(st.integers(1, 5), st.integers(0, 10_000), st.sampled_from([0.0, 0.5, 0.9, 0.99]))
def test_equals_the_index_on_the_host(classes, seed, discount):
    random = np.random.default_rng(seed)
    P = random.dirichlet(np.full(classes, 0.5), (3, classes))
    r = random.normal(size=(3, classes)).round(1)
    expected = gittins_index(P, r, discount)
    np.testing.assert_allclose(gittins_index_jax(jnp.asarray(P), jnp.asarray(r), discount), expected, atol=2e-5)


def test_a_label_that_never_occurs_is_worth_its_reward():
    P = np.array([[[0.5, 0.5, 0], [1, 0, 0], [0, 0, 0]]])
    index = gittins_index_jax(jnp.asarray(P), jnp.array([[1.0, 0.0, 0.3]]), 0.9)
    assert float(index[0, 2]) == pytest.approx(0.3)


def test_works_compiled():
    P, r = jnp.full((2, 3, 3), 1 / 3), jnp.arange(6.0).reshape(2, 3)
    compiled = jax.jit(gittins_index_jax, static_argnums=2)(P, r, 0.9)
    np.testing.assert_allclose(compiled, gittins_index(P, r, 0.9), atol=1e-5)
