"""Tells rewards that are on a device, once they have arrived."""

import warnings
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import torch

from metasched.chooser import Draw
from metasched.errors import ConfigError, whole_number
from metasched.torch.losses import SourceLosses
from metasched.torch.ranks import ElsewhereError

_MOST_LOST = 10
"""Draws in a row whose rewards are not finite, before a warning."""


class Teller:
    """Tells a chooser the rewards of draws, without waiting for the device that computes them.

    On an accelerator a step is computed long after Python has asked for it. When rewards are passed to ``tell``, their
    copy to the processor starts. They are told a fixed number of draws later, when they have long arrived. The number
    is fixed so that a repeated run chooses the same rows. On a processor rewards are told at once.

    Args:
        chooser: a ``BatchSampler``, a ``Mixer`` or a ``Chooser``.
        late: how many draws later. None means 2 on an accelerator and 0 on a processor.

    Examples:
        >>> import torch
        >>> from metasched.torch import Teller
        >>> chooser = ms.Chooser("thompson", {"web": 100, "books": 50}, batch_size=4)
        >>> teller = Teller(chooser, late=1)
        >>> teller.tell(chooser.ask(), torch.tensor([0.1, 0.2, 0.3, 0.4]))
        >>> len(chooser.open())
        1
        >>> teller.tell(chooser.ask(), None)  # it was not measured, so it is forgotten
        >>> teller.finish()
        >>> chooser.open()
        ()
    """

    def __init__(self, chooser: Any, late: int | None = None) -> None:
        if not (hasattr(chooser, "tell") and hasattr(chooser, "forget")):
            raise ConfigError(f"the chooser is a {type(chooser).__name__}; give a BatchSampler, a Mixer or a Chooser")
        self._chooser = chooser
        self._late = late if late is None else whole_number("late", late, least=0)
        self._waiting: deque[_Waiting] = deque()
        self._losses = SourceLosses()
        self._unlogged = 0  # draws since the last log
        self._lost = 0  # draws in a row whose rewards were not finite

    def tell(self, draw: Draw, rewards: Any, losses: Any = None) -> None:
        """Take the rewards of a draw, and tell those of an earlier draw.

        Args:
            draw: a draw that waits for a reward.
            rewards: a tensor on any device with one number for each row, or anything else that ``tell`` of the chooser
                takes. None forgets the draw, and so do numbers that are not finite, such as those of a step that
                overflowed.
            losses: the losses of the rows that this process trains on, for :meth:`log`. Give them even if rewards were
                not measured. NaN stands for a row without a loss.
        """
        if losses is not None:
            positions = getattr(self._chooser, "positions", None)
            self._losses.add(draw if positions is None else draw.cut(positions(draw)), losses)
        self._unlogged += 1
        self._waiting.append(self._sent(draw, rewards))
        while len(self._waiting) > (self._late or 0):
            self._tell(self._waiting.popleft())

    def finish(self) -> None:
        """Tell all remaining rewards at the end of a run."""
        while self._waiting:
            self._tell(self._waiting.popleft())

    def log(self, gather: Callable[[Any], Any] | None = None) -> dict[str, float]:
        """Numbers for a tracker, over the draws since the last call. Reading the losses waits for the device.

        Args:
            gather: concatenates the tensors (1, …) of all processes, so that the losses of all rows count. Every
                process must then call ``log``. None: only the losses of this process count.

        Returns:
            ``share/<source>``, ``reward/<source>`` and ``loss/<source>``, the mean loss of its rows. Log those of the
            first process, because the others do not know shares and rewards.

        Examples:
            >>> import torch
            >>> from metasched.torch import Teller
            >>> chooser = ms.Chooser("cyclic", {"web": None, "books": None}, batch_size=2)
            >>> teller = Teller(chooser)
            >>> teller.tell(chooser.ask(), None, losses=torch.tensor([2.0, 3.0]))
            >>> teller.log()
            {'share/web': 0.5, 'share/books': 0.5, 'loss/web': 2.0, 'loss/books': 3.0}
        """
        chooser = getattr(self._chooser, "chooser", self._chooser)
        numbers = chooser.log(last=self._unlogged) if self._unlogged else {}
        self._unlogged = 0
        kept = {name: value for name, value in numbers.items() if not name.startswith("draws/")}
        return kept | self._losses.take(chooser.names, gather)

    def state_dict(self) -> dict[str, Any]:
        """Everything needed to continue: the rewards that were not told yet. Under ``torch.distributed`` each rank
        stores its own.

        Returns:
            Plain values and tensors, which ``torch.load(weights_only=True)`` reads.

        Examples:
            >>> from metasched.torch import Teller
            >>> Teller(ms.Chooser("uniform", 2)).state_dict()
            {'late': None, 'waiting': []}
        """
        return {"late": self._late, "waiting": [(one.draw.id, one.here()) for one in self._waiting]}

    def load_state_dict(self, stored: Mapping[str, Any]) -> None:
        """Continue from a state that :meth:`state_dict` returned.

        Args:
            stored: the state. Load the state of the chooser first.

        Examples:
            >>> from metasched.torch import Teller
            >>> teller = Teller(ms.Chooser("uniform", 2))
            >>> teller.load_state_dict(teller.state_dict())
        """
        draws = {draw.id: draw for draw in getattr(self._chooser, "chooser", self._chooser).open()}
        try:
            late = stored["late"] if stored["late"] is None else whole_number("late", stored["late"], least=0)
            waiting = [(number, rewards) for number, rewards in stored["waiting"]]
            numbers = [number for number, _ in waiting]
            if any(type(number) is not int for number in numbers) or len(set(numbers)) != len(numbers):
                raise ValueError
        except (TypeError, KeyError, ValueError):
            raise ConfigError("this is not a state from state_dict() of a Teller") from None
        if any(number not in draws for number in numbers):
            raise ConfigError("the state has rewards of draws that are not open; load the chooser's state first")
        if not all(_are_numbers(rewards) for _, rewards in waiting):
            raise ConfigError("the state is damaged: it has rewards that are not numbers; take an older one")
        self._late = late
        self._waiting = deque(_Waiting(draws[number], rewards) for number, rewards in waiting)

    def _sent(self, draw: Draw, rewards: Any) -> "_Waiting":
        far = isinstance(rewards, torch.Tensor) and rewards.device.type != "cpu"
        if self._late is None and rewards is not None:
            self._late = 2 if far else 0
        if not far:
            return _Waiting(draw, rewards)
        if not rewards.is_cuda:
            return _Waiting(draw, rewards.cpu())
        # to page-locked memory, because only there a copy arrives while the processor goes on
        here = torch.empty(rewards.shape, dtype=rewards.dtype, pin_memory=True)
        here.copy_(rewards.detach(), non_blocking=True)
        arrived = torch.cuda.Event()
        arrived.record(torch.cuda.current_stream(rewards.device))
        return _Waiting(draw, here, arrived)

    def _tell(self, one: "_Waiting") -> None:
        rewards = one.here()
        if rewards is None:
            self._chooser.forget(one.draw)
            return
        if not isinstance(rewards, Mapping):
            rewards = np.asarray(rewards, np.float64)
        try:
            self._chooser.tell(one.draw, rewards)
        except ElsewhereError:
            self._chooser.forget(one.draw)
        except ConfigError:
            if not isinstance(rewards, np.ndarray) or np.isfinite(rewards).all():
                raise
            self._chooser.forget(one.draw)
            self._lost += 1
            if self._lost == _MOST_LOST:
                warnings.warn(
                    f"the rewards of the last {_MOST_LOST} measured draws are not finite, so nothing is learned from "
                    "them; look for NaN in the rows and the target, or lower the learning rate",
                    stacklevel=3,
                )
        else:
            self._lost = 0


def _are_numbers(rewards: Any) -> bool:
    """Whether these can be rewards. Whether their number fits is checked when they are told."""
    values = list(rewards.values()) if isinstance(rewards, Mapping) else rewards
    try:
        return rewards is None or np.asarray(values, np.float64).ndim <= 1
    except (TypeError, ValueError, OverflowError):
        return False


class _Waiting(NamedTuple):
    """A draw, its rewards, and an event that says when they have arrived."""

    draw: Draw
    rewards: Any
    arrived: Any = None

    def here(self) -> Any:
        """The rewards after they have arrived."""
        if self.arrived is not None:
            self.arrived.synchronize()
        return self.rewards
