"""Losses by source between two log lines, summed on the device, so that no step waits for it."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from metasched.chooser import Draw
from metasched.errors import ConfigError


class SourceLosses:
    """Sums of the losses of rows by source, since they were last read."""

    def __init__(self) -> None:
        self._sums: torch.Tensor | None = None  # (2, sources): losses, rows

    def add(self, draw: Draw, losses: Any) -> None:
        """Add the losses (rows,) of the rows of a draw, NaN for rows without a loss."""
        values = torch.as_tensor(losses).detach().float().reshape(-1)
        tasks = draw.tasks if draw.mixed else np.repeat(draw.tasks[:1], len(values))
        if len(values) != len(tasks):
            raise ConfigError(f"there are {len(values)} losses for {len(tasks)} rows; give one for each row")
        tasks = torch.from_numpy(tasks).to(values.device)
        known = ~values.isnan()
        sums = values.new_zeros(2, len(draw.names))
        sums[0].index_add_(0, tasks, values.nan_to_num(nan=0.0, posinf=torch.inf, neginf=-torch.inf))
        sums[1].index_add_(0, tasks, known.float())
        if self._sums is not None:
            sums[:, : self._sums.shape[1]] += self._sums  # a source may have been added since
        self._sums = sums

    def take(self, names: tuple[str, ...], gather: Callable[[Any], Any] | None = None) -> dict[str, float]:
        """``loss/<source>``, the mean over its rows. ``gather`` adds the sums (1, …) of all processes."""
        if self._sums is None:
            return {}
        sums = self._sums if gather is None else gather(self._sums[None]).sum(0)
        self._sums = None
        totals, rows = sums.cpu().tolist()
        return {f"loss/{name}": total / count for name, total, count in zip(names, totals, rows, strict=False) if count}
