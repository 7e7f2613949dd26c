"""PyTorch: a chooser behind a ``DataLoader``.

>>> sampler = BatchSampler(Chooser("ucb", [len(a), len(b)], batch_size=32), batches=1000)
>>> loader = DataLoader(ConcatDataset([a, b]), batch_sampler=sampler, num_workers=4)
>>> for draw, batch in sampler.credit(loader):
...     sampler.tell(draw, reward_after_training_on(batch))

Workers prefetch, so several draws are under way at once; ``credit`` hands each batch out with the draw that made it.
Under ``torch.distributed`` rank 0 decides and the others are told: all ranks train on the same draw, each on rows of
its own, and only what rank 0 tells counts. Those messages travel in a group of their own and cannot get mixed up with
those of the training.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np

from metasched.chooser import Chooser, Draw
from metasched.errors import ConfigError
from metasched.optional import require
from metasched.schedulers import options as check

require("torch", "torch")

import torch  # noqa: E402
from torch import distributed  # noqa: E402
from torch.utils import data  # noqa: E402


class BatchSampler(data.Sampler):  # type: ignore[misc]
    """Row numbers of a ``ConcatDataset``, batch by batch, as a chooser decides.

    Args:
        chooser: over the sizes of the data sets, in their order. Its batch size is that of all ranks together.
        batches: batches of one epoch, that is, of one pass over the loader.
    """

    def __init__(self, chooser: Chooser, batches: int) -> None:
        self.chooser = chooser
        self._batches = check.whole("batches", batches, least=1)
        self._ranks = _Ranks()
        sizes = chooser.sizes
        if min(sizes) == 0:
            raise ConfigError("the chooser has sources without rows; give it the sizes, or use Mixer")
        if self._ranks.number > 1 and (chooser.batch_size % self._ranks.number or chooser.batch_size > min(sizes)):
            raise ConfigError(
                f"batch_size is {chooser.batch_size}; give a multiple of the {self._ranks.number} ranks and at most "
                f"the smallest task's {min(sizes)} rows, so that no two ranks train on the same row"
            )
        self._starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
        self._delivered = 0  # batches of this epoch that credit() has handed out
        self._waiting: deque[Draw] = deque()  # asked for and not yet handed out
        self._resumed = False

    def __len__(self) -> int:
        return self._batches - (self._delivered if self._resumed else 0)

    def __iter__(self) -> Iterator[list[int]]:
        """Batches that were asked for and never delivered come first: no row is lost when a loop breaks off."""
        remaining = len(self)
        self._delivered = self._batches - remaining
        self._resumed = False
        again = iter(tuple(self._waiting)) if self._ranks.first else iter(())
        self._waiting.clear()
        for _ in range(remaining):
            draw = self._ranks.agree(lambda: next(again, None) or self._ask(), self.chooser)
            self._waiting.append(draw)
            mine = draw.rows[self._ranks.mine :: self._ranks.number]
            yield (self._starts[draw.task] + mine).tolist()

    def _ask(self) -> Draw:
        """The next draw; a loader cannot deliver an empty batch, so abstaining is for loops of one's own."""
        draw = self.chooser.ask()
        if not len(draw.rows):
            self.chooser.forget(draw)
            raise ConfigError("this chooser abstains, which a DataLoader cannot; leave abstain off")
        return draw

    def credit(self, loader: Iterable[Any]) -> Iterator[tuple[Draw, Any]]:
        """The batches of ``loader``, each with the draw that made it."""
        if getattr(loader, "batch_sampler", None) is not self or not getattr(loader, "in_order", True):
            raise ConfigError("credit needs the DataLoader with this batch_sampler, and in_order as it is by default")
        for batch in loader:
            self._delivered += 1
            yield self._waiting.popleft(), batch

    def tell(self, draw: Draw, reward: float) -> None:
        """The reward of a draw; under ``torch.distributed`` that of rank 0 counts."""
        if self._ranks.first:
            self.chooser.tell(draw, reward)

    def state_dict(self) -> dict[str, Any]:
        """The chooser's state and where this epoch stands; what was prefetched will be delivered after loading."""
        return {
            "delivered": self._delivered,
            "waiting": [draw.id for draw in self._waiting],
            "chooser": self.chooser.state_dict(),
        }

    def load_state_dict(self, stored: Mapping[str, Any]) -> None:
        """Go on in the middle of an epoch, with the very next batch; every rank loads what rank 0 stored."""
        self.chooser.load_state_dict(stored["chooser"])
        undelivered = set(stored["waiting"])
        self._waiting = deque(draw for draw in self.chooser.open() if draw.id in undelivered)
        self._delivered = int(stored["delivered"]) % self._batches
        self._resumed = True


class Mixer(data.IterableDataset):  # type: ignore[misc]
    """Batches of several iterables, as a chooser decides; yields (draw, batch) for ever, or ``batches`` of them.

    The sources are iterables of ready batches that can be iterated again, such as a ``DataLoader`` each: give *them*
    ``num_workers`` and ``prefetch_factor``. The choice is made when a batch is wanted, with every reward so far; each
    source keeps its own batches ready. One that is exhausted starts again.

    Args:
        chooser: ``Chooser(scheduler, len(sources))``.
        sources: one iterable for each task.
        batches: how many to yield, or None for no end.

    Under ``torch.distributed`` every rank draws from its own sources, which should hold different rows.
    """

    def __init__(self, chooser: Chooser, sources: Sequence[Iterable[Any]], batches: int | None = None) -> None:
        if len(sources) != len(chooser.sizes):
            raise ConfigError(f"there are {len(sources)} sources, but the chooser has {len(chooser.sizes)}")
        self.chooser = chooser
        self._sources = tuple(sources)
        self._batches = None if batches is None else check.whole("batches", batches, least=1)
        self._ranks = _Ranks()
        self._taken = [0] * len(sources)  # batches of each source in its present pass
        self._delivered = 0
        self._resumed = False

    def __iter__(self) -> Iterator[tuple[Draw, Any]]:
        if data.get_worker_info() is not None:
            raise ConfigError("a Mixer chooses where the rewards arrive; give num_workers to its sources, not to it")
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

    def tell(self, draw: Draw, reward: float) -> None:
        """The reward of a draw; under ``torch.distributed`` that of rank 0 counts."""
        if self._ranks.first:
            self.chooser.tell(draw, reward)

    def state_dict(self) -> dict[str, Any]:
        """The chooser's state and how far each source has been read."""
        return {"delivered": self._delivered, "taken": list(self._taken), "chooser": self.chooser.state_dict()}

    def load_state_dict(self, stored: Mapping[str, Any]) -> None:
        """Go on with the very next batch; sources are read again up to where they were."""
        self.chooser.load_state_dict(stored["chooser"])
        self._delivered, self._taken = int(stored["delivered"]), [int(number) for number in stored["taken"]]
        self._resumed = True


class _Ranks:
    """How many processes train together, which one this is, and how rank 0 tells the others its draws."""

    def __init__(self) -> None:
        together = distributed.is_available() and distributed.is_initialized()
        self.number: int = distributed.get_world_size() if together else 1
        self.mine: int = distributed.get_rank() if together else 0
        self._group = distributed.new_group(backend="gloo") if self.number > 1 else None

    @property
    def first(self) -> bool:
        """Whether this is the rank that decides."""
        return self.mine == 0

    def agree(self, decide: Callable[[], Draw], chooser: Chooser) -> Draw:
        """What ``decide`` returns on rank 0, on every rank."""
        if self._group is None:
            return decide()
        draw = decide() if self.first else None
        message = torch.zeros(2 + chooser.batch_size, dtype=torch.int64)
        if draw is not None:
            message[:2] = torch.tensor([draw.id, draw.task])
            message[2 : 2 + len(draw.rows)] = torch.from_numpy(draw.rows)
        distributed.broadcast(message, src=0, group=self._group)
        number, task, *rows = message.tolist()
        has_rows = task < len(chooser.sizes) and chooser.sizes[task] > 0
        return draw or Draw(number, task, np.array(rows if has_rows else [], np.int64), "rank 0")
