"""What Adam multiplies the gradient of each parameter by, from its state."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

FIRST_STEPS, EPSILON = 5, 1e-5
"""As in the reward ``adam_transfer`` of ``ms.train``."""


def step_sizes(optimiser: Any, parameters: list[Any]) -> list[Callable[[], torch.Tensor]] | None:
    """What Adam and its relatives multiply the gradient of each parameter by, 1 / (√v + ε); None if there is no v.

    In its first steps v is made of so few gradients that dividing by it would amplify noise: then all are 1.
    """
    states = [{} if optimiser is None else optimiser.state.get(one, {}) for one in parameters]
    squares = [state.get("max_exp_avg_sq", state.get("exp_avg_sq")) for state in states]
    if any(v is None or v.shape != one.shape for v, one in zip(squares, parameters, strict=True)):
        return None
    betas = {id(one): group.get("betas", (0, 0.999))[1] for group in optimiser.param_groups for one in group["params"]}

    def size(v: torch.Tensor, steps: Any, beta: float) -> torch.Tensor:
        wide = v if v.dtype == torch.float64 else v.float()
        # A number of steps that is on an accelerator stays there, for reading it would wait.
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
