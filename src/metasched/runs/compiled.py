"""Compiled programs on disk: what one process has compiled, the next one reads."""

import importlib
import secrets
from contextlib import suppress
from functools import wraps
from pathlib import Path
from typing import Any

import jax

from metasched.datasets.store import cache_folder

LEAST_SECONDS = 0.3
"""A program that compiles faster is not worth a file."""


def compiled_folder() -> str:
    """Where XLA's programs are kept: the place that the user has set, or else the user's cache."""
    config: Any = jax.config
    return config.jax_compilation_cache_dir or str(cache_folder() / "compiled")


def keep_compiled_programs() -> None:
    """Store what XLA compiles, so that the second start is quick; a user's own place stands."""
    config: Any = jax.config
    _write_whole_files()
    if config.jax_compilation_cache_dir is None:
        config.update("jax_compilation_cache_dir", compiled_folder())
        config.update("jax_persistent_cache_min_compile_time_secs", LEAST_SECONDS)


def _write_whole_files() -> None:
    """Have JAX rename what it stores into place.

    It writes under the final name, and never again: another process may read half a file, and half a file is what a
    kill leaves for good, with a warning in every process from then on. A JAX that stores otherwise is left alone.
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
