"""Batches of several iterables, as a chooser decides."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from torch.utils import data

from metasched.chooser import Chooser, Draw
from metasched.errors import ConfigError, whole_number
from metasched.torch.ranks import OnRanks, Ranks


class Mixer(OnRanks, data.IterableDataset):  # type: ignore[misc]
    """Batches of several iterables, as a chooser decides. Yields (draw, batch) for ever, or ``batches`` times.

    The sources are iterables of ready batches that can be iterated again, such as a ``DataLoader`` for each source:
    give ``num_workers`` and ``prefetch_factor`` to *them*. The choice is made when a batch is requested, with all
    rewards so far. Each source prefetches its own batches, and starts again when it ends. Every batch comes from one
    source. For batches that mix rows use :class:`BatchSampler` or ``ms.mix``.

    Under ``torch.distributed`` every rank draws from its own sources, which should hold different rows.

    Args:
        chooser: ``Chooser(scheduler, len(sources))``.
        sources: one iterable for each task.
        batches: how many batches to yield, or None for no end.

    Examples:
        >>> from metasched.torch import Mixer
        >>> mixer = Mixer(ms.Chooser("cyclic", 2), [["a1", "a2"], ["b1"]], batches=4)
        >>> [(draw.task, batch) for draw, batch in mixer]
        [(0, 'a1'), (1, 'b1'), (0, 'a2'), (1, 'b1')]
        >>> first, *others = mixer.chooser.open()
        >>> mixer.tell(first, reward=0.5)
        >>> for draw in others:
        ...     mixer.forget(draw)
        >>> mixer.load_state_dict(mixer.state_dict())
    """

    def __init__(self, chooser: Chooser, sources: Sequence[Iterable[Any]], batches: int | None = None) -> None:
        if len(sources) != len(chooser.sizes):
            raise ConfigError(f"there are {len(sources)} sources, but the chooser has {len(chooser.sizes)}")
        if chooser.batching != "per_source":
            raise ConfigError(
                "a Mixer hands out ready batches, each of one source; leave out the chooser's batch_size, "
                "or give it batching='per_source'"
            )
        self.chooser = chooser
        self._sources = tuple(sources)
        self._batches = None if batches is None else whole_number("batches", batches, least=1)
        self._ranks = Ranks()
        self._taken = [0] * len(sources)  # the batches of each source in its present pass

    def __iter__(self) -> Iterator[tuple[Draw, Any]]:
        if data.get_worker_info() is not None:
            raise ConfigError(
                "a Mixer must run in the process that gets the rewards; give num_workers to its sources instead"
            )
        if not self._resumed:
            self._delivered, self._taken = 0, [0] * len(self._sources)
        self._resumed = False
        streams: list[Iterator[Any]] = [
            islice(iter(source), taken, None) for source, taken in zip(self._sources, self._taken, strict=True)
        ]
        while self._batches is None or self._delivered < self._batches:
            draw = self._ranks.agree(self.chooser.ask, self.chooser)
            batch = None if draw.task == len(self._sources) else self._next(streams, draw.task)
            self._delivered += 1
            yield draw, batch

    def _next(self, streams: list[Iterator[Any]], task: int) -> Any:
        for _ in range(2):
            for batch in streams[task]:
                self._taken[task] += 1
                return batch
            streams[task], self._taken[task] = iter(self._sources[task]), 0
        raise ConfigError(f"source {task + 1} is empty, or can be iterated only once")

    def state_dict(self) -> dict[str, Any]:
        """Everything needed to continue: the chooser's state, and how far each source was read.

        Returns:
            Plain values and tensors.
        """
        return self._state("taken", list(self._taken))

    def load_state_dict(self, stored: Mapping[str, Any]) -> None:
        """Continue with the very next batch. Sources are read again up to their positions.

        Args:
            stored: the result of ``state_dict``.
        """
        delivered, taken = self._checked(stored, "taken")
        if len(taken) != len(self._sources):
            raise ConfigError(f"the state has {len(taken)} sources, but this Mixer has {len(self._sources)}")
        self._load(stored, delivered)
        self._taken = taken
