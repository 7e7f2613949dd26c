"""A chooser behind a ``DataLoader``."""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch.utils import data

from metasched.chooser import Chooser, Draw
from metasched.errors import ConfigError, whole_number
from metasched.torch.ranks import OnRanks, Ranks, processes


class BatchSampler(OnRanks, data.Sampler):  # type: ignore[misc]
    """Yields row numbers of a ``ConcatDataset``, batch by batch, as a chooser decides.

    A batch holds rows of several data sets, in the order of ``draw.sources``. Tell one reward for each row, or for each
    source. If you have only one number for a batch, give the chooser ``batching="per_source"``.

    Args:
        chooser: a chooser with the sizes of the data sets, in order. Its batch size is that of all ranks together.
        batches: the batches of one epoch, that is, of one pass over the loader.

    Examples:
        >>> import torch
        >>> from torch.utils.data import ConcatDataset, DataLoader, TensorDataset
        >>> from metasched.torch import BatchSampler
        >>> a, b = TensorDataset(torch.zeros(50, 3)), TensorDataset(torch.ones(70, 3))
        >>> sampler = BatchSampler(ms.Chooser("thompson", {"a": 50, "b": 70}, batch_size=10), batches=4)
        >>> loader = DataLoader(ConcatDataset([a, b]), batch_sampler=sampler)
        >>> for draw, (inputs,) in sampler.credit(loader):
        ...     sampler.tell(draw, reward=inputs.mean(dim=1))  # one for each row; or sampler.forget(draw)
        >>> sampler.positions(draw)  # the rows of this process; all of them, because there is only one
        array([0, 1, 2, 3, 4, 5, 6, 7, 8, 9])
        >>> state = sampler.state_dict()
        >>> sampler.load_state_dict(state)
    """

    whole = False  # whether len() counts all batches of an epoch, even if a resumed epoch has fewer left

    def __init__(self, chooser: Chooser, batches: int) -> None:
        if not isinstance(chooser, Chooser):
            raise ConfigError(f"the chooser is a {type(chooser).__name__}; give an ms.Chooser")
        self.chooser = chooser
        self._batches = whole_number("batches", batches, least=1)
        self._waiting: deque[Draw] = deque()  # batches that workers have prefetched and credit() has not yet handed out
        if None in chooser.sizes:
            raise ConfigError("the chooser has streams, which have no row numbers; give it sizes, or use Mixer")
        self.connect()

    def connect(self) -> None:
        """Find the other processes, if they were started after the sampler was made, as in Lightning.

        Examples:
            >>> from metasched.torch import BatchSampler
            >>> sampler = BatchSampler(ms.Chooser("cyclic", {"a": 50, "b": 70}, batch_size=2), batches=4)
            >>> sampler.connect()  # on every process, after init_process_group
            >>> sampler.processes
            1
        """
        chooser = self.chooser
        smallest, number, size = min(size or 0 for size in chooser.sizes), processes(), chooser.batch_size
        if number > 1 and size % number:
            raise ConfigError(f"batch_size is {size}; give a multiple of the {number} ranks")
        if number > 1 and size > smallest and chooser.batching == "per_source":
            raise ConfigError(
                f"batch_size is {size}; give at most the smallest source's {smallest} rows, "
                "so that no two ranks train on the same row"
            )
        self._ranks = Ranks()  # This connects all processes, so it comes after everything that may be refused.

    def __len__(self) -> int:
        return self._batches if self.whole else self._remaining

    @property
    def _remaining(self) -> int:
        return self._batches - (self._delivered if self._resumed else 0)

    @property
    def processes(self) -> int:
        """The number of processes that train together."""
        return self._ranks.number

    def __iter__(self) -> Iterator[list[int]]:
        """Yield batches. Prefetched batches that were never delivered come first, so no row is lost when a loop breaks
        off.
        """
        remaining = self._remaining
        self._delivered = self._batches - remaining
        self._resumed = False
        again = iter(tuple(self._waiting)) if self._ranks.first else iter(())
        self._waiting.clear()
        for _ in range(remaining):
            draw = self._ranks.agree(lambda: next(again, None) or self._ask(), self.chooser)
            self._waiting.append(draw)
            mine = self.positions(draw)
            starts = np.cumsum([0, *(size or 0 for size in self.chooser.sizes)])
            yield (starts[draw.tasks[mine]] + draw.rows[mine]).tolist()

    def _ask(self) -> Draw:
        """The next draw. A loader cannot deliver an empty batch, so only your own loop can abstain."""
        draw = self.chooser.ask()
        if len(draw.rows) < self._ranks.number:
            self.chooser.forget(draw)
            raise ConfigError(
                "this chooser abstained, but a DataLoader cannot deliver an empty batch; leave out abstain"
            )
        return draw

    def positions(self, draw: Draw) -> NDArray[np.int64]:
        """Find the rows of a draw that this rank trains on.

        Args:
            draw: a draw of this sampler.

        Returns:
            Their positions in the draw. With a single process, these are all rows.
        """
        return self._ranks.positions(draw)

    def credit(self, loader: Iterable[Any]) -> Iterator[tuple[Draw, Any]]:
        """Yield the batches of a loader, each with the draw that made it.

        Args:
            loader: the ``DataLoader`` with this batch sampler.

        Yields:
            Pairs of a draw and a batch, in order.
        """
        if getattr(loader, "batch_sampler", None) is not self or not getattr(loader, "in_order", True):
            raise ConfigError("credit needs the DataLoader with this batch_sampler, and the default in_order=True")
        data_set, wanted = getattr(loader, "dataset", ()), sum(size or 0 for size in self.chooser.sizes)
        if hasattr(data_set, "__len__") and len(data_set) < wanted:
            raise ConfigError(
                f"the chooser's sources have {wanted} rows, but the loader's data set has {len(data_set)}"
            )
        self._check_parts(getattr(data_set, "datasets", ()))
        for batch in loader:
            yield self.delivered(), batch

    def _check_parts(self, parts: Sequence[Any]) -> None:
        """Refuse a ``ConcatDataset`` of one part per source whose sizes differ: its rows would be of other sources."""
        if len(parts) != len(self.chooser.sizes):
            return
        for name, size, part in zip(self.chooser.names, self.chooser.sizes, parts, strict=True):
            if size != len(part):
                raise ConfigError(f"source '{name}' has {size} rows, but its part of the ConcatDataset has {len(part)}")

    def delivered(self) -> Draw:
        """Get the draw of the batch that the loader has just delivered, if you do not use ``credit``.

        Returns:
            The draw. Call this once for each batch, in order.

        Examples:
            >>> from torch.utils.data import DataLoader
            >>> from metasched.torch import BatchSampler
            >>> sampler = BatchSampler(ms.Chooser("cyclic", {"a": 50, "b": 70}, batch_size=2), batches=4)
            >>> for batch in DataLoader(range(120), batch_sampler=sampler):
            ...     sampler.tell(sampler.delivered(), reward=batch / 120)
        """
        if not self._waiting:
            raise ConfigError(
                "there is no batch that was not delivered yet; does it come from the DataLoader with this sampler?"
            )
        self._delivered += 1
        return self._waiting.popleft()

    def state_dict(self) -> dict[str, Any]:
        """Everything needed to continue in the middle of an epoch. Prefetched batches are delivered again after
        loading.

        Returns:
            Plain values and tensors, which ``torch.load(weights_only=True)`` reads.
        """
        return self._state("waiting", [draw.id for draw in self._waiting])

    def load_state_dict(self, stored: Mapping[str, Any]) -> None:
        """Continue in the middle of an epoch, with the very next batch. Every rank loads the state of rank 0.

        Args:
            stored: the result of ``state_dict``.
        """
        delivered, undelivered = self._checked(stored, "waiting")
        self._load(stored, delivered % self._batches)
        self._waiting = deque(draw for draw in self.chooser.open() if draw.id in undelivered)
