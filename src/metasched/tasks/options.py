"""Whether options are of the types that a function declares; anything else is one clear line."""

import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec
import numpy as np

from metasched.errors import ConfigError

EXAMPLES = {"noise": "such as noise={'NAME': 0.4}, a fraction for each task by name"}
"""For options whose shape is not plain from their type."""


def check(function: Callable[..., Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """The options as plain values; an error for one that is not of the type that ``function`` declares.

    >>> def load(*, rows: int = 3, shuffled: bool = False): ...
    >>> check(load, {"rows": 4})
    {'rows': 4}
    >>> check(load, {"shuffled": "no"})
    Traceback (most recent call last):
    metasched.errors.ConfigError: shuffled is 'no'; give True or False
    """
    declared = get_type_hints(getattr(function, "func", function))
    plain = {
        name: value.tolist() if isinstance(value, np.ndarray | np.generic) else value for name, value in options.items()
    }
    for name, value in plain.items():
        if not _fits(value, declared.get(name, Any)):
            raise ConfigError(f"{name} is {value!r}; give {EXAMPLES.get(name) or described(declared.get(name, Any))}")
    return plain


def described(kind: Any) -> str:
    """A type in words.

    >>> described(Sequence[str] | None)
    "a list of words such as ['a', 'b'], or None"
    """
    if get_origin(kind) is Literal:
        return " or ".join(map(repr, get_args(kind)))
    if get_origin(kind) in (Union, types.UnionType):
        return ", or ".join(dict.fromkeys(map(described, get_args(kind))))
    inner = get_args(kind)
    if inner and get_origin(kind) in (Sequence, tuple):
        if get_origin(kind) is tuple:
            return f"{len(inner)} of these: {described(inner[0])}"
        return {str: "a list of words such as ['a', 'b']", float: "a list of numbers such as [0, 30]"}.get(
            inner[0], "a list of lists of words such as [['a', 'b'], ['c']]"
        )
    known: dict[Any, str] = {bool: "True or False", int: "a whole number", float: "a number", type(None): "None"}
    return known.get(kind, "a word")


def _fits(value: Any, kind: Any) -> bool:
    """Whether a value is of a type; types that cannot be judged are left to the function."""
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError:
        return False
    except TypeError:
        return True
    return True
