"""What goes wrong, said to a person: one line that names the place, the fault and the fix.

The command line prints the message of a :class:`MetaschedError` and exits with code 2; anything else that
escapes is a bug of ours and keeps its traceback.
"""

import shlex
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any

FLAGS = ("label", "missing", "source", "target", "target_labels")
"""Options of a data set that have a flag of their own on the command line; the others are given by ``--data``."""
_MOST_NAMES = 20


class MetaschedError(Exception):
    """Base of every error that a user can cause and mend; its one line names the place, the fault and the fix.

    Examples:
        >>> try:
        ...     ms.datasets.load("digit")
        ... except ms.MetaschedError as error:
        ...     print(str(error)[:61])
        no data set, file or folder 'digit'; did you mean 'digits'? D
    """


class DataError(MetaschedError, ValueError):
    """Data that would train garbage, or a file that does not hold what it should."""


class ConfigError(MetaschedError, ValueError):
    """An option, name or setting that does not exist or does not fit."""


class StoreError(MetaschedError):
    """A data file that is missing, damaged, or could not be downloaded."""


class RunError(MetaschedError):
    """A run folder that cannot be created, read or continued."""


def unknown(kind: str, name: object, known: Iterable[str], of: str = "") -> ConfigError:
    """The error for a misspelt name, with the nearest known one first; ``of`` is whose it was to be.

    >>> str(unknown("option", "uper", ["upper", "decay"], of="scheduler 'ucb'"))
    "unknown option 'uper' of scheduler 'ucb'; did you mean 'upper'? Known: decay, upper"
    """
    names = sorted(set(known))
    listed = ", ".join(names[:_MOST_NAMES]) + (", …" if len(names) > _MOST_NAMES else "")
    whose = f" of {of}" if of else ""
    return ConfigError(f"unknown {kind} '{name}'{whose}; {meant(name, names)}Known: {listed or 'none'}")


def meant(name: object, known: Iterable[str]) -> str:
    """The question whether the nearest known name was meant, with a blank after it; nothing where none is near."""
    near = nearest(str(name), known)
    return f"did you mean '{near}'? " if near is not None else ""


def nearest(name: str, known: Iterable[str], alike: float = 0.5) -> str | None:
    """The known name that is spelt most like this one, whatever the case; None where none is so much alike, of 1.

    >>> nearest("GOOD", ["fair", "good"])
    'good'
    """
    names = list(known)
    folded = {each.casefold(): each for each in reversed(names)}
    for text, spelt in ((name, {each: each for each in names}), (name.casefold(), folded)):
        for near in get_close_matches(text, spelt, n=1, cutoff=alike):
            return spelt[near]
    return None


def given(option: str, value: Any = None) -> str:
    """How an option of a data set is given on the command line, and in Python where that differs by more than a flag.

    Without a value that is left open.

    >>> given("label"), given("drop", ["rain", "sun"]), given("regression", True)
    ('--label … (label=…)', "--data drop=rain,sun (drop=['rain', 'sun'])", '--data regression=True')
    """
    text = "…" if value is None else repr(value)
    if option in FLAGS:
        return f"--{option.replace('_', '-')} {'…' if value is None else shlex.quote(str(value))} ({option}={text})"
    word = _word(value)
    return f"--data {option}={word}" + ("" if word == text else f" ({option}={text})")


def _word(value: Any) -> str:
    """A value as a word of a shell; names and numbers in a list are separated by commas."""
    if value is None:
        return "…"
    text, literal = str(value), repr(value)
    plain = text.isprintable()
    if isinstance(value, list | tuple):
        text, plain = ",".join(map(str, value)), all(str(each).isidentifier() or type(each) is int for each in value)
    if plain:
        return shlex.quote(text)
    return shlex.quote(literal) if set(literal) & set('"$`!') else f'"{literal}"'
