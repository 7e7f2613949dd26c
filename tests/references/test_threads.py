"""Linear algebra with one thread."""

import sys

import pytest

from metasched.references.threads import one_thread


def test_inside_there_is_one_thread_and_outside_as_many_as_before():
    pools = pytest.importorskip("threadpoolctl")

    def count():
        return {pool["num_threads"] for pool in pools.threadpool_info()}

    with pools.threadpool_limits(2):
        before = count()
        with one_thread():
            assert count() == {1}
        assert count() == before != {1}


def test_without_threadpoolctl_nothing_is_changed(monkeypatch):
    monkeypatch.setitem(sys.modules, "threadpoolctl", None)
    with one_thread():
        pass
