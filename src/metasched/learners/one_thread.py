"""A CPU device that computes with one thread, so that the number of cores does not change a single bit of a run.

XLA cuts products and sums into pieces according to the number of its threads. So it rounds them differently on one core
and on two. This number belongs to a *client*, which reads it when it is made. So we make a second client in addition to
JAX's own, and the user's programs keep all cores.
"""

import importlib
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from threading import Lock
from typing import Any

import jax

_THREADS = dict.fromkeys(("PJRT_NPROC", "NPROC"), "1")
"""XLA takes the number of threads of a new client from either of these, or otherwise from the cores."""
_lock = Lock()


@contextmanager
def one_thread() -> Iterator[None]:
    """Make JAX compute with one thread on a CPU, whatever the number of cores.

    Accelerators, several CPU devices and a device that the user has chosen stay as they are.
    """
    config: Any = jax.config
    if jax.default_backend() != "cpu" or len(jax.devices()) > 1 or config.jax_default_device is not None:
        yield
        return
    with _lock:
        device = _device()
    with jax.default_device(device):
        yield


@cache
def _device() -> Any:
    """The device, or JAX's own if this version of jaxlib makes clients in another way."""
    with suppress(ImportError, AttributeError, TypeError):
        make = importlib.import_module("jaxlib.xla_client").make_cpu_client
        with _environment(_THREADS):
            return make(asynchronous=True).local_devices()[0]
    return jax.devices()[0]


@contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    """Set variables of the environment, and restore them afterwards."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
