"""What a chooser stores, and the checks of a stored state before it is used."""

from collections.abc import Mapping
from typing import Annotated, Any, NamedTuple, TypeAlias

import msgspec
import numpy as np
from msgspec import Meta, Struct
from numpy.typing import NDArray

from metasched.chooser.draws import ABSTAINS, LARGEST, MISSING
from metasched.chooser.history import History, Record, kind_of
from metasched.chooser.setup import BATCHINGS, MIXED, PER_SOURCE, Setup
from metasched.chooser.sources import LARGEST_SIZE, MOST_SOURCES, Source, Sources
from metasched.chooser.stages import Stages
from metasched.errors import ConfigError
from metasched.schedulers.resolve import TARGET_ONLY
from metasched.seeds import LARGEST as LARGEST_SEED
from metasched.tasks.cursors import positions_after

FORMAT = 4
_BEFORE = 3
"""The format before mixed batches, which is still read."""

Count: TypeAlias = Annotated[int, Meta(ge=0, le=2**53)]


class Facts(Struct, frozen=True, forbid_unknown_fields=True):
    """What a state has besides its arrays: the scheduler, the sources, and which draws are open.

    ``first`` is the id of the first draw whose choices are stored one by one, and ``told`` is the number of draws with
    a reward. ``weights`` are stored if they were set in the middle of the run.
    """

    format: int
    scheduler: str
    options: dict[str, Any]
    batch_size: Annotated[int, Meta(ge=1)]
    batching: str
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
    first: Count
    told: Count
    open: list[Count]
    weights: list[tuple[Count, dict[str, Annotated[float, Meta(ge=0)]]]] | None = None
    ramp: bool = False


class Waiting(NamedTuple):
    """Open draws: where the cursors were (draws, sources), sources (draws, W) and loss weights (draws, W)."""

    positions: NDArray[np.int64]
    tasks: NDArray[np.int64]
    weights: NDArray[np.float64]


class Stored(NamedTuple):
    """A state whose parts fit together.

    Attributes:
        facts: everything but the arrays.
        sources: the sources when the state was stored.
        record: the history.
        waiting: the draws ``facts.open``.
        scheduler: the arrays of its state, by name.
        weights: the weights that were set in the middle of the run.
    """

    facts: Facts
    sources: Sources
    record: Record
    waiting: Waiting
    scheduler: dict[str, NDArray[Any]]
    weights: Stages | None

    @property
    def moves(self) -> bool:
        """Whether fixed proportions are a part of the scheduler's state."""
        return any(name in self.scheduler for name in ("scheduler.proportions", "scheduler.inner.proportions"))

    def numbered(self, sources: Sources) -> tuple[History, Waiting]:
        """The draws with the present numbers of these sources, which include those of the state."""
        numbers = np.array([*map(sources.names.index, self.sources.names), MISSING, ABSTAINS])
        places = np.append(numbers[:-2], len(sources.all))

        def moved(values: NDArray[Any]) -> NDArray[Any]:
            wide = np.zeros(len(sources.all) + 1, values.dtype)
            wide[places] = values
            return wide

        record = self.record._replace(
            asked=numbers[self.record.asked].astype(np.int32),
            drawn=moved(self.record.drawn),
            tells=moved(self.record.tells),
            totals=moved(self.record.totals),
        )
        positions = np.zeros((len(self.waiting.positions), len(sources.all)), np.int64)
        positions[:, numbers[:-2]] = self.waiting.positions
        waiting = self.waiting._replace(positions=positions, tasks=numbers[self.waiting.tasks])
        return History(record, self.facts.first, self.facts.told), waiting


def weights_of(setup: Setup) -> dict[str, Any]:
    """The weights as a state stores them, if they were set in the middle of a run."""
    if setup.weights is None or not setup.given:
        return {}
    begins, weights, ramp = setup.weights
    return {"weights": [[begin, dict(each)] for begin, each in zip(begins, weights, strict=True)], "ramp": ramp}


def arrays_of(history: History, waiting: Waiting) -> dict[str, NDArray[Any]]:
    """The arrays of a state, except for those of the scheduler."""
    opened = {f"open.{name}": values for name, values in waiting._asdict().items()}
    stored = {**history.record()._asdict(), **opened}
    if np.isnan(stored["losses"]).all():  # the usual case
        del stored["losses"]
    return stored


def checked(stored: Any, settings: Mapping[str, Any]) -> Stored:
    """Check a ``state_dict``. One that is damaged or has other ``settings`` is refused."""
    try:
        given, arrays = dict(stored["facts"]), {name: np.asarray(value) for name, value in stored["arrays"].items()}
    except (TypeError, KeyError, ValueError, AttributeError):
        raise ConfigError("this is not a state from state_dict() of a chooser; give facts and arrays") from None
    if type(given.get("format")) is not int or given["format"] not in (_BEFORE, FORMAT):
        raise ConfigError(
            f"the state has format {given.get('format')!r}, but this version reads {_BEFORE} and {FORMAT}; "
            "start a new chooser"
        )
    try:
        if given["format"] == _BEFORE:
            given, arrays = _upgraded(given, arrays)
        facts = msgspec.convert(given, Facts)
    except (msgspec.ValidationError, RecursionError, KeyError, ValueError, TypeError) as error:
        raise ConfigError(f"the state is damaged: {error}; take an older one") from None
    for name, value in settings.items():
        if not _equal(getattr(facts, name), value):
            fix = f"; give batching='{facts.batching}'" if name == "batching" and facts.batching in BATCHINGS else ""
            raise ConfigError(f"the state has {name} {getattr(facts, name)!r}, this chooser {value!r}{fix}")
    try:
        return _parts(facts, arrays)
    except (KeyError, ValueError) as error:
        raise ConfigError(f"the state is damaged: {error}; take an older one") from None


def fitting(stored: Stored, leaves: Mapping[str, NDArray[Any]]) -> list[NDArray[Any]]:
    """The stored arrays of a scheduler in the order of its own ``leaves``. Arrays that do not fit are refused."""
    if missing := sorted(set(leaves) ^ set(stored.scheduler)):
        raise ConfigError(f"the state belongs to another scheduler: only one of the two has '{missing[0]}'")
    for name, like in leaves.items():
        given = stored.scheduler[name]
        if given.shape != like.shape or given.dtype != like.dtype:
            raise ConfigError(
                f"'{name}' is {given.dtype} {given.shape} in the state, but {like.dtype} {like.shape} in this scheduler"
            )
        if given.dtype.kind == "f" and np.isnan(given).any():
            raise ConfigError(f"the state is damaged: '{name}' contains NaN; take an older one")
    return [stored.scheduler[name].copy() for name in leaves]


def _parts(facts: Facts, arrays: Mapping[str, NDArray[Any]]) -> Stored:
    """The parts, each checked against the others. A ValueError says what does not fit."""
    sources = Sources(tuple(Source(*one) for one in facts.sources), have_names=True)
    _require(len(set(sources.names)) == len(sources.names), "two sources have the same name")
    width, number = facts.batch_size if facts.batching == MIXED else 1, len(sources.all)
    draws, opened = len(arrays["told"]) if arrays["told"].ndim else 0, len(facts.open)
    arrays = {"losses": np.full((draws, width), np.nan, np.float32), **arrays}
    shapes: dict[str, tuple[Any, tuple[int, ...]]] = {
        "asked": (np.int32, (draws, width)),
        "told": (np.int64, (draws,)),
        "rewards": (kind_of(width), (draws, width)),
        "heard": (kind_of(width), (draws, width)),
        "recent": (np.float64, (arrays["recent"].size,)),
        "drawn": (np.int64, (number + 1,)),
        "tells": (np.int64, (number + 1,)),
        "totals": (np.float64, (number + 1,)),
        "losses": (np.float32, (draws, width)),
        "open.positions": (np.int64, (opened, number)),
        "open.tasks": (np.int64, (opened, width)),
        "open.weights": (np.float64, (opened, width)),
    }
    for name, (kind, shape) in shapes.items():
        fits = arrays[name].dtype == kind and arrays[name].shape == shape
        _require(fits, f"'{name}' is not an array of {np.dtype(kind)} {shape}")
    record = Record(*(arrays[name].copy() for name in Record._fields))
    waiting = Waiting(*(arrays[f"open.{name}"].copy() for name in Waiting._fields))
    _check_history(facts, record, number)
    _check_open(facts, record, waiting, number)
    scheduler = {key: value for key, value in arrays.items() if key.startswith("scheduler")}
    return Stored(facts, sources, record, waiting, scheduler, _weights(facts))


def _weights(facts: Facts) -> Stages | None:
    if facts.weights is None:
        return None
    begins, weights = tuple(begin for begin, _ in facts.weights), tuple(each for _, each in facts.weights)
    _require(begins[:1] == (0,) and sorted(set(begins)) == list(begins), "its stages of weights are not in order")
    _require(bool(np.isfinite([value for each in weights for value in each.values()]).all()), "a weight is not finite")
    return Stages(begins, weights, facts.ramp)


def _check_history(facts: Facts, record: Record, sources: int) -> None:
    asked, told = record.asked, record.told
    _require(_are_sources(asked, facts, sources), "a draw comes from an unknown source")
    _require(bool((told >= -1).all() and (told < facts.told).all()), "a draw has a rank beyond the last one")
    ranks = told[told >= 0]
    _require(len(np.unique(ranks)) == len(ranks), "two draws have the same rank")
    for values in (record.rewards, record.heard):
        _require(
            bool((np.isnan(values) == (told < 0)[:, None]).all()),
            "the numbers of draws and rewards differ",
        )
    _require(bool(np.isnan(record.losses[told < 0]).all()), "a draw without a reward has a loss")
    amounts = (record.rewards[told >= 0], record.heard[told >= 0], record.recent, record.totals)
    limits = (LARGEST, LARGEST, LARGEST, np.inf)
    finite = all(
        np.isfinite(one).all() and (np.abs(one) <= most).all() for one, most in zip(amounts, limits, strict=True)
    )
    _require(finite, "a reward is not finite")
    for sums, choices, said in ((record.drawn, asked, "draws"), (record.tells, asked[told >= 0], "rewards")):
        counts = np.zeros(sources + 1, np.int64)
        np.add.at(counts, choices[choices != MISSING], 1)
        known = sums == counts if facts.first == 0 else sums >= counts
        _require(bool(known.all()), f"its sums do not fit its {said}")


def _check_open(facts: Facts, record: Record, waiting: Waiting, sources: int) -> None:
    places = np.array(facts.open, np.int64) - facts.first
    _require(facts.open == sorted(set(facts.open)), "open draws are not in order")
    _require(bool((places < len(record.told)).all()), "an open draw was never made")
    seen = places >= 0
    _require(bool((record.told[places[seen]] < 0).all()), "an open draw already has a reward")
    _require(_are_sources(waiting.tasks, facts, sources), "an open draw comes from an unknown source")
    _require(bool((record.asked[places[seen]] == waiting.tasks[seen]).all()), "an open draw has another source")
    _require(bool(((waiting.positions >= 0) & (waiting.positions <= LARGEST_SIZE)).all()), "a position is out of range")
    _require(bool((np.isfinite(waiting.weights) & (waiting.weights >= 0)).all()), "a loss weight is not finite")


def _are_sources(tasks: NDArray[Any], facts: Facts, sources: int) -> bool:
    """Whether all are known sources, or what else its settings allow."""
    abstains = facts.abstain or facts.scheduler == TARGET_ONLY
    allowed = (tasks >= 0) | ((tasks == ABSTAINS) & abstains) | ((tasks == MISSING) & (facts.batching == MIXED))
    return bool((allowed & (tasks < sources)).all())


def _upgraded(given: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Convert a state of the previous format. A ValueError says what does not fit.

    Its draws had one source each. It stored the source of each draw, and the told draws and their rewards in the order
    of telling.
    """
    columns = []
    for name, kind in (("asked", "int64"), ("told", "int64"), ("rewards", "float64"), ("heard", "float64")):
        _require(arrays[name].ndim == 1 and arrays[name].dtype == kind, f"'{name}' is not a column of {kind}")
        columns.append(arrays[name])
    asked, told, rewards, heard = columns
    sources, size = len(given["sources"]), given["batch_size"]
    _require(type(size) is int and size > 0, "batch_size is not a whole number")
    _require(bool(((asked >= ABSTAINS) & (asked < sources)).all()), "a draw comes from an unknown source")
    _require(len(told) == len(rewards) == len(heard), "the numbers of draws and rewards differ")
    _require(bool(((told >= 0) & (told < len(asked))).all()), "a reward belongs to an unknown draw")
    _require(len(np.unique(told)) == len(told), "a draw has two rewards")
    opened = msgspec.convert(given["open"], list[tuple[Count, float]])
    opened.sort()
    _require(all(number < len(asked) for number, _ in opened), "an open draw was never made")
    ranks, values = np.full(len(asked), -1, np.int64), np.full((2, len(asked), 1), np.nan)
    ranks[told], values[0, told, 0], values[1, told, 0] = np.arange(len(told)), rewards, heard
    tells, totals = np.zeros(sources + 1, np.int64), np.zeros(sources + 1)
    np.add.at(tells, asked[told], 1)
    np.add.at(totals, asked[told], heard)
    ids = [number for number, _ in opened]
    places = [positions_after(asked[:number], sources, size, given["cursor"]) for number in ids]
    facts = {**given, "format": FORMAT, "batching": PER_SOURCE, "first": 0, "told": len(told), "open": ids}
    others = {name: value for name, value in arrays.items() if name.startswith("scheduler")}
    return facts, {
        **others,
        "asked": asked[:, None].astype(np.int32),
        "told": ranks,
        "rewards": values[0],
        "heard": values[1],
        "recent": heard[-100:].copy(),
        "drawn": np.bincount(np.where(asked == ABSTAINS, sources, asked), minlength=sources + 1).astype(np.int64),
        "tells": tells,
        "totals": totals,
        "open.positions": np.array(places, np.int64).reshape(len(ids), sources),
        "open.tasks": asked[ids][:, None],
        "open.weights": np.array([weight for _, weight in opened], np.float64)[:, None],
    }


def _equal(given: Any, own: Any) -> bool:
    """Whether two settings are equal. An array never counts as equal."""
    try:
        return bool(given == own)
    except ValueError:
        return False


def _require(holds: bool, said: str) -> None:
    if not holds:
        raise ValueError(said)
