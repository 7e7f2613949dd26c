"""One source of a mixture: anything that can be iterated, read so that reading can continue at the same place.

A *position* is the place in a source, as plain values: how many passes are complete, how many rows of this pass were
read and, if the source has one, its own state. Sources go back to a position by their own ``load_state_dict`` (Hugging
Face's streaming data sets, stateful loaders, the lines of a file), by ``set_state`` of their iterator (Grain), by
index, or by reading again from the start and skipping.
"""

import copy
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias

from metasched.errors import ConfigError, DataError

Source: TypeAlias = Iterable[Any] | Callable[[], Iterable[Any]] | Path
"""An iterable, a function without arguments that makes one, or the path of a text file whose lines are the rows."""
Position: TypeAlias = dict[str, Any]


class Stream:
    """The rows of one source, pass after pass.

    Args:
        name: its name in messages.
        source: see :data:`Source`.
    """

    def __init__(self, name: str, source: Source) -> None:
        self.name = name
        self._source: Any = Lines(source) if isinstance(source, Path) else source
        if isinstance(source, str) or not (callable(source) or hasattr(self._source, "__iter__") or self._indexed):
            raise ConfigError(f"source '{name}' is {source!r}; give an iterable, a function that makes one, or a Path")
        self._rows: Iterator[Any] | None = None  # the iterator of this pass, once a row was requested
        self._start: Position = {"pass": 0, "read": 0}  # where it begins
        self._read = 0

    def take(self, number: int) -> list[Any]:
        """The next rows of this pass. At its end there may be fewer than ``number``."""
        if self._rows is None:
            self._rows = self._begin()
        rows = list(islice(self._rows, number))
        self._read += len(rows)
        return rows

    def take_on(self, number: int) -> list[Any]:
        """The next ``number`` rows, continuing with the next pass if this one ends."""
        rows = self.take(number)
        while len(rows) < number:
            self.again()
            rows += self.take(number - len(rows))
        return rows

    def no_rows(self) -> DataError:
        """The error for a source without rows that should be read for ever."""
        return DataError(f"source '{self.name}' has no rows; leave it out")

    def again(self) -> None:
        """Begin the next pass."""
        if isinstance(self._source, Iterator):
            raise DataError(
                f"source '{self.name}' ended, and an iterator cannot be read again; give a function that makes one, "
                "or at_end='drop' or 'stop'"
            )
        if not self._read:
            raise self.no_rows()
        self.go_to({"pass": self._start["pass"] + 1, "read": 0})

    def is_empty(self) -> bool:
        """Whether there are no rows, if that is known without reading any."""
        if isinstance(self._source, Lines):
            return self._source.is_empty()
        return (self._indexed or isinstance(self._source, Collection)) and not len(self._source)

    def position(self) -> Position:
        """The present position of this source."""
        if self._rows is None:
            return copy.deepcopy(self._start)
        place: Position = {"pass": self._start["pass"], "read": self._read}
        if self._stateful:
            place["state"] = copy.deepcopy(self._source.state_dict())
        elif hasattr(self._rows, "get_state"):
            place["state"] = copy.deepcopy(self._rows.get_state())
        return place

    def go_to(self, position: Mapping[str, Any]) -> None:
        """Go back to a :meth:`position`. Rows are read when they are requested."""
        self._start = copy.deepcopy(dict(position))
        self._read, self._rows = int(position["read"]), None

    def obstacle(self) -> str | None:
        """Why this source cannot go back to a position, or None."""
        if isinstance(self._source, Iterator):
            return "it is an iterator, which can be read only once; give a function that makes one"
        if type(getattr(self._source, "sampler", None)).__name__ == "RandomSampler" and not self._stateful:
            return (
                "it is shuffled differently whenever it is read; give a loader with a state_dict, or one that "
                "does not shuffle"
            )
        if _has_buffer(getattr(self._source, "_ex_iterable", None)):
            return "rows in its shuffle buffer would be lost; shuffle the files or rows beforehand, or not at all"
        return None

    @property
    def _stateful(self) -> bool:
        return hasattr(self._source, "state_dict") and hasattr(self._source, "load_state_dict")

    @property
    def _indexed(self) -> bool:
        """Whether rows have numbers. Tables and mappings are indexed by something else."""
        source = self._source
        numbered = isinstance(source, Sequence) or hasattr(source, "__getitems__") or not hasattr(source, "__iter__")
        return numbered and hasattr(source, "__getitem__") and hasattr(source, "__len__")

    def _begin(self) -> Iterator[Any]:
        """The rows from where this pass began or was resumed."""
        read = int(self._start["read"])
        if self._start["pass"] and hasattr(self._source, "set_epoch"):
            self._source.set_epoch(int(self._start["pass"]))
        if read and self._stateful:
            self._source.load_state_dict(self._start["state"])
            return iter(self._source)
        if self._indexed:
            return map(self._source.__getitem__, range(read, len(self._source)))
        rows: Iterator[Any] = iter(self._source() if callable(self._source) else self._source)
        if hasattr(rows, "set_state") and "state" in self._start:
            rows.set_state(self._start["state"])
            return rows
        if sum(1 for _ in islice(rows, read)) < read:
            raise DataError(
                f"source '{self.name}' has fewer rows than the {read} that were read before; is it the same source?"
            )
        return rows


class Lines:
    """The lines of a UTF-8 text file, without line ends. The state is an offset, so nothing has to be read again."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._start = self._offset = 0

    def __iter__(self) -> Iterator[str]:
        self._offset, self._start = self._start, 0
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset)
                for line in file:
                    self._offset += len(line)
                    yield line.decode().rstrip("\r\n")
        except OSError as error:
            raise DataError(f"{self._path}: cannot read ({error.strerror})") from None
        except UnicodeDecodeError:
            raise DataError(f"{self._path}: the line that ends at byte {self._offset} is not UTF-8") from None

    def is_empty(self) -> bool:
        """Whether it is a regular file without a single byte."""
        return self._path.is_file() and not self._path.stat().st_size

    def state_dict(self) -> dict[str, int]:
        """The offset of the next line, in bytes."""
        return {"offset": self._offset}

    def load_state_dict(self, stored: Mapping[str, int]) -> None:
        """Start there next time."""
        self._start = int(stored["offset"])


def _has_buffer(examples: Any) -> bool:
    """Whether a streaming data set of Hugging Face, seen from inside, has a shuffle buffer anywhere."""
    if type(examples).__name__ == "BufferShuffledExamplesIterable":
        return True
    inner = [getattr(examples, "ex_iterable", None), *getattr(examples, "ex_iterables", ())]
    return any(_has_buffer(one) for one in inner if one is not None)
