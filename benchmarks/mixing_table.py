"""The tables and figures of ``mixing.py``, from its lines alone.

At equal time a method is taken where its own curve stands when uniform has made all its steps: a method whose step
takes a tenth longer has made a tenth fewer. Between two points of a curve bits per byte are interpolated.

Run with: python benchmarks/mixing_table.py benchmarks/results/mixing-small.jsonl --page docs/mixing.md
"""

import argparse
import json
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from mixing import METHODS
from mixing_corpus import TARGET, USEFUL

from metasched.optional import require
from metasched.report import page, plots, statistics, tables
from metasched.report.figures import Figure, Panel

OURS, BASELINE, ALONE = "ours", "uniform", "target-only"
NOISE = ("base64", "random")
RIVALS = (BASELINE, "proportional", "temperature", ALONE, "exp3-alignment", "exp3-loss", "useful")
DRAWN = {
    OURS: "thompson",
    BASELINE: "uniform",
    "temperature": "sequential",
    "exp3-alignment": "gittins",
    "useful": "useful",
}
"""Methods in the figure, with whose colour."""


def groupby(lines: Iterable[dict[str, Any]], key: Callable[[dict[str, Any]], Any]) -> dict[Any, list[dict[str, Any]]]:
    """Lines of the same key together, in the order of their first."""
    groups: dict[Any, list[dict[str, Any]]] = {}
    for line in lines:
        groups.setdefault(key(line), []).append(line)
    return groups


def name_of(line: dict[str, Any]) -> str:
    """What a run is called: its method, with k where the target's gradient is kept for other than 4 steps; of a check
    also its rate.

    >>> name_of({"kind": "run", "method": "ours+every=8", "rate": 0.002})
    'ours, k = 8'
    """
    name = re.sub(r"\+every=(\d+)", r", k = \1", line["method"])
    return name if line["kind"] == "run" else f"{name}, rate {line['rate']:g}"


class Lines(NamedTuple):
    """All lines of one size."""

    runs: dict[str, dict[int, dict[str, Any]]]
    seconds: dict[str, float]
    tried: dict[str, dict[str, float]]
    steps: int

    @classmethod
    def read(cls, path: Path) -> "Lines":
        """From a file of JSON lines."""
        lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        runs: dict[str, dict[int, dict[str, Any]]] = {}
        for line in lines:
            if line["kind"] in ("run", "check"):
                runs.setdefault(name_of(line), {})[line["seed"]] = line
        tried: dict[str, dict[str, float]] = {}
        tuning = [line for line in lines if line["kind"] == "tune"]
        for (method, variant), ends in groupby(tuning, lambda line: (line["method"], line["variant"])).items():
            by_rate = groupby(ends, lambda line: line["rate"]).values()
            tried.setdefault(method, {})[variant] = min(
                float(np.mean([line["points"][-1][1] for line in same])) for same in by_rate
            )
        return cls(
            runs,
            {line["method"]: line["seconds"] for line in lines if line["kind"] == "time"},
            tried,
            max(line["steps"] for line in lines),
        )

    def step(self, method: str) -> float:
        """Seconds of a step: without a reward those of uniform; with one from gradients, if not timed, of ours."""
        if method.startswith(f"{OURS}, k"):
            return self.seconds[method]
        base = re.split("[+,]", method)[0]
        reward = METHODS[base].get("reward")
        return self.seconds.get(base, self.seconds[BASELINE if reward == "loss" else OURS]) if reward else self.plain

    @property
    def plain(self) -> float:
        """Seconds of a step of uniform."""
        return self.seconds[BASELINE]

    def slower(self, method: str) -> float:
        """A step's time over that of uniform."""
        return self.step(method) / self.plain

    def at(self, method: str, share: float) -> dict[int, float]:
        """Held-out bits per byte by seed when ``share`` of the steps is made."""
        return {
            seed: float(np.interp(share * self.steps, *np.array(run["points"])[:, [0, 2]].T))
            for seed, run in self.runs[method].items()
        }

    def equal_time(self, method: str) -> dict[int, float]:
        """Held-out bits per byte by seed when uniform has made its last step."""
        return self.at(method, min(1.0, 1 / self.slower(method)))

    def stopped(self, method: str) -> dict[int, float]:
        """Held-out bits per byte by seed where the tuning pages say that it is best to stop, within uniform's time."""
        last = self.steps * min(1.0, 1 / self.slower(method))
        ends = {}
        for seed, run in self.runs[method].items():
            steps, *curves = np.array(run["points"]).T
            allowed = np.append(steps[steps < last], last)
            tuning, held = (np.interp(allowed, steps, curve) for curve in curves)
            ends[seed] = float(held[tuning.argmin()])
        return ends

    def share(self, method: str, sources: tuple[str, ...]) -> float:
        """The part of all draws that came from ``sources``."""
        runs = self.runs[method].values()
        return float(np.mean([sum(np.mean(run["shares"].get(name, 0.0)) for name in sources) for run in runs]))


def table(lines: Lines) -> str:
    """One row for each method, the best at equal time first."""
    head = ["", "target's place", "rate", "step", "equal steps", "equal time", "best stop", TARGET, "useful", "noise"]
    rows = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for name in sorted(lines.runs, key=lambda name: np.mean(list(lines.equal_time(name).values()))):
        bold = "**" if name == OURS else ""
        first = next(iter(lines.runs[name].values()))
        ends, timed = (list(part.values()) for part in (lines.at(name, 1.0), lines.equal_time(name)))
        words = [
            f"{bold}{name}{bold}",
            place(first["variant"]),
            f"{first['rate']:g}",
            f"{1e3 * lines.step(name):.1f} ms",
            f"{np.mean(ends):.3f}",
            f"{bold}{np.mean(timed):.3f}{bold} ± {np.std(timed, ddof=1) / len(timed) ** 0.5:.3f}",
            f"{np.mean(list(lines.stopped(name).values())):.3f}",
            *(f"{lines.share(name, part):.0%}" for part in ((TARGET,), USEFUL, NOISE)),
        ]
        rows.append(f"| {' | '.join(words)} |")
    return "\n".join(rows) + "\n"


def contrasts(lines: Lines) -> str:
    """Ours less each other method, paired by seed; below zero is better. The last is the target's control, stopped."""
    rows = ["| ours less | bits per byte at equal time | at equal steps |", "|---|---|---|"]
    timed, ended = lines.equal_time(OURS), lines.at(OURS, 1.0)
    for name in (*RIVALS, *(name for name in lines.runs if name.startswith((f"{ALONE}, ", f"{OURS}, k")))):
        if name in lines.runs:
            words = [gap(timed, lines.equal_time(name)), gap(ended, lines.at(name, 1.0))]
            rows.append(f"| {name}{' (planned)' * (name == BASELINE)} | {' | '.join(words)} |")
    if ALONE in lines.runs:
        rows.append(f"| {ALONE}, best stop | {gap(timed, lines.stopped(ALONE))} | {gap(ended, lines.stopped(ALONE))} |")
    return "\n".join(rows) + "\n"


def gap(mine: dict[int, float], theirs: dict[int, float]) -> str:
    """The mean difference over the seeds that both have, with its interval."""
    return str(
        tables.signed(
            statistics.mean_of_means([[mine[seed] - theirs[seed] for seed in sorted(mine.keys() & theirs.keys())]])
        )
    )


def place(variant: str) -> str:
    """Where the target stands in the mixture, in words."""
    added = dict(word.split("=") for word in variant.split("+")[1:])
    if "share" in added:
        return f"1 step in {added['share']}"
    return f"1 step in {added['late']}, last quarter" if "late" in added else "a source"


def tuning(lines: Lines) -> str:
    """What every place of the target gave on the tuning pages and seeds, each at its best rate."""
    places = list(dict.fromkeys(place(variant) for tried in lines.tried.values() for variant in tried))
    rows = [f"|  | {' | '.join(places)} |", "|---" * (len(places) + 1) + "|"]
    for name, tried in lines.tried.items():
        ends = {place(variant): end for variant, end in tried.items()}
        rows.append(f"| {name} | {' | '.join(f'{ends[one]:.3f}' if one in ends else '' for one in places)} |")
    return "\n".join(rows) + "\n"


def cost(lines: Lines) -> str:
    """The share of a step's time that the reward takes, for each k that was timed."""
    plain = lines.plain
    rows = ["|  | ms a step | of which the reward |", "|---|---|---|"]
    for name, seconds in lines.seconds.items():
        if name == BASELINE or name.startswith(OURS):
            shown = {BASELINE: "no reward", OURS: "ours, k = 4"}.get(name, name)
            rows.append(f"| {shown} | {1e3 * seconds:.1f} | {max(0.0, 1 - plain / seconds):.0%} |")
    return "\n".join(rows) + "\n"


def figure(lines: Lines, title: str) -> str:
    """Held-out bits per byte over time, and the shares of ours, as SVG."""
    shown = [name for name in DRAWN if name in lines.runs]
    points = []
    for name in shown:
        curves = np.array([run["points"] for run in lines.runs[name].values()])
        middle, low, high = statistics.median_band(curves[:, :, 2])
        seconds = curves[0, :, 0] * lines.step(name)
        points += [
            {"name": name, "x": x, "y": y, "low": below, "high": above}
            for x, y, below, above in zip(seconds, middle, low, high, strict=True)
            if x <= lines.steps * lines.plain * 1.001
        ]
    strokes = [plots.Stroke(name, plots.COLOURS[DRAWN[name]]) for name in shown]
    levels = []
    if ALONE in lines.runs:
        control = f"{ALONE}, stopped"
        levels = [{"name": control, "y": float(np.median(list(lines.stopped(ALONE).values())))}]
        strokes.append(plots.Stroke(control, plots.COLOURS[ALONE], (2, 2)))
    axes = ("seconds of training, rewards included", "held-out bits per byte")
    curve = plots.lines("mixing", points, strokes, *axes, levels)
    runs = list(lines.runs[OURS].values())
    means = {name: np.mean([run["shares"][name] for run in runs], axis=0) for name in runs[0]["shares"]}
    order = sorted(means, key=lambda name: (name != TARGET, name not in USEFUL, name in NOISE, -means[name].mean()))
    sources = [plots.Share(name, means[name]) for name in order]
    slices = plots.shares("mixing", sources, float(lines.steps), plots.COLOURS["thompson"])
    slices.chart.encoding.x.title = "steps"
    panels = (Panel("held-out bits per byte", curve, "", ""), Panel("what ours draws from", slices, "", ""))
    whole = Figure("mixing", title, "", panels, ())
    return str(require("vl_convert", "report").vegalite_to_svg(page.whole_spec(whole, 2)))


def between(text: str, name: str, content: str) -> str:
    """``text`` with ``content`` between the markers of that name."""
    begin, end = f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->\n"
    before, rest = text.split(begin)
    return before + begin + content + end + rest.split(end)[1]


def main() -> None:
    """Print the tables; with ``--page`` write them into it, and the figure beside it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path)
    parser.add_argument("--page", type=Path)
    asked = parser.parse_args()
    lines = Lines.read(asked.results)
    made = {"table": table(lines), "contrasts": contrasts(lines), "tuning": tuning(lines), "cost": cost(lines)}
    print(*made.values(), sep="\n")
    if asked.page:
        name = asked.results.stem
        text = asked.page.read_text(encoding="utf-8")
        for part, content in made.items():
            text = between(text, f"{name}-{part}", content)
        asked.page.write_text(text, encoding="utf-8")
        drawn = figure(lines, f"A target of 20 kB among {len(lines.runs[OURS][0]['shares']) - 1} other sources")
        (asked.page.parent / "figures" / f"{name}.svg").write_text(drawn, encoding="utf-8")


if __name__ == "__main__":
    main()
