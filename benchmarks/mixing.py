"""Data mixing for a byte-level language model: which of many real texts helps a target that has only 20 kB?

Every batch mixes rows of many sources. Methods differ in how the sources of the rows are chosen, and in nothing else.
All have the same rows. The target's own rows are trained on in one step of eight during the last quarter of the steps,
by every method alike; ``target-only`` trains on them in every step. Rewards are measured on those same rows. What is
evaluated is the running average of the weights, which needs no schedule that knows the end.

These are the methods:

- ``uniform``, ``proportional`` and ``temperature`` (T = 3) mix in fixed proportions;
- ``static`` is the best of a grid of fixed mixtures on the tuning pages, which is what a patient person does: the three
  above, T = 1.5, uniform without the two sources of noise, and a quarter or half of the rows from the useful sources;
- ``useful`` draws only from the sources that were thought useful before any run, so it is an oracle;
- ``exp3-loss`` is Exp3 told each row's own loss, as in online data mixing (ODM);
- ``doge`` is a fixed mixture: the mean shares of a run of ``mirror``, as in DoGE. It costs that run as well;
- ``ours`` is Thompson sampling told ``RowTransfer``, the reward that comes with the ordinary backward pass;
- ``mirror`` (mirror descent) and ``ours-defaults`` (rewards on every eighth step) are told the same and explore.

Everything is tuned alike, on tuning pages and with a seed of its own: three learning rates for every method and target,
and one step further where the best is the first or the last of the three. Other pages and seeds are reported. A
method may have options, as in ``ours+width=1``: ``every``, ``refresh`` and ``layers`` of the reward, ``adam`` (false:
it does not know the optimiser), ``stop`` (.25: rewards in the first quarter alone), ``slower`` (1.1: planned to make so
many times fewer steps), and those of ``ms.Chooser``.

The results are a file of JSON lines. Runs that the file has already are skipped.

Run with: python benchmarks/mixing_corpus.py corpus
          python benchmarks/mixing.py --corpus corpus --out mixing.jsonl --tune --processes 2
          python benchmarks/mixing.py --corpus corpus --out mixing.jsonl --seeds 0 1 2 3 4 --processes 2
          python benchmarks/mixing.py --corpus corpus --out mixing.jsonl --time     # what a step costs
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
from collections.abc import Callable, Iterable, Sequence
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import mixing_model
import numpy as np
import torch
from common import medians
from mixing_model import SIZES, Data, Size
from torch.optim.swa_utils import get_ema_multi_avg_fn

import metasched as ms
from metasched.torch import RowTransfer, Teller

METHODS: dict[str, dict[str, Any]] = {
    "uniform": {},
    "proportional": {"temperature": 1.0},
    "temperature": {"temperature": 3.0},
    "temperature-1.5": {"temperature": 1.5},
    "no-noise": {"only": "not noise"},
    "quarter-useful": {"useful_share": 0.25},
    "half-useful": {"useful_share": 0.5},
    "useful": {"only": "useful"},
    "target-only": {"own_step": 1},
    "exp3-loss": {"scheduler": "exp3", "reward": "own loss"},
    "ours": {"scheduler": "thompson", "reward": "transfer"},
    "ours-defaults": {"scheduler": "thompson", "reward": "transfer", "every": 8, "refresh": 16},
    "mirror": {"scheduler": "mirror", "reward": "transfer", "rate": 0.05},
    "doge": {},
}
GRID = (
    "uniform",
    "proportional",
    "temperature",
    "temperature-1.5",
    "no-noise",
    "quarter-useful",
    "half-useful",
)
"""The fixed mixtures of which ``static`` is the best."""
STATIC = "static"
FIRST_RUN = {"doge": "mirror"}
"""Methods whose mixture is the mean shares of a run of another, with the same seed."""
REPORTED = (
    "uniform",
    "ours",
    "proportional",
    STATIC,
    "temperature",
    "useful",
    "exp3-loss",
    "mirror",
    "doge",
    "target-only",
    "ours-defaults",
)
TUNING_SEED = 100
AVERAGE = 0.98
"""The weight of the running average's past in every step."""
EVERY, REFRESH = 4, 8
"""Steps between two rewards, and between two gradients of the target."""
OWN_STEP = 8
"""In the last quarter one step in so many is the target's."""
POINTS = (0.1, 0.25, 0.5, 0.7, 0.8, 0.85, 0.9, 0.95, 1.0)
"""Where in a run the held-out pages are read; often near the end, where methods are compared."""
TUNING_POINTS = (0.8, 0.9, 1.0)


class Job(NamedTuple):
    """What makes a run."""

    target: str
    method: str
    rate: float
    seed: int


class Loop:
    """One run: a model, its optimiser, a chooser, and what tells it rewards."""

    def __init__(
        self, data: Data, size: Size, method: str, rate: float, seed: int, shares: dict[str, float] | None = None
    ) -> None:
        options = parsed(method)
        # A run that is planned for the same time makes fewer steps, and comes to its last quarter sooner.
        size = size._replace(steps=round(size.steps / options.pop("slower", 1)))
        torch.manual_seed(seed)
        device = data.rows.device
        self.data, self.size, self.turn = data, size, 0
        self.model = mixing_model.GPT(size).to(device)
        self.average = mixing_model.GPT(size).to(device).requires_grad_(False)
        self.average.load_state_dict(self.model.state_dict())
        self._into_average = get_ema_multi_avg_fn(AVERAGE)
        self.optimiser = torch.optim.AdamW(self.model.parameters(), rate, (0.9, 0.95), fused=True)
        self.warm = torch.optim.lr_scheduler.LinearLR(self.optimiser, 0.05, total_iters=max(1, size.steps // 20))
        self.chance = torch.Generator().manual_seed(seed)
        self.own_step = options.pop("own_step", None)
        self.told, scheduler = options.pop("reward", None), options.pop("scheduler", "uniform")
        every, refresh = options.pop("every", EVERY), options.pop("refresh", REFRESH)
        optimiser, layers = self.optimiser if options.pop("adam", True) else None, options.pop("layers", None)
        self.measured = round(size.steps * options.pop("stop", 1))
        self.reward = None
        if self.told == "transfer":
            self.reward = RowTransfer(
                self.model,
                lambda: self._own_rows(size.batch // 2),
                lambda model, rows: mixing_model.row_losses(model, rows).mean(),
                optimiser=optimiser,
                kind="loss",
                layers=layers,
                every=every,
                refresh=refresh,
            )
        names, weights = mixture(data, options.pop("only", None), options.pop("useful_share", None), shares)
        self.chooser = ms.Chooser(
            scheduler,
            {name: data.sizes[name] for name in names},
            size.batch,
            seed=seed,
            weights=weights,
            **options,
        )
        self.teller = Teller(self.chooser)
        starts = dict(zip(data.sizes, np.cumsum([0, *data.sizes.values()])[:-1], strict=True))
        self.starts = np.array([starts[name] for name in names])
        self.drawn = np.zeros(len(names), int)

    def step(self) -> None:
        """Choose the rows of a batch, or take the target's own; train on them; tell what each was worth."""
        turn, self.turn = self.turn, self.turn + 1
        late = turn >= self.size.steps * 3 // 4 and turn % OWN_STEP == OWN_STEP - 1
        if late or self.own_step:
            mixing_model.row_losses(self.model, self._own_rows(self.size.batch)).mean().backward()
        else:
            self._train_on(self.chooser.ask())
        self.optimiser.step()
        self.warm.step()
        self.optimiser.zero_grad()
        self._into_average(list(self.average.parameters()), list(self.model.parameters()), self.turn)

    def _train_on(self, draw: ms.Draw) -> None:
        self.drawn += np.bincount(draw.tasks, minlength=len(self.drawn))
        where = torch.from_numpy(self.starts[draw.tasks] + draw.rows)
        batch = self.data.rows[where.to(self.data.rows.device, non_blocking=True)]
        if self.reward:
            with self.reward.watch(None if self.turn <= self.measured else False):
                self.reward.rows(mixing_model.row_losses(self.model, batch)).mean().backward()
            self.teller.tell(draw, self.reward.rewards())
            return
        losses = mixing_model.row_losses(self.model, batch)
        losses.mean().backward()
        self.teller.tell(draw, losses.detach() if self.told else 0.0)

    def _own_rows(self, count: int) -> torch.Tensor:
        chosen = torch.randperm(len(self.data.target), generator=self.chance)[:count]
        return self.data.target[chosen.to(self.data.target.device, non_blocking=True)]


def mixture(
    data: Data, only: str | None, useful_share: float | None, shares: dict[str, float] | None
) -> tuple[tuple[str, ...], dict[str, float] | None]:
    """Which sources are drawn from; and their weights, where the method gives them."""
    if only:
        names = data.useful if only == "useful" else tuple(name for name in data.sizes if name not in data.noise)
        return names, None
    if useful_share is not None:
        others = len(data.sizes) - len(data.useful)
        shares = {
            name: useful_share / len(data.useful) if name in data.useful else (1 - useful_share) / others
            for name in data.sizes
        }
    return tuple(data.sizes), shares


def parsed(method: str) -> dict[str, Any]:
    """The settings of a method and what its options add to them.

    >>> parsed("ours+width=1+adam=false")
    {'scheduler': 'thompson', 'reward': 'transfer', 'width': 1, 'adam': False}
    """
    name, *added = method.split("+")
    if name not in METHODS:
        raise SystemExit(f"unknown method '{name}'; known: {', '.join((*METHODS, STATIC))}")
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


def trained(
    data: Data, size: Size, job: Job, points: Sequence[float] = POINTS, shares: dict[str, float] | None = None
) -> dict[str, Any]:
    """A whole run: held-out bits per byte at points of it ([step, bits]), and what was drawn.

    The tuning seed is evaluated on the tuning pages, and all others on those that are reported.
    """
    start, found = time.process_time(), []
    loop = Loop(data, size, job.method, job.rate, job.seed, shares)
    held, steps = data.tune if job.seed == TUNING_SEED else data.test, loop.size.steps
    stops = {max(1, round(steps * share)) for share in points}
    for step in range(1, steps + 1):
        loop.step()
        if step in stops:
            found.append([step, round(mixing_model.bits(loop.average, held), 4)])
    names, total = loop.chooser.names, max(1, int(loop.drawn.sum()))
    drawn = dict(zip(names, loop.drawn.tolist(), strict=True))
    passes = {name: count / data.sizes[name] for name, count in drawn.items()}
    most = max(passes, key=lambda name: passes[name])
    return {
        "points": found,
        "useful": round(sum(drawn.get(name, 0) for name in data.useful) / total, 4),
        "noise": round(sum(drawn.get(name, 0) for name in data.noise) / total, 4),
        "rows": drawn,
        "most_passes": [most, round(passes[most], 2)],
        "seconds": round(time.process_time() - start, 1),
    }


def run(
    job: Job, corpus: Path, size: Size, device: str, points: Sequence[float], shares: dict[str, float] | None
) -> dict[str, Any]:
    """A job in a process of its own."""
    torch.set_num_threads(1)
    torch.set_float32_matmul_precision("high")
    warnings.filterwarnings("ignore", message="a batch of|rewards of rows leave out")
    return trained(mixing_model.load(corpus, job.target, size, device), size, job, points, shares)


def timed(data: Data, size: Size, methods: Iterable[str]) -> dict[str, float]:
    """Seconds of one step of each method, medians of turns in one process."""
    cuda, steps = data.rows.is_cuda, 6 * REFRESH

    def runner(method: str) -> Callable[[], None]:
        # So many steps that the last quarter, with the target's own, is never reached.
        loop = Loop(data, size._replace(steps=100_000), method, size.learning_rate, 0)

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


def tuned(lines: Iterable[dict[str, Any]], target: str, method: str) -> tuple[str, float] | None:
    """Method and rate with the fewest bits per byte on the tuning pages; for ``static`` the best of the grid."""
    among = GRID if method == STATIC else (method,)
    tried = [
        (line["points"][-1][1], line["method"], line["rate"])
        for line in lines
        if line["kind"] == "run"
        and line["seed"] == TUNING_SEED
        and line["target"] == target
        and line["method"] in among
    ]
    return min(tried)[1:] if tried else None


def beyond(lines: Sequence[dict[str, Any]], target: str, method: str, rates: Sequence[float]) -> float | None:
    """One step further than the rates, where the best of them is the first or the last."""
    best = tuned((line for line in lines if line["kind"] != "run" or line["rate"] in rates), target, method)
    low, high = min(rates), max(rates)
    if best is None or len(rates) < 2 or low < best[1] < high:
        return None
    ratio = sorted(rates)[1] / low
    return low / ratio if best[1] == low else high * ratio


class Campaign:
    """Runs that share a size and a file of results."""

    def __init__(
        self, corpus: Path, out: Path, name: str, size: Size, device: str, pool: concurrent.futures.Executor
    ) -> None:
        self.corpus, self.out, self.size, self.device, self.pool = corpus, out, size, device, pool
        self.common = {"size": name, "steps": size.steps, "device": device}
        self.failed = False

    def lines(self) -> list[dict[str, Any]]:
        """Those of the file that are of this size."""
        return [line for line in read(self.out) if self.common.items() <= line.items()]

    def add(self, line: dict[str, Any]) -> None:
        """One more."""
        with self.out.open("a", encoding="utf-8") as file:
            file.write(json.dumps({**self.common, **line}) + "\n")

    def shares(self, job: Job) -> dict[str, float] | None:
        """The mean shares of the run that this one needs to be made first."""
        if job.method not in FIRST_RUN:
            return None
        lines, first = self.lines(), FIRST_RUN[job.method]
        chosen = tuned(lines, job.target, first)
        wanted = {"kind": "run", "target": job.target, "method": first, "seed": job.seed, "rate": chosen and chosen[1]}
        drawn = next((line["rows"] for line in lines if wanted.items() <= line.items()), None)
        if drawn is None:
            raise SystemExit(f"{job.method} needs a run of {first} on {job.target} with seed {job.seed}; make it first")
        total = sum(drawn.values())
        return {name: count / total for name, count in drawn.items()}

    def make(self, jobs: Iterable[Job], points: Sequence[float]) -> None:
        """Make the runs that the file does not have, and add a line for each."""
        had = self.lines()
        missing = [job for job in dict.fromkeys(jobs) if not any(job._asdict().items() <= line.items() for line in had)]
        under_way = {
            self.pool.submit(run, job, self.corpus, self.size, self.device, points, self.shares(job)): job
            for job in missing
        }
        for done in concurrent.futures.as_completed(under_way):
            job = under_way[done]
            head = f"{job.target:8} {job.method:20} rate {job.rate:<7g} seed {job.seed:3}"
            if problem := done.exception():
                self.failed = True
                print(f"{head}: {problem!r}", file=sys.stderr, flush=True)
                continue
            found = done.result()
            self.add({"kind": "run", **job._asdict(), **found})
            print(
                f"{head}  {found['points'][-1][1]:.3f} bits per byte  useful {found['useful']:4.0%}  "
                f"noise {found['noise']:4.0%}  {found['seconds']:5.1f} s",
                flush=True,
            )

    def time(self, target: str, methods: Sequence[str]) -> None:
        """Time the steps of all methods, in this process; a fixed mixture takes the same whichever it is."""
        torch.set_num_threads(1)
        warnings.filterwarnings("ignore", message="a batch of|rewards of rows leave out")
        data = mixing_model.load(self.corpus, target, self.size, self.device)
        apart = [method for method in methods if method not in (STATIC, *FIRST_RUN)]
        for method, seconds in timed(data, self.size, apart).items():
            self.add({"kind": "time", "method": method, "seconds": seconds})
            print(f"{method:40} {1e3 * seconds:8.2f} ms a step", flush=True)

    def tune(self, targets: Sequence[str], methods: Sequence[str], rates: Sequence[float]) -> None:
        """Try the rates for every method, and one step further at the edge; what needs a first run comes second."""
        wanted = [name for method in methods for name in (GRID if method == STATIC else (method,))]
        for stage in (False, True):
            pairs = [pair for pair in product(targets, wanted) if (pair[1] in FIRST_RUN) == stage]
            self.make((Job(*pair, rate, TUNING_SEED) for pair, rate in product(pairs, rates)), TUNING_POINTS)
            lines = self.lines()
            further = [(pair, beyond(lines, *pair, rates)) for pair in pairs]
            self.make((Job(*pair, rate, TUNING_SEED) for pair, rate in further if rate), TUNING_POINTS)

    def report(self, targets: Sequence[str], methods: Sequence[str], seeds: Sequence[int]) -> None:
        """Run every method at its rate, one seed after the other."""
        lines = self.lines()
        chosen = {pair: tuned(lines, *pair) for pair in product(targets, methods)}
        if lacking := [method for (_, method), best in chosen.items() if best is None]:
            raise SystemExit(f"{lacking[0]} has not been tuned yet; run with --tune first")
        for stage in (False, True):
            self.make(
                (
                    Job(target, *chosen[target, method], seed)
                    for seed, target, method in product(seeds, targets, methods)
                    if (method in FIRST_RUN) == stage
                ),
                POINTS,
            )


def main() -> None:
    """Run what is missing and add a line for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True, help="a file of JSON lines; what it has is kept")
    parser.add_argument("--target", nargs="+", default=["danish", "swedish", "headers", "docs"])
    parser.add_argument("--methods", nargs="+", default=list(REPORTED))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0], help="of the runs that are reported")
    parser.add_argument("--size", choices=SIZES, default="small")
    parser.add_argument("--steps", type=int, help="of a run, where not those of the size")
    parser.add_argument("--rates", nargs="+", type=float, help="to tune; by default half, once and twice the size's")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--processes", type=int, default=1, help="how many runs are made side by side")
    parser.add_argument("--tune", action="store_true", help="choose rates and the fixed mixture, on the tuning pages")
    parser.add_argument("--time", action="store_true", help="time steps of all methods in turns")
    asked = parser.parse_args()
    size = SIZES[asked.size]
    size = size._replace(steps=asked.steps or size.steps)
    methods = [method for method in asked.methods if method == STATIC or parsed(method) is not None]
    asked.out.parent.mkdir(parents=True, exist_ok=True)
    # Processes start afresh: one that was forked could not use the accelerator.
    fresh = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(asked.processes, mp_context=fresh) as pool:
        campaign = Campaign(asked.corpus, asked.out, asked.size, size, asked.device, pool)
        if not any(line["kind"] == "corpus" for line in campaign.lines()):
            campaign.add({"kind": "corpus", "files": mixing_model.listed(asked.corpus)["files"]})
        if asked.time:
            campaign.time(asked.target[0], methods)
        elif asked.tune:
            rates = asked.rates or [size.learning_rate * factor for factor in (0.5, 1, 2)]
            campaign.tune(asked.target, methods, rates)
        else:
            campaign.report(asked.target, methods, asked.seeds)
    sys.exit(campaign.failed)


if __name__ == "__main__":
    main()
