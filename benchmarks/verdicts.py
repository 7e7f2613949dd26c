"""How often a verdict is wrong: made-up comparisons in which nothing, or something known, makes a difference.

Five sources and a target with 30 or 40 labelled rows of 400, 20 features, two or three classes, linear rules:

- ``alike``: all six follow one rule, so that choosing among the sources makes no difference;
- ``far``: the sources follow one rule and the target another, so that it makes none either;
- ``spoilt``: the labels of one source are shuffled and those of another are swapped, so that choosing helps.

Every comparison is made with networks alone, as ``metasched compare`` makes them (short runs). Beside its rule, two
others judge the same kind of runs: *one rate each* tunes a rate for every method on four folds and runs ten seeds on
the same labelled rows, with an interval over seeds; *cross-validation* has no rows but the labelled ones.

    python benchmarks/verdicts.py --comparisons 216
    python benchmarks/verdicts.py --kinds spoilt --rules compare --comparisons 40
"""

import argparse
import json
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import common  # noqa: F401 it holds libraries to one thread
import numpy as np

import metasched as ms
from metasched.comparison import networks
from metasched.comparison.estimate import Judge, contrasts, difference
from metasched.comparison.methods import methods_of
from metasched.comparison.splits import Split, repeat_of, split
from metasched.learners.folds import equal_splits
from metasched.learners.metrics import METRICS
from metasched.report.compare import tested
from metasched.runs import runner
from metasched.runs.outcome import Outcome
from metasched.runs.sweep import Setup

KINDS = ("alike", "far", "spoilt")
LEARNER = ms.Joint(updates=10, batches_per_update=30, eval_every=10)
RATES = ((3e-4,), (1e-3,), (3e-3,))
SEEDS = range(10)
MARGIN = 0.02
METHODS = methods_of(None)


def problem(number: int, kind: str) -> ms.TaskSet:
    """The task set of one comparison."""
    random = np.random.default_rng([number, KINDS.index(kind)])
    classes, rows, labels = 2 + number % 2, 150 + 150 * (number // 2 % 2), 30 + 10 * (number // 4 % 2)
    rule = random.normal(size=(20, classes))
    own = 0.6 * rule + 0.8 * random.normal(size=(20, classes)) if kind == "far" else rule

    def draw(count: int, rule: np.ndarray, trouble: str = "") -> tuple[np.ndarray, np.ndarray]:
        inputs = random.normal(size=(count, 20))
        found = (inputs @ rule + random.gumbel(size=(count, classes))).argmax(axis=1)
        if trouble == "shuffled":
            found = random.permutation(found)
        if trouble == "swapped":
            found = (found + 1) % classes
        return inputs.astype(np.float32), found

    troubles = ["", "", "", "shuffled", "swapped"] if kind == "spoilt" else [""] * 5
    sources = {f"source-{place}": draw(rows, rule, trouble) for place, trouble in enumerate(troubles)}
    inputs, answers = draw(400, own)
    known = np.sort(random.permutation(400)[:labels])
    rest = np.setdiff1d(np.arange(400), known)
    tasks = ms.TaskSet.from_arrays(
        sources,
        validation=(inputs[known], answers[known]),
        test=(inputs[rest], answers[rest]),
        classes=[str(label) for label in range(classes)],
        allow_overlap=True,
    )
    return replace(tasks, split="asked")


def outcomes_of(splits: Sequence[Split]) -> list[Outcome]:
    """Every method with every rate on every split, as ``networks.fitted`` wants them."""
    jobs = networks.jobs_of(Setup(LEARNER), METHODS, RATES, splits)
    found: list[Outcome] = []
    for method in METHODS:  # a program for each: faster than one that can do all
        found += [
            result.outcome for result in runner.run([job for job in jobs if job.description.method == method.name])
        ]
    return found


def claim(splits: Sequence[Split]) -> str:
    """What the rule of ``compare`` says of ours against uniform."""
    fits = networks.fitted(METHODS, RATES, splits, outcomes_of(splits))
    rows = 1 + max(int(each.rows.max()) for each in splits)
    judge = Judge(METRICS["accuracy"], rows)
    ours, uniform, alone = (judge.scores(networks.by_unit(fits, splits, method.name)) for method in METHODS)
    gaps = [difference(*pair, rows) for pair in ((ours, uniform), (ours, alone), (uniform, alone))]
    return contrasts([gap for gap in gaps if gap is not None], MARGIN)[0].kind


def with_one_rate_each(tasks: ms.TaskSet) -> str:
    """What a rule says that tunes a rate for every method, and counts only the seeds."""
    folds = [
        Split(place, 1001, tasks.held_out(part), np.arange(len(part)))
        for place, (_, part) in enumerate(equal_splits(tasks.validation.labels, 4))
    ]
    seeds = [Split(seed, seed, tasks, np.arange(len(tasks.test.labels))) for seed in SEEDS]
    tried, measured = (
        np.reshape([run.final.test_accuracy if run.final else 0.0 for run in outcomes_of(splits)], (3, 3, -1))
        for splits in (folds, seeds)
    )
    order = [1, 0, 2]  # the rate of the settings wins a tie
    best = [order[int(np.argmax(own.mean(axis=1)[order]))] for own in tried]
    ours, uniform, alone = (own[rate] for own, rate in zip(measured, best, strict=True))
    return tested([ours - uniform, ours - alone, uniform - alone], [MARGIN] * 3)[0].kind


RULES = {
    "compare": lambda tasks: claim(split(tasks, SEEDS).judging),
    "cross-validation": lambda tasks: claim([each for repeat in range(4) for each in repeat_of(tasks, repeat)]),
    "one rate each": with_one_rate_each,
}


def main() -> None:
    """Count verdicts by rule and kind."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--rules", nargs="+", choices=list(RULES), default=["compare"])
    parser.add_argument("--comparisons", type=int, default=40, help="of each kind")
    parser.add_argument("--first", type=int, default=0, help="the number of the first comparison")
    parser.add_argument("--out", type=Path, help="a file of JSON lines, one for each comparison")
    asked = parser.parse_args()
    numbers = range(asked.first, asked.first + asked.comparisons)
    for rule in asked.rules:
        for kind in asked.kinds:
            began, found = time.monotonic(), Counter[str]()
            for number in sorted(numbers, key=lambda number: number % 8):  # one shape after another: fewer compilations
                said = RULES[rule](problem(number, kind))
                found[said] += 1
                if asked.out:
                    with asked.out.open("a") as stream:
                        stream.write(json.dumps({"rule": rule, "kind": kind, "number": number, "said": said}) + "\n")
            seconds = (time.monotonic() - began) / len(numbers)
            counted = ", ".join(f"{said} {count}" for said, count in sorted(found.items()))
            print(f"{rule}, {kind}: {counted} of {len(numbers)} ({seconds:.1f} s each)", flush=True)


if __name__ == "__main__":
    main()
