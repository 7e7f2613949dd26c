"""The sources of a chooser: their names and sizes, and which of them were removed."""

import warnings
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metasched.errors import ConfigError, number, unknown, whole_number
from metasched.tasks import TaskSet

MOST_SOURCES = 100_000
LARGEST_SIZE = 2**53
"""The most rows of a source, which all number formats store exactly."""

Given: TypeAlias = TaskSet | Mapping[str, int | None] | Sequence[int | None] | int


class Source(NamedTuple):
    """One source. A stream has no size. A removed source keeps its number, so that old draws keep their meaning."""

    name: str
    size: int | None
    removed: bool = False


class Sources(NamedTuple):
    """All sources that a chooser ever had, in the order of their numbers."""

    all: tuple[Source, ...]
    have_names: bool  # whether the user named them; otherwise only their numbers tell them apart

    @property
    def active(self) -> list[int]:
        """The numbers of the sources that can be drawn. The arms of a scheduler stand for these."""
        return [number for number, source in enumerate(self.all) if not source.removed]

    @property
    def names(self) -> list[str]:
        """The names by number."""
        return [source.name for source in self.all]

    def number_of(self, given: Any) -> int:
        """The number of a source, given by name or by number from 0."""
        if type(given) is int and 0 <= given < len(self.all):
            return given
        if given not in self.names:
            raise unknown("source", given, self.names)
        return self.names.index(given)

    def active_name(self, given: Any) -> str:
        """The name of a source that can be drawn, given by name or, as in ``draw.task``, by number from 0."""
        source = self.all[self.number_of(given)]
        if source.removed:
            raise ConfigError(f"source '{given}' was removed; make a chooser without it")
        return source.name

    def having(self, name: Any, size: int | None) -> "Sources":
        """These sources and one more. A removed one comes back under its old number."""
        source = _source(name, size)
        if source.name not in self.names:
            return self._replace(all=(*self.all, source))
        before = self.all[self.names.index(source.name)]
        if not before.removed:
            raise ConfigError(f"there already is a source '{name}'; give another name")
        if before.size != size:
            raise ConfigError(f"source '{name}' was removed with size {before.size}; give a new name for size {size}")
        return self._replace(all=tuple(source if one is before else one for one in self.all))

    def lacking(self, name: str) -> "Sources":
        """These sources with ``name`` removed."""
        before = self.all[self.number_of(name)]
        if before.removed or len(self.active) == 1:
            raise ConfigError(f"source '{name}' {'was removed before' if before.removed else 'is the last one'}")
        return self._replace(all=tuple(one._replace(removed=one.removed or one is before) for one in self.all))

    def after(self, stored: "Sources") -> "Sources":
        """These sources after a state with the sources ``stored`` is loaded.

        Sources are matched by name. Removed sources stay removed. Sources that only the state has count as removed, and
        their numbers come after all others. New sources have not been tried yet.
        """
        sizes, mine_sizes = ([one.size for one in each] for each in (stored.all, self.all))
        if not self.have_names and sizes != mine_sizes:
            raise ConfigError(
                f"the state has sizes {sizes}, this chooser {mine_sizes}; "
                "to change sources, they need names: give a mapping of names to sizes"
            )
        gone = {one.name: one for one in stored.all}
        for one in self.all:
            if one.name in gone and gone[one.name].size != one.size:
                raise ConfigError(
                    f"source '{one.name}' has size {gone[one.name].size} in the state and {one.size} here; "
                    "give the changed source a new name"
                )
        mine = [one._replace(removed=one.removed or gone.get(one.name, one).removed) for one in self.all]
        others = [one._replace(removed=True) for one in stored.all if one.name not in self.names]
        if all(one.removed for one in mine):
            raise ConfigError("the state has removed every source of this chooser; add another source")
        return self._replace(all=(*mine, *others))


def sources_of(given: Given) -> Sources:
    """The sources that a user gives: a task set, sizes by name, only sizes, or the number of streams."""
    if isinstance(given, TaskSet):
        return Sources(tuple(Source(task.name, len(task)) for task in given.tasks), have_names=True)
    if isinstance(given, Mapping):
        pairs = list(given.items())
    elif isinstance(given, int):
        count = whole_number("the number of sources", given, least=1, most=MOST_SOURCES)
        pairs = [(str(index), None) for index in range(1, count + 1)]
    elif isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise ConfigError(f"the sources are {given!r}; give sizes by name, a list of sizes, or their number")
    else:
        pairs = [(str(index), size) for index, size in enumerate(islice(given, MOST_SOURCES + 1), 1)]
    if not pairs:
        raise ConfigError("there are no sources; give the number of rows of each")
    if len(pairs) > MOST_SOURCES:
        raise ConfigError(f"there are more than {MOST_SOURCES:,} sources; give fewer")
    return Sources(tuple(_source(name, size) for name, size in pairs), isinstance(given, Mapping))


def warn_of_small(sources: Sequence[Source], rows: int) -> None:
    """Warn about sources with fewer rows than this, which is what one batch takes from them."""
    small = [f"'{one.name}' ({one.size})" for one in sources if one.size is not None and one.size < rows]
    if small:
        message = (
            f"sources with fewer rows than the {rows} that a batch may take from one, so rows repeat: "
            f"{', '.join(small)}"
        )
        warnings.warn(message, stacklevel=3)


def labels_of(given: Sequence[ArrayLike], sources: Sources) -> NDArray[np.int32]:
    """The labels of all sources end to end."""
    each = [np.asarray(one) for one in given]
    sizes = [one.size for one in sources.all]
    if [one.shape for one in each] != [(size,) for size in sizes] or any(one.dtype.kind not in "iu" for one in each):
        raise ConfigError(f"labels do not fit; give one array of integers for each source, of lengths {sizes}")
    return np.concatenate(each).astype(np.int32)


def numbers_by_name(what: str, given: Any, sources: Sources) -> dict[str, float]:
    """One number ≥ 0 for each source, given as a mapping or in the order of the sources."""
    values = {}
    if isinstance(given, Mapping):
        values = {str(name): given[name] for name in given}
    elif isinstance(given, Sequence | np.ndarray) and not isinstance(given, str) and len(given) == len(sources.all):
        values = dict(zip(sources.names, given, strict=True))
    if set(values) != set(sources.names):
        raise ConfigError(f"{what} are {given!r}; give one number for each source: {', '.join(sources.names)}")
    return {name: number(f"{what} of '{name}'", value, least=0) for name, value in values.items()}


def _source(name: Any, size: Any) -> Source:
    if not isinstance(name, str) or not name:
        raise ConfigError(f"the name of a source is {name!r}; give a text")
    if size is None:
        return Source(name, None)
    return Source(name, whole_number(f"size of source '{name}'", size, least=1, most=LARGEST_SIZE))
