"""What an option of a scheduler may be; anything else is one clear line."""

import math
from operator import ge, gt, le, lt
from typing import Any

from metasched.errors import ConfigError, unknown


def number(
    name: str,
    value: Any,
    *,
    above: float | None = None,
    least: float | None = None,
    most: float | None = None,
    below: float | None = None,
) -> float:
    """``value`` as a finite float within the bounds; ``above`` and ``below`` exclude the bound itself."""
    bounds = [(above, ">", gt), (least, "≥", ge), (most, "≤", le), (below, "<", lt)]
    set_ones = [(bound, sign, holds) for bound, sign, holds in bounds if bound is not None]
    fits = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if not fits or not all(holds(value, bound) for bound, _, holds in set_ones):
        said = " and ".join(f"{sign} {bound:g}" for bound, sign, _ in set_ones)
        raise ConfigError(f"{name} is {value!r}; give a number {said}")
    return float(value)


def whole(name: str, value: Any, *, least: int, most: int | None = None) -> int:
    """``value`` as an int from ``least`` to ``most``."""
    fits = isinstance(value, int) and not isinstance(value, bool)
    if not fits or value < least or (most is not None and value > most):
        said = f"≥ {least}" if most is None else f"from {least} to {most}"
        raise ConfigError(f"{name} is {value!r}; give a whole number {said}")
    return int(value)


def flag(name: str, value: Any) -> bool:
    """``value`` as a bool."""
    if not isinstance(value, bool):
        raise ConfigError(f"{name} is {value!r}; give True or False")
    return value


def choice(name: str, value: Any, known: tuple[str, ...]) -> str:
    """``value``, one of the words in ``known``."""
    if value not in known:
        raise unknown(name, str(value), known)
    return str(value)
