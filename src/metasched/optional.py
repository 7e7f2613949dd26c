"""Modules that only some users need."""

from importlib import import_module
from typing import Any

from metasched.errors import ConfigError


def require(module: str, extra: str) -> Any:
    """Import ``module``, or say which extra of metasched brings it."""
    try:
        return import_module(module)
    except ImportError as error:
        raise ConfigError(f"this needs {error.name}; install it with: pip install 'metasched[{extra}]'") from None
