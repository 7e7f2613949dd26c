"""Compiled programs on disk: what one process has compiled, the next one reads."""

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
    if config.jax_compilation_cache_dir is None:
        config.update("jax_compilation_cache_dir", compiled_folder())
        config.update("jax_persistent_cache_min_compile_time_secs", LEAST_SECONDS)
