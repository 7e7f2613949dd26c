"""Weights of the sources, and weights that change during a run: stages, and ramps between them."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from metasched.chooser.sources import LARGEST_SIZE, Source, Sources, numbers_by_name
from metasched.errors import ConfigError, flag, whole_number

Plain: TypeAlias = Mapping[str, float] | Sequence[float]
Weights: TypeAlias = Plain | Sequence[tuple[int, Plain]]
"""Weights by name or in the order of the sources, or stages: pairs of a draw and the weights from this draw on."""


class Stages(NamedTuple):
    """Weights by name, each from a draw on, the first from draw 0, and whether they change gradually in between."""

    begins: tuple[int, ...]
    weights: tuple[Mapping[str, float], ...]
    ramp: bool = False

    def having(self, name: str, weight: float) -> "Stages":
        """The same with one more source."""
        return self._replace(weights=tuple({**each, name: weight} for each in self.weights))

    def at(self, draw: int, each: NDArray[np.float64]) -> NDArray[np.float64]:
        """The proportions (N,) for a draw, from the proportions of the stages (stages, N)."""
        if self.ramp:
            return np.array([np.interp(draw, self.begins, column) for column in each.T])
        present: NDArray[np.float64] = each[np.searchsorted(self.begins, draw, side="right") - 1]
        return present


def stages_of(given: Any, ramp: Any, sources: Sources) -> Stages:
    """Check the weights that a user gives. Plain weights are one stage."""
    staged = isinstance(given, Sequence) and any(isinstance(one, tuple | list) for one in given)
    if flag("ramp", ramp) and not (staged and len(given) > 1):
        raise ConfigError("a ramp needs several stages; give weights=[(0, …), (1000, …)]")
    if not staged:
        return Stages((0,), (numbers_by_name("weights", given, sources),))
    if not all(isinstance(one, tuple | list) and len(one) == 2 for one in given):
        raise ConfigError(f"weights are {given!r}; give pairs of a draw and the weights from this draw on")
    begins = tuple(whole_number("the draw of a stage", begin, least=0, most=LARGEST_SIZE) for begin, _ in given)
    if begins[0] != 0 or any(one >= other for one, other in pairwise(begins)):
        raise ConfigError(f"the stages begin at draws {list(begins)}; give increasing numbers that start at 0")
    named = (numbers_by_name(f"weights from draw {begin} on", weights, sources) for begin, weights in given)
    return Stages(begins, tuple(named), ramp)


def proportions(
    sources: Sequence[Source], weights: Sequence[float] | None, temperature: float | None
) -> NDArray[np.float64]:
    """p_i ∝ w_i^(1/T), where w are the weights. With only a temperature w are the sizes, with neither all are equal."""
    if weights is None and temperature is None:
        return np.full(len(sources), 1 / len(sources))
    if weights is None:
        streams = [source.name for source in sources if source.size is None]
        if streams:
            raise ConfigError(
                f"source '{streams[0]}' is a stream without a size, so temperature needs weights; give weights"
            )
        weights = [float(source.size or 0) for source in sources]
    given = np.array(weights, np.float64)
    if given.max() == 0:
        raise ConfigError("the weights are all 0; give at least one source some weight")
    given = (given / given.max()) ** (1 / (temperature or 1.0))
    shares: NDArray[np.float64] = given / given.sum()
    return shares
