"""Data mixing for a byte-level language model: which of many real texts helps a target that has only 20 kB?

Every method holds the same rows. The target's labelled rows may be trained on by all of them, and rewards are measured
on those very rows: nothing is set apart that another method could have trained on. Learning rate and the place of the
target in the mixture (a source like the others; every so-manieth step; late) are tuned for each method alike, on other
seeds and other held-out pages than those reported. What is measured is the running average of the weights, which needs
no schedule that knows the end. One JSON line for each run; runs that the results have are skipped, so that several
processes can share the work, and a stopped one goes on.

Run with: python benchmarks/mixing_corpus.py corpus
          python benchmarks/mixing.py --corpus corpus --out runs/mixing --tune      # settings, on tuning seeds
          python benchmarks/mixing.py --corpus corpus --out runs/mixing             # all methods, seeds 0-4
          python benchmarks/mixing.py --corpus corpus --out runs/mixing --time      # what a step costs, alone
          python benchmarks/mixing_table.py runs/mixing                              # the table and the figure
``--size large --device cuda`` is for an accelerator. ``--methods ours+every=8+share=4`` runs that one variant.
"""

import argparse
import json
import os
import time
import warnings
from collections.abc import Callable, Iterator
from itertools import pairwise, product
from pathlib import Path
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import mixing_model
import torch
from common import medians
from mixing_corpus import TARGET, USEFUL
from mixing_model import SIZES, Corpus, Size
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

import metasched as ms
from metasched.torch import Alignment, Transfer

METHODS: dict[str, dict[str, Any]] = {
    "ours": {"scheduler": "thompson", "reward": "alignment"},
    "uniform": {},
    "proportional": {"temperature": 1.0},
    "temperature": {"temperature": 3.0},
    "target-only": {"sources": (TARGET,)},
    "target-half": {"sources": (TARGET,), "half": True},
    "useful": {"sources": (TARGET, *USEFUL)},
    "exp3-alignment": {"scheduler": "exp3", "reward": "alignment"},
    "exp3-loss": {"scheduler": "exp3", "reward": "loss"},
}
"""``target-half`` has half of the target's rows: what is left to train on where reward rows are set apart."""
SETTINGS = ("scheduler", "reward", "measure", "every", "share", "late")
"""What a variant may change besides the options of its chooser; ``share=8``: every eighth step is the target's, the
others choose among the sources; ``late=8``: likewise, but in the last quarter of the steps only."""
AVERAGE = 0.98
TUNING_SEEDS = (100, 101)
SLICES = 12


class Loop:
    """One run: a model, its optimiser, a chooser, and what a batch was worth."""

    def __init__(self, corpus: Corpus, size: Size, variant: str, rate: float, seed: int) -> None:
        kind, options = parsed(variant)
        self.kind = kind | {key: options.pop(key) for key in SETTINGS if key in options}
        torch.manual_seed(seed)
        device = corpus.target.device
        self.model = mixing_model.GPT(size).to(device)
        self.average = AveragedModel(self.model, multi_avg_fn=get_ema_multi_avg_fn(AVERAGE))
        self.optimiser = torch.optim.AdamW(self.model.parameters(), rate, (0.9, 0.95), fused=device.type == "cuda")
        self.warm = torch.optim.lr_scheduler.LinearLR(self.optimiser, 0.05, total_iters=max(1, size.steps // 20))
        names = self.kind.get("sources", tuple(corpus.sources))
        self.rows = {name: corpus.sources[name] for name in names if name in corpus.sources}
        if self.kind.get("half"):
            self.rows = {TARGET: corpus.target[::2]}
        self.share = int(self.kind.get("share", self.kind.get("late", 0)))
        self.shared_from = size.steps * 3 // 4 if "late" in self.kind else 0
        arms = {name: len(rows) for name, rows in self.rows.items() if not (self.share and name == TARGET)}
        options |= {"temperature": self.kind["temperature"]} if "temperature" in self.kind else {}
        single: dict[str, Any] = {"seed": seed, "batching": "per_source"}
        self.chooser = ms.Chooser(self.kind.get("scheduler", "uniform"), arms, size.batch, **single, **options)
        self.target, self.reward_rows = corpus.target, max(1, size.batch // 2)
        self.chance = torch.Generator().manual_seed(seed)
        self.own = ms.Chooser("uniform", {TARGET: len(corpus.target)}, size.batch, **single)
        self.transfer = self._transfer()
        self.turn, self.drawn = 0, []  # type: int, list[str]

    def _transfer(self) -> Transfer | None:
        makes = {"transfer": Transfer, "alignment": Alignment}.get(self.kind.get("reward", ""))
        if makes is None:
            return None
        measure = mixing_model.loss if self.kind.get("measure") == "loss" else mixing_model.predicted
        return makes(self.model, measure, every=int(self.kind.get("every", 4)))

    def step(self) -> None:
        """Choose, train, tell; where the target has a share of its own, such a step is not chosen."""
        self.turn += 1
        forced = self.share and self.turn > self.shared_from and self.turn % self.share == 0
        draw = (self.own if forced else self.chooser).ask()
        batch = self.rows[draw.source][draw.rows]
        loss = mixing_model.loss(self.model, batch)
        loss.backward()
        if forced:
            self.own.forget(draw)
        else:
            self.chooser.tell(draw, self._reward(loss))
        self.optimiser.step()
        self.warm.step()
        self.optimiser.zero_grad()
        self.average.update_parameters(self.model)
        self.drawn.append(draw.source)

    def _reward(self, loss: torch.Tensor) -> float:
        if self.transfer is not None:
            chosen = torch.randperm(len(self.target), generator=self.chance)[: self.reward_rows]
            return self.transfer(target_batch=self.target[chosen])
        return float(loss.detach()) if self.kind.get("reward") == "loss" else 0.0


def parsed(variant: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """A method's settings and what a variant of it adds to them.

    >>> parsed("ours+every=8+forget=0.99")[1]
    {'every': 8, 'forget': 0.99}
    """
    name, *added = variant.split("+")
    if name not in METHODS:
        raise SystemExit(f"unknown method '{name}'; known: {', '.join(METHODS)}")
    options = {}
    for word in added:
        key, _, value = word.partition("=")
        try:
            options[key] = json.loads(value)
        except ValueError:
            options[key] = value
    return METHODS[name], options


def trained(corpus: Corpus, size: Size, variant: str, rate: float, seed: int) -> dict[str, Any]:
    """A whole run: held-out bits per byte at points of it, and the shares of the sources in slices of it."""
    loop = Loop(corpus, size, variant, rate, seed)
    points = []
    for step in range(1, size.steps + 1):
        loop.step()
        if step % (size.steps // size.points) == 0:
            held = {"tune": corpus.tune, "test": corpus.test}
            points.append([step, *(round(mixing_model.bits(loop.average, rows), 4) for rows in held.values())])
    slices = min(SLICES, size.steps)
    edges = [size.steps * place // slices for place in range(slices + 1)]
    shares = {
        name: [round(loop.drawn[low:high].count(name) / (high - low), 2) for low, high in pairwise(edges)]
        for name in loop.rows
    }
    return {"points": points, "shares": shares}


def timed(corpus: Corpus, size: Size, variants: list[str]) -> dict[str, float]:
    """Seconds of one step of each variant, medians of turns in one process."""
    cuda = corpus.target.is_cuda
    steps = min(16, size.steps)

    def runner(variant: str) -> Callable[[], None]:
        loop = Loop(corpus, size, variant, size.rates[0], 0)

        def run() -> None:
            for _ in range(steps):
                loop.step()
            if cuda:
                torch.cuda.synchronize()

        return run

    sides = {variant: runner(variant) for variant in variants}
    taken = medians(sides, size.points, time.perf_counter if cuda else time.process_time)
    return {variant: seconds / steps for variant, seconds in taken.items()}


def grid(method: str, size: Size) -> list[str]:
    """The variants of a method that are tried: each way of giving the target its place, where it has none yet."""
    settings, added = parsed(method)
    fixed = {"share", "late"} & added.keys() or settings.get("sources") == (TARGET,)
    return [method] if fixed else [method + place for place in size.places]


def results(folder: Path) -> Iterator[dict[str, Any]]:
    """All lines of all processes."""
    for path in sorted(folder.glob("*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            yield json.loads(line)


def settled(lines: list[dict[str, Any]], size: str) -> dict[str, tuple[str, float]]:
    """The variant and learning rate of each method: lowest bits per byte at the end on the tuning pages.

    Only tuning seeds count on which all that was tried of a method has ended, so that all of it met the same chance.
    """
    ends: dict[str, dict[tuple[str, float], dict[int, float]]] = {}
    for line in lines:
        if line["kind"] == "tune" and line["size"] == size:
            tried = ends.setdefault(line["method"], {}).setdefault((line["variant"], line["rate"]), {})
            tried[line["seed"]] = line["points"][-1][1]
    chosen = {}
    for method, tried in ends.items():
        seeds = set.intersection(*(set(found) for found in tried.values())) or set.union(*map(set, tried.values()))
        means = {
            key: sum(found[seed] for seed in seeds & found.keys()) / len(seeds & found.keys())
            for key, found in tried.items()
            if seeds & found.keys()
        }
        chosen[method] = min(means, key=lambda key: means[key])
    return chosen


def seeds_of(text: str) -> list[int]:
    """``0-4`` or ``0,3``."""
    first, dash, last = text.partition("-")
    return list(range(int(first), int(last) + 1)) if dash else [int(one) for one in text.split(",")]


def rates_of(text: str) -> list[float]:
    """``1e-4,2e-4``."""
    return [float(one) for one in text.split(",")]


def part_of(text: str) -> tuple[int, int]:
    """``3/8``."""
    part, _, parts = text.partition("/")
    return int(part), int(parts)


def main() -> None:
    """Run what is missing and add a line for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--size", choices=SIZES, default="small")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--seeds", type=seeds_of, help="0-4 by default, 100-101 with --tune")
    parser.add_argument("--part", type=part_of, default=(1, 1), help="3/8: every eighth run, from the third on")
    parser.add_argument("--steps", type=int, help="of a run, where not those of the size")
    parser.add_argument("--rate", type=float, help="whatever was tuned; such runs are checks, reported apart")
    parser.add_argument("--rates", type=rates_of, help="1e-4,2e-4: others to tune, where the best lay at the edge")
    parser.add_argument("--tune", action="store_true", help="try the learning rates on tuning seeds")
    parser.add_argument("--time", action="store_true", help="time steps of all methods in turns; nothing else must run")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    torch.set_float32_matmul_precision("high")
    warnings.filterwarnings("ignore", message="a batch of")
    size = SIZES[asked.size]
    size = size._replace(steps=asked.steps or size.steps)
    methods = asked.methods.split(",")
    corpus = mixing_model.load(asked.corpus, size, asked.device)
    asked.out.mkdir(parents=True, exist_ok=True)
    own = asked.out / f"{asked.size}-{os.getpid()}.jsonl"

    def add(line: dict[str, Any]) -> None:
        with own.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"size": asked.size, "device": asked.device, "steps": size.steps, **line}) + "\n")
        print(
            asked.size, line["kind"], line["variant"], line.get("rate", ""), line.get("seed", ""), end=" ", flush=True
        )
        print(line["points"][-1] if "points" in line else f"{1e3 * line['seconds']:.3f} ms a step", flush=True)

    chosen = settled(list(results(asked.out)), asked.size)
    middle = size.rates[len(size.rates) // 2]
    if asked.rate:
        chosen = {method: (chosen.get(method, (method, middle))[0], asked.rate) for method in methods}
    kind = "tune" if asked.tune else "check" if asked.rate else "run"
    if asked.time:
        variants = {method: chosen.get(method, (method, middle))[0] for method in methods}
        variants |= {f"ours, k = {k}": f"{variants['ours']}+every={k}" for k in (1, 8) if "ours" in variants}
        seconds = timed(corpus, size, list(variants.values()))
        for method, variant in variants.items():
            add({"kind": "time", "method": method, "variant": variant, "seconds": seconds[variant]})
        return
    runs = [
        {"kind": kind, "method": method, "variant": variant, "rate": rate, "seed": seed}
        for seed in (asked.seeds or (TUNING_SEEDS if asked.tune else range(5)))
        for method in methods
        for variant, rate in (
            product(grid(method, size), asked.rates or size.rates)
            if asked.tune
            else [chosen.get(method, (method, middle))]
        )
    ]
    part, parts = asked.part
    for run in runs[part - 1 :: parts]:
        if not any((run | {"size": asked.size}).items() <= line.items() for line in results(asked.out)):
            found = trained(corpus, size, run["variant"], run["rate"], run["seed"])
            add(run | ({"points": found["points"][-1:]} if asked.tune else found))


if __name__ == "__main__":
    main()
