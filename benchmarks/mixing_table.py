"""The tables and the figure of ``mixing.py``, from its lines alone.

At equal time a method is taken where its own curve stands when uniform has made all its steps: a method whose step
takes a tenth longer has made a tenth fewer. Between two points of a curve bits per byte are interpolated.

Run with: python benchmarks/mixing_table.py benchmarks/results/mixing.jsonl --page docs/mixing.md
"""

import argparse
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from mixing import FIRST_RUN, GRID, REPORTED, STATIC, TUNING_SEED, parsed, read, tuned

from metasched.optional import require
from metasched.report import page, plots, statistics, tables
from metasched.report.figures import Figure, Panel

OURS, BASELINE = "ours", "uniform"
PLANNED = (BASELINE, "proportional", STATIC)
COSTS = ("every", "refresh", "layers")
"""Options that change what a step takes."""
CHEAP = "mirror+layers=last+refresh=32+rate=0.2+slower=1.08"
"""Mirror descent with the cheapest rewards that were tried, shortened to fit the time as well."""
DRAWN = {
    OURS: plots.Stroke(OURS, plots.COLOURS["thompson"]),
    CHEAP: plots.Stroke("mirror, cheap", plots.COLOURS["mirror"]),
    BASELINE: plots.Stroke(BASELINE, plots.COLOURS["uniform"]),
    "proportional": plots.Stroke("proportional", plots.COLOURS["proportional"]),
    STATIC: plots.Stroke(STATIC, plots.COLOURS["gittins"]),
    "useful": plots.Stroke("useful", plots.COLOURS["ucb"]),
}
"""Methods in the figure."""


class Results(NamedTuple):
    """Lines of one size: reported runs by target, method and seed, and what chose their settings."""

    lines: list[dict[str, Any]]
    runs: dict[str, dict[str, dict[int, dict[str, Any]]]]
    chosen: dict[str, dict[str, tuple[str, float]]]
    seconds: dict[str, float]

    @classmethod
    def of(cls, lines: Iterable[dict[str, Any]]) -> "Results":
        """From the lines of a file."""
        lines = list(lines)
        made = [line for line in lines if line["kind"] == "run" and line["seed"] != TUNING_SEED]
        others = [line["method"] for line in made if line["method"] not in GRID]
        runs: dict[str, dict[str, dict[int, dict[str, Any]]]] = {}
        chosen: dict[str, dict[str, tuple[str, float]]] = {}
        for target in dict.fromkeys(line["target"] for line in made):
            for method in dict.fromkeys((*REPORTED, *others)):
                best = tuned(lines, target, method)
                found = {
                    line["seed"]: line
                    for line in made
                    if (line["target"], line["method"], line["rate"]) == (target, *(best or ()))
                }
                if best and found:
                    runs.setdefault(target, {})[method] = found
                    chosen.setdefault(target, {})[method] = best
        return cls(lines, runs, chosen, {line["method"]: line["seconds"] for line in lines if line["kind"] == "time"})

    @property
    def targets(self) -> list[str]:
        """In the order of the runs."""
        return list(self.runs)

    @property
    def methods(self) -> list[str]:
        """Those with runs on every target, the lowest mean at equal time first."""
        shared = [method for method in self.runs[self.targets[0]] if all(method in had for had in self.runs.values())]
        return sorted(shared, key=lambda method: np.mean([self.mean(target, method) for target in self.targets]))

    def slower(self, method: str) -> float:
        """The time of a step over that of uniform's; a mixture that is fixed takes the same."""
        if "scheduler" not in parsed_of(method) or not self.seconds:
            return 1.0
        if "stop" in parsed_of(method):
            # Rewards take time in a part of the run alone, and the run was planned for that.
            return float(parsed_of(method)["slower"])
        return self.seconds[as_timed(method)] / self.seconds[BASELINE]

    def at(self, target: str, method: str, share: float) -> dict[int, float]:
        """Held-out bits per byte by seed when ``share`` of the steps is made."""
        return {
            seed: float(np.interp(share * run["steps"], *np.array(run["points"]).T))
            for seed, run in self.runs[target][method].items()
        }

    def timed(self, target: str, method: str) -> dict[int, float]:
        """Held-out bits per byte by seed when uniform has made its last step."""
        return self.at(target, method, min(1.0, 1 / self.slower(method)))

    def mean(self, target: str, method: str, share: float | None = None) -> float:
        """The mean over the seeds, at equal time or when ``share`` of the steps is made."""
        found = self.timed(target, method) if share is None else self.at(target, method, share)
        return float(np.mean(list(found.values())))

    def less(self, target: str, method: str, other: str, share: float | None = None) -> list[float]:
        """The difference at equal time or at a share of the steps, paired by seed; below zero the method is better."""
        mine, theirs = (
            self.timed(target, one) if share is None else self.at(target, one, share) for one in (method, other)
        )
        return [mine[seed] - theirs[seed] for seed in sorted(mine.keys() & theirs.keys())]

    def saved(self, target: str, method: str, in_time: bool = False) -> list[float]:
        """The share of uniform's steps, or of its time, that is saved until uniform's end is reached, by seed.

        NaN where a run never reaches it.
        """
        factor, shares = self.slower(method) if in_time else 1.0, []
        goals = self.at(target, BASELINE, 1.0)
        for seed in sorted(goals.keys() & self.runs[target][method].keys()):
            run = self.runs[target][method][seed]
            steps, curve = np.array(run["points"]).T
            after = int(np.argmax(curve <= goals[seed]))
            if curve[after] > goals[seed]:
                shares.append(np.nan)
                continue
            before = max(0, after - 1)
            # The curve falls from the one point to the other, and np.interp reads in rising order.
            reached = np.interp(goals[seed], curve[[after, before]], steps[[after, before]])
            shares.append(float(1 - factor * reached / run["steps"]))
        return shares


def as_timed(method: str) -> str:
    """The method with the options that cost time, and no others.

    >>> as_timed("ours+width=1+layers=last")
    'ours+layers=last'
    """
    name, *options = method.split("+")
    return "+".join([name, *(option for option in options if option.startswith(COSTS))])


def shown(method: str) -> str:
    """What a method is called in a table.

    >>> shown("ours+width=1+slower=1.2")
    'ours, width=1, shortened'
    """
    if method == CHEAP:
        return "mirror, cheap, shortened"
    return re.sub(r"\+slower=[\d.]+", ", shortened", method).replace("+", ", ")


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def gap(*strata: Sequence[float]) -> str:
    """The mean difference with its interval, the mean over the targets where there are several."""
    return str(tables.signed(statistics.mean_of_means(strata)))


def share(strata: Sequence[float]) -> str:
    """A mean share with its interval, in percent; how many runs have none."""
    never = int(np.isnan(strata).sum())
    if never:
        return f"not reached in {never} of {len(strata)} runs"
    value, low, high = (round(100 * number) for number in statistics.mean_of_means([strata]))
    return f"{value}% [{low}, {high}]"


def first(results: Results) -> str:
    """What choosing gains over fixed mixtures, on every target and over all of them."""
    ways = [(OURS, None, ", equal time"), (OURS, 1.0, ", equal steps")]
    ways += [(method, None, "") for method in (CHEAP, "doge") if method in results.methods]
    rows = []
    for other in PLANNED:
        for method, point, how in ways:
            each = [results.less(target, method, other, point) for target in results.targets]
            rows.append([f"{shown(method)}{how}", other, *(gap(one) for one in each), gap(*each)])
    return markdown(["", "less", *results.targets, "all"], rows)


def sooner(results: Results) -> str:
    """How much sooner methods reach uniform's end, in steps and in time; those that do on every target."""
    rows = []
    for method in results.methods:
        arrived = all(not np.isnan(results.saved(target, method)).any() for target in results.targets)
        if method != BASELINE and arrived:
            cells = []
            for target in results.targets:
                steps, times = (share(results.saved(target, method, in_time)) for in_time in (False, True))
                cells.append(steps if times == steps else f"{steps}; time {times}")
            rows.append([shown(method), *cells])
    return markdown(["", *results.targets], rows)


def over_targets(results: Results, method: str) -> float:
    """Held-out bits per byte at equal time, the mean over the targets."""
    return float(np.mean([results.mean(target, method) for target in results.targets]))


def everything(results: Results) -> str:
    """Every method at equal steps, and after it at equal time where a step takes longer."""
    lowest = {target: min(results.mean(target, one) for one in results.methods) for target in results.targets}
    rows = []
    for method in results.methods:
        cells = []
        for target in results.targets:
            timed, ended = results.mean(target, method), results.mean(target, method, 1.0)
            bold = "**" if timed == lowest[target] else ""
            both = results.slower(method) > 1 and "slower" not in parsed_of(method)
            cells.append((f"{ended:.3f}, " if both else "") + f"{bold}{timed:.3f}{bold}")
        mean = f"{over_targets(results, method):.3f}"
        less = [results.less(target, OURS, method) for target in results.targets]
        means = (
            np.mean([run[key] for runs in results.runs.values() for run in runs[method].values()])
            for key in ("useful", "noise")
        )
        parts = [f"{part:.0%}" for part in means]
        rows.append(
            [
                shown(method),
                *cells,
                mean,
                "" if method == OURS else gap(*less),
                f"{results.slower(method):.2f}",
                *parts,
                search(method),
            ]
        )
    return markdown(["", *results.targets, "mean", f"{OURS} less it", "step", "useful", "noise", "runs before"], rows)


def parsed_of(method: str) -> dict[str, Any]:
    """The settings of a method; none for the best of the grid."""
    return {} if method == STATIC else parsed(method)


def search(method: str) -> str:
    """How many runs choose a mixture at the learning rate that is known."""
    return str(len(GRID)) if method == STATIC else "1" if method in FIRST_RUN else "0"


def contrasts(results: Results) -> str:
    """Ours less every other method at equal time, paired by seed."""
    rows = []
    for method in results.methods:
        if method != OURS:
            each = [results.less(target, OURS, method) for target in results.targets]
            rows.append([shown(method), *(gap(one) for one in each), gap(*each)])
    return markdown(["ours less", *results.targets, "all"], rows)


def drawn(results: Results) -> str:
    """Of mixtures that learn, and two that do not: useful sources and noise, and the source that was repeated most."""
    rows = []
    for method in results.methods:
        if "scheduler" not in parsed_of(method) and method not in (BASELINE, STATIC):
            continue
        cells = []
        for target in results.targets:
            runs = list(results.runs[target][method].values())
            useful, noise = (f"{np.mean([run[key] for run in runs]):.0%}" for key in ("useful", "noise"))
            name, passes = max((run["most_passes"] for run in runs), key=lambda pair: pair[1])
            cells.append(f"{useful}, {noise}; {name} {passes:.1f} times")
        rows.append([shown(method), *cells])
    return markdown(["", *results.targets], rows)


def tuning(results: Results) -> str:
    """The best on the tuning pages of every method that was tuned alike, and its learning rate."""
    rows = []
    for method in tried(results):
        if "+" not in method:
            cells = []
            for target in results.targets:
                best = tuned(results.lines, target, method)
                bold = "**" if best and results.chosen[target].get(STATIC) == best else ""
                cells.append(
                    f"{bold}{tuning_run(results, target, method)['points'][-1][1]:.3f}{bold} ({best[1]:g})"
                    if best
                    else ""
                )
            rows.append([method, *cells])
    return markdown(["", *results.targets], rows)


def attempts(results: Results) -> str:
    """Ours and what was tried to better it, on the tuning pages, at equal steps and at equal time."""
    rows = []
    for method in tried(results):
        if parsed_of(method).get("reward") == "transfer":
            cells = []
            for target in results.targets:
                run = tuning_run(results, target, method)
                steps, curve = np.array(run["points"]).T
                timed = np.interp(run["steps"] / results.slower(method), steps, curve) if len(steps) > 1 else curve[-1]
                planned = "slower" in parsed(method)
                words = [] if planned else [f"{curve[-1]:.3f}"]
                cells.append(", ".join(words + [f"{timed:.3f}"] * (len(steps) > 1)))
            rows.append([shown(method), *cells, f"{results.slower(method):.2f}"])
    return markdown(["", *results.targets, "step"], rows)


def tried(results: Results) -> list[str]:
    """Methods with runs on the tuning pages of every target."""
    made = {
        (line["method"], line["target"])
        for line in results.lines
        if line["kind"] == "run" and line["seed"] == TUNING_SEED
    }
    return [
        method
        for method in dict.fromkeys(method for method, _ in sorted(made))
        if all((method, target) in made for target in results.targets)
    ]


def tuning_run(results: Results, target: str, method: str) -> dict[str, Any]:
    """Its run on the tuning pages at its best rate."""
    best = tuned(results.lines, target, method)
    wanted = {"kind": "run", "target": target, "seed": TUNING_SEED, "method": method, "rate": best and best[1]}
    return next(line for line in results.lines if wanted.items() <= line.items())


def figure(results: Results) -> str:
    """Held-out bits per byte over time, a panel for each target, as SVG."""
    panels = []
    for target in results.targets:
        points, drawn = [], [name for name in DRAWN if name in results.runs[target]]
        for name in drawn:
            curves = np.array([run["points"] for run in results.runs[target][name].values()])
            middle, low, high = statistics.median_band(curves[:, :, 1])
            times = curves[0, :, 0] * results.slower(name) * results.seconds[BASELINE]
            points += [
                {"name": DRAWN[name].name, "x": x, "y": y, "low": below, "high": above}
                for x, y, below, above in zip(times, middle, low, high, strict=True)
                if x >= 0.2 * times[-1]
            ]
        strokes = [DRAWN[name] for name in drawn]
        axes = ("seconds of training, rewards included", "held-out bits per byte")
        panels.append(Panel(target, plots.lines(target, points, strokes, *axes), "", ""))
    whole = Figure("mixing", "Held-out text of targets that have 20 kB to train on", "", tuple(panels), ())
    return str(require("vl_convert", "report").vegalite_to_svg(page.whole_spec(whole, 2)))


def between(text: str, name: str, content: str) -> str:
    """``text`` with ``content`` between the markers of that name."""
    begin, end = f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->\n"
    before, rest = text.split(begin)
    return before + begin + content + end + rest.split(end)[1]


PARTS: dict[str, Callable[[Results], str]] = {
    "first": first,
    "sooner": sooner,
    "methods": everything,
    "contrasts": contrasts,
    "drawn": drawn,
    "tuning": tuning,
    "attempts": attempts,
}


def main() -> None:
    """Print the tables; with ``--page`` write them into it, and the figure beside it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path)
    parser.add_argument("--size", default="small")
    parser.add_argument("--page", type=Path)
    asked = parser.parse_args()
    results = Results.of(line for line in read(asked.results) if line["size"] == asked.size)
    if not results.runs:
        raise SystemExit(f"{asked.results} has no runs of size {asked.size}; python benchmarks/mixing.py makes them")
    made = {name: part(results) for name, part in PARTS.items()}
    print(*made.values(), sep="\n")
    if asked.page:
        text = asked.page.read_text(encoding="utf-8")
        for name, content in made.items():
            if f"<!-- mixing-{name}: begin -->" in text:
                text = between(text, f"mixing-{name}", content)
        asked.page.write_text(text, encoding="utf-8")
        (asked.page.parent / "figures" / "mixing.svg").write_text(figure(results), encoding="utf-8")


if __name__ == "__main__":
    main()
