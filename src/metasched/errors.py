"""What goes wrong, told to the user in one line: the place, the problem and the fix.

The command line prints the message of a :class:`MetaschedError` and exits with code 2; any other exception is a bug in
metasched and keeps its traceback.
"""

import math
import shlex
from collections.abc import Collection, Iterable, Sequence
from difflib import get_close_matches
from numbers import Integral, Real
from operator import ge, gt, le, lt
from typing import Any

FLAGS = ("drop", "keep", "label", "missing", "regression", "source", "target", "target_labels")
"""Options of a data set that have their own flag on the command line. The others are given with ``--data``."""
_MOST_NAMES = 20


class MetaschedError(Exception):
    """The base class of all errors that you can fix. Its one line says where the problem is, what is wrong and how to
    fix it.

    Examples:
        >>> try:
        ...     ms.datasets.load("digit")
        ... except ms.MetaschedError as error:
        ...     print(str(error)[:61])
        no data set, file or folder 'digit'; did you mean 'digits'? D
    """


class DataError(MetaschedError, ValueError):
    """Data from which nothing useful could be learned, or a file with the wrong content."""


class ConfigError(MetaschedError, ValueError):
    """An option, name or setting that does not exist or does not fit."""


class StoreError(MetaschedError):
    """A data file that is missing, damaged, or could not be downloaded."""


class RunError(MetaschedError):
    """A run folder that cannot be created, read or continued."""


def unknown(kind: str, name: object, known: Iterable[str], of: str = "") -> ConfigError:
    """Make the error for an unknown name. It suggests the nearest known name; ``of`` says what the name belongs to.

    >>> str(unknown("option", "uper", ["upper", "decay"], of="scheduler 'ucb'"))
    "unknown option 'uper' of scheduler 'ucb'; did you mean 'upper'? Known: decay, upper"
    >>> str(unknown("option", "x", ["upper", "decay"]))
    "unknown option 'x'; known: decay, upper"
    """
    names = sorted(set(known))
    listed = few(names)
    whose = f" of {of}" if of else ""
    question = meant(name, names)
    return ConfigError(
        f"unknown {kind} '{name}'{whose}; {question}{'Known' if question else 'known'}: {listed or 'none'}"
    )


def few(names: Sequence[str], most: int = _MOST_NAMES) -> str:
    """The first of these names, with commas."""
    return ", ".join(names[:most]) + (", …" if len(names) > most else "")


def meant(name: object, known: Iterable[str]) -> str:
    """Ask whether the nearest known name was meant, ending with a space. Empty if no known name is near."""
    near = nearest(str(name), known)
    return f"did you mean '{near}'? " if near is not None else ""


def nearest(name: str, known: Iterable[str], alike: float = 0.5) -> str | None:
    """Find the known name with the most similar spelling, ignoring case. None if none is similar enough, from 0 to 1.

    >>> nearest("GOOD", ["fair", "good"])
    'good'
    """
    names = list(known)
    folded = {each.casefold(): each for each in reversed(names)}
    for text, spelt in ((name, {each: each for each in names}), (name.casefold(), folded)):
        for near in get_close_matches(text, spelt, n=1, cutoff=alike):
            return spelt[near]
    return None


def whole_number(name: str, value: Any, least: int, most: int | None = None) -> int:
    """Check that ``value`` is a whole number from ``least`` to ``most``. True and False are not numbers.

    >>> whole_number("seeds", 0, 1)
    Traceback (most recent call last):
    metasched.errors.ConfigError: seeds is 0; give a whole number ≥ 1
    """
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    if not whole or value < least or (most is not None and value > most):
        said = f"≥ {least}" if most is None else f"from {least} to {most}"
        raise ConfigError(f"{name} is {_shown(value)}; give a whole number {said}")
    return int(value)


def number(
    name: str,
    value: Any,
    *,
    above: float | None = None,
    least: float | None = None,
    most: float | None = None,
    below: float | None = None,
) -> float:
    """Check that ``value`` is a finite number within the bounds. ``above`` and ``below`` exclude the bound itself.

    >>> number("discount", 1.5, least=0, below=1)
    Traceback (most recent call last):
    metasched.errors.ConfigError: discount is 1.5; give a number ≥ 0 and < 1
    """
    bounds = [(above, ">", gt), (least, "≥", ge), (most, "≤", le), (below, "<", lt)]
    real = isinstance(value, Real) and not isinstance(value, bool)
    try:
        fits = real and math.isfinite(value)
    except OverflowError:  # an int too large for a float
        fits = False
    if not fits or not all(bound is None or holds(value, bound) for bound, _, holds in bounds):
        said = " and ".join(f"{sign} {bound:g}" for bound, sign, _ in bounds if bound is not None)
        raise ConfigError(f"{name} is {_shown(value)}; give a number {said}".rstrip())
    return float(value)


def flag(name: str, value: Any) -> bool:
    """Check that ``value`` is True or False."""
    if not isinstance(value, bool):
        raise ConfigError(f"{name} is {value!r}; give True or False")
    return value


def such_rows(count: int) -> str:
    """How many rows have a fault.

    >>> such_rows(1), such_rows(1200)
    ('1 such row', '1,200 such rows')
    """
    return f"{count:,} such row{'s' * (count != 1)}"


def one_of(name: str, value: Any, known: Collection[str]) -> str:
    """Check that ``value`` is one of the words in ``known``."""
    if not isinstance(value, str) or value not in known:
        raise unknown(name, value, known)
    return value


def _shown(value: Any) -> str:
    """Show a rejected value in a message: NumPy numbers like Python numbers, everything else by its ``repr``."""
    return repr(value.item() if isinstance(value, Integral | Real) and hasattr(value, "item") else value)


def given(option: str, value: Any = None) -> str:
    """How to give an option of a data set on the command line, and in Python if that differs by more than the flag.

    Without a value, the text has … in its place.

    >>> given("label"), given("drop", ["rain", "sun"]), given("regression", True)
    ('--label … (label=…)', "--drop rain,sun (drop=['rain', 'sun'])", '--regression (regression=True)')
    """
    text = "…" if value is None else repr(value)
    listed = isinstance(value, list | tuple)
    if option in FLAGS and not (listed and any("," in str(each) for each in value)):
        name = option.replace("_", "-")
        if isinstance(value, bool):
            return f"--{name if value else f'no-{name}'} ({option}={text})"
        word = ",".join(map(str, value)) if listed else str(value)
        return f"--{name} {'…' if value is None else shlex.quote(word)} ({option}={text})"
    word = _word(value)
    return f"--data {option}={word}" + ("" if word == text else f" ({option}={text})")


def _word(value: Any) -> str:
    """Write a value as a word of a shell, with commas between the names or numbers of a list."""
    if value is None:
        return "…"
    text, literal = str(value), repr(value)
    plain = text.isprintable()
    if isinstance(value, list | tuple):
        text, plain = ",".join(map(str, value)), all(str(each).isidentifier() or type(each) is int for each in value)
    if plain:
        return shlex.quote(text)
    return shlex.quote(literal) if set(literal) & set('"$`!') else f'"{literal}"'
