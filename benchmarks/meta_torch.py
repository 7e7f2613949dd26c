"""The peers of `meta.py`: the same meta-update in PyTorch, eager, functional, compiled, and through two libraries."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import meta_work
import numpy as np
import torch
from meta_work import TASKS, Work
from torch import nn
from torch.nn import functional

Tensors = list[torch.Tensor]


class Model(nn.Module):
    """The network as modules: 3 × 3 convolutions with stride 2 or fully connected layers, rectified."""

    def __init__(self, layers: list[nn.Module]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        """Logits."""
        *hidden, last = self.layers
        for layer in hidden:
            values = torch.relu(layer(values))
        return last(values.flatten(1))


def apply(weights: Tensors, values: torch.Tensor) -> torch.Tensor:
    """The same network as a function of a flat list w, b, w, b, …"""
    pairs = list(zip(weights[::2], weights[1::2], strict=True))
    for matrix, bias in pairs[:-1]:
        if matrix.dim() == 4:
            values = torch.relu(functional.conv2d(values, matrix, bias, stride=2, padding=1))
        else:
            values = torch.relu(functional.linear(values, matrix, bias))
    return functional.linear(values.flatten(1), *pairs[-1])


def loss(weights: Tensors, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Mean cross-entropy."""
    return functional.cross_entropy(apply(weights, inputs), labels)


@dataclass
class Problem:
    """The rows and initial weights of a work on a torch device."""

    work: Work
    weights: Tensors
    log_rate: torch.Tensor
    sources: list[tuple[torch.Tensor, torch.Tensor]]
    validation: tuple[torch.Tensor, torch.Tensor]

    def outer(self) -> tuple[torch.Tensor, torch.Tensor]:
        """The rows of the outer loss; which ones they are does not change what they cost."""
        return self.validation[0][: self.work.outer_rows], self.validation[1][: self.work.outer_rows]


def problem_of(work: Work, ours: Any, device: str, channels_last: bool = False) -> Problem:
    """From our weights: matrices are transposed, patches become kernels, rows of images channels first."""
    tasks = meta_work.tasks_of(work)
    memory = {"memory_format": torch.channels_last} if channels_last else {}

    def rows(part):
        inputs = torch.tensor(np.asarray(part.inputs), device=device)
        if inputs.dim() == 4:
            inputs = inputs.permute(0, 3, 1, 2).contiguous(**memory)
        return inputs, torch.tensor(np.asarray(part.labels), device=device).long()

    weights = [torch.tensor(array, device=device) for array in from_ours(work, ours)]
    weights = [part.contiguous(**memory) if part.dim() == 4 else part for part in weights]
    log_rate = torch.tensor(math.log(meta_work.INNER_RATE), device=device)
    return Problem(work, weights, log_rate, [rows(task) for task in tasks.tasks], rows(tasks.validation))


def from_ours(work: Work, layers: Any) -> list[np.ndarray]:
    """Our layers {w (in, out), b} as torch orders them: w (out, in) or (out, in, 3, 3), b."""
    found = []
    for number, layer in enumerate(layers):
        matrix = np.asarray(layer["w"])
        if work.network == "cnn":
            last, filters = number == len(layers) - 1, np.asarray(layers[0]["w"]).shape[1]
            if last:
                matrix = matrix.reshape(-1, filters, matrix.shape[1]).transpose(1, 0, 2).reshape(matrix.shape)
            else:
                kernel = matrix.reshape(3, 3, -1, matrix.shape[1]).transpose(3, 2, 0, 1)
        patches = work.network == "cnn" and not last
        found += [np.ascontiguousarray(kernel if patches else matrix.T), np.array(layer["b"])]
    return found


class Cyclic:
    """Batches of each task in turn."""

    def __init__(self, problem: Problem) -> None:
        self.problem, self.cursors, self.drawn = problem, [0] * TASKS, []

    def choose(self) -> int:
        """The task of the next batch."""
        return len(self.drawn) % TASKS

    def draw(self) -> tuple[torch.Tensor, torch.Tensor]:
        """The next batch; cursors of tasks that are not drawn rest."""
        task, rows = self.choose(), self.problem.work.rows
        self.drawn.append(task)
        (inputs, labels), first = self.problem.sources[task], self.cursors[task]
        self.cursors[task] = (first + rows) % len(labels)
        return inputs[first : first + rows], labels[first : first + rows]

    def tell(self, predict: Callable[[torch.Tensor], torch.Tensor]) -> None:
        """A static schedule asks nothing."""


class Ucb(Cyclic):
    """θ = argmax μ_i + U·√(ξ·log t / V_i), rewards 1 − √t·(1 − accuracy) on all validation rows."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        self.visits, self.means = [0] * TASKS, [0.0] * TASKS

    def choose(self) -> int:
        """Every task once, then the highest bound."""
        turn = len(self.drawn)
        if turn < TASKS:
            return turn
        spur = meta_work.UCB_XI * math.log(turn - TASKS + 1)
        bounds = [
            mean + meta_work.UCB_WIDTH * math.sqrt(spur / count)
            for mean, count in zip(self.means, self.visits, strict=True)
        ]
        return max(range(TASKS), key=bounds.__getitem__)

    def tell(self, predict: Callable[[torch.Tensor], torch.Tensor]) -> None:
        """Measure, and move the mean of the task drawn last."""
        inputs, labels = self.problem.validation
        with torch.no_grad():
            accuracy = (predict(inputs).argmax(1) == labels).float().mean().item()
        reward, task = 1 - math.sqrt(len(self.drawn)) * (1 - accuracy), self.drawn[-1]
        self.visits[task] += 1
        self.means[task] += (reward - self.means[task]) / self.visits[task]


def schedule_of(problem: Problem) -> Cyclic:
    """The schedule of a work, at its beginning."""
    return Ucb(problem) if problem.work.rewarded else Cyclic(problem)


def differentiated(problem: Problem, step: Callable[..., Tensors], schedule: Cyclic | None = None) -> Tensors:
    """∇ of the outer loss by weights and log rate, with ``step(weights, rate, inputs, labels) -> weights``."""
    start = [part.detach().requires_grad_() for part in problem.weights]
    log_rate = problem.log_rate.detach().requires_grad_()
    schedule, weights, rate = schedule or schedule_of(problem), start, log_rate.exp()
    for _ in range(problem.work.steps):
        weights = step(weights, rate, *schedule.draw())
        adapted = weights
        schedule.tell(lambda inputs, adapted=adapted: apply(adapted, inputs))
    return list(torch.autograd.grad(loss(weights, *problem.outer()), [*start, log_rate]))


def eager_step(weights: Tensors, rate: torch.Tensor, inputs: torch.Tensor, labels: torch.Tensor) -> Tensors:
    """One SGD step that stays in the graph."""
    gradient = torch.autograd.grad(loss(weights, inputs, labels), weights, create_graph=True)
    return [part - rate * slope for part, slope in zip(weights, gradient, strict=True)]


def functional_step(weights: Tensors, rate: torch.Tensor, inputs: torch.Tensor, labels: torch.Tensor) -> Tensors:
    """The same with ``torch.func.grad``."""
    gradient = torch.func.grad(loss)(weights, inputs, labels)
    return [part - rate * slope for part, slope in zip(weights, gradient, strict=True)]


def eager(problem: Problem) -> Tensors:
    """Autograd with ``create_graph``."""
    return differentiated(problem, eager_step)


def functional_gradient(problem: Problem) -> Tensors:
    """``torch.func.grad`` of a loop over ``torch.func.grad``."""

    def outer_loss(weights, log_rate):
        schedule, rate = schedule_of(problem), log_rate.exp()
        for _ in range(problem.work.steps):
            weights = functional_step(weights, rate, *schedule.draw())
        return loss(weights, *problem.outer())

    by_weights, by_log_rate = torch.func.grad(outer_loss, argnums=(0, 1))(problem.weights, problem.log_rate)
    return [*by_weights, by_log_rate]


def model_of(problem: Problem) -> Model:
    """The weights of a problem as a module."""
    layers: list[nn.Module] = []
    for matrix, bias in zip(problem.weights[::2], problem.weights[1::2], strict=True):
        if matrix.dim() == 4:
            layer: nn.Module = nn.Conv2d(matrix.shape[1], matrix.shape[0], 3, stride=2, padding=1, device=matrix.device)
        else:
            layer = nn.Linear(matrix.shape[1], matrix.shape[0], device=matrix.device)
        layer.weight, layer.bias = nn.Parameter(matrix.clone()), nn.Parameter(bias.clone())
        layers.append(layer)
    return Model(layers)


def with_torchopt(problem: Problem) -> Callable[[], Tensors]:
    """TorchOpt's differentiable SGD."""
    import torchopt

    model, log_rate = model_of(problem), problem.log_rate.clone().requires_grad_()
    start = list(model.parameters())

    def gradient() -> Tensors:
        rate = log_rate.exp()
        optimiser = torchopt.MetaSGD(model, lr=rate)
        before, schedule = torchopt.extract_state_dict(model, by="reference"), schedule_of(problem)
        for _ in range(problem.work.steps):
            inputs, labels = schedule.draw()
            optimiser.step(functional.cross_entropy(model(inputs), labels))
            schedule.tell(model)
        inputs, labels = problem.outer()
        found = torch.autograd.grad(functional.cross_entropy(model(inputs), labels), [*start, log_rate])
        torchopt.recover_state_dict(model, before)
        return list(found)

    return gradient


def with_higher(problem: Problem) -> Callable[[], Tensors]:
    """Differentiable SGD of the library higher."""
    import higher

    model, log_rate = model_of(problem), problem.log_rate.clone().requires_grad_()
    start = list(model.parameters())

    def gradient() -> Tensors:
        optimiser = torch.optim.SGD(start, lr=meta_work.INNER_RATE)
        override = {"lr": [log_rate.exp()]}
        with higher.innerloop_ctx(model, optimiser, override=override, copy_initial_weights=False) as (inner, steps):
            schedule = schedule_of(problem)
            for _ in range(problem.work.steps):
                inputs, labels = schedule.draw()
                steps.step(functional.cross_entropy(inner(inputs), labels))
                schedule.tell(inner)
            inputs, labels = problem.outer()
            return list(torch.autograd.grad(functional.cross_entropy(inner(inputs), labels), [*start, log_rate]))

    return gradient


def with_compiled_step(problem: Problem) -> Callable[[], Tensors]:
    """An inner step, its gradient inside, through ``torch.compile``; the loop over steps stays eager."""
    step = torch.compile(functional_step, dynamic=False)
    return lambda: differentiated(problem, step)


def with_cuda_graph(problem: Problem) -> Callable[[], Tensors]:
    """The whole eager meta-gradient as one CUDA graph: no launches from Python."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(2):
            eager(problem)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = eager(problem)

    def gradient() -> Tensors:
        graph.replay()
        return found

    return gradient


def update_of(problem: Problem, gradient: Callable[[], Tensors], threads: int) -> Callable[[], None]:
    """A meta-update: the gradient, always from the same weights, like ours; then Adam."""
    moved = [part.clone().requires_grad_() for part in [*problem.weights, problem.log_rate]]
    adam = torch.optim.Adam(moved, lr=meta_work.OUTER_RATE)
    on_gpu = problem.log_rate.is_cuda

    def update() -> None:
        torch.set_num_threads(threads)
        for part, slope in zip(moved, gradient(), strict=True):
            part.grad = slope
        adam.step()
        if on_gpu:
            torch.cuda.synchronize()

    return update


def seeds_of(problem: Problem, seeds: int) -> Callable[[], None]:
    """Meta-gradients of many seeds at once with ``torch.func.vmap``."""
    weights = [torch.stack([part * (1 + 0.01 * seed) for seed in range(seeds)]) for part in problem.weights]

    def one(weights):
        def outer_loss(weights, log_rate):
            schedule, rate = schedule_of(problem), log_rate.exp()
            for _ in range(problem.work.steps):
                weights = functional_step(weights, rate, *schedule.draw())
            return loss(weights, *problem.outer())

        return torch.func.grad(outer_loss, argnums=(0, 1))(weights, problem.log_rate)

    many = torch.func.vmap(one)
    return lambda: many(weights)
