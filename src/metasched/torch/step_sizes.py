"""The factors by which Adam multiplies the gradient of each parameter, from its state."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

FIRST_STEPS, EPSILON = 5, 1e-5
"""As in the reward ``adam_transfer`` of ``ms.train``."""


def step_sizes(optimiser: Any, parameters: list[Any]) -> list[Callable[[], torch.Tensor]] | None:
    """The factors by which Adam and its variants multiply the gradient of each parameter, 1 / (√v + ε). None without a
    v.

    In the first few steps v comes from so few gradients that dividing by it would amplify noise. Then all factors are
    1.
    """
    states = [{} if optimiser is None else optimiser.state.get(one, {}) for one in parameters]
    squares = [state.get("max_exp_avg_sq", state.get("exp_avg_sq")) for state in states]
    if any(v is None or v.shape != one.shape for v, one in zip(squares, parameters, strict=True)):
        return None
    betas = {id(one): group.get("betas", (0, 0.999))[1] for group in optimiser.param_groups for one in group["params"]}

    def size(v: torch.Tensor, steps: Any, beta: float) -> torch.Tensor:
        wide = v if v.dtype == torch.float64 else v.float()
        # A number of steps on an accelerator stays there, because reading it would wait for the device.
        far = isinstance(steps, torch.Tensor) and steps.device.type != "cpu"
        steps = steps.double() if far else float(steps)
        sizes = 1 / ((wide / (1 - beta**steps)).sqrt() + EPSILON)
        early = torch.ones_like(sizes)
        if far:
            return torch.where(steps > FIRST_STEPS, sizes, early)
        return sizes if steps > FIRST_STEPS else early

    return [
        partial(size, v, state.get("step", math.inf), betas.get(id(one), 0.999))
        for v, state, one in zip(squares, states, parameters, strict=True)
    ]
