"""Processes that train together: rank 0 decides, and the others receive its draws."""

import math
import sys
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import distributed

from metasched.chooser import Chooser, Draw
from metasched.chooser.draws import LOSS, REWARD, credited
from metasched.errors import ConfigError


def processes() -> int:
    """The number of processes that train together."""
    together = distributed.is_available() and distributed.is_initialized()
    return int(distributed.get_world_size()) if together else 1


class ElsewhereError(ConfigError):
    """A reward that another rank told and that cannot be used."""


class Ranks:
    """How many processes train together, which of them this is, and how draws and rewards travel between them."""

    def __init__(self) -> None:
        self.number = processes()
        self.mine: int = distributed.get_rank() if self.number > 1 else 0
        self._group = distributed.new_group(backend="gloo") if self.number > 1 else None

    @property
    def first(self) -> bool:
        """Whether this rank decides."""
        return self.mine == 0

    def agree(self, decide: Callable[[], Draw], chooser: Chooser) -> Draw:
        """The result of ``decide`` on rank 0, on every rank."""
        if self._group is None:
            return decide()
        draw = decide() if self.first else None
        message = torch.zeros(2 + 3 * chooser.batch_size, dtype=torch.int64)
        if draw is not None:
            columns = np.concatenate([draw.rows, draw.tasks, draw.weights.view(np.int64)])
            message[: 2 + len(columns)] = torch.from_numpy(np.concatenate([[draw.id, len(draw.rows)], columns]))
        distributed.broadcast(message, src=0, group=self._group)
        number, count = message[:2].tolist()
        rows, tasks, weights = message[2 : 2 + 3 * count].numpy().reshape(3, count).copy()
        names, mixed = np.array(chooser.names, np.object_), chooser.batching == "mixed"
        return draw or Draw(number, rows, tasks, weights.view(np.float64), names, "rank 0", mixed)

    def positions(self, draw: Draw) -> NDArray[np.int64]:
        """The positions of this rank's rows in the batch."""
        return np.arange(self.mine, len(draw.rows), self.number)

    def gathered(self, draw: Draw, reward: Any, loss: Any = None) -> tuple[Any, Any]:
        """Collect the rewards and losses of all rows from all ranks, or the means if the draw has one source.

        If the reward of one rank cannot be used, all ranks refuse it, so that none waits for another.
        """
        if self._group is None:
            return reward, loss
        mine, wrong = self.positions(draw), None
        places = mine if draw.mixed else slice(None)
        total, losses, known = message = torch.zeros(3, len(draw.rows) if draw.mixed else 1, dtype=torch.float64)
        try:
            total[places] = self._own(reward, draw, REWARD)
            if loss is not None:
                values = self._own(loss, draw, LOSS)
                losses[places], known[places] = values.nan_to_num(nan=0.0), (~values.isnan()).double()
        except ConfigError as error:
            wrong = error
            total[:] = math.nan
        distributed.all_reduce(message, group=self._group)
        if wrong is not None:
            raise ConfigError(f"rank {self.mine}: {wrong}")
        if not bool(total.isfinite().all()):
            raise ElsewhereError("the reward of another rank does not fit or is not finite; forget the draw")
        every = (losses / known).numpy() if bool(known.any()) else None  # 0 / 0 is NaN, which means that there is none
        if draw.mixed:
            return total.numpy(), every
        return float(total.item()) / self.number, None if every is None else float(every[0])

    def _own(self, given: Any, draw: Draw, what: str) -> torch.Tensor:
        """The rewards of this rank's own rows, or of a draw of one source."""
        own = draw.cut(self.positions(draw)) if draw.mixed or np.ndim(given) else draw
        return torch.from_numpy(credited(given, own, what))


class OnRanks:
    """The common part of ``BatchSampler`` and ``Mixer``: rank 0 asks and tells the chooser for all, and states use
    tensors.
    """

    chooser: Chooser
    _ranks: Ranks
    _delivered = 0  # the batches of this pass that were handed out
    _resumed = False  # whether the next pass is the rest of a stored one

    def tell(self, draw: Draw, reward: Any, loss: Any = None) -> None:
        """Give a draw its reward. Under ``torch.distributed`` every rank tells the rewards of its own rows.

        Args:
            draw: a draw that waits for a reward.
            reward: larger if the rows helped more. One finite number for each row that this rank trains on, one for
                each source of these rows by name, or one for all of them. If the draw has one source, the mean over all
                ranks counts.
            loss: the training loss of these rows, in the same forms, for the log.
        """
        gathered = self._ranks.gathered(draw, reward, loss)
        if self._ranks.first:
            self.chooser.tell(draw, *gathered)

    def forget(self, draw: Draw) -> None:
        """Give up a draw that will never get a reward, on every rank or on none.

        Args:
            draw: a draw that waits for a reward.
        """
        if self._ranks.first:
            self.chooser.forget(draw)

    def _state(self, name: str, numbers: list[int]) -> dict[str, Any]:
        return {"delivered": self._delivered, name: numbers, "chooser": with_tensors(self.chooser.state_dict())}

    def _checked(self, stored: Any, name: str) -> tuple[int, list[int]]:
        """The number of delivered batches, and the numbers under ``name``."""
        try:
            delivered, numbers, _ = stored["delivered"], list(stored[name]), stored["chooser"]
            if any(type(number) is not int or not 0 <= number <= sys.maxsize for number in (delivered, *numbers)):
                raise ValueError
        except (TypeError, KeyError, ValueError):
            raise ConfigError(f"this is not a state from state_dict() of a {type(self).__name__}") from None
        return delivered, numbers

    def _load(self, stored: Mapping[str, Any], delivered: int) -> None:
        self.chooser.load_state_dict(with_arrays(stored["chooser"]))
        self._delivered, self._resumed = delivered, True


def with_tensors(stored: Mapping[str, Any]) -> dict[str, Any]:
    """A chooser's state with tensors for arrays. Unsigned arrays, which tensors hardly support, are stored by their
    bits.
    """
    unsigned = [name for name, values in stored["arrays"].items() if values.dtype == np.uint32]
    signed = {name: values.view(np.int32) if name in unsigned else values for name, values in stored["arrays"].items()}
    arrays = {name: torch.from_numpy(np.array(values)) for name, values in signed.items()}
    return {"facts": stored["facts"], "arrays": arrays, "unsigned": unsigned}


def with_arrays(stored: Any) -> dict[str, Any]:
    """The chooser's state from which :func:`with_tensors` made this one."""
    try:
        facts, arrays = stored["facts"], {name: np.asarray(values) for name, values in stored["arrays"].items()}
        for name in stored["unsigned"]:
            arrays[name] = arrays[name].astype(np.int32, casting="safe").view(np.uint32)
    except (TypeError, KeyError, ValueError, AttributeError):
        raise ConfigError("this is not a chooser's state from a BatchSampler or Mixer") from None
    return {"facts": facts, "arrays": arrays}
