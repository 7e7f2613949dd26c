"""Schedulers by name. A new one is one file and one line in ``_REGISTRY``."""

from collections.abc import Callable, Mapping
from inspect import signature
from typing import Any

from metasched.errors import ConfigError, unknown
from metasched.schedulers.base import Scheduler, State
from metasched.schedulers.cyclic import cyclic
from metasched.schedulers.sequential import sequential
from metasched.schedulers.uniform import uniform

__all__ = ["Scheduler", "State", "cyclic", "make", "names", "sequential", "uniform"]

_REGISTRY: Mapping[str, Callable[..., Scheduler]] = {
    "cyclic": cyclic,
    "sequential": sequential,
    "uniform": uniform,
}


def names() -> tuple[str, ...]:
    """The schedulers that :func:`make` knows."""
    return tuple(_REGISTRY)


def make(name: str, *, num_tasks: int, context: Mapping[str, Any] | None = None, **options: Any) -> Scheduler:
    """Build the scheduler called ``name`` for ``num_tasks`` tasks.

    ``options`` are the user's and must exist. ``context`` is what the caller knows of the tasks (``passes``: batches
    in one pass through each); a scheduler takes from it what its signature names.
    """
    if name not in _REGISTRY:
        raise unknown("scheduler", name, _REGISTRY)
    factory = _REGISTRY[name]
    accepted = [key for key in signature(factory).parameters if key != "num_tasks"]
    for key in options:
        if key not in accepted:
            raise unknown(f"option of scheduler '{name}'", key, accepted)
    if num_tasks < 1:
        raise ConfigError(f"num_tasks is {num_tasks}; a scheduler needs at least one task")
    offered = {key: value for key, value in (context or {}).items() if key in accepted}
    return factory(num_tasks, **{**offered, **options})
