"""One batch to train on, as a chooser hands it out."""

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

ABSTAINS = -1
"""How a draw from no source is kept in a history; people see the number of sources, N."""


@dataclass(frozen=True, eq=False, slots=True)
class Draw:
    """One batch to train on.

    Attributes:
        id: 0, 1, … in the order of asking.
        task: the source's number, from 0; the number of sources, N, stands for "no source this time".
        rows: int64 ``(batch_size,)``, row numbers of that source; of a stream, the numbers of the rows that come next,
            counted from its beginning. Empty when no source was drawn.
        chooser: whose draw it is.
        source: the source's name; None when no source was drawn.
        weight: what to multiply the batch's loss by, w / q, so that the expected loss is that of the mixture w although
            the source was drawn with probability q; 1 where no ``loss_weights`` were given.

    Examples:
        >>> ms.Chooser("cyclic", {"web": 10_000, "books": 500}, batch_size=2, shuffle=False).ask()
        Draw(id=0, task=0, rows=array([0, 1]), source='web', weight=1.0)
    """

    id: int
    task: int
    rows: NDArray[np.int64]
    chooser: str = field(repr=False)
    source: str | None = None
    weight: float = 1.0


class Open(NamedTuple):
    """What a draw that waits for its reward remembers: source, first position, labels at all cursors, loss weight."""

    task: int
    begin: int
    labels: NDArray[np.int32]
    weight: float
