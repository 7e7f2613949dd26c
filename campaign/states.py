"""States of samplers, streams and rewards as files: what ``torch.save`` would keep, as JSON that can be damaged.

Arrays and tensors are objects with a kind, a shape and numbers. What cannot be turned back into a state has been read
by nobody of ours. What can is loaded: it must be refused in one line and change nothing, or leave something that works.
"""

import json
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import metasched as ms

ARRAY, TENSOR = "array", "tensor"


class Keeper(NamedTuple):
    """Something with a state: ``make`` it, put it into a state worth storing, and ``use`` it after loading."""

    make: Callable[[], Any]
    busy: Callable[[Any], object]
    use: Callable[[Any], object]


def encoded(value: Any) -> Any:
    """A state as values of JSON."""
    if isinstance(value, dict):
        return {name: encoded(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [encoded(one) for one in value]
    if isinstance(value, np.ndarray):
        return {ARRAY: [value.dtype.str, list(value.shape), value.ravel().tolist()]}
    if hasattr(value, "detach"):
        array = value.detach().numpy()
        return {TENSOR: [array.dtype.str, list(array.shape), array.ravel().tolist()]}
    return value


def decoded(value: Any) -> Any:
    """The state that was encoded."""
    if isinstance(value, list):
        return [decoded(one) for one in value]
    if not isinstance(value, dict):
        return value
    if list(value) not in ([ARRAY], [TENSOR]):
        return {name: decoded(one) for name, one in value.items()}
    ((kind, (dtype, shape, numbers)),) = value.items()
    array = np.array(numbers, dtype).reshape(shape)
    if kind == ARRAY:
        return array
    import torch

    return torch.from_numpy(array)


def stored(one: Any) -> bytes:
    """Its state as a file."""
    return json.dumps(encoded(one.state_dict())).encode()


def good(keeper: Keeper) -> bytes:
    """A state in the middle of work."""
    one = keeper.make()
    keeper.busy(one)
    return stored(one)


def read(keeper: Keeper, content: bytes) -> object:
    """Load a state that may be damaged, and work with what has taken it."""
    try:
        state = decoded(json.loads(content))
    except Exception:  # no state at all: nothing of ours has read it
        return None
    one = keeper.make()
    before = stored(one)
    try:
        one.load_state_dict(state)
    except ms.errors.MetaschedError:
        if before != stored(one):
            raise AssertionError("a refused state has changed what refused it") from None
        raise
    return keeper.use(one)


def keepers() -> dict[str, Keeper]:
    """All that can be made here, by name."""
    found = {"mixed stream state": Keeper(_stream, _read_some, lambda stream: stream.tell(next(stream)[0], 0.5))}
    if find_spec("torch"):
        found |= {
            "sampler state": Keeper(_sampler, lambda one: list(zip(one, range(2), strict=False)), list),
            "mixer state": Keeper(_mixer, lambda one: list(zip(one, range(3), strict=False)), list),
            "teller state": Keeper(_Telling, _Telling.busy, _Telling.finish),
            "transfer state": Keeper(_transfer, lambda one: one(_rows(), _rows()), lambda one: one(_rows(), _rows())),
            "row transfer state": Keeper(_row_transfer, lambda one: one.aim(_rows()), lambda one: one.aim(_rows())),
        }
    return found


def reader(keeper: Keeper) -> Callable[[bytes, Path], object]:
    """As formats have it."""
    return lambda content, _: read(keeper, content)


@cache
def _cyclic() -> Any:
    """One for all attempts: with one of its own each would compile its programs again."""
    return ms.schedulers.cyclic(2)


def _chooser() -> ms.Chooser:
    return ms.Chooser(_cyclic(), {"a": 10, "b": 7}, batch_size=3, seed=1)


def _stream() -> Any:
    return ms.mix({"even": range(0, 60, 2), "odd": range(1, 15, 2)}, _cyclic(), batch_size=4, seed=5)


def _read_some(stream: Any) -> None:
    draws = [next(stream)[0] for _ in range(3)]
    stream.tell(draws[1], 0.5)


def _sampler() -> Any:
    from metasched.torch import BatchSampler

    return BatchSampler(_chooser(), batches=4)


def _mixer() -> Any:
    from metasched.torch import Mixer

    return Mixer(ms.Chooser(_cyclic(), 2), [["a1", "a2"], ["b1"]], batches=4)


class _Telling:
    """A teller over a chooser that has four open draws."""

    def __init__(self) -> None:
        from metasched.torch import Teller

        self.chooser = _chooser()
        self.draws = [self.chooser.ask() for _ in range(4)]
        self.teller = Teller(self.chooser, late=3)
        self.state_dict, self.load_state_dict = self.teller.state_dict, self.teller.load_state_dict

    def busy(self) -> None:
        """Rewards of several forms are on their way."""
        import torch

        self.teller.tell(self.draws[2], torch.tensor([0.5, 1.0, -1.0]))
        self.teller.tell(self.draws[0], {"a": 1.0, "b": 2.0})
        self.teller.tell(self.draws[1], None)

    def finish(self) -> None:
        """Tell them."""
        self.teller.finish()


@cache
def _model() -> Any:
    import torch

    torch.manual_seed(0)
    return torch.nn.Linear(4, 2)


def _rows() -> Any:
    import torch

    return torch.linspace(-1, 1, 24).reshape(6, 4), torch.arange(6) % 2


def _transfer() -> Any:
    from metasched.torch import Transfer

    return Transfer(_model(), every=4)


def _row_transfer() -> Any:
    from metasched.torch import RowTransfer

    return RowTransfer(_model())
