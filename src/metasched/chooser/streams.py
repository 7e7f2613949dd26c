"""One source of a mixture: anything that can be iterated, read so that reading can go on from the same place.

A *position* is where a source stands, as plain values: how many passes were ended before this one, how many rows of
this one were read and, if the source has one, its own state. Sources go back to a position by their own
``load_state_dict`` (Hugging Face's streaming data sets, stateful loaders, the lines of a file), by ``set_state`` of
their iterator (Grain), by index, or by reading again from the start and skipping.
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
        name: what errors call it.
        source: see :data:`Source`.
    """

    def __init__(self, name: str, source: Source) -> None:
        self.name = name
        self._source: Any = Lines(source) if isinstance(source, Path) else source
        if isinstance(source, str) or not (callable(source) or hasattr(self._source, "__iter__") or self._indexed):
            raise ConfigError(f"source '{name}' is {source!r}; give an iterable, a function that makes one, or a Path")
        self._rows: Iterator[Any] | None = None  # of this pass, once a row was wanted
        self._start: Position = {"pass": 0, "read": 0}  # where they begin
        self._read = 0

    def take(self, number: int) -> list[Any]:
        """The next rows of this pass, fewer than ``number`` at its end."""
        if self._rows is None:
            self._rows = self._begin()
        rows = list(islice(self._rows, number))
        self._read += len(rows)
        return rows

    def take_on(self, number: int) -> list[Any]:
        """So many rows, from the next passes too where this one ends."""
        rows = self.take(number)
        while len(rows) < number:
            self.again()
            rows += self.take(number - len(rows))
        return rows

    def no_rows(self) -> DataError:
        """The error for a source without rows where it should be read for ever."""
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
        """Whether there are no rows, where that can be told without reading any."""
        if isinstance(self._source, Lines):
            return self._source.is_empty()
        return (self._indexed or isinstance(self._source, Collection)) and not len(self._source)

    def position(self) -> Position:
        """Where this source stands."""
        if self._rows is None:
            return copy.deepcopy(self._start)
        place: Position = {"pass": self._start["pass"], "read": self._read}
        if self._stateful:
            place["state"] = copy.deepcopy(self._source.state_dict())
        elif hasattr(self._rows, "get_state"):
            place["state"] = copy.deepcopy(self._rows.get_state())
        return place

    def go_to(self, position: Mapping[str, Any]) -> None:
        """Stand where :meth:`position` was taken; rows are read when they are wanted."""
        self._start = copy.deepcopy(dict(position))
        self._read, self._rows = int(position["read"]), None

    def obstacle(self) -> str | None:
        """Why one cannot come back to a position of this source, or None."""
        if isinstance(self._source, Iterator):
            return "it is an iterator, which can be read only once; give a function that makes one"
        if type(getattr(self._source, "sampler", None)).__name__ == "RandomSampler" and not self._stateful:
            return "it shuffles anew whenever it is read; give a loader with a state_dict, or one that does not shuffle"
        if _has_buffer(getattr(self._source, "_ex_iterable", None)):
            return "rows in its shuffle buffer would be lost; shuffle the files or rows beforehand, or not at all"
        return None

    @property
    def _stateful(self) -> bool:
        return hasattr(self._source, "state_dict") and hasattr(self._source, "load_state_dict")

    @property
    def _indexed(self) -> bool:
        """Whether rows have numbers; tables and mappings are indexed by something else."""
        source = self._source
        numbered = isinstance(source, Sequence) or hasattr(source, "__getitems__") or not hasattr(source, "__iter__")
        return numbered and hasattr(source, "__getitem__") and hasattr(source, "__len__")

    def _begin(self) -> Iterator[Any]:
        """The rows from where this pass was begun or resumed."""
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
            raise DataError(f"source '{self.name}' has fewer than the {read} rows read before; is it the same?")
        return rows


class Lines:
    """The lines of a UTF-8 text file, without their ends; its state is an offset, so that going on takes no reading."""

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
        """Whether it is a plain file without a byte."""
        return self._path.is_file() and not self._path.stat().st_size

    def state_dict(self) -> dict[str, int]:
        """The offset of the next line, in bytes."""
        return {"offset": self._offset}

    def load_state_dict(self, stored: Mapping[str, int]) -> None:
        """Iterate from there next time."""
        self._start = int(stored["offset"])


def _has_buffer(examples: Any) -> bool:
    """Whether a streaming data set of Hugging Face, seen from inside, shuffles through a buffer anywhere."""
    if type(examples).__name__ == "BufferShuffledExamplesIterable":
        return True
    inner = [getattr(examples, "ex_iterable", None), *getattr(examples, "ex_iterables", ())]
    return any(_has_buffer(one) for one in inner if one is not None)
