"""Compiled programs on disk, that several processes write and read."""

from pathlib import Path

import jax
import pytest

from helpers import Stop
from metasched.datasets import store
from metasched.runs import compiled


@pytest.fixture
def _no_place():
    """As if nobody had said where programs are kept."""
    before = jax.config.jax_compilation_cache_dir, jax.config.jax_persistent_cache_min_compile_time_secs
    jax.config.update("jax_compilation_cache_dir", None)
    yield
    jax.config.update("jax_compilation_cache_dir", before[0])
    jax.config.update("jax_persistent_cache_min_compile_time_secs", before[1])


@pytest.mark.usefixtures("_no_place")
def test_programs_are_kept_in_the_users_cache():
    compiled.keep_compiled_programs()
    assert jax.config.jax_compilation_cache_dir == str(store.cache_folder() / "compiled")
    assert jax.config.jax_persistent_cache_min_compile_time_secs == compiled.LEAST_SECONDS


@pytest.mark.usefixtures("_no_place")
def test_a_place_of_the_users_own_stands(tmp_path):
    jax.config.update("jax_compilation_cache_dir", str(tmp_path))
    compiled.keep_compiled_programs()
    assert jax.config.jax_compilation_cache_dir == compiled.compiled_folder() == str(tmp_path)


def test_a_program_is_there_whole_or_not_at_all(tmp_path, monkeypatch):
    lru_cache = pytest.importorskip("jax._src.lru_cache")
    compiled.keep_compiled_programs()
    cache = lru_cache.LRUCache(str(tmp_path), max_size=-1)

    def stop(*_):
        raise Stop

    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", stop)
        with pytest.raises(Stop):
            cache.put("a-program", b"compiled")
    assert list(tmp_path.iterdir()) == []
    cache.put("a-program", b"compiled")
    cache.put("a-program", b"by another process, a little later")
    assert cache.get("a-program") == b"compiled"
    assert [path.suffix for path in tmp_path.iterdir()] == [""]
