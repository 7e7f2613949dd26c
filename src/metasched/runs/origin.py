"""Where and how numbers were made: what every run folder and result file says of itself."""

import platform
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import jax


def origin(command: str) -> dict[str, Any]:
    """The moment, the command, the versions of what computes, and the device."""
    return {
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": command,
        "versions": {
            "python": platform.python_version(),
            **{package: _version(package) for package in ("metasched", "jax", "numpy", "optax")},
        },
        "device": device(),
    }


def device() -> str:
    """The first device, in words."""
    first = jax.devices()[0]
    return f"{first.platform}: {first.device_kind}"


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:  # run from a source tree that is on the path but not installed
        return "not installed"
