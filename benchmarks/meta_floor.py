"""What one meta-update must cost at least: arithmetic, bytes, and steps that wait for each other."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import jax
import jax.numpy as jnp
from common import fastest
from meta_work import CLASSES, Work

MLP_HIDDEN, CNN_FILTERS, CNN_LAYERS = 300, 64, 4


@dataclass(frozen=True)
class Machine:
    """Peaks: floating-point operations and bytes a second, and seconds from one dependent kernel to the next."""

    flops: float
    bandwidth: float
    latency: float


@dataclass(frozen=True)
class Floor:
    """Of one meta-update: operations, bytes that move when no cache holds the weights, kernels in a row."""

    flop: float
    bytes: float
    kernels: int

    def seconds(self, machine: Machine) -> float:
        """The largest of the three bounds."""
        return max(self.flop / machine.flops, self.bytes / machine.bandwidth, self.kernels * machine.latency)

    def text(self, machine: Machine) -> str:
        """The three bounds, in words."""
        arithmetic, traffic = self.flop / machine.flops * 1e3, self.bytes / machine.bandwidth * 1e3
        parts = [
            f"{self.flop / 1e9:.2f} GFLOP at {machine.flops / 1e9:,.0f} GFLOP/s: {arithmetic:.2f} ms",
            f"{self.bytes / 1e9:.2f} GB at {machine.bandwidth / 1e9:,.0f} GB/s: {traffic:.2f} ms",
            f"{self.kernels:,} kernels in a row",
        ]
        if machine.latency:
            parts[-1] += f" at {machine.latency * 1e6:.1f} µs: {self.kernels * machine.latency * 1e3:.2f} ms"
        return "; ".join(parts)


def layers(work: Work) -> list[tuple[int, int, int]]:
    """(positions of one row, fan in, fan out) of each layer."""
    if work.network == "mlp":
        sizes = [work.shape[0], *[MLP_HIDDEN] * 3, CLASSES]
        return [(1, old, new) for old, new in pairwise(sizes)]
    height, width, channels = work.shape
    found = []
    for _ in range(CNN_LAYERS):
        height, width = -(-height // 2), -(-width // 2)
        found.append((height * width, 9 * channels, CNN_FILTERS))
        channels = CNN_FILTERS
    return [*found, (1, height * width * channels, CLASSES)]


def forward_flop(work: Work, rows: int) -> list[int]:
    """By layer: two for each weight, position and row."""
    return [2 * rows * positions * old * new for positions, old, new in layers(work)]


def gradient_flop(work: Work, rows: int) -> int:
    """Forward, by weights and, but for the first layer, by inputs."""
    first, *rest = forward_flop(work, rows)
    return 2 * first + 3 * sum(rest)


def product_flop(work: Work, rows: int) -> int:
    """A Hessian-vector product when activations and their derivatives are known: twice what the gradient does."""
    first, *rest = forward_flop(work, rows)
    return 2 * first + 6 * sum(rest)


def floor_of(work: Work) -> Floor:
    """Second order: a gradient forwards and a Hessian-vector product backwards for every inner step.

    Forwards a step must read the weights and write the next ones; backwards it must read the weights, and read and
    write the adjoint. Its kernels in a row are one for each layer there and back, the loss, and the update.
    """
    step = gradient_flop(work, work.rows) + product_flop(work, work.rows)
    measured = sum(forward_flop(work, work.validation)) if work.rewarded else 0
    flop = work.steps * (step + measured) + gradient_flop(work, work.outer_rows)
    weights = 4 * sum((old + 1) * new for _, old, new in layers(work))
    inputs = 4 * work.rows
    for size in work.shape:
        inputs *= size
    moved = work.steps * (5 * weights + 2 * inputs)
    depth = len(layers(work))
    kernels = work.steps * 2 * (2 * depth + 1) + (work.steps * (depth + 1) if work.rewarded else 0) + 2 * depth
    return Floor(flop, moved, kernels)


def measured_machine(latency: float, clock: Callable[[], float]) -> Machine:
    """Peaks of the device in use, as large matrix products and sweeps over a large array reach them in JAX."""
    on_gpu = jax.default_backend() == "gpu"
    size, numbers = (8192, 2**28) if on_gpu else (2048, 2**25)
    square, long, sweeps = jnp.ones((size, size)), jnp.ones(numbers), 5
    multiply = jax.jit(lambda x: x @ x)
    sweep = jax.jit(lambda x: jax.lax.fori_loop(0, sweeps, lambda _, x: x * 1.5, x))
    runs = [lambda: multiply(square).block_until_ready(), lambda: sweep(long).block_until_ready()]
    for run in runs:
        run()
    seconds = fastest(*runs, repeats=10, clock=clock)
    return Machine(2 * size**3 / seconds[0], 8 * numbers * sweeps / seconds[1], latency if on_gpu else 0.0)
