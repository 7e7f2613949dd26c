"""How to choose: variants of a chooser held beside uniform and the useful sources, on task sets that are not reported.

Every idea about rewards that fade, how hard to lock onto a source, or when to stop is a line in ``VARIANTS``; the table
says what it gives on each set. The sets have other targets, or other rows of the target, than the results.

    python benchmarks/choosing.py --sets rotated-75 reviews-dvd --learners joint --seeds 6
"""

import argparse
import json
import time
from pathlib import Path

import numpy as np

import metasched as ms
from metasched.experiments.definition import target_drawn
from metasched.experiments.sources import SETTINGS
from metasched.learners.settings import LEARNERS
from metasched.runs.jobs import make_jobs
from metasched.runs.runner import run

SETS = {
    "scripts-tuning": ("scripts", {}, 1),
    "rotated-75": ("rotated", {"target_angle": 75}, 1),
    "rotated-75-long": ("rotated", {"target_angle": 75}, 3),
    "many-101": ("many", {"seed": 101}, 1),
    "reviews-dvd": ("reviews", {"target": "dvd"}, 1),
    "activity-20": ("activity", {"target": 20}, 1),
}
"""Data set, its options, and how many times as long as usual."""


def fading(share: float) -> float:
    """The weight of a reward one batch later, if it is ``share`` after 35."""
    return float(share ** (1 / 35))


VARIANTS = {
    "target-only": ("target-only", {}, {}),
    "uniform": ("uniform", {}, {}),
    "useful": ("useful", {}, {}),
    "spread, fade .98: the default": ("thompson", {}, {}),
    "spread, fade .8": ("thompson", {"forget": fading(0.8)}, {}),
    "spread, fade .6": ("thompson", {"forget": fading(0.6)}, {}),
    "spread, fade .9": ("thompson", {"forget": fading(0.9)}, {}),
    "spread, no fading": ("thompson", {"forget": 1.0}, {}),
    "within, fade .8": ("thompson", {"forget": fading(0.8), "scale": "within"}, {}),
    "within, no fading": ("thompson", {"forget": 1.0, "scale": "within"}, {}),
    "spread × 2, fade .8": ("thompson", {"forget": fading(0.8), "width": 2.0}, {}),
    "spread × .5, fade .8": ("thompson", {"forget": fading(0.8), "width": 0.5}, {}),
    "spread, fade .8, may abstain": ("thompson", {"forget": fading(0.8)}, {"abstain": True}),
    "ucb .5, fade .8": ("discounted_ucb", {"discount": fading(0.8), "upper": 0.5}, {}),
}
RATES = {"meta": (0.03, 3e-3), "joint": (1e-3,)}


def results(name: str, learner: str, seeds: int, labels: int) -> dict[str, dict[str, object]]:
    """Final accuracies, and the share of draws from useful sources, by variant."""
    dataset, options, longer = SETS[name]
    tasks = ms.datasets.load(dataset, **options)
    settings = LEARNERS[learner](**{**SETTINGS, "updates": SETTINGS["updates"] * longer, "eval_every": 10})
    settings = settings.with_rates(RATES[learner])
    jobs = []
    for seed in range(seeds):
        rows = target_drawn(tasks, labels, seed, tuning=True)
        for variant, (scheduler, own, changes) in VARIANTS.items():
            if scheduler == "useful" and not tasks.useful:
                continue
            jobs += make_jobs(
                rows,
                scheduler,
                options=own,
                network="mlp",
                learner=settings,
                seeds=(seed,),
                method=variant,
                **changes,
            )
    useful = np.array([task.name in (tasks.useful or ()) for task in tasks.tasks])
    found: dict[str, dict[str, list[float]]] = {}
    for result in run(jobs):
        row = found.setdefault(result.outcome.method, {"accuracy": [], "useful": [], "samples": []})
        row["accuracy"].append(result.outcome.final.test_accuracy if result.outcome.final else 0.0)
        drawn = np.array(result.outcome.drawn or [0])
        row["useful"].append(float(drawn[useful].sum() / max(drawn.sum(), 1)))
        row["samples"].append(float(drawn.sum()))
    return found


def main() -> None:
    """Run what was asked for and print a table for each set and learner."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=list(SETS))
    parser.add_argument("--learners", nargs="+", default=list(RATES), choices=list(RATES))
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument("--labels", type=int, default=30)
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    for name in asked.sets:
        for learner in asked.learners:
            began = time.monotonic()
            found = results(name, learner, asked.seeds, asked.labels)
            print(f"{name}, {learner}, {asked.seeds} seeds, {time.monotonic() - began:.0f} s")
            for variant, row in found.items():
                mean, spread = np.mean(row["accuracy"]), np.std(row["accuracy"]) / len(row["accuracy"]) ** 0.5
                shares = f"useful {np.mean(row['useful']):.2f}, {np.mean(row['samples']):,.0f} rows"
                print(f"  {variant:32} {mean:.3f} ± {spread:.3f}  {shares}", flush=True)
            if asked.out:
                asked.out.mkdir(parents=True, exist_ok=True)
                (asked.out / f"{name}-{learner}.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main()
