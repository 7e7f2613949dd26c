"""The same function for many: side by side on an accelerator, one after another on a CPU."""

from collections.abc import Callable, Sequence
from typing import Any

import jax


def over_replicas(function: Callable[..., Any], axes: Sequence[int | None]) -> Callable[..., Any]:
    """``function`` for stacked replicas: the arguments whose axis is 0 are stacked, the others are for all.

    A CPU takes them one after another, which costs nothing there and rounds as a replica alone does.
    """
    if jax.default_backend() != "cpu" or len(jax.devices()) > 1:
        return jax.vmap(function, in_axes=tuple(axes))

    def one_by_one(*arguments: Any) -> Any:
        def one(mine: Sequence[Any]) -> Any:
            own = iter(mine)
            return function(
                *(given if axis is None else next(own) for given, axis in zip(arguments, axes, strict=True))
            )

        stacked = [given for given, axis in zip(arguments, axes, strict=True) if axis == 0]
        return jax.lax.map(one, stacked)

    return one_by_one
