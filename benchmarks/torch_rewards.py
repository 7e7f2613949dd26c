"""What rewards of rows cost in a plain PyTorch loop: in time, in memory, and in what the model ends with.

Thompson sampling chooses every row of a batch. ``RowTransfer`` measures its reward, over all layers or the last one, on
every j-th step, with the target's gradient taken anew every k steps from half a batch. ``Transfer`` gives one number
for a batch of one source, from ``.grad``.

Run with: python benchmarks/torch_rewards.py                     # time: MLP, CNN and small GPT, in turns
          python benchmarks/torch_rewards.py --device cuda       # GPTs of 7 and 100 million parameters; memory, too
          python benchmarks/torch_rewards.py --quality --set scripts --seeds 5
"""

import argparse
import time
import warnings
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import common  # noqa: F401 it holds libraries to one thread

import numpy as np  # isort: skip  (common holds it to one thread)
import mixing_model
import torch
from torch import nn
from torch.nn.functional import cross_entropy

import metasched as ms
from metasched.torch import RowTransfer, Teller, Transfer

VARIANTS: dict[str, dict[str, Any]] = {
    "no reward": {},
    "rows, j = 8, k = 16 (default)": {"by": RowTransfer},
    "rows, j = 4, k = 8": {"by": RowTransfer, "every": 4, "refresh": 8},
    "rows, j = 1, k = 4": {"by": RowTransfer, "every": 1, "refresh": 4},
    "rows, j = 8, k = 16, last layer": {"by": RowTransfer, "layers": "last"},
    "one number from .grad, k = 4": {"by": Transfer},
}
GPTS = {
    "small GPT": mixing_model.SIZES["small"],
    "GPT of 7 million": mixing_model.SIZES["large"],
    "GPT of 100 million": mixing_model.Size(14, 768, 12, 512, 32, 0, 3e-4),
}
STEPS = 16
Rows = tuple[torch.Tensor, torch.Tensor]


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


def losses_of(model: Any, rows: Rows) -> torch.Tensor:
    """Of rows (n,), or of their tokens (n, length)."""
    outputs = model(rows[0])
    return cross_entropy(outputs.movedim(-1, 1) if outputs.dim() > 2 else outputs, rows[1], reduction="none")


def mean_loss(model: Any, rows: Rows) -> torch.Tensor:
    """Of the rows that the reward is measured on."""
    return losses_of(model, rows).mean()


class Loop:
    """One run: a model, its optimiser, a chooser, and how rewards are measured."""

    def __init__(
        self, model: nn.Module, chooser: ms.Chooser, target: Rows, variant: dict[str, Any], language: bool = False
    ) -> None:
        options = {name: value for name, value in variant.items() if name != "by"}
        self.model, self.chooser, self.teller, self.target = model, chooser, Teller(chooser), target
        self.optimiser = torch.optim.Adam(model.parameters(), lr=1e-3, fused=target[0].is_cuda)
        self.rows = self.batch = None
        if variant.get("by") is RowTransfer:
            kind = {"loss_or_logits": mean_loss, "kind": "loss"} if language else {}
            self.rows = RowTransfer(model, target, optimiser=self.optimiser, **kind, **options)
        elif variant:
            self.batch = Transfer(model, mean_loss if language else None, **options)

    def step(self, batch_of: Callable[[ms.Draw], Rows], also_target: bool = False) -> None:
        """Choose, train, tell."""
        draw = self.chooser.ask()
        batch, told = batch_of(draw), None
        if self.rows is not None:
            with self.rows.watch():
                self.rows.rows(losses_of(self.model, batch)).mean().backward()
            told = self.rows.rewards()
        else:
            losses_of(self.model, batch).mean().backward()
            if self.batch is not None:
                told = self.batch(target_batch=self.target)
        if also_target:
            losses_of(self.model, self.target).mean().backward()
        self.optimiser.step()
        self.optimiser.zero_grad()
        self.teller.tell(draw, told)


def works(device: str) -> dict[str, tuple[Callable[[], nn.Module], Rows, int]]:
    """Models to time with their rows and batch sizes, by name."""
    random = torch.Generator().manual_seed(0)

    def images(*shape: int) -> Rows:
        return torch.randn(2000, *shape, generator=random), torch.randint(10, (2000,), generator=random)

    def text(size: mixing_model.Size) -> Rows:
        words = torch.randint(mixing_model.BYTES, (2000, size.context + 1), generator=random)
        return words[:, :-1].to(device), words[:, 1:].to(device)

    def gpt(name: str) -> tuple[Callable[[], nn.Module], Rows, int]:
        size = GPTS[name]
        return lambda: mixing_model.GPT(size).to(device), text(size), size.batch

    if device == "cuda":
        return {name: gpt(name) for name in ("GPT of 7 million", "GPT of 100 million")}
    return {
        "MLP 784-300-300-300-10": (lambda: mlp(784, 10), images(1, 28, 28), 32),
        "CNN 4 × 64 on 32 × 32 × 3": (lambda: cnn(3, 10), images(3, 32, 32), 32),
        "small GPT": gpt("small GPT"),
    }


def timed(device: str, turns: int, only: str) -> None:
    """Time of a step, medians of turns in one process, and the memory that comes on top."""
    cuda = device == "cuda"
    for name, (make, rows, size) in works(device).items():
        if only not in name:
            continue
        peaks: dict[str, float] = {}

        def runner(variant: str, make: Any = make, rows: Any = rows, size: int = size, peaks: Any = peaks) -> Any:
            torch.manual_seed(0)
            settings = VARIANTS[variant]
            batching = "per_source" if settings.get("by") is Transfer else "mixed"
            chooser = ms.Chooser("thompson", [250] * 8, size, batching=batching)
            target = rows[0][: size // 2], rows[1][: size // 2]
            loop = Loop(make(), chooser, target, settings, language=rows[1].dim() > 1)
            loop.model.to(device)

            def run() -> None:
                if cuda:
                    torch.cuda.reset_peak_memory_stats()
                    before = torch.cuda.memory_allocated()
                for _ in range(STEPS):
                    loop.step(lambda draw: tuple(part[torch.from_numpy(250 * draw.tasks + draw.rows)] for part in rows))
                if cuda:
                    torch.cuda.synchronize()
                    peaks[variant] = torch.cuda.max_memory_allocated() - before

            return run

        loops = {variant: runner(variant) for variant in VARIANTS}
        taken = in_turns(loops, turns, time.perf_counter if cuda else time.process_time)
        parameters = sum(one.numel() for one in make().parameters())
        plain = taken["no reward"]
        print(f"{name}, {parameters:,} parameters: {1e3 * np.median(plain) / STEPS:.2f} ms a step without reward")
        for variant in list(VARIANTS)[1:]:
            low, middle, high = 100 * np.quantile(taken[variant] / plain - 1, (0.25, 0.5, 0.75))
            memory = (peaks[variant] - peaks["no reward"]) / 4 / parameters if cuda else None
            more = "" if memory is None else f"   peak memory + {memory:.2f} gradients"
            print(f"  {variant:34} {middle:+5.1f} %   half of the turns: {low:+.1f} to {high:+.1f} %{more}", flush=True)


def in_turns(sides: dict[str, Callable[[], None]], turns: int, clock: Callable[[], float]) -> dict[str, Any]:
    """Seconds of each side in every turn, after one to warm up. What a machine does else changes between turns."""
    taken: dict[str, list[float]] = {name: [] for name in sides}
    for turn in range(turns + 1):
        for name, run in sides.items():
            start = clock()
            run()
            if turn:
                taken[name].append(clock() - start)
    return {name: np.array(seconds) for name, seconds in taken.items()}


def tensors(split: Any) -> Rows:
    """Inputs and labels."""
    inputs, labels = np.asarray(split.inputs, np.float32), np.asarray(split.labels, np.int64)
    return torch.from_numpy(inputs), torch.from_numpy(labels)


def quality(name: str, seeds: int, steps: int, only: str) -> None:
    """Test accuracy at the end of a run, mean and standard error over seeds."""
    tasks = ms.datasets.load(name)
    if len(tasks.validation.labels) > 30:
        tasks = tasks.variant(target_labels=30)
    sources, target, test = [tensors(task) for task in tasks.tasks], tensors(tasks.validation), tensors(tasks.test)
    starts = np.cumsum([0, *(len(labels) for _, labels in sources)])
    everything = tuple(torch.cat([source[part] for source in sources]) for part in (0, 1))
    methods = {"uniform": ("uniform", {})} | {key: ("thompson", value) for key, value in VARIANTS.items() if value}
    print(f"{tasks.name}: {len(sources)} sources, {len(target[1])} target rows, {steps} steps, {seeds} seeds")
    for method, (scheduler, variant) in methods.items():
        if only not in method:
            continue
        ends = []
        for seed in range(seeds):
            torch.manual_seed(seed)
            batching = "per_source" if variant.get("by") is Transfer else "mixed"
            loop = Loop(
                mlp(int(np.prod(tasks.shape)), len(tasks.classes)),
                ms.Chooser(scheduler, tasks, 20, seed=seed, batching=batching),
                target,
                variant,
            )
            for _ in range(steps):
                loop.step(
                    lambda draw: tuple(part[torch.from_numpy(starts[draw.tasks] + draw.rows)] for part in everything),
                    also_target=True,
                )
            with torch.no_grad():
                ends.append(float((loop.model(test[0]).argmax(dim=1) == test[1]).float().mean()))
        error = np.std(ends, ddof=1) / np.sqrt(seeds) if seeds > 1 else np.nan
        print(f"  {method:34} {np.mean(ends):.3f} ± {error:.3f}", flush=True)


def main() -> None:
    """Print one table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--turns", type=int, default=25)
    parser.add_argument("--quality", action="store_true")
    parser.add_argument("--set", default="demo")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--only", default="", help="models, or with --quality methods, whose name has this")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    torch.set_float32_matmul_precision("high")
    warnings.filterwarnings("ignore", message="a batch of|rewards of rows leave out")
    if asked.quality:
        quality(asked.set, asked.seeds, asked.steps, asked.only)
    else:
        timed(asked.device, asked.turns, asked.only)


if __name__ == "__main__":
    main()
