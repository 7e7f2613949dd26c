"""Streams, mixed as a chooser decides.

>>> stream = mix({"wiki": wiki, "code": code}, "thompson", batch_size=8)
>>> for draw, rows in stream:
...     stream.tell(draw, reward_after_training_on(rows))

The choice is made when rows are requested, with all rewards so far. A batch may hold rows of several streams. A mixture
continues exactly after a crash. Its state holds the state of the chooser, the position of each source at the first draw
without a reward, and the draws since. After loading, draws without a reward are handed out again with the same rows.
The rows of draws with a reward are skipped.
"""

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

from metasched.chooser import Chooser, Draw
from metasched.chooser.chooser import Numbers
from metasched.chooser.draws import grouped
from metasched.chooser.streams import Position, Source, Stream
from metasched.errors import ConfigError, one_of, whole_number
from metasched.schedulers import Scheduler

FORMAT = 2
_BEFORE = 1
"""The format before mixed batches, which is still read. Its chooser counted a batch as one row."""
ENDS = ("repeat", "drop", "stop")


def mix(
    sources: Mapping[str, Source],
    chooser: Chooser | Scheduler | str = "thompson",
    *,
    batch_size: int | None = None,
    at_end: str = "repeat",
    seed: int = 0,
    **options: Any,
) -> "MixedStream":
    """Mix rows of several streams, as a chooser decides.

    Args:
        sources: iterables by name, functions that make one, or paths of text files whose lines are the rows.
        chooser: a chooser for the same number of streams, or the scheduler of a new one.
        batch_size: the rows of a draw, which come as a list. Row b of the list comes from source ``draw.sources[b]``.
            With None, the batch size of the given chooser, or single rows without a list.
        at_end: what happens when a source ends. ``"repeat"``: it is read again, so the mixture never ends. ``"drop"``:
            it is no longer drawn, and the mixture ends with the last source. ``"stop"``: the mixture ends. With the
            last two, the final draws may have fewer rows than ``batch_size``.
        seed: the seed of a new chooser.
        **options: options of a new chooser and its scheduler, such as ``batching="per_source"``.

    Returns:
        An iterator over pairs of a draw and its rows. Tell it the rewards.

    Examples:
        >>> stream = ms.mix({"even": range(0, 100, 2), "odd": range(1, 100, 2)}, "cyclic", batch_size=2)
        >>> for draw, rows_read in stream:
        ...     print(draw.sources.tolist(), rows_read)
        ...     stream.tell(draw, [0.0, 0.0])  # what training on each row was worth
        ...     if draw.id == 1:
        ...         break
        ['even', 'odd'] [0, 1]
        ['even', 'odd'] [2, 3]
    """
    if not sources or not hasattr(sources, "items"):
        raise ConfigError("sources are empty or have no names; give a mapping such as {'wiki': rows, 'code': rows}")
    if not isinstance(chooser, Chooser):
        size = 1 if batch_size is None else batch_size
        chooser = Chooser(chooser, dict.fromkeys(sources), size, seed=seed, **options)
    elif options or seed:
        raise ConfigError(f"{', '.join(['seed', *options])}: pass these to the chooser")
    return MixedStream(sources, chooser, batch_size, at_end)


@dataclass
class _Reading:
    """What one draw read from one source."""

    draw: int  # the id of the draw
    rows: int  # how many rows
    position: Position | None  # where the source was before; None until the rows are read again after loading


class MixedStream(Iterator[tuple[Draw, Any]]):
    """What :func:`mix` returns: an iterator of (draw, rows), with a state.

    Args:
        sources: as in :func:`mix`.
        chooser: decides which rows come next. Its sources have the same names.
        batch_size: as in :func:`mix`.
        at_end: as in :func:`mix`.

    Attributes:
        names: of the sources, by number, as in ``draw.tasks``.
        chooser: decides.

    Examples:
        >>> stream = ms.mix({"even": range(0, 100, 2), "odd": range(1, 100, 2)}, "cyclic")
        >>> draw, row = next(stream)
        >>> stream.tell(draw, 0.3)
        >>> again = ms.mix({"even": range(0, 100, 2), "odd": range(1, 100, 2)}, "cyclic")
        >>> again.load_state_dict(stream.state_dict())
        >>> next(again)[1] == next(stream)[1]
        True
    """

    def __init__(self, sources: Mapping[str, Source], chooser: Chooser, batch_size: int | None, at_end: str) -> None:
        if list(sources) != list(chooser.sources):
            raise ConfigError(f"the sources are {', '.join(sources)}, but the chooser's {', '.join(chooser.sources)}")
        self.names = tuple(sources)
        self.chooser = chooser
        self._single = batch_size is None and chooser.batch_size == 1
        if batch_size is not None and whole_number("batch_size", batch_size, least=1) != chooser.batch_size:
            raise ConfigError(f"batch_size is {batch_size}, but the chooser's {chooser.batch_size}; give both the same")
        self._at_end = one_of("at_end", at_end, ENDS)
        self._streams = [Stream(name, source) for name, source in sources.items()]
        for stream in self._streams:
            if at_end == "repeat" and stream.is_empty():
                raise stream.no_rows()
        self._readings: list[deque[_Reading]] = [deque() for _ in sources]  # draws since the first one without a reward
        self._again: deque[Draw] = deque()  # draws to hand out once more
        self._ended = [False] * len(sources)

    def __next__(self) -> tuple[Draw, Any]:
        if self._again:
            draw = self._again.popleft()
            return self._handed_out(draw, self._read_again(draw)) if len(draw.rows) else (draw, None)
        while not (any(self._ended) if self._at_end == "stop" else all(self._ended)):
            draw = self.chooser.ask()
            if not len(draw.rows):  # the scheduler abstained
                return draw, None
            rows = self._read(draw)
            if any(row is not _NOTHING for row in rows):
                return self._handed_out(draw, rows)
            self.chooser.forget(draw)
        raise StopIteration

    def tell(self, draw: Draw, reward: Numbers, loss: Numbers | None = None) -> None:
        """Give a draw its reward; see :meth:`Chooser.tell`.

        Args:
            draw: a draw of this stream.
            reward: one finite number for each row, one for each source by name, or one for all rows.
            loss: the loss in the same forms, for the log.
        """
        self.chooser.tell(draw, reward, loss)

    def add_source(self, name: str, source: Source, weight: float = 1.0) -> None:
        """Add one more stream from now on. To bring back a removed stream, use ``chooser.add_source``.

        Args:
            name: the name of the source.
            source: as in :func:`mix`.
            weight: as in :meth:`Chooser.add_source`.

        Examples:
            >>> stream = ms.mix({"even": range(0, 100, 2)}, "uniform")
            >>> stream.add_source("odd", range(1, 100, 2))
            >>> stream.chooser.remove_source("even")
            >>> next(stream)[1]
            1
        """
        stream = Stream(name, source)
        if self._at_end == "repeat" and stream.is_empty():
            raise stream.no_rows()
        if name in self.names:
            raise ConfigError(f"there already was a source '{name}'; give another name")
        self.chooser.add_source(name, None, weight)
        self.names += (name,)
        self._streams.append(stream)
        self._readings.append(deque())
        self._ended.append(False)

    def state_dict(self) -> dict[str, Any]:
        """Everything needed to continue elsewhere.

        Returns:
            ``facts``, which JSON can hold, and the ``chooser``'s state.
        """
        for stream in self._streams:
            obstacle = stream.obstacle()
            if obstacle is not None:
                raise ConfigError(f"source '{stream.name}' cannot be resumed exactly: {obstacle}")
        self._forget_told()
        return {
            "facts": {
                **self._identity(),
                "sources": {
                    stream.name: {
                        "ended": ended,
                        "position": (readings and readings[0].position) or stream.position(),
                        "readings": [[reading.draw, reading.rows] for reading in readings],
                    }
                    for stream, ended, readings in zip(self._streams, self._ended, self._readings, strict=True)
                },
            },
            "chooser": self.chooser.state_dict(),
        }

    def load_state_dict(self, stored: Mapping[str, Any]) -> None:
        """Continue from a state that :meth:`state_dict` returned. Draws without a reward are handed out first.

        Args:
            stored: the result of ``state_dict``.
        """
        sources = _checked(stored, self._identity())
        self.chooser.load_state_dict(_chooser_of(stored))
        self._again.clear()
        for place, stream in enumerate(self._streams):
            source = sources.get(stream.name, _UNREAD)
            stream.go_to(source["position"])
            self._ended[place] = source["ended"]
            self._readings[place] = deque(_Reading(draw, rows, None) for draw, rows in source["readings"])
        for draw in self.chooser.open():
            mine = [place for place, source in enumerate(draw.sources) if source in self.names]
            if len(draw.rows) and not mine:
                self.chooser.forget(draw)
            else:
                self._again.append(self._shorter(draw, mine) if len(mine) < len(draw.rows) else draw)

    def _identity(self) -> dict[str, Any]:
        size = None if self._single else self.chooser.batch_size
        return {"format": FORMAT, "batch_size": size, "at_end": self._at_end}

    def _handed_out(self, draw: Draw, rows: list[Any]) -> tuple[Draw, Any]:
        """A draw and its rows, without rows that could not be read."""
        there = [place for place, row in enumerate(rows) if row is not _NOTHING]
        if len(there) < len(rows):
            draw, rows = self._shorter(draw, there), [rows[place] for place in there]
        return draw, rows[0] if self._single else rows

    def _shorter(self, draw: Draw, places: list[int]) -> Draw:
        """The draw without rows that could not be read. A draw of one source has one reward, whatever its size."""
        return self.chooser.keep(draw, places) if draw.mixed else draw.cut(places)

    def _read(self, draw: Draw) -> list[Any]:
        """Read the rows of a new draw. Rows of a source that has ended stay empty."""
        self._forget_told()
        rows, ended = [_NOTHING] * len(draw.rows), []
        for task, places in grouped(draw.tasks).items():
            self._read_past(task, draw.id)
            position = self._streams[task].position()
            read = self._take(task, len(places))
            if len(read) < len(places):
                self._ended[task] = True
                ended.append(self.names[task])
            if read:
                self._readings[task].append(_Reading(draw.id, len(read), position))
            for place, row in zip(places.tolist(), read, strict=False):
                rows[place] = row
        if self._at_end == "drop" and not all(self._ended):
            for name in ended:
                self.chooser.remove_source(name)
        return rows

    def _read_again(self, draw: Draw) -> list[Any]:
        """Read the rows of a draw that was handed out before the state was stored."""
        rows: list[Any] = [_NOTHING] * len(draw.rows)
        for task, places in grouped(draw.tasks).items():
            self._read_past(task, draw.id)
            reading = next((one for one in self._readings[task] if one.draw == draw.id), None)
            if reading is None:
                raise ConfigError(
                    f"draw {draw.id} was not made by this stream; do not call ask() of its chooser yourself"
                )
            reading.position = self._streams[task].position()
            for place, row in zip(places.tolist(), self._take(task, reading.rows), strict=False):
                rows[place] = row
        return rows

    def _read_past(self, task: int, number: int) -> None:
        """Skip what draws before this one read from a source before the state was stored."""
        for reading in self._readings[task]:
            if reading.position is None and reading.draw < number:
                reading.position = self._streams[task].position()
                self._take(task, reading.rows)

    def _take(self, task: int, number: int) -> list[Any]:
        stream = self._streams[task]
        return stream.take_on(number) if self._at_end == "repeat" else stream.take(number)

    def _forget_told(self) -> None:
        waiting = {draw.id for draw in self.chooser.open()}
        for readings in self._readings:
            while readings and readings[0].position is not None and readings[0].draw not in waiting:
                readings.popleft()


_NOTHING: Any = object()
_UNREAD: Mapping[str, Any] = {"ended": False, "position": {"pass": 0, "read": 0}, "readings": []}


def _checked(stored: Mapping[str, Any], mine: Mapping[str, Any]) -> Mapping[str, Any]:
    """Check that a state fits, and return its sources."""
    try:
        facts = stored["facts"]
        for source in facts["sources"].values():
            numbers = [source["position"]["pass"], source["position"]["read"], *chain(*source["readings"])]
            if not isinstance(source["ended"], bool) or not all(type(n) is int and n >= 0 for n in numbers):
                raise ValueError
            if any(len(reading) != 2 for reading in source["readings"]) or "chooser" not in stored:
                raise ValueError
    except (TypeError, KeyError, ValueError, AttributeError):
        raise ConfigError("this is not a state from state_dict() of a mixed stream") from None
    for name, value in mine.items():
        if facts.get(name) != value and (name, facts.get(name)) != ("format", _BEFORE):
            raise ConfigError(f"the state has {name} {facts.get(name)!r}, this stream {value!r}")
    sources: Mapping[str, Any] = facts["sources"]
    return sources


def _chooser_of(stored: Mapping[str, Any]) -> Any:
    """The chooser's state. In the old format its draws had one row, which stood for a whole batch."""
    chooser, facts = stored["chooser"], stored["facts"]
    if facts["format"] == FORMAT or not isinstance(chooser, Mapping) or not isinstance(chooser.get("facts"), Mapping):
        return chooser
    return {**chooser, "facts": {**chooser["facts"], "batch_size": facts["batch_size"] or 1}}
