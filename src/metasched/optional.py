"""Optional packages, and the versions of installed packages."""

from functools import cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Any

from metasched.errors import ConfigError


def require(module: str, extra: str = "") -> Any:
    """Import ``module``, or say how to install it: with an extra of metasched, or by its own name."""
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
    """The installed version of a package, from its metadata. It is cached, because reading it takes a millisecond."""
    try:
        return version(package)
    except PackageNotFoundError:  # a source tree that is on the path but not installed
        return "not installed"
