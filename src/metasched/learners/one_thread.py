"""A CPU device of our own that computes with one thread, so that the number of cores changes no bit of a run.

XLA cuts products and sums into pieces by the number of its threads, and so rounds them differently on one core and on
two. The number is that of a *client* and is read when the client is made. So we make a second one beside JAX's own, and
the user's programs keep all cores.
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
"""XLA takes the number of threads of a new client from either, or else from the cores."""
_lock = Lock()


@contextmanager
def one_thread() -> Iterator[None]:
    """Inside, JAX computes on a CPU with one thread, whatever the number of cores.

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
    """The device; JAX's own if this version of jaxlib makes clients in another way."""
    with suppress(ImportError, AttributeError, TypeError):
        make = importlib.import_module("jaxlib.xla_client").make_cpu_client
        with _environment(_THREADS):
            return make(asynchronous=True).local_devices()[0]
    return jax.devices()[0]


@contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    """Variables of the environment meanwhile; afterwards it is as before."""
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
