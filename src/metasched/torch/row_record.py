"""What is recorded about a batch whose rows are measured."""

from typing import Any

import torch

from metasched.errors import ConfigError, whole_number
from metasched.torch.rewards import IGNORED


class Record:
    """What is recorded about a measured batch.

    Attributes:
        products: the inner products (n,) of each layer that took part.
        skipped: layers whose outputs do not have the rows of the batch, with their shapes.
    """

    def __init__(self) -> None:
        self.products: list[torch.Tensor] = []
        self.skipped: dict[Any, Any] = {}
        self.anchor = torch.zeros((), requires_grad=True)
        self.told = False

    def expect(self, losses: Any, labels: Any, segments: Any, number: int | None, scale: float) -> None:
        """Note the losses of the rows, and their factors in the loss of the batch."""
        shaped = losses if losses is not None else labels
        if not shaped.dim() or shaped.dim() > 2 or not len(shaped):
            raise ConfigError(f"the losses have shape {tuple(shaped.shape)}; give (rows,) or (rows, length)")
        if losses is not None and not losses.requires_grad:
            raise ConfigError("the losses of the rows have no gradient; give the losses that backward() goes through")
        for name, other in (("labels", labels), ("segments", segments)):
            if other is not None and other.shape != shaped.shape:
                raise ConfigError(
                    f"{name} have shape {tuple(other.shape)} for losses {tuple(shaped.shape)}; make it equal"
                )
        counted = losses.detach() != 0 if labels is None else labels != IGNORED
        self.shape, self._counted, self._losses = shaped.shape[: 1 if segments is None else 2], counted, None
        self._segments = self._number = None
        self._shares: list[torch.Tensor] = []
        if losses is None:
            self._shares.append(scale * counted.double() / counted.sum())
        else:
            self._losses = losses.detach()
            losses.register_hook(self._shares.append)
        if segments is not None:
            self._number = int(segments.max()) + 1 if number is None else whole_number("number", number, least=1)
            # Padding goes into one more segment, which is cut off.
            self._segments = torch.where(segments < 0, self._number, segments).to(shaped.device).reshape(-1)
        self.told = True

    def fits(self, slope: torch.Tensor) -> bool:
        """Whether the outputs of a layer have the rows of the batch."""
        return self.told and slope.shape[: len(self.shape)] == self.shape

    def add(self, products: torch.Tensor) -> None:
        """Add the part of a layer: (n,), or (n, length) if there are segments."""
        self.products.append(self._gathered(products))

    def weights_and_losses(self) -> tuple[torch.Tensor, torch.Tensor]:
        """The factor of each row in the loss of the batch, and its own mean loss, both (n,)."""
        if not self._shares:
            raise ConfigError(
                "backward() did not go through the losses given to rows(); compute the batch's loss from them"
            )
        shares = torch.where(self._counted, sum(self._shares), 0)
        wide = shares if shares.dtype == torch.float64 else shares.float()
        weights = self._by_row(wide)
        if self._losses is None:
            return weights, weights
        total = self._by_row(torch.where(self._counted, self._losses.to(wide.dtype) * wide, 0))
        return weights, torch.where(weights != 0, total / weights, 0)

    def _by_row(self, values: torch.Tensor) -> torch.Tensor:
        return self._gathered(values if self._segments is not None or values.dim() == 1 else values.sum(1))

    def _gathered(self, values: torch.Tensor) -> torch.Tensor:
        """Values of tokens summed by segment. Values of rows stay as they are."""
        if self._segments is None:
            return values
        sums = values.new_zeros(self._number + 1)  # type: ignore[operator]
        return sums.index_add_(0, self._segments, values.reshape(-1))[:-1]


class Kept(torch.autograd.Function):  # type: ignore[misc]
    """Keeps a tensor as autograd keeps what it needs. Under a checkpoint it is computed again and not kept."""

    @staticmethod
    def forward(ctx: Any, anchor: torch.Tensor, entered: torch.Tensor) -> torch.Tensor:
        """Save the tensor."""
        ctx.save_for_backward(entered)
        return anchor.clone()
