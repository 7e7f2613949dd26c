"""The tables of ``mixing.py``, from its lines alone.

Run with: python benchmarks/mixing_table.py mixing.jsonl            # --held tune: on the tuning pages
"""

import argparse
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from mixing import read

from metasched.report import statistics, tables

BASELINE, STATIC = "uniform", ("uniform", "proportional")
COLUMNS = {"tune": 1, "test": 2}
"""Where the held-out bits per byte stand in a point of a curve."""


class Results(NamedTuple):
    """The runs by target, method and seed; seconds of a step by method; and the column of a curve that counts."""

    runs: dict[str, dict[str, dict[int, dict[str, Any]]]]
    seconds: dict[str, float]
    column: int

    @classmethod
    def of(cls, lines: Iterable[dict[str, Any]], held: str) -> "Results":
        """From the lines of a file."""
        runs: dict[str, dict[str, dict[int, dict[str, Any]]]] = {}
        seconds = {}
        for line in lines:
            if line["kind"] == "time":
                seconds[line["method"]] = line["seconds"]
            else:
                runs.setdefault(line["target"], {}).setdefault(line["method"], {})[line["seed"]] = line
        return cls(runs, seconds, COLUMNS[held])

    @property
    def methods(self) -> list[str]:
        """Those with runs, the lowest mean over the targets first; those that lack a target last."""
        found = list(dict.fromkeys(method for methods in self.runs.values() for method in methods))

        def rank(method: str) -> tuple[int, float]:
            had = [self.end(target, method) for target in self.runs if self.has(target, method)]
            return -len(had), float(np.mean(had))

        return sorted(found, key=rank)

    def has(self, target: str, method: str) -> bool:
        """Whether there is a run of it."""
        return method in self.runs[target]

    def ends(self, target: str, method: str) -> dict[int, float]:
        """Held-out bits per byte at the end, by seed."""
        return {seed: run["points"][-1][self.column] for seed, run in self.runs[target][method].items()}

    def end(self, target: str, method: str) -> float:
        """Held-out bits per byte at the end, the mean over the seeds."""
        return float(np.mean(list(self.ends(target, method).values())))

    def mean(self, target: str, method: str, key: str) -> float:
        """The mean of a number over the seeds."""
        return float(np.mean([run[key] for run in self.runs[target][method].values()]))

    def reached(self, target: str, method: str) -> str:
        """The share of the steps after which the curve is as low as the baseline's end, the mean over the seeds."""
        shares = []
        for seed in sorted(self.runs[target].get(BASELINE, {}).keys() & self.runs[target][method].keys()):
            goal = self.ends(target, BASELINE)[seed]
            steps, curve = np.array(self.runs[target][method][seed]["points"])[:, [0, self.column]].T
            if curve.min() > goal:
                return "never"
            after = int(np.argmax(curve <= goal))
            before = max(0, after - 1)
            # The curve falls from the one point to the other, and np.interp reads in rising order.
            shares.append(np.interp(goal, curve[[after, before]], steps[[after, before]]) / steps[-1])
        return f"{np.mean(shares):.0%}" if shares else ""


def by_target(results: Results) -> str:
    """Held-out bits per byte of each method on each target; the lowest of a target is bold."""
    targets, methods = list(results.runs), results.methods
    best = {target: min(results.end(target, method) for method in results.runs[target]) for target in targets}
    rows = [f"|  | {' | '.join(targets)} |", "|---" * (len(targets) + 1) + "|"]
    for method in methods:
        cells = []
        for target in targets:
            if not results.has(target, method):
                cells.append("")
                continue
            ends = list(results.ends(target, method).values())
            end = results.end(target, method)
            bold = "**" if end == best[target] else ""
            error = f" ± {np.std(ends, ddof=1) / len(ends) ** 0.5:.3f}" if len(ends) > 1 else ""
            cells.append(f"{bold}{end:.3f}{bold}{error}")
        rows.append(f"| {method} | {' | '.join(cells)} |")
    return "\n".join(rows) + "\n"


def of_target(results: Results, target: str) -> str:
    """One row for each method: its end, when it reached the baseline's, what it drew, and what a step takes."""
    head = [target, "bits per byte", f"steps to {BASELINE}'s end", "useful", "noise", "step"]
    rows = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for method in results.methods:
        if results.has(target, method):
            words = [
                method,
                f"{results.end(target, method):.3f}",
                results.reached(target, method),
                *(f"{results.mean(target, method, key):.0%}" for key in ("useful", "noise")),
                f"{1e3 * results.seconds[method]:.1f} ms" if method in results.seconds else "",
            ]
            rows.append(f"| {' | '.join(words)} |")
    return "\n".join(rows) + "\n"


def contrasts(results: Results) -> str:
    """Each method less the fixed mixtures, paired by seed; below zero it is better."""
    rows = [f"| target | method | {' | '.join(f'less {name}' for name in STATIC)} |", "|---" * (2 + len(STATIC)) + "|"]
    for target in results.runs:
        for method in results.methods:
            if method not in STATIC and results.has(target, method):
                gaps = [gap(results, target, method, name) for name in STATIC]
                rows.append(f"| {target} | {method} | {' | '.join(gaps)} |")
    return "\n".join(rows) + "\n"


def gap(results: Results, target: str, method: str, other: str) -> str:
    """The mean difference over the seeds that both have, with its interval where there are enough of them."""
    if not results.has(target, other):
        return ""
    mine, theirs = results.ends(target, method), results.ends(target, other)
    apart = [mine[seed] - theirs[seed] for seed in sorted(mine.keys() & theirs.keys())]
    if not apart:
        return ""
    return f"{apart[0]:+.3f}" if len(apart) == 1 else str(tables.signed(statistics.mean_of_means([apart])))


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path)
    parser.add_argument("--held", choices=COLUMNS, default="test", help="which held-out pages")
    asked = parser.parse_args()
    lines = read(asked.results)
    if not any(line["kind"] == "run" for line in lines):
        raise SystemExit(f"{asked.results} has no runs; python benchmarks/mixing.py makes them")
    for size in sorted({line["size"] for line in lines}):
        results = Results.of((line for line in lines if line["size"] == size), asked.held)
        print(f"{size}, held-out bits per byte on the {asked.held} pages\n")
        each = (of_target(results, target) for target in results.runs)
        print(by_target(results), *each, contrasts(results), sep="\n")


if __name__ == "__main__":
    main()
