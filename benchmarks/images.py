"""Sources for a few labelled images in a plain PyTorch loop: on ``scripts`` 12 collections of glyphs teach USPS digits.

A small CNN trains on the target's labelled rows in every step and, where there are sources, on 20 rows of them. These
rows are mixed: each has a source of its own and, with ours, a reward of its own, measured on every fourth step on the
same labelled rows. Only ``exp3-alignment`` takes all 20 rows from one source. Each seed has other labelled rows, three
of each digit. Learning rates are tuned for each method alike, on other seeds and on every other test row; the rest of
the test rows is reported.

Run with: python benchmarks/images.py --seeds 10 --out images.jsonl
          python benchmarks/images.py --table images.jsonl
"""

import argparse
import json
import time
import warnings
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from common import medians

import numpy as np  # isort: skip  (common holds it to one thread)
import torch
from torch import nn
from torch_rewards import cnn, tensors

import metasched as ms
from metasched.report import statistics, tables
from metasched.torch import Alignment, RowTransfer, Teller

METHODS: dict[str, dict[str, Any]] = {
    "ours": {"scheduler": "thompson"},
    "uniform": {},
    "useful": {"useful": True},
    "target-only": {"scheduler": None},
    "exp3-alignment": {"scheduler": "exp3", "batching": "per_source"},
}
RATES = (1e-4, 3e-4, 1e-3, 3e-3)
POINTS = 10
POOL = 3000
Rows = tuple[torch.Tensor, torch.Tensor]


def loss(model: nn.Module, rows: Rows) -> torch.Tensor:
    """Cross-entropy of the labels, (n,)."""
    return nn.functional.cross_entropy(model(rows[0]), rows[1], reduction="none")


@cache
def loaded() -> ms.TaskSet:
    """The data set, with a pool of target rows from which each seed takes its labelled ones; all others test."""
    return ms.datasets.load("scripts", target_labels=POOL)


def labelled(tasks: ms.TaskSet, seed: int) -> Rows:
    """Three rows of each digit."""
    inputs, labels = tensors(tasks.validation)
    order = torch.from_numpy(np.random.default_rng(seed).permutation(len(labels)))
    chosen = torch.cat([order[labels[order] == digit][:3] for digit in labels.unique()])
    return inputs[chosen], labels[chosen]


class Loop:
    """One run: a model, its optimiser, a chooser or none, and what a batch was worth."""

    def __init__(self, tasks: ms.TaskSet, method: str, rate: float, seed: int) -> None:
        kind = METHODS[method]
        torch.manual_seed(seed)
        self.model = nn.Sequential(nn.Unflatten(1, (1, -1)), cnn(1, len(tasks.classes)))
        self.optimiser = torch.optim.Adam(self.model.parameters(), rate)
        self.target = labelled(tasks, seed)
        useful = tasks.useful if kind.get("useful") else [task.name for task in tasks.tasks]
        sources = {task.name: tensors(task) for task in tasks.tasks if task.name in useful}
        sizes = {name: len(rows[1]) for name, rows in sources.items()}
        self.starts = np.cumsum([0, *sizes.values()])
        self.rows = tuple(torch.cat([rows[part] for rows in sources.values()]) for part in (0, 1))
        scheduler, batching = kind.get("scheduler", "uniform"), kind.get("batching", "mixed")
        self.chooser = None if scheduler is None else ms.Chooser(scheduler, sizes, 20, seed=seed, batching=batching)
        self.worth = Alignment(self.model) if batching == "per_source" else None
        self.by_rows = scheduler == "thompson"
        self.reward = RowTransfer(self.model, self.target, optimiser=self.optimiser, every=4, refresh=8)
        self.teller = None if self.chooser is None else Teller(self.chooser)

    def step(self) -> None:
        """Choose, train, tell; the target's own gradient is added when the rewards are measured."""
        self.optimiser.zero_grad()
        if self.chooser is not None and self.teller is not None:
            draw = self.chooser.ask()
            where = torch.from_numpy(self.starts[draw.tasks] + draw.rows)
            with self.reward.watch(None if self.by_rows else False):
                self.reward.rows(loss(self.model, tuple(part[where] for part in self.rows))).mean().backward()
            told = self.reward.rewards() if self.worth is None else self.worth(target_batch=self.target)
            self.teller.tell(draw, told)
        loss(self.model, self.target).mean().backward()
        self.optimiser.step()


def trained(method: str, rate: float, seed: int, steps: int, tuning: bool) -> dict[str, Any]:
    """Accuracy at the end on the test rows for tuning, or at points of the second half on those that are reported."""
    tasks = loaded()
    inputs, labels = (part[0 if tuning else 1 :: 2] for part in tensors(tasks.test))
    loop = Loop(tasks, method, rate, seed)
    points = []
    for step in range(1, steps + 1):
        loop.step()
        if step == steps or (not tuning and step > steps // 2 and step % (steps // POINTS) == 0):
            loop.model.eval()
            with torch.no_grad():
                right = torch.cat([loop.model(part) for part in inputs.split(500)]).argmax(dim=1) == labels
            loop.model.train()
            points.append([step, round(float(right.float().mean()), 4)])
    shares = {} if loop.chooser is None else {name: round(part, 3) for name, part in loop.chooser.shares().items()}
    return {"points": points, "shares": shares}


def timed() -> dict[str, float]:
    """Seconds of a step of each method, medians of turns."""
    tasks = loaded()

    def runner(method: str) -> Callable[[], None]:
        loop = Loop(tasks, method, RATES[0], 0)
        return lambda: [loop.step() for _ in range(16)].clear()

    return {
        method: seconds / 16
        for method, seconds in medians({method: runner(method) for method in METHODS}, 15, time.process_time).items()
    }


def tuned(lines: Sequence[dict[str, Any]]) -> dict[str, float]:
    """The learning rate of each method: the best on the tuning half over the tuning seeds."""

    def score(method: str, rate: float) -> float:
        mine = (
            line for line in lines if (line.get("kind"), line["method"], line.get("rate")) == ("tune", method, rate)
        )
        return float(np.mean([line["points"][-1][1] for line in mine]))

    return {method: max(RATES, key=lambda rate: score(method, rate)) for method in METHODS}


def table(lines: Sequence[dict[str, Any]]) -> str:
    """One row for each method: accuracy at equal steps and when uniform has made its last step; ours less each."""
    seconds = {line["method"]: line["seconds"] for line in lines if line["kind"] == "time"}
    runs = {
        name: {line["seed"]: line for line in lines if line["kind"] == "run" and line["method"] == name}
        for name in METHODS
    }

    def ends(name: str, slower: float) -> dict[int, float]:
        found = {}
        for seed, run in runs[name].items():
            steps, accuracy = np.array(run["points"]).T
            found[seed] = float(np.interp(steps[-1] / max(1.0, slower), steps, accuracy))
        return found

    timely = {name: ends(name, seconds[name] / seconds["uniform"]) for name in METHODS}
    rows = ["|  | rate | step | equal steps | equal time | ours less it, equal time |", "|---" * 6 + "|"]
    for name in METHODS:
        gap = statistics.mean_of_means([[timely["ours"][seed] - timely[name][seed] for seed in runs[name]]])
        words = [
            name,
            f"{tuned(lines)[name]:g}",
            f"{1e3 * seconds[name]:.2f} ms",
            *(f"{np.mean(list(part.values())):.3f}" for part in (ends(name, 1.0), timely[name])),
            "" if name == "ours" else f"{tables.signed(gap)}{' (planned)' * (name == 'uniform')}",
        ]
        rows.append(f"| {' | '.join(words)} |")
    return "\n".join(rows) + "\n"


def main() -> None:
    """Tune, run and time what is missing; print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--table", type=Path, help="results to print, without running anything")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--tuning-seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=400)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", message="a batch of")
    path = asked.table or asked.out
    if path is None:
        parser.error("give --out or --table")
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []

    def add(line: dict[str, Any]) -> None:
        lines.append(line)
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    def run(kind: str, method: str, rate: float, seed: int) -> None:
        wanted = {"kind": kind, "method": method, "rate": rate, "seed": seed}
        if not any(wanted.items() <= line.items() for line in lines):
            found = trained(method, rate, seed, asked.steps, tuning=kind == "tune")
            add(wanted | (found if kind == "run" else {"points": found["points"]}))
            print(kind, method, f"{rate:g}", seed, lines[-1]["points"][-1], flush=True)

    if asked.out:
        for method in METHODS:
            for rate in RATES:
                for seed in range(100, 100 + asked.tuning_seeds):
                    run("tune", method, rate, seed)
        rates = tuned(lines)
        for seed in range(asked.seeds):
            for method in METHODS:
                run("run", method, rates[method], seed)
        if not any(line["kind"] == "time" for line in lines):
            for method, seconds in timed().items():
                add({"kind": "time", "method": method, "seconds": seconds})
    print(table(lines))


if __name__ == "__main__":
    main()
