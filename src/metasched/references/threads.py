"""Linear algebra with one thread, because sums that are shared by several threads are rounded differently.

It is also faster for matrices as small as ours, and much faster if other programs keep the cores busy.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module


@contextmanager
def one_thread() -> Iterator[None]:
    """Make BLAS and OpenMP use one thread. This needs threadpoolctl, which comes with scikit-learn."""
    try:
        limits = import_module("threadpoolctl").threadpool_limits
    except ImportError:
        yield
        return
    with limits(1):
        yield
