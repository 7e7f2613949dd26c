"""Linear algebra with one thread: sums that several threads share are rounded differently from those of one.

It is also faster for matrices as small as ours, by far where other programs keep the cores busy.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module


@contextmanager
def one_thread() -> Iterator[None]:
    """Inside, BLAS and OpenMP use one thread. It needs threadpoolctl, which comes with scikit-learn."""
    try:
        limits = import_module("threadpoolctl").threadpool_limits
    except ImportError:
        yield
        return
    with limits(1):
        yield
