"""The default scheduler against uniform on seeds that no decision was made with.

The results in ``results/`` have seeds 0 to 9. Thompson sampling by row became the default after they were seen, so they
flatter it a little. This runs it and uniform once more, with the rates that were tuned for the results, on other
seeds: other labelled rows, other initial weights, other chances.

    python benchmarks/fresh_seeds.py --first 10 --seeds 10 --out benchmarks/results/fresh.json
"""

import argparse
import json
from pathlib import Path

import numpy as np

from metasched import plugins
from metasched.experiments.catalogue import EXPERIMENTS
from metasched.experiments.definition import target_drawn
from metasched.experiments.methods import mixed_methods
from metasched.report import statistics, tables
from metasched.runs import outcome
from metasched.runs.runner import run
from metasched.runs.sweep import Setup

CELLS = (
    *("scripts/joint-30", "rotated/joint-30", "many/joint-30", "noisy/joint-30-80", "noisy/joint-30"),
    *("reviews/joint-30-dvd", "gas/joint-30"),
    *("activity/joint-30", "activity/joint-30-user-13", "activity/joint-30-user-29"),
)
METHODS = ("uniform", "thompson")
RESULTS = Path(__file__).parent.parent / "results"


def finals(key: str, seeds: range) -> dict[str, list[float]]:
    """Final test accuracies by method."""
    name, cell_name = key.split("/")
    experiment = EXPERIMENTS[name]
    cell = experiment.cell(cell_name)
    tasks = experiment.load(cell)
    first = next(outcome.read(RESULTS / name / f"{cell_name}.jsonl.gz"))
    assert first.study is not None
    assert first.study.tuning is not None
    chosen = first.study.tuning["chosen"]
    rows = [(seed, target_drawn(tasks, cell.draw_labels or 0, seed, tuning=False)) for seed in seeds]
    setup = Setup(cell.config, experiment.network)
    found: dict[str, list[float]] = {}
    for method in mixed_methods(tasks):
        if method.name in METHODS:
            jobs = setup.jobs(method, rows, (chosen[method.name]["learning_rate"],))
            ended = [result.outcome.final for result in run(jobs)]
            found[method.name] = [final.test_accuracy if final else 0.0 for final in ended]
    return found


def main() -> None:
    """Run what is missing and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--first", type=int, default=10)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--out", type=Path, required=True)
    asked = parser.parse_args()
    plugins.register_all("data_sets")
    known = json.loads(asked.out.read_text()) if asked.out.exists() else {}
    for key in CELLS:
        if key not in known:
            known[key] = finals(key, range(asked.first, asked.first + asked.seeds))
            asked.out.parent.mkdir(parents=True, exist_ok=True)
            asked.out.write_text(json.dumps(known, indent=1) + "\n")
        uniform, thompson = (np.array(known[key][method]) for method in METHODS)
        gap = tables.signed(statistics.mean_of_means([thompson - uniform]))
        print(f"{key:28} uniform {uniform.mean():.3f}, thompson {thompson.mean():.3f}, difference {gap}", flush=True)


if __name__ == "__main__":
    main()
