"""Packages: those that only some users need, and which version is installed."""

from functools import cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Any

from metasched.errors import ConfigError


def require(module: str, extra: str = "") -> Any:
    """Import ``module``, or say how to install it: with an extra of metasched, or by itself."""
    try:
        return import_module(module)
    except ImportError as error:
        package = f"'metasched[{extra}]'" if extra else error.name
        raise ConfigError(f"this needs {error.name}; install it with: pip install {package}") from None


def available(module: str) -> bool:
    """Whether ``module`` is installed."""
    return find_spec(module) is not None


@cache
def version_of(package: str) -> str:
    """The installed version of a package, as its metadata say; read once, for it takes a millisecond."""
    try:
        return version(package)
    except PackageNotFoundError:  # run from a source tree that is on the path but not installed
        return "not installed"
