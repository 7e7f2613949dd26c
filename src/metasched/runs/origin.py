"""Where and how numbers were made: what every run folder and result file says of itself."""

import platform
from datetime import UTC, datetime

import jax

from metasched.optional import version_of
from metasched.runs.outcome import Origin


def origin(command: str) -> Origin:
    """The moment, the command and the device."""
    return Origin(created=datetime.now(UTC).isoformat(timespec="seconds"), command=command, device=device())


def versions() -> dict[str, str]:
    """Of what computes."""
    packages = ("metasched", "jax", "numpy", "optax")
    return {"python": platform.python_version(), **{package: version_of(package) for package in packages}}


def device() -> str:
    """The first device, in words."""
    first = jax.devices()[0]
    return f"{first.platform}: {first.device_kind}"
