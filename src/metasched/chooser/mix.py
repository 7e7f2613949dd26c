"""Streams, mixed as a chooser decides.

>>> stream = mix({"wiki": wiki, "code": code}, "thompson", batch_size=8)
>>> for draw, rows in stream:
...     stream.tell(draw, reward_after_training_on(rows))

The choice is made when rows are wanted, with every reward so far. Going on after a crash is exact: a state holds the
chooser's and, of each source, the position at its first draw that was not told, and the draws since. After loading,
draws without a reward are handed out again, with the same rows; rows of those that had one are read past.
"""

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

from metasched.chooser import Chooser, Draw
from metasched.chooser.streams import Position, Source, Stream
from metasched.errors import ConfigError, one_of, whole_number
from metasched.schedulers import Scheduler

FORMAT = 1
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
    """Rows of several streams, as a chooser decides.

    Args:
        sources: by name: iterables, functions that make one, or paths of text files whose lines are the rows.
        chooser: one for as many streams, or the scheduler of a new one.
        batch_size: rows of a draw, as a list; None for a single row, as it is.
        at_end: what happens when a source ends: it is read again (``"repeat"``), it is not drawn any more and the
            mixture ends with the last one (``"drop"``), or the mixture ends (``"stop"``). A draw takes as many rows as
            there are: fewer than ``batch_size`` at an end that is not repeated. With ``"repeat"`` a mixture never ends.
        seed: of a new chooser.
        **options: of a new chooser and its scheduler.

    Returns:
        An iterator of draws and their rows, which is told the rewards.

    Examples:
        >>> stream = ms.mix({"even": range(0, 100, 2), "odd": range(1, 100, 2)}, "cyclic", batch_size=2)
        >>> for draw, rows_read in stream:
        ...     print(draw.source, rows_read)
        ...     stream.tell(draw, 0.0)  # what training on the rows was worth
        ...     if draw.id == 2:
        ...         break
        even [0, 2]
        odd [1, 3]
        even [4, 6]
    """
    if not sources or not hasattr(sources, "items"):
        raise ConfigError("sources are empty or have no names; give a mapping such as {'wiki': rows, 'code': rows}")
    if not isinstance(chooser, Chooser):
        chooser = Chooser(chooser, dict.fromkeys(sources), seed=seed, **options)
    elif options or seed:
        raise ConfigError(f"{', '.join(['seed', *options])}: give these to the chooser")
    return MixedStream(sources, chooser, batch_size, at_end)


@dataclass
class _Reading:
    """What one draw read of its source."""

    draw: int  # its number
    rows: int  # how many
    position: Position | None  # where the source stood before; None until the rows are read again after loading


class MixedStream(Iterator[tuple[Draw, Any]]):
    """What :func:`mix` returns: an iterator of (draw, rows), with a state.

    Args:
        sources: as in :func:`mix`.
        chooser: decides; its sources have the same names.
        batch_size: as in :func:`mix`.
        at_end: as in :func:`mix`.

    Attributes:
        names: of the sources; ``names[draw.task]`` is the source of a draw.
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
        self._single = batch_size is None
        self._batch_size = 1 if batch_size is None else whole_number("batch_size", batch_size, least=1)
        self._at_end = one_of("at_end", at_end, ENDS)
        self._streams = [Stream(name, source) for name, source in sources.items()]
        for stream in self._streams:
            if at_end == "repeat" and stream.is_empty():
                raise stream.no_rows()
        self._readings: list[deque[_Reading]] = [deque() for _ in sources]  # since the first draw that was not told
        self._again: deque[Draw] = deque()  # to be handed out once more
        self._ended = [False] * len(sources)

    def __next__(self) -> tuple[Draw, Any]:
        if self._again:
            draw = self._again.popleft()
            return draw, self._read_again(draw)
        while not (any(self._ended) if self._at_end == "stop" else all(self._ended)):
            draw = self.chooser.ask()
            if draw.source is None:
                return draw, None
            rows = self._read(draw)
            if rows:
                return draw, self._given(rows)
            self.chooser.forget(draw)
        raise StopIteration

    def tell(self, draw: Draw, reward: float) -> None:
        """Say what ``draw`` brought; see :meth:`Chooser.tell`.

        Args:
            draw: one of this stream's.
            reward: any finite number that is larger when its rows were worth more.
        """
        self.chooser.tell(draw, reward)

    def state_dict(self) -> dict[str, Any]:
        """Everything needed to go on elsewhere.

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
        """Become the mixture whose :meth:`state_dict` this is; draws that were not told are handed out first.

        Args:
            stored: what ``state_dict`` returned.
        """
        sources = _checked(stored, self._identity())
        self.chooser.load_state_dict(stored["chooser"])
        self._again.clear()
        for place, stream in enumerate(self._streams):
            source = sources.get(stream.name, _UNREAD)
            stream.go_to(source["position"])
            self._ended[place] = source["ended"]
            self._readings[place] = deque(_Reading(draw, rows, None) for draw, rows in source["readings"])
        for draw in self.chooser.open():
            if draw.source is None or draw.source in self.names:
                self._again.append(draw)
            else:
                self.chooser.forget(draw)

    def _identity(self) -> dict[str, Any]:
        size = None if self._single else self._batch_size
        return {"format": FORMAT, "batch_size": size, "at_end": self._at_end}

    def _given(self, rows: list[Any]) -> Any:
        return rows[0] if self._single else rows

    def _read(self, draw: Draw) -> list[Any]:
        """The rows of a new draw; none if its source has ended."""
        self._forget_told()
        self._read_past(draw)
        position = self._streams[draw.task].position()
        rows = self._take(draw.task, self._batch_size)
        if len(rows) < self._batch_size:
            self._ended[draw.task] = True
            if self._at_end == "drop" and not all(self._ended):
                self.chooser.remove_source(str(draw.source))
        if rows:
            self._readings[draw.task].append(_Reading(draw.id, len(rows), position))
        return rows

    def _read_again(self, draw: Draw) -> Any:
        """The rows of a draw that was handed out before the state was stored."""
        if draw.source is None:
            return None
        self._read_past(draw)
        for reading in self._readings[draw.task]:
            if reading.draw == draw.id:
                reading.position = self._streams[draw.task].position()
                return self._given(self._take(draw.task, reading.rows))
        raise ConfigError(f"draw {draw.id} is not one of this stream's; ask its chooser only through it")

    def _read_past(self, draw: Draw) -> None:
        """Read, and drop, what draws before this one read before the state was stored."""
        for reading in self._readings[draw.task]:
            if reading.position is None and reading.draw < draw.id:
                reading.position = self._streams[draw.task].position()
                self._take(draw.task, reading.rows)

    def _take(self, task: int, number: int) -> list[Any]:
        stream = self._streams[task]
        rows = stream.take(number)
        while len(rows) < number and self._at_end == "repeat":
            stream.again()
            rows += stream.take(number - len(rows))
        return rows

    def _forget_told(self) -> None:
        waiting = {draw.id for draw in self.chooser.open()}
        for readings in self._readings:
            while readings and readings[0].position is not None and readings[0].draw not in waiting:
                readings.popleft()


_UNREAD: Mapping[str, Any] = {"ended": False, "position": {"pass": 0, "read": 0}, "readings": []}


def _checked(stored: Mapping[str, Any], mine: Mapping[str, Any]) -> Mapping[str, Any]:
    """The sources of a state that fits."""
    try:
        facts = stored["facts"]
        for source in facts["sources"].values():
            numbers = [source["position"]["pass"], source["position"]["read"], *chain(*source["readings"])]
            if not isinstance(source["ended"], bool) or not all(type(n) is int and n >= 0 for n in numbers):
                raise ValueError
            if any(len(reading) != 2 for reading in source["readings"]) or "chooser" not in stored:
                raise ValueError
    except (TypeError, KeyError, ValueError, AttributeError):
        raise ConfigError("this is not what state_dict() of a mixed stream returns") from None
    for name, value in mine.items():
        if facts.get(name) != value:
            raise ConfigError(f"the state has {name} {facts.get(name)!r}, this stream {value!r}")
    sources: Mapping[str, Any] = facts["sources"]
    return sources
