"""A reward for every row of a batch, from the backward pass that trains on it.

The reward of row i is its inner product with the target: ⟨∇L_i, d⟩, where L_i is the mean loss of the row and d is the
unit vector along the gradient of the target's loss, over the weights of all linear layers. It is how fast the target's
loss falls when the model learns this row.

No row needs a gradient of its own. A linear layer with inputs a and gradients δ of its outputs has the gradient
Σ_t δ_t a_tᵀ, so that the layer's part of the inner product is Σ_t δ_tᵀ D a_t, with D the layer's part of d. One more
matrix product for each layer does it, in a hook on the layer's output, while the ordinary backward pass runs.
"""

import torch
from mixing_model import row_losses
from torch import nn

KINDS = ("loss", "probability", "adam", "adam-probability")
"""``probability``: the reward times exp(−L_i), so that rows which stay wrong do not dominate. ``adam``: d is along the
gradient over √v, as Adam's step is, where v is its running mean of squared gradients."""


class RowRewards:
    """Rewards of rows for one model and its optimiser; :meth:`aim` first, then :meth:`backward` as often as wanted."""

    def __init__(self, model: nn.Module, optimiser: torch.optim.Optimizer, kind: str = "loss") -> None:
        if kind not in KINDS:
            raise SystemExit(f"unknown reward '{kind}'; known: {', '.join(KINDS)}")
        self._model, self._optimiser, self._kind = model, optimiser, kind
        self._layers = [part for part in model.modules() if isinstance(part, nn.Linear)]
        self._directions: dict[nn.Module, torch.Tensor] = {}
        self._products: list[torch.Tensor] | None = None  # a list while rewards are measured
        for layer in self._layers:
            layer.register_forward_hook(self._watch)

    def aim(self, target: torch.Tensor) -> None:
        """Take the direction anew, from the gradient of the loss of these rows of the target."""
        weights = [layer.weight for layer in self._layers]
        slopes = list(torch.autograd.grad(row_losses(self._model, target).mean(), weights))
        # Before its first step the optimiser has no v.
        if self._kind.startswith("adam") and all(weight in self._optimiser.state for weight in weights):
            roots = torch._foreach_sqrt([self._optimiser.state[weight]["exp_avg_sq"] for weight in weights])
            slopes = list(torch._foreach_div(slopes, torch._foreach_add(roots, 1e-8)))
        length = torch.stack(torch._foreach_norm(slopes)).norm()
        # The linear layers compute in bfloat16 on an accelerator, and so does the product with the direction.
        precision = torch.bfloat16 if target.is_cuda else torch.float32
        self._directions = {
            layer: (slope / length).to(precision) for layer, slope in zip(self._layers, slopes, strict=True)
        }

    def backward(self, rows: torch.Tensor) -> torch.Tensor:
        """Add the gradient of the mean loss of the rows to ``.grad``; the reward of each row, (n,), on the device."""
        self._products = []
        losses = row_losses(self._model, rows)
        losses.mean().backward()
        # The backward pass is that of the mean over n rows, where each row counts by an n-th.
        rewards = len(rows) * torch.stack(self._products).sum(0)
        self._products = None
        return rewards * torch.exp(-losses.detach()) if self._kind.endswith("probability") else rewards

    def _watch(self, layer: nn.Module, inputs: tuple[torch.Tensor], output: torch.Tensor) -> None:
        products = self._products
        if products is None:
            return
        entered, direction = inputs[0].detach(), self._directions[layer]

        def credit(slope: torch.Tensor) -> None:
            moved = entered.to(slope.dtype) @ direction.T
            products.append((slope * moved).sum((1, 2), dtype=torch.float32))

        output.register_hook(credit)
