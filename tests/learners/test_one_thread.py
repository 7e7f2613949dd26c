import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from metasched.learners.one_thread import one_thread

PROGRAM = """
import jax, numpy as np
from metasched.learners.one_thread import one_thread

def product():
    chance = np.random.default_rng(0)
    a, b = (chance.normal(size=(2000, 300)).astype("f4") for _ in range(2))
    return np.asarray(jax.jit(lambda a, b: a.T @ b)(a, b)).tobytes().hex()

with one_thread():
    print(product())
"""


def product_with(threads):
    """What a process with so many threads of XLA computes inside."""
    environment = {**os.environ, "NPROC": str(threads), "JAX_ENABLE_COMPILATION_CACHE": "false"}
    environment.pop("XLA_FLAGS", None)
    return subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, check=True, capture_output=True, timeout=600
    ).stdout


def test_the_number_of_threads_changes_no_bit_of_a_product():
    assert product_with(16) == product_with(1)


def test_the_users_device_and_environment_are_as_before(monkeypatch):
    monkeypatch.setenv("NPROC", "7")
    monkeypatch.delenv("PJRT_NPROC", raising=False)
    before = jnp.ones(3).device
    with one_thread():
        assert jnp.ones(3).device != before
    assert jnp.ones(3).device == before == jax.devices()[0]
    assert os.environ["NPROC"] == "7"
    assert "PJRT_NPROC" not in os.environ


def test_arrays_from_inside_and_outside_mix():
    outside = jnp.arange(3.0)
    with one_thread():
        inside = jnp.ones(3) + outside
    np.testing.assert_array_equal(inside + outside, [1, 3, 5])


def test_a_device_that_the_user_has_chosen_stays():
    with jax.default_device(jax.devices()[0]), one_thread():
        assert jnp.ones(3).device == jax.devices()[0]


def test_an_error_inside_leaves_no_trace():
    with pytest.raises(ZeroDivisionError), one_thread():
        _ = 1 // 0
    assert jnp.ones(3).device == jax.devices()[0]
