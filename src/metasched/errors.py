"""What goes wrong, said to a person: one line that names the place, the fault and the fix.

The command line prints the message of a :class:`MetaschedError` and exits with code 2; anything else that
escapes is a bug of ours and keeps its traceback.
"""

from collections.abc import Iterable
from difflib import get_close_matches

_MOST_NAMES = 20


class MetaschedError(Exception):
    """Base of every error that a user can cause and mend; its one line names the place, the fault and the fix.

    Examples:
        >>> try:
        ...     ms.datasets.load("digit")
        ... except ms.MetaschedError as error:
        ...     print(str(error)[:52])
        unknown data set 'digit'; did you mean 'digits'? Kno
    """


class DataError(MetaschedError, ValueError):
    """Data that would train garbage, or a file that does not hold what it should."""


class ConfigError(MetaschedError, ValueError):
    """An option, name or setting that does not exist or does not fit."""


class StoreError(MetaschedError):
    """A data file that is missing, damaged, or could not be downloaded."""


class RunError(MetaschedError):
    """A run folder that cannot be created, read or continued."""


def unknown(kind: str, name: object, known: Iterable[str]) -> ConfigError:
    """The error for a misspelt name, with the nearest known one first.

    >>> str(unknown("data set", "digit", ["cifar", "digits"]))
    "unknown data set 'digit'; did you mean 'digits'? Known: cifar, digits"
    """
    names = sorted(known)
    near = get_close_matches(str(name), names, n=1, cutoff=0.5)
    hint = f"did you mean '{near[0]}'? " if near else ""
    listed = ", ".join(names[:_MOST_NAMES]) + (", …" if len(names) > _MOST_NAMES else "")
    return ConfigError(f"unknown {kind} '{name}'; {hint}Known: {listed or 'none'}")
