import os

from campaign.compiling import QUICK

# Most of the suite's time is compiling; tests need right programs, not fast ones. Read when JAX starts.
os.environ.setdefault("XLA_FLAGS", QUICK)
# As many tests run at once as there are cores, each with one thread.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import hypothesis
import jax
import pytest

from helpers import make_tasks
from metasched.datasets import store

hypothesis.settings.register_profile("house", deadline=None)  # a first call compiles or imports
hypothesis.settings.load_profile("house")


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory, monkeypatch):
    """No test reads or fills the user's cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture(scope="session", autouse=True)
def _compiled_once(tmp_path_factory):
    """Tests compile the same programs over and over; within one session each is compiled once."""
    jax.config.update("jax_compilation_cache_dir", str(tmp_path_factory.mktemp("compiled")))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)


@pytest.fixture
def needs():
    """Skip, with the reason, when a real data file is not on this machine."""

    def need(*paths):
        for path in paths:
            if store.find(path) is None:
                pytest.skip(f"needs {path}: set METASCHED_DATA to a folder that has it")

    return need


@pytest.fixture
def _float64():
    with jax.enable_x64(True):
        yield


@pytest.fixture
def tasks():
    return make_tasks()
