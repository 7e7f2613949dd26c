import ctypes
import os
from contextlib import suppress
from pathlib import Path

from campaign.compiling import SETTINGS

# Most of the suite's time is compiling; tests need right programs, not fast ones. Read when JAX starts.
os.environ.update({**SETTINGS, **os.environ})
# What one process has compiled, all others read: those of the next session and those that tests start, too.
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(Path(__file__).parent.parent / ".cache" / "compiled"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")

import hypothesis
import jax
import pytest

from helpers import make_tasks
from metasched.datasets import store
from metasched.runs.compiled import keep_compiled_programs

hypothesis.settings.register_profile("house", deadline=None)  # a first call compiles or imports
hypothesis.settings.load_profile("house")
keep_compiled_programs()

MOST_MEMORY = 2_500_000_000
"""Bytes of a test process beyond which it forgets what it has compiled, once a file of tests is done."""


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory, monkeypatch):
    """No test reads or fills the user's cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture(autouse=True, scope="module")
def _bounded_memory():
    """Compiled programs add up to gigabytes in a process that runs thousands of tests, so drop them in time."""
    yield
    statm = Path("/proc/self/statm")
    if statm.exists() and int(statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") > MOST_MEMORY:
        jax.clear_caches()
        with suppress(AttributeError, OSError):  # glibc keeps what was freed until it is told to hand it back
            ctypes.CDLL(None).malloc_trim(0)


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
