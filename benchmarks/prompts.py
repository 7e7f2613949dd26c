"""Which prompts to spend rollouts on: GRPO on generated tasks of graded difficulty, at equal rollouts.

A prompt is a family and some digits; the answer is the digits from behind, each of them as it is (``same``) or one
larger (``next``). A level is a family and a length. A tiny transformer is first taught lengths 1 and 2, so that these
levels are solved; the longer ones come within reach one after the other; and three levels are impossible: the answers
of ``riddle`` are random digits. Every method has the same model, prompts, steps and rollouts, and chooses levels alone.

Learning rates, and the settings of the rules that we compare with, are tuned for each method on seeds that are not
reported. *Ours*, named before the reported runs, is ``ms.PromptChooser`` with its defaults.

Run with: python benchmarks/prompts.py --tune --seeds 10     # ten minutes of one core; what is there is not run again
          python benchmarks/prompts.py --table
"""

import argparse
import copy
import json
import time
from collections import deque
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import common  # noqa: F401  isort: skip  (it holds NumPy to one thread)

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

import metasched as ms
from metasched.report import statistics, tables

LENGTHS, TAUGHT, RIDDLES = range(1, 6), 2, (3, 4, 5)
FAMILIES = ("same", "next")
LEVELS = [(name, n) for name in FAMILIES for n in LENGTHS] + [("riddle", n) for n in RIDDLES]
SOLVABLE = [number for number, (family, _) in enumerate(LEVELS) if family != "riddle"]
NAMES = [f"{family} {length}" for family, length in LEVELS]
EASY_TO_HARD = sorted(range(len(LEVELS)), key=lambda one: (LEVELS[one][0] == "riddle", LEVELS[one][1]))
TOKENS = {"pad": 10, "ask": 11, "same": 12, "next": 13, "riddle": 14}
LONGEST = max(LENGTHS)
PROMPTS_OF_LEVEL, TESTS_OF_LEVEL = 500, 40
STEPS, PROMPTS, GROUP, EVERY = 240, 16, 8, 10
Rows = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
"""Prompts (rows, LONGEST + 2), padded in front; right answers (rows, LONGEST); and their lengths (rows,)."""


def rows_of(level: int, count: int, random: np.random.Generator) -> Rows:
    """Prompts of one level."""
    family, length = LEVELS[level]
    digits = random.integers(0, 10, (count, length))
    answers = np.zeros((count, LONGEST), np.int64)
    answers[:, :length] = digits[:, ::-1]
    answers[:, :length] = (answers[:, :length] + (family == "next")) % 10
    if family == "riddle":
        answers[:, :length] = random.integers(0, 10, (count, length))
    prompts = np.full((count, LONGEST + 2), TOKENS["pad"])
    prompts[:, -1], prompts[:, -2 - length], prompts[:, -1 - length : -1] = TOKENS["ask"], TOKENS[family], digits
    return torch.from_numpy(prompts), torch.from_numpy(answers), torch.full((count,), length)


@cache
def data(seed: int, count: int) -> Rows:
    """So many prompts of every level, level by level."""
    random = np.random.default_rng(seed)
    parts = [rows_of(level, count, random) for level in range(len(LEVELS))]
    return tuple(torch.cat(part) for part in zip(*parts, strict=True))  # type: ignore[return-value]


class Model(nn.Module):
    """A decoder of two layers, with positions counted from the end of the prompt."""

    def __init__(self, width: int = 32, heads: int = 4, layers: int = 2) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(15, width), nn.Embedding(2 * LONGEST + 2, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.last, self.head = nn.LayerNorm(width), nn.Linear(width, 10)

    def forward(self, tokens: torch.Tensor, past: "list[Past] | None" = None) -> torch.Tensor:
        """Logits (rows, length, 10) of the next digit. ``past`` is read and extended."""
        begin = 0 if not past or past[0].keys is None else past[0].keys.shape[2]
        values = self.tokens(tokens) + self.places.weight[begin : begin + tokens.shape[1]]
        for number, block in enumerate(self.blocks):
            values = block(values, None if past is None else past[number])
        logits: torch.Tensor = self.head(self.last(values))
        return logits

    @torch.no_grad()
    def answer(self, prompts: torch.Tensor, group: int, random: torch.Generator | None) -> torch.Tensor:
        """``group`` answers (rows × group, LONGEST) of each prompt: drawn, or the likeliest without ``random``."""
        past = [Past() for _ in self.blocks]
        logits = self(prompts, past)[:, -1].repeat_interleave(group, 0)
        for one in past:
            one.repeat(group)
        digits = []
        for place in range(LONGEST):
            chosen = (
                logits.argmax(-1)
                if random is None
                else torch.multinomial(logits.softmax(-1), 1, generator=random)[:, 0]
            )
            digits.append(chosen)
            if place < LONGEST - 1:
                logits = self(chosen[:, None], past)[:, -1]
        return torch.stack(digits, 1)


class Past:
    """Keys and values of the tokens so far, (rows, heads, length, width)."""

    keys: torch.Tensor | None = None
    values: torch.Tensor | None = None

    def extended(self, keys: torch.Tensor, values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """All keys and values, after these have been added."""
        if self.keys is not None and self.values is not None:
            keys, values = torch.cat([self.keys, keys], 2), torch.cat([self.values, values], 2)
        self.keys, self.values = keys, values
        return keys, values

    def repeat(self, group: int) -> None:
        """Every row so many times."""
        if self.keys is not None and self.values is not None:
            self.keys, self.values = (one.repeat_interleave(group, 0) for one in (self.keys, self.values))


class Block(nn.Module):
    """Attention and a network of two layers."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads, self.first, self.second = heads, nn.LayerNorm(width), nn.LayerNorm(width)
        self.mixed, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, values: torch.Tensor, past: Past | None) -> torch.Tensor:
        """Values (rows, length, width) one layer further."""
        rows, length, width = values.shape
        parts = self.mixed(self.first(values)).view(rows, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        query, keys, contents = parts
        if past is not None:
            keys, contents = past.extended(keys, contents)
        seen = nn.functional.scaled_dot_product_attention(query, keys, contents, is_causal=length > 1)
        values = values + self.out(seen.transpose(1, 2).reshape(rows, length, width))
        added: torch.Tensor = self.narrow(nn.functional.gelu(self.wide(self.second(values))))
        return values + added


def likelihoods(model: Model, prompts: torch.Tensor, answers: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    """log-probabilities (rows, LONGEST) of the digits of answers, 0 behind their ends."""
    logits = model(torch.cat([prompts, answers[:, :-1]], 1))[:, prompts.shape[1] - 1 :]
    chosen = logits.log_softmax(-1).gather(2, answers[:, :, None])[:, :, 0]
    return chosen * within(lengths)


def within(lengths: torch.Tensor) -> torch.Tensor:
    """(rows, LONGEST): whether a place is one of the answer."""
    return torch.arange(LONGEST) < lengths[:, None]


def solved(answers: torch.Tensor, rows: Rows) -> torch.Tensor:
    """Which answers are right, as a whole."""
    return ((answers == rows[1]) | ~within(rows[2])).all(1)


@cache
def taught(seed: int, steps: int = 400) -> Model:
    """A model that solves the levels of the shortest lengths."""
    torch.manual_seed(seed)
    model, random = Model(), np.random.default_rng([seed, 1])
    optimiser = torch.optim.Adam(model.parameters(), 2e-3)
    easy = [level for level in SOLVABLE if LEVELS[level][1] <= TAUGHT]
    for _ in range(steps):
        parts = [rows_of(level, 16, random) for level in easy]
        prompts, answers, lengths = (torch.cat(part) for part in zip(*parts, strict=True))
        optimiser.zero_grad()
        (-likelihoods(model, prompts, answers, lengths).sum() / lengths.sum()).backward()
        optimiser.step()
    return model


def advantages_of(right: torch.Tensor) -> torch.Tensor:
    """(r − mean) / (deviation + 1e-4) within each group."""
    rewards = right.float().view(-1, GROUP)
    centred = rewards - rewards.mean(1, keepdim=True)
    return (centred / (rewards.std(1, keepdim=True) + 1e-4)).flatten()


def accuracy(model: Model) -> NDArray[np.float64]:
    """The share of test prompts of each level that the likeliest answer solves."""
    rows = data(10**6, TESTS_OF_LEVEL)
    return solved(model.answer(rows[0], 1, None), rows).view(len(LEVELS), -1).double().mean(1).numpy()


# Methods: each has next(n) -> indices, and observe(indices, advantages)


class ByLevel:
    """Levels are drawn from ``chances()``, prompts of a level evenly."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng([seed, 2])
        self.steps = 0

    def chances(self) -> NDArray[np.float64]:
        """Of the levels."""
        raise NotImplementedError

    def next(self, n: int) -> NDArray[np.int64]:
        """Prompts, by number."""
        levels = self.random.choice(len(LEVELS), n, p=self.chances())
        self.steps += 1
        return np.asarray(levels * PROMPTS_OF_LEVEL + self.random.integers(0, PROMPTS_OF_LEVEL, n), np.int64)

    def observe(self, indices: Any, values: Any) -> None:
        """The advantages of their completions."""
        sizes = np.abs(np.asarray(values))
        levels = np.asarray(indices) // PROMPTS_OF_LEVEL
        for level in np.unique(levels):
            self.learn(int(level), sizes[levels == level])

    def learn(self, level: int, sizes: NDArray[np.float64]) -> None:
        """What came of one level in a step."""


class EasyToHard(ByLevel):
    """One level more at a time, so that the last one joins at ``end`` of the run; it is told their order."""

    def __init__(self, seed: int, end: float = 1.0) -> None:
        super().__init__(seed)
        self.end = end

    def chances(self) -> NDArray[np.float64]:
        """Even among the levels so far."""
        number = min(len(LEVELS), 1 + int(self.steps / (self.end * STEPS) * len(LEVELS)))
        chances = np.zeros(len(LEVELS))
        chances[EASY_TO_HARD[:number]] = 1 / number
        return chances


class Dump(ByLevel):
    """Softmax of mean |advantage| over a window, and an upper bound's bonus (arXiv:2504.09710)."""

    def __init__(self, seed: int, temperature: float = 0.1, window: int = 300) -> None:
        super().__init__(seed)
        self.temperature = temperature
        self.recent: list[deque[float]] = [deque(maxlen=window) for _ in LEVELS]

    def chances(self) -> NDArray[np.float64]:
        """Those of the rule."""
        numbers = np.array([len(one) for one in self.recent])
        means = np.array([np.mean(one) if one else 0.0 for one in self.recent])
        return softmax((means + np.sqrt(2 * np.log(numbers.sum() + 1) / (numbers + 1))) / self.temperature)

    def learn(self, level: int, sizes: NDArray[np.float64]) -> None:
        """Keep it."""
        self.recent[level].extend(sizes.tolist())


class Sec(ByLevel):
    """Softmax of an exponential mean of |advantage| (arXiv:2505.14970)."""

    def __init__(self, seed: int, temperature: float = 0.4, rate: float = 0.5) -> None:
        super().__init__(seed)
        self.temperature, self.rate = temperature, rate
        self.values = np.zeros(len(LEVELS))

    def chances(self) -> NDArray[np.float64]:
        """Those of the rule."""
        return softmax(self.values / self.temperature)

    def learn(self, level: int, sizes: NDArray[np.float64]) -> None:
        """Keep it."""
        self.values[level] += self.rate * (sizes.mean() - self.values[level])


def softmax(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """exp(v) / Σ exp(v)."""
    powers = np.exp(values - values.max())
    return np.asarray(powers / powers.sum())


def headroom(advantages: NDArray[np.float64]) -> float:
    """Their mean size, times the share of completions that are not above the mean: what is left to gain."""
    return float(np.abs(advantages).mean() * (advantages <= 0).mean())


def of_levels(seed: int, headroom_counts: bool = False, **options: Any) -> ms.PromptChooser:
    """A chooser of the library."""
    values = headroom if headroom_counts else "advantages"
    return ms.PromptChooser(np.repeat(NAMES, PROMPTS_OF_LEVEL), values=values, seed=seed, **options)


METHODS: dict[str, tuple[Any, list[dict[str, Any]]]] = {
    "ours": (of_levels, [{}]),
    "uniform": (of_levels, [{"scheduler": "uniform"}]),
    "easy-to-hard": (EasyToHard, [{"end": 1.0}, {"end": 0.6}]),
    "dump": (Dump, [{"temperature": 0.1}, {"temperature": 0.05}]),
    "sec": (Sec, [{"temperature": 0.4}, {"temperature": 0.2}]),
}
"""How each is made, and the settings that it is tuned over."""
VARIANTS: dict[str, dict[str, Any]] = {
    "ours, width=1": {"width": 1.0},
    "ours, headroom": {"headroom_counts": True},
    "uniform, rate of ours": {"scheduler": "uniform"},
}
"""All at the rate of ours. They explore: they were chosen after runs on the tuning seeds."""
RATES, TUNING_SEEDS = (2e-3, 1e-3, 4e-3), (100, 101)


def trained(method: str, rate: float, options: dict[str, Any], seed: int, steps: int = STEPS) -> dict[str, Any]:
    """One run: accuracy and the share of rollouts with an advantage, along the way."""
    start = time.process_time()
    model = copy.deepcopy(taught(seed))
    optimiser = torch.optim.Adam(model.parameters(), rate)
    random = torch.Generator().manual_seed(seed + 1)
    rows, chooser = data(seed, PROMPTS_OF_LEVEL), METHODS.get(method, METHODS["ours"])[0](seed, **options)
    curve, signal, draws = [accuracy(model)], [], np.zeros(len(LEVELS), np.int64)
    for step in range(1, steps + 1):
        chosen = chooser.next(PROMPTS)
        draws += np.bincount(chosen // PROMPTS_OF_LEVEL, minlength=len(LEVELS))
        prompts, right, lengths = (part[torch.from_numpy(chosen)] for part in rows)
        answers = model.answer(prompts, GROUP, random)
        prompts, right, lengths = (part.repeat_interleave(GROUP, 0) for part in (prompts, right, lengths))
        advantages = advantages_of(solved(answers, (prompts, right, lengths)))
        chooser.observe(chosen.repeat(GROUP), advantages.numpy())
        signal.append(float((advantages != 0).float().mean()))
        chances = likelihoods(model, prompts, answers, lengths)
        optimiser.zero_grad()
        (-(advantages[:, None] * chances).sum() / lengths.sum()).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        if step % EVERY == 0:
            curve.append(accuracy(model))
    return {
        "method": method,
        "rate": rate,
        "options": options,
        "seed": seed,
        "curve": [round(float(one[SOLVABLE].mean()), 4) for one in curve],
        "levels": [round(float(one), 2) for one in curve[-1]],
        "signal": round(float(np.mean(signal)), 4),
        "draws": draws.tolist(),
        "seconds": round(time.process_time() - start, 1),
    }


# Results

Lines = list[dict[str, Any]]


def best(lines: Lines, method: str, part: str) -> Any:
    """The setting (``rate`` or ``options``) with the highest accuracy on the tuning seeds, averaged over the run."""
    mine = [one for one in lines if one["kind"] == "tune" and one["method"] == method]
    tried = {json.dumps([one["rate"], one["options"]]): one for one in mine}
    scores = {
        key: np.mean([np.mean(run["curve"]) for run in mine if [run["rate"], run["options"]] == json.loads(key)])
        for key in tried
    }
    return tried[max(scores, key=lambda key: scores[key])][part]


def reported(lines: Lines) -> dict[str, dict[int, dict[str, Any]]]:
    """The runs of each method by seed."""
    found: dict[str, dict[int, dict[str, Any]]] = {}
    for line in lines:
        if line["kind"] == "run":
            found.setdefault(line["method"], {})[line["seed"]] = line
    return found


def arrival(curve: Sequence[float], threshold: float) -> float:
    """Rollouts until the accuracy is at least so high; ∞ if it never is."""
    there = np.flatnonzero(np.array(curve) >= threshold)
    return float(there[0] * EVERY * PROMPTS * GROUP) if len(there) else np.inf


def arrivals(runs: dict[int, dict[str, Any]], base: dict[int, dict[str, Any]], seeds: Sequence[int]) -> Any:
    """Rollouts (seeds,) until a run is as good as that of the baseline with the same seed is in the end."""
    return np.array([arrival(runs[seed]["curve"], np.mean(base[seed]["curve"][-3:])) for seed in seeds])


def saved(lines: Lines, method: str, baseline: str) -> str:
    """The share of rollouts that a method saves until it is as good as the baseline in the end, with its interval."""
    runs, base = (reported(lines)[name] for name in (method, baseline))
    seeds = sorted(set(runs) & set(base))
    taken = np.minimum(arrivals(runs, base, seeds), STEPS * PROMPTS * GROUP)
    share = statistics.mean_of_means([1 - taken / arrivals(base, base, seeds)])
    return f"{100 * share.value:.0f}% [{100 * share.low:.0f}, {100 * share.high:.0f}]"


def table(lines: Lines) -> str:
    """Every method against uniform, on the seeds that both have; its final accuracy is the mean of the last three."""
    runs = reported(lines)
    base, most = runs["uniform"], STEPS * PROMPTS * GROUP
    rows = [
        "|  | seeds | with an advantage | final accuracy | less uniform's | rollouts to uniform's end | saved |",
        "|" + "---|" * 7,
    ]
    for name in [*METHODS, *VARIANTS]:
        seeds = sorted(set(runs.get(name, {})) & set(base))
        if len(seeds) < 2:  # one allows no interval
            continue
        finals, ends = (np.array([np.mean(one[seed]["curve"][-3:]) for seed in seeds]) for one in (runs[name], base))
        there = arrivals(runs[name], base, seeds)
        taken, never = np.minimum(there, most), int(np.isinf(there).sum())
        words = [
            f"**{name}**" if name == "ours" else name,
            str(len(seeds)),
            f"{100 * np.mean([runs[name][seed]['signal'] for seed in seeds]):.0f}%",
            f"{finals.mean():.3f}",
            "" if name == "uniform" else tables.signed(statistics.mean_of_means([finals - ends])).text,
            f"{taken.mean():,.0f}" + f" ({never} never)" * (never > 0),
            "" if name == "uniform" else saved(lines, name, "uniform"),
        ]
        rows.append(f"| {' | '.join(words)} |")
    return "\n".join(rows) + "\n"


def main() -> None:
    """Tune and run what is missing; print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "prompts.jsonl")
    parser.add_argument("--tune", action="store_true", help="tune every method first")
    parser.add_argument("--seeds", type=int, default=0, help="how many runs of each method to report")
    parser.add_argument("--table", action="store_true", help="print the table alone")
    parser.add_argument("--page", type=Path, help="a page that the table is written into")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    path: Path = asked.out
    lines: Lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []

    def run(kind: str, method: str, rate: float, options: dict[str, Any], seed: int) -> None:
        wanted = {"kind": kind, "method": method, "rate": rate, "options": options, "seed": seed}
        if any(wanted.items() <= line.items() for line in lines):
            return
        lines.append(wanted | trained(method, rate, options, seed))
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(lines[-1]) + "\n")
        print(kind, method, f"{rate:g}", options, seed, lines[-1]["curve"][-1], flush=True)

    if asked.tune:
        for method, (_, settings) in METHODS.items():
            for options in settings:
                for seed in TUNING_SEEDS:
                    run("tune", method, RATES[0], options, seed)
            options = best(lines, method, "options")
            for rate in RATES[1:]:
                for seed in TUNING_SEEDS:
                    run("tune", method, rate, options, seed)
    for seed in range(asked.seeds):  # the planned comparison first
        for method in ("ours", "uniform"):
            run("run", method, best(lines, method, "rate"), best(lines, method, "options"), seed)
    for seed in range(asked.seeds):
        for method in METHODS:
            run("run", method, best(lines, method, "rate"), best(lines, method, "options"), seed)
    for seed in range(asked.seeds):
        for method, options in VARIANTS.items():
            run("run", method, best(lines, "ours", "rate"), options, seed)
    if asked.table or asked.seeds:
        print(table(lines))
        print("Ours against uniform with the rate of ours:", saved(lines, "ours", "uniform, rate of ours"))
    if asked.page:
        begin, end = "<!-- prompts-table: begin -->\n", "<!-- prompts-table: end -->"
        before, rest = asked.page.read_text(encoding="utf-8").split(begin)
        asked.page.write_text(before + begin + table(lines) + end + rest.split(end)[1], encoding="utf-8")


if __name__ == "__main__":
    main()
