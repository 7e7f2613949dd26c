"""Names that have changed since version 0.1: settings, flags and arguments. For an old name, the error gives the new
one.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from functools import wraps
from inspect import signature
from typing import Any, TypeVar, cast

from metasched.errors import ConfigError, unknown

SETTINGS = {
    "meta_updates": "updates",
    "outer_decay": "rate_decay",
    "outer_clip": "clip_norm",
    "validation_batch": "target_batch",
}
"""Settings by their old names. With the joint learner, ``outer_rate`` also became ``learning_rate``."""
REMOVED = {
    "row_weights": False,
    "initial_share": 0.0,
    "adapt_on_target": 0,
    "inner_rates": "scalar",
    "inner_layers": "all",
}
"""Settings that no longer exist, and the values with which they had no effect."""
ARGUMENTS = {
    "config": "learner=ms.Joint(…) or learner=ms.AlgorithmOne(…)",
    "scheduler_options": "options",
    "reward": "an argument of ms.train",
    "abstain": "an argument of ms.train",
}
"""What has become of arguments of ``train`` and similar functions, and of settings that are arguments now."""
Function = TypeVar("Function", bound=Callable[..., Any])


def check_names(function: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Refuse an unknown name of an argument in one line with the name to use instead."""
    from metasched.learners.settings import LEARNERS  # the function that calls this one

    known = list(known)
    new = {**ARGUMENTS, **SETTINGS}
    settings = {kind.__name__: [field.name for field in fields(kind)] for kind in LEARNERS.values()}
    for name in given:
        if name in known:
            continue
        now = SETTINGS.get(name, name)
        owner = next((kind for kind in ("Joint", "AlgorithmOne") if now in settings[kind]), None)
        if name in REMOVED:
            raise ConfigError(f"{function}: {name} no longer exists; leave it out")
        if name == "outer_rate" and "learning_rate" in known:
            raise ConfigError(f"{function}: outer_rate is now learning_rate")
        if owner is not None and function not in settings:
            raise ConfigError(f"{function}: {name} is a setting: learner=ms.{owner}({now}=…)")
        if owner is not None and name == now:
            raise ConfigError(f"{function}: {name} is a setting of ms.{owner}; leave it out")
        if name in new:
            raise ConfigError(f"{function}: {name} is now {new[name]}")
        raise unknown("argument", name, known, of=function)


def clear_arguments(function: Function) -> Function:
    """Make a function answer wrong arguments with one line, which gives the new name of an old argument."""
    parameters: Mapping[str, Any] = signature(function).parameters

    @wraps(function)
    def checked(*given: Any, **named: Any) -> Any:
        check_names(function.__name__, named, parameters)
        try:
            signature(function).bind(*given, **named)
        except TypeError as error:
            raise ConfigError(
                f"{function.__name__}: {error}; after tasks and the scheduler or methods, give arguments by name"
            ) from None
        return function(*given, **named)

    return cast(Function, checked)
