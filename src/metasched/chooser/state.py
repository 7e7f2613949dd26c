"""What a chooser stores, and the check of everything in it before anything is taken over."""

import math
from collections.abc import Mapping
from importlib import metadata
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from metasched.chooser.draw import ABSTAINS
from metasched.chooser.sources import Source, Sources
from metasched.errors import ConfigError

FORMAT = 3


class Stored(NamedTuple):
    """A state that holds together.

    Attributes:
        chooser: whose draws the open ones are.
        seed: of chance and of shuffled orders.
        changes: how often the sources have changed.
        sources: as they were.
        open: the loss weight of each open draw, by id.
        asked: int64 (draws,), the source of draw 0, 1, …, or ``ABSTAINS``.
        told: int64 (tells,), ids in the order of telling.
        rewards: float64 (tells,), as they were told.
        heard: float64 (tells,), as the scheduler heard them.
        scheduler: the arrays of its state, by name.
    """

    chooser: str
    seed: int
    changes: int
    sources: Sources
    open: dict[int, float]
    asked: NDArray[np.int64]
    told: NDArray[np.int64]
    rewards: NDArray[np.float64]
    heard: NDArray[np.float64]
    scheduler: dict[str, NDArray[Any]]

    def renumbered(self, sources: Sources) -> NDArray[np.int64]:
        """``asked`` with the numbers that these sources, which have them all, give."""
        numbers = np.array([*map(sources.names.index, self.sources.names), ABSTAINS], np.int64)
        asked: NDArray[np.int64] = numbers[self.asked]
        return asked


def checked(stored: Any, settings: Mapping[str, Any]) -> Stored:
    """The state behind a ``state_dict``; one that is damaged or has other ``settings`` is refused."""
    try:
        facts, arrays = dict(stored["facts"]), {name: np.asarray(value) for name, value in stored["arrays"].items()}
    except (TypeError, KeyError, ValueError, AttributeError):
        raise ConfigError("this is not what state_dict() of a chooser returns; give facts and arrays") from None
    if facts.get("format") != FORMAT:
        raise ConfigError(
            f"the state has format {facts.get('format')}, this metasched reads {FORMAT}; start a new chooser"
        )
    for name, value in settings.items():
        if facts.get(name) != value:
            raise ConfigError(f"the state has {name} {facts.get(name)!r}, this chooser {value!r}")
    try:
        return _parts(facts, arrays)
    except (TypeError, KeyError, ValueError, AttributeError, OverflowError) as error:
        raise ConfigError(f"the state is damaged: {error}; take an older one") from None


def fitting(stored: Stored, leaves: Mapping[str, NDArray[Any]]) -> list[NDArray[Any]]:
    """The arrays for a scheduler whose own are ``leaves``, in their order."""
    if missing := sorted(set(leaves) ^ set(stored.scheduler)):
        raise ConfigError(f"the state is another scheduler's: only one of the two has '{missing[0]}'")
    for name, like in leaves.items():
        given = stored.scheduler[name]
        if given.shape != like.shape or given.dtype != like.dtype:
            raise ConfigError(
                f"the state has '{name}' of {given.dtype} {given.shape}, this scheduler of {like.dtype} {like.shape}"
            )
        if given.dtype.kind == "f" and np.isnan(given).any():
            raise ConfigError(f"the state is damaged: '{name}' has NaN; take an older one")
    return [stored.scheduler[name].copy() for name in leaves]


def _parts(facts: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Stored:
    """The parts, each held against the others; ValueError says what does not fit."""
    sources = Sources(tuple(_source(*one) for one in facts["sources"]), have_names=True)
    _require(len(set(sources.names)) == len(sources.names) > 0, "two sources have one name, or there are none")
    seed, changes, name = facts["seed"], facts["changes"], facts["chooser"]
    _require(isinstance(name, str), "it does not say whose draws are open")
    _require(type(seed) is int and 0 <= seed < 2**32 and type(changes) is int and changes >= 0, "its seed is none")
    asked, told = (_column(arrays, column, np.int64) for column in ("asked", "told"))
    rewards, heard = (_column(arrays, column, np.float64) for column in ("rewards", "heard"))
    _require(bool(((asked >= ABSTAINS) & (asked < len(sources.all))).all()), "a draw is of no source that it has")
    _require(len(told) == len(rewards) == len(heard), "there are more tells than rewards, or fewer")
    _require(bool(((told >= 0) & (told < len(asked))).all()), "a reward is of no draw that it has")
    _require(bool(np.isfinite(rewards).all() and np.isfinite(heard).all()), "a reward is not finite")
    waiting = {_whole(number): float(weight) for number, weight in facts["open"]}
    _require(all(0 <= number < len(asked) for number in waiting), "an open draw was never asked for")
    _require(all(math.isfinite(weight) and weight >= 0 for weight in waiting.values()), "a loss weight is none")
    answered = [*told.tolist(), *waiting]
    _require(len(set(answered)) == len(told) + len(facts["open"]), "a draw was told twice")
    scheduler = {key: value for key, value in arrays.items() if key.startswith("scheduler")}
    return Stored(name, seed, changes, sources, dict(sorted(waiting.items())), asked, told, rewards, heard, scheduler)


def _source(name: Any, size: Any, removed: Any) -> Source:
    fits = isinstance(name, str) and isinstance(removed, bool) and (size is None or (type(size) is int and size > 0))
    _require(fits, f"{name!r} with {size!r} rows is no source")
    return Source(name, size, removed)


def _column(arrays: Mapping[str, NDArray[Any]], name: str, dtype: Any) -> NDArray[Any]:
    column = arrays[name]
    _require(column.ndim == 1 and column.dtype == dtype, f"'{name}' is no column of {np.dtype(dtype)}")
    return column.copy()


def _whole(value: Any) -> int:
    _require(type(value) is int, f"{value!r} is no draw")
    return int(value)


def _require(holds: bool, said: str) -> None:
    if not holds:
        raise ValueError(said)


def version() -> str:
    """That of this package, as its metadata say."""
    try:
        return metadata.version("metasched")
    except metadata.PackageNotFoundError:  # run from a source tree that is on the path but not installed
        return "not installed"
