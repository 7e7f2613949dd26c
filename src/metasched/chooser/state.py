"""What a chooser stores, and the check of everything in it before anything is taken over."""

import math
from collections.abc import Mapping
from typing import Annotated, Any, NamedTuple, TypeAlias

import msgspec
import numpy as np
from msgspec import Meta, Struct
from numpy.typing import NDArray

from metasched.chooser.draws import ABSTAINS, LARGEST, History
from metasched.chooser.sources import LARGEST_SIZE, MOST_SOURCES, Source, Sources
from metasched.errors import ConfigError
from metasched.schedulers.resolve import TARGET_ONLY
from metasched.seeds import LARGEST as LARGEST_SEED

FORMAT = 3

Count: TypeAlias = Annotated[int, Meta(ge=0, le=2**53)]


class Facts(Struct, frozen=True, forbid_unknown_fields=True):
    """What a state says besides its arrays: who chooses, among what, and which draws are open, with loss weights."""

    format: int
    scheduler: str
    options: dict[str, Any]
    batch_size: int
    abstain: bool
    temperature: float | None
    min_share: float
    prior: int | None
    cursor: str
    shuffle: bool
    version: str
    chooser: str
    seed: Annotated[int, Meta(ge=0, le=LARGEST_SEED)]
    changes: Annotated[int, Meta(ge=0, le=LARGEST_SEED)]
    sources: Annotated[
        list[tuple[Annotated[str, Meta(min_length=1)], Annotated[int, Meta(ge=1, le=LARGEST_SIZE)] | None, bool]],
        Meta(min_length=1, max_length=MOST_SOURCES),
    ]
    open: list[tuple[Count, Annotated[float, Meta(ge=0)]]]


class Stored(NamedTuple):
    """A state whose parts fit together.

    Attributes:
        facts: everything but the arrays.
        sources: as they were.
        open: the loss weight of each open draw, by id, in the order of asking.
        columns: those of a :class:`History`: asked, told, rewards, and rewards as the scheduler got them.
        scheduler: the arrays of its state, by name.
    """

    facts: Facts
    sources: Sources
    open: dict[int, float]
    columns: tuple[NDArray[Any], ...]
    scheduler: dict[str, NDArray[Any]]

    def history(self, sources: Sources) -> History:
        """All draws, under the numbers that these sources, which include the state's, have now."""
        numbers = np.array([*map(sources.names.index, self.sources.names), ABSTAINS], np.int64)
        asked, *others = self.columns
        return History(len(sources.all), numbers[asked], *others)


def checked(stored: Any, settings: Mapping[str, Any]) -> Stored:
    """The state behind a ``state_dict``; one that is damaged or has other ``settings`` is refused."""
    try:
        given, arrays = dict(stored["facts"]), {name: np.asarray(value) for name, value in stored["arrays"].items()}
    except (TypeError, KeyError, ValueError, AttributeError):
        raise ConfigError("this is not what state_dict() of a chooser returns; give facts and arrays") from None
    if type(given.get("format")) is not int or given["format"] != FORMAT:
        raise ConfigError(
            f"the state has format {given.get('format')!r}, this metasched reads {FORMAT}; start a new chooser"
        )
    try:
        facts = msgspec.convert(given, Facts)
    except (msgspec.ValidationError, RecursionError) as error:
        raise ConfigError(f"the state is damaged: {error}; take an older one") from None
    for name, value in settings.items():
        if not _equal(getattr(facts, name), value):
            raise ConfigError(f"the state has {name} {getattr(facts, name)!r}, this chooser {value!r}")
    try:
        return _parts(facts, arrays)
    except (KeyError, ValueError) as error:
        raise ConfigError(f"the state is damaged: {error}; take an older one") from None


def fitting(stored: Stored, leaves: Mapping[str, NDArray[Any]]) -> list[NDArray[Any]]:
    """The stored arrays of a scheduler whose own are ``leaves``, in their order; others are refused."""
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


def _parts(facts: Facts, arrays: Mapping[str, NDArray[Any]]) -> Stored:
    """The parts, each checked against the others; ValueError says what does not fit."""
    sources = Sources(tuple(Source(*one) for one in facts.sources), have_names=True)
    _require(len(set(sources.names)) == len(sources.names), "two sources have one name")
    columns = []
    for name, kind in (("asked", "int64"), ("told", "int64"), ("rewards", "float64"), ("heard", "float64")):
        _require(arrays[name].ndim == 1 and arrays[name].dtype == kind, f"'{name}' is no column of {kind}")
        columns.append(arrays[name].copy())
    asked, told, rewards, clipped = columns
    least = ABSTAINS if facts.abstain or facts.scheduler == TARGET_ONLY else 0
    _require(bool(((asked >= least) & (asked < len(sources.all))).all()), "a draw is of no source that it has")
    _require(len(told) == len(rewards) == len(clipped), "there are more tells than rewards, or fewer")
    _require(bool(((told >= 0) & (told < len(asked))).all()), "a reward is of no draw that it has")
    _require(all(bool((np.abs(one) <= LARGEST).all()) for one in (rewards, clipped)), "a reward is not finite")
    opened = dict(sorted(facts.open))
    _require(all(0 <= number < len(asked) for number in opened), "an open draw was never asked for")
    _require(all(math.isfinite(weight) for weight in opened.values()), "a loss weight is not finite")
    _require(len({*told.tolist(), *opened}) == len(told) + len(facts.open), "a draw was told twice")
    scheduler = {key: value for key, value in arrays.items() if key.startswith("scheduler")}
    return Stored(facts, sources, opened, tuple(columns), scheduler)


def _equal(given: Any, own: Any) -> bool:
    """Whether two settings are the same; an array in their place is none."""
    try:
        return bool(given == own)
    except ValueError:
        return False


def _require(holds: bool, said: str) -> None:
    if not holds:
        raise ValueError(said)
