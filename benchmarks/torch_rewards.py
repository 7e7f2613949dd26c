"""What a reward from gradients costs in a plain PyTorch loop: in time, and in what the model ends with.

Every step trains on one source batch of 32 rows and on the target's rows together; Thompson sampling chooses. The
reward is ``transfer``, from ``.grad`` or by one more backward pass of the batch, over all parameters or the output
layer, with the target's gradient kept for k steps.

Run with: python benchmarks/torch_rewards.py                     # time: MLP and CNN, medians of turns
          python benchmarks/torch_rewards.py --quality --set scripts --seeds 5
"""

import argparse
import time
import warnings
from collections.abc import Callable
from itertools import pairwise
from typing import Any

from common import medians

import numpy as np  # isort: skip  (common holds it to one thread)
import torch
from torch import nn

import metasched as ms
from metasched.torch import Transfer

STEPS = 16
VARIANTS: dict[str, dict[str, Any] | None] = {
    "no reward": None,
    "from .grad, k = 1": {"every": 1},
    "from .grad, k = 4": {"every": 4},
    "from .grad, k = 8": {"every": 8},
    "one more backward, k = 1": {"every": 1, "again": True},
    "one more backward, k = 4": {"every": 4, "again": True},
    "one more backward, k = 8": {"every": 8, "again": True},
    "from .grad, k = 4, output layer": {"every": 4, "part": True},
    "one more backward, k = 4, output layer": {"every": 4, "again": True, "part": True},
}


def mlp(inputs: int, outputs: int) -> nn.Module:
    """Three hidden layers of 300."""
    sizes = [inputs, 300, 300, 300]
    layers = [part for a, b in pairwise(sizes) for part in (nn.Linear(a, b), nn.ReLU())]
    return nn.Sequential(nn.Flatten(), *layers, nn.Linear(300, outputs))


def cnn(channels: int, outputs: int) -> nn.Module:
    """Four strided convolutions of 64 filters, with BatchNorm."""
    layers: list[nn.Module] = []
    for before in (channels, 64, 64, 64):
        layers += [nn.Conv2d(before, 64, 3, stride=2, padding=1), nn.BatchNorm2d(64), nn.ReLU()]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(64 * 4, outputs))


class Loop:
    """One run: a model, its optimiser, a chooser, and how rewards are measured."""

    def __init__(self, model: nn.Module, chooser: ms.Chooser, variant: dict[str, Any] | None) -> None:
        self.model, self.chooser, self.again = model, chooser, bool(variant and variant.get("again"))
        self.optimiser = torch.optim.Adam(model.parameters(), lr=1e-3)
        part = list(model.children())[-1].parameters() if variant and variant.get("part") else None
        self.worth = Transfer(model, None, part, variant["every"]) if variant else None

    def step(self, batch_of: Callable[[ms.Draw], Any], target: Any) -> None:
        """Choose, train, tell."""
        draw = self.chooser.ask()
        batch = batch_of(draw)
        self.optimiser.zero_grad()
        nn.functional.cross_entropy(self.model(batch[0]), batch[1]).backward()
        reward = 0.0 if self.worth is None else self.worth(batch if self.again else None, target)
        nn.functional.cross_entropy(self.model(target[0]), target[1]).backward()
        self.optimiser.step()
        self.chooser.tell(draw, reward)


def timed() -> None:
    """Median time of steps, and the share of it that the reward takes."""
    random = torch.Generator().manual_seed(0)
    works = {
        "MLP 784-300-300-300-10": (mlp(784, 10), (1, 28, 28)),
        "CNN 4 × 64 on 32 × 32 × 3": (cnn(3, 10), (3, 32, 32)),
    }
    for name, (model, shape) in works.items():
        rows = torch.randn(2000, *shape, generator=random), torch.randint(10, (2000,), generator=random)
        target = rows[0][:30], rows[1][:30]

        def runner(
            variant: dict[str, Any] | None, model: nn.Module = model, rows: Any = rows, target: Any = target
        ) -> Any:
            loop = Loop(model, ms.Chooser("thompson", [2000] * 8, 32, batching="per_source"), variant)

            def run() -> None:
                for _ in range(STEPS):
                    loop.step(lambda draw: (rows[0][draw.rows], rows[1][draw.rows]), target)

            return run

        taken = medians({variant: runner(settings) for variant, settings in VARIANTS.items()}, 9, time.process_time)
        plain = taken["no reward"]
        print(f"{name}: {1e3 * plain / STEPS:.2f} ms a step without reward")
        for variant, seconds in list(taken.items())[1:]:
            more, share = 100 * (seconds / plain - 1), 100 * (1 - plain / seconds)
            print(f"  {variant:40} + {more:4.0f} %   {share:3.0f} % of a step")


def tensors(split: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Inputs and labels."""
    inputs, labels = np.asarray(split.inputs, np.float32), np.asarray(split.labels, np.int64)
    return torch.from_numpy(inputs), torch.from_numpy(labels)


def quality(name: str, seeds: int, steps: int, only: str) -> None:
    """Test accuracy at the end of a run, mean and standard error over seeds."""
    tasks = ms.datasets.load(name)
    if len(tasks.validation.labels) > 30:
        tasks = tasks.variant(target_labels=30)
    sources, target, test = [tensors(task) for task in tasks.tasks], tensors(tasks.validation), tensors(tasks.test)
    methods = {"uniform": ("uniform", None), **{key: ("thompson", value) for key, value in VARIANTS.items() if value}}
    print(f"{tasks.name}: {len(sources)} sources, {len(target[1])} target rows, {steps} steps, {seeds} seeds")
    for method, (scheduler, variant) in methods.items():
        if only not in method:
            continue
        ends = []
        for seed in range(seeds):
            torch.manual_seed(seed)
            options: dict[str, Any] = {"forget": 0.99} if scheduler == "thompson" else {}
            loop = Loop(
                mlp(int(np.prod(tasks.shape)), len(tasks.classes)),
                ms.Chooser(scheduler, tasks, 20, seed=seed, batching="per_source", **options),
                variant,
            )
            for _ in range(steps):
                loop.step(lambda draw: (sources[draw.task][0][draw.rows], sources[draw.task][1][draw.rows]), target)
            with torch.no_grad():
                ends.append(float((loop.model(test[0]).argmax(dim=1) == test[1]).float().mean()))
        print(f"  {method:40} {np.mean(ends):.3f} ± {np.std(ends, ddof=1) / np.sqrt(seeds):.3f}", flush=True)


def main() -> None:
    """Print one table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quality", action="store_true")
    parser.add_argument("--set", default="demo")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--only", default="", help="methods whose name has this, with --quality")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", message="a batch of")
    if asked.quality:
        quality(asked.set, asked.seeds, asked.steps, asked.only)
    else:
        timed()


if __name__ == "__main__":
    main()
