"""Compiled programs on disk, so that one process can read what another has compiled."""

import importlib
import secrets
from contextlib import suppress
from functools import wraps
from pathlib import Path
from typing import Any

import jax

from metasched.datasets.store import cache_folder

LEAST_SECONDS = 0.3
"""Seconds. A program that compiles faster is not stored."""


def compiled_folder() -> str:
    """The folder of compiled programs: the one that the user has set, or the user's cache."""
    config: Any = jax.config
    return config.jax_compilation_cache_dir or str(cache_folder() / "compiled")


def keep_compiled_programs() -> None:
    """Store what XLA compiles, so that the second start is quick. A folder that the user has set is used."""
    config: Any = jax.config
    _write_whole_files()
    if config.jax_compilation_cache_dir is None:
        config.update("jax_compilation_cache_dir", compiled_folder())
        config.update("jax_persistent_cache_min_compile_time_secs", LEAST_SECONDS)


def _write_whole_files() -> None:
    """Make JAX write its files under another name and rename them.

    JAX writes directly under the final name, and only once. So another process may read half a file, and a kill leaves
    half a file for ever, with a warning in every later process. If a version of JAX stores files in another way,
    nothing is changed.
    """
    with suppress(ImportError, AttributeError):
        module = importlib.import_module("jax._src.lru_cache")
        put, suffix = module.LRUCache.put, module._CACHE_SUFFIX

        @wraps(put)
        def put_whole(self: Any, key: str, value: bytes) -> None:
            if self.eviction_enabled or not isinstance(self.path, Path):  # under a lock, or not on this machine
                put(self, key, value)
                return
            target = self.path / f"{key}{suffix}"
            if not target.exists():
                partial = target.with_name(f"{secrets.token_hex(8)}.part")
                try:
                    partial.write_bytes(value)
                    partial.replace(target)
                finally:
                    partial.unlink(missing_ok=True)

        if not hasattr(put, "__wrapped__"):  # not twice
            module.LRUCache.put = put_whole
