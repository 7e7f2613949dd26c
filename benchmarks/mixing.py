"""Data mixing for a byte-level language model: which of many real texts helps a target that has only 20 kB?

Every batch mixes rows of many sources, and the chooser is told a reward for every row (``mixing_reward.py``). Methods
differ in how the sources of the rows are chosen, and in nothing else. All have the same rows. The target's own rows are
trained on in one step of eight during the last quarter of the steps, by every method alike, and rewards are measured on
those same rows. What is measured is the running average of the weights, which needs no schedule that knows the end.

Rewards are measured on every fourth step, and the target's gradient is taken anew on every eighth, from half a batch.
Rewards stay on the device and are told in blocks of eight steps, so that training never waits for them.

The results are a file of JSON lines, one for each run. Runs that the file has already are skipped. A run's method may
have options, as in ``mirror+rate=0.03+reward=adam``:

- ``reward``: ``loss``, ``probability``, ``adam`` or ``adam-probability``;
- ``every`` and ``refresh``: how many steps apart rewards are measured and the target's gradient is taken anew;
- ``learning_rate``: that of AdamW;
- all others are options of ``ms.Chooser`` and of its scheduler: ``rate``, ``explore``, ``forget``, ``min_share``.

Run with: python benchmarks/mixing_corpus.py corpus
          python benchmarks/mixing.py --corpus corpus --out mixing.jsonl --target danish docs --seeds 0 1 --processes 2
          python benchmarks/mixing.py --corpus corpus --out mixing.jsonl --time     # what a step costs, alone
          python benchmarks/mixing_table.py mixing.jsonl
``--size large --device cuda`` is for an accelerator.
"""

import argparse
import concurrent.futures
import json
import multiprocessing
import os
import sys
import time
import warnings
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import mixing_model
import numpy as np
import torch
from common import medians
from mixing_model import SIZES, Data, Size
from mixing_reward import RowRewards
from torch.optim.swa_utils import get_ema_multi_avg_fn

import metasched as ms

METHODS: dict[str, dict[str, Any]] = {
    "uniform": {},
    "proportional": {"temperature": 1.0},
    "useful": {"only_useful": True},
    "thompson": {"scheduler": "thompson"},
    "mirror": {"scheduler": "mirror"},
    "per-source-uniform": {"batching": "per_source"},
    "per-source-thompson": {"batching": "per_source", "scheduler": "thompson", "every": 1},
}
"""Without a scheduler a mixture is fixed and needs no rewards. A batch of one source has one reward, the mean of its
rows, and so is measured on every step."""
AVERAGE = 0.98
"""The weight of the running average's past in every step."""
EVERY, REFRESH, BLOCK = 4, 8, 8
"""Steps between two rewards; between two gradients of the target; and in a block whose rewards are told together."""
OWN_STEP = 8
"""In the last quarter one step in so many is the target's."""
SLICES = 12


class Job(NamedTuple):
    """What makes a run."""

    target: str
    method: str
    seed: int


class Loop:
    """One run: a model, its optimiser, a chooser, and the rewards that it has not been told yet."""

    def __init__(self, data: Data, size: Size, method: str, seed: int) -> None:
        options = parsed(method)
        torch.manual_seed(seed)
        device = data.rows.device
        self.data, self.size, self.turn = data, size, 0
        self.model = mixing_model.GPT(size).to(device)
        self.average = mixing_model.GPT(size).to(device).requires_grad_(False)
        self.average.load_state_dict(self.model.state_dict())
        self._into_average = get_ema_multi_avg_fn(AVERAGE)
        rate = options.pop("learning_rate", size.learning_rate)
        self.optimiser = torch.optim.AdamW(self.model.parameters(), rate, (0.9, 0.95), fused=device.type == "cuda")
        self.warm = torch.optim.lr_scheduler.LinearLR(self.optimiser, 0.05, total_iters=max(1, size.steps // 20))
        self.every, self.refresh = options.pop("every", EVERY), options.pop("refresh", REFRESH)
        kind, scheduler = options.pop("reward", "loss"), options.pop("scheduler", None)
        self.rewards = RowRewards(self.model, self.optimiser, kind) if scheduler else None
        names = data.useful if options.pop("only_useful", False) else tuple(data.sizes)
        self.chooser = ms.Chooser(
            scheduler or "uniform", {name: data.sizes[name] for name in names}, size.batch, seed=seed, **options
        )
        starts = dict(zip(data.sizes, np.cumsum([0, *data.sizes.values()])[:-1], strict=True))
        self.starts = np.array([starts[name] for name in names])
        self.chance = torch.Generator().manual_seed(seed)
        self.open: list[tuple[ms.Draw, torch.Tensor | None]] = []
        self.drawn = np.zeros((size.steps, len(names)), int)

    def step(self) -> None:
        """Choose the rows of a batch, or take the target's own; train on them; measure what each was worth."""
        turn, self.turn = self.turn, self.turn + 1
        if self.rewards and turn % self.refresh == 0:
            self.rewards.aim(self._own_rows(self.size.batch // 2))
        if turn >= self.size.steps * 3 // 4 and turn % OWN_STEP == OWN_STEP - 1:
            self._train(self._own_rows(self.size.batch))
        else:
            draw = self.chooser.ask()
            self.drawn[turn] = np.bincount(draw.tasks, minlength=self.drawn.shape[1])
            where = torch.from_numpy(self.starts[draw.tasks] + draw.rows)
            batch = self.data.rows[where.to(self.data.rows.device, non_blocking=True)]
            if self.rewards:
                self.open.append((draw, self._train(batch, measured=turn % self.every == 0)))
            else:
                self._train(batch)
                self.chooser.tell(draw, 0.0)  # a fixed mixture learns nothing, but its chance moves on
        if self.turn % BLOCK == 0:
            self._tell()

    def _train(self, rows: torch.Tensor, measured: bool = False) -> torch.Tensor | None:
        rewards = None
        if measured and self.rewards:
            rewards = self.rewards.backward(rows)
        else:
            mixing_model.row_losses(self.model, rows).mean().backward()
        self.optimiser.step()
        self.warm.step()
        self.optimiser.zero_grad()
        self._into_average(list(self.average.parameters()), list(self.model.parameters()), self.turn)
        return rewards

    def _own_rows(self, count: int) -> torch.Tensor:
        chosen = torch.randperm(len(self.data.target), generator=self.chance)[:count]
        return self.data.target[chosen.to(self.data.target.device, non_blocking=True)]

    def _tell(self) -> None:
        """Tell the block's rewards, which are read from the device at once; draws that were not measured have none."""
        measured = [(draw, rewards) for draw, rewards in self.open if rewards is not None]
        if measured:
            told = torch.stack([rewards for _, rewards in measured]).cpu().numpy()
            for (draw, _), rewards in zip(measured, told, strict=True):
                self.chooser.tell(draw, rewards)
        for draw, rewards in self.open:
            if rewards is None:
                self.chooser.forget(draw)
        self.open.clear()


def parsed(method: str) -> dict[str, Any]:
    """The settings of a method and what its options add to them.

    >>> parsed("mirror+rate=0.03+reward=adam")
    {'scheduler': 'mirror', 'rate': 0.03, 'reward': 'adam'}
    """
    name, *added = method.split("+")
    if name not in METHODS:
        raise SystemExit(f"unknown method '{name}'; known: {', '.join(METHODS)}")
    options = dict(METHODS[name])
    for word in added:
        key, sign, value = word.partition("=")
        if not sign:
            raise SystemExit(f"'{word}' in method '{method}' is no option; write name=value")
        try:
            options[key] = json.loads(value)
        except ValueError:
            options[key] = value
    return options


def trained(data: Data, size: Size, method: str, seed: int) -> dict[str, Any]:
    """A whole run.

    Held-out bits per byte at points of it ([step, tuning, reported]), the shares of the sources in slices of it and in
    all, how often each source was read through, and the seconds it took.
    """
    start, loop, points = time.perf_counter(), Loop(data, size, method, seed), []
    for step in range(1, size.steps + 1):
        loop.step()
        if step % max(1, size.steps // size.points) == 0 or step == size.steps:
            held = (mixing_model.bits(loop.average, rows) for rows in (data.tune, data.test))
            points.append([step, *(round(value, 4) for value in held)])
    names = loop.chooser.names
    slices = [part.sum(0) / max(1, part.sum()) for part in np.array_split(loop.drawn, min(SLICES, size.steps))]
    rows = loop.drawn.sum(0)
    share = dict(zip(names, (rows / rows.sum()).tolist(), strict=True))
    return {
        "points": points,
        "useful": round(sum(share.get(name, 0.0) for name in data.useful), 4),
        "noise": round(sum(share.get(name, 0.0) for name in data.noise), 4),
        "shares": {name: np.round([part[number] for part in slices], 3).tolist() for number, name in enumerate(names)},
        "passes": {name: round(int(rows[number]) / data.sizes[name], 2) for number, name in enumerate(names)},
        "seconds": round(time.perf_counter() - start, 1),
    }


def run(job: Job, corpus: Path, size: Size, device: str) -> dict[str, Any]:
    """A job in a process of its own."""
    torch.set_num_threads(1)
    torch.set_float32_matmul_precision("high")
    warnings.filterwarnings("ignore", message="a batch of")
    return trained(mixing_model.load(corpus, job.target, size, device), size, job.method, job.seed)


def timed(data: Data, size: Size, methods: list[str]) -> dict[str, float]:
    """Seconds of one step of each method, medians of turns in one process."""
    cuda, steps = data.rows.is_cuda, 6 * BLOCK

    def runner(method: str) -> Callable[[], None]:
        # So many steps that the last quarter, with the target's own, is never reached.
        loop = Loop(data, size._replace(steps=100_000), method, 0)

        def steps_of_it() -> None:
            for _ in range(steps):
                loop.step()
            if cuda:
                torch.cuda.synchronize()

        return steps_of_it

    taken = medians({method: runner(method) for method in methods}, 7, time.perf_counter if cuda else time.process_time)
    return {method: seconds / steps for method, seconds in taken.items()}


def read(path: Path) -> list[dict[str, Any]]:
    """The lines of a file of results; none if there is no such file yet."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def main() -> None:
    """Run what is missing and add a line for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True, help="a file of JSON lines; what it has is kept")
    parser.add_argument("--target", nargs="+", default=["danish", "swedish", "headers", "docs"])
    parser.add_argument("--methods", nargs="+", default=list(METHODS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--size", choices=SIZES, default="small")
    parser.add_argument("--steps", type=int, help="of a run, where not those of the size")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--processes", type=int, default=1, help="how many runs are made side by side")
    parser.add_argument("--time", action="store_true", help="time steps of all methods in turns; nothing else must run")
    asked = parser.parse_args()
    size = SIZES[asked.size]
    size = size._replace(steps=asked.steps or size.steps)
    for method in asked.methods:
        parsed(method)
    asked.out.parent.mkdir(parents=True, exist_ok=True)
    common = {"size": asked.size, "steps": size.steps, "device": asked.device}

    def add(line: dict[str, Any]) -> None:
        with asked.out.open("a", encoding="utf-8") as file:
            file.write(json.dumps({**common, **line}) + "\n")

    if asked.time:
        torch.set_num_threads(1)
        data = mixing_model.load(asked.corpus, asked.target[0], size, asked.device)
        for method, seconds in timed(data, size, asked.methods).items():
            add({"kind": "time", "method": method, "seconds": seconds})
            print(f"{method:40} {1e3 * seconds:8.2f} ms a step", flush=True)
        return

    had = read(asked.out)
    jobs = [Job(target, method, seed) for seed, target, method in product(asked.seeds, asked.target, asked.methods)]
    jobs = [job for job in jobs if not any({**common, **job._asdict()}.items() <= line.items() for line in had)]
    failed = False
    # Processes start afresh: one that was forked could not use the accelerator.
    start = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(asked.processes, mp_context=start) as pool:
        under_way = {pool.submit(run, job, asked.corpus, size, asked.device): job for job in jobs}
        for done in concurrent.futures.as_completed(under_way):
            job = under_way[done]
            if problem := done.exception():
                failed = True
                print(f"{job.target:8} {job.method:40} seed {job.seed}: {problem!r}", file=sys.stderr, flush=True)
                continue
            found = done.result()
            add({"kind": "run", **job._asdict(), **found})
            print(
                f"{job.target:8} {job.method:40} seed {job.seed}  {found['points'][-1][2]:.3f} bits per byte  "
                f"useful {found['useful']:4.0%}  noise {found['noise']:4.0%}  {found['seconds']:6.1f} s",
                flush=True,
            )
    sys.exit(failed)


if __name__ == "__main__":
    main()
