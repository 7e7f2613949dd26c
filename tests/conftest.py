import pytest

from helpers import make_tasks
from metasched.datasets import store


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory, monkeypatch):
    """No test reads or fills the user's cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture
def needs():
    """Skip, with the reason, when a real data file is not on this machine."""

    def need(*paths):
        for path in paths:
            if store.find(path) is None:
                pytest.skip(f"needs {path}: set METASCHED_DATA to a folder that has it")

    return need


@pytest.fixture
def tasks():
    return make_tasks()
