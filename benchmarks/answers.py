"""Is the model that ``compare`` hands out as good as the best of those that people would try themselves?

Six problems as CSV files, each with a target that has 30 to 40 labels, and several draws of these labels. For each draw
``ms.compare`` makes its final model. Logistic regression, random forests and gradient boosting are then fitted here by
scikit-learn, with no code of ours: on the target alone, on all rows, and with target rows counted ten times; logistic
regression also on sources that are added one by one while cross-validation on the labelled rows improves. All models
are scored on the same test rows, which none of them has seen.

    python benchmarks/answers.py --draws 5 --out benchmarks/results/answers.jsonl
    python benchmarks/answers.py --table benchmarks/results/answers.jsonl

``--sources`` counts what the table of sources says of sources that are known to be sound or spoilt.
"""

import argparse
import csv
import json
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.special import stdtrit

import metasched as ms
from metasched.comparison import networks, sources
from metasched.comparison.asked import fitted_to
from metasched.comparison.bench import JUDGING
from metasched.comparison.estimate import Judge
from metasched.comparison.methods import methods_of
from metasched.comparison.splits import split
from metasched.learners.metrics import METRICS
from metasched.references.grams import Grams
from metasched.runs import outcome, runner
from metasched.runs.sweep import Setup


class Problem(NamedTuple):
    """Rows of every source and of the target (the last), which sources are spoilt, and how many labels are known."""

    rows: dict[str, tuple[np.ndarray, np.ndarray]]
    spoilt: tuple[str, ...] = ()
    labels: int = 40


def stations() -> Problem:
    """The five files of docs/start.md: one station's labels are shuffled, another's mixed up."""
    random = np.random.default_rng(1)
    rule = random.normal(size=(20, 3))
    rows = {}
    for name in ("north", "east", "south", "west", "mine"):
        inputs = random.normal(size=(400, 20))
        found = (inputs @ rule + random.gumbel(size=(400, 3))).argmax(axis=1)
        found = random.permutation(found) if name == "south" else (found + (name == "west")) % 3
        rows[name] = inputs.round(3), found
    return Problem(rows, ("south", "west"), labels=30)


def shops() -> Problem:
    """The six files of docs/compare.md: one shop's labels are shuffled, two mixed theirs up."""
    random = np.random.default_rng(0)
    rule = random.normal(size=(20, 3))
    rows = {}
    for shop in range(1, 7):
        inputs = random.normal(size=(400, 20)) + random.normal(size=20)
        bought = ((inputs - inputs.mean(0)) @ rule + random.gumbel(size=(400, 3))).argmax(1)
        bought = random.permutation(bought) if shop == 2 else (bought + (shop in (3, 4))) % 3
        rows[f"shop{shop}"] = inputs.round(3), bought
    return Problem(rows, ("shop2", "shop3", "shop4"))


def activity(target: int, shuffled: int = 0) -> Problem:
    """24 people, one of them the target; the labels of some others are shuffled."""
    tasks = ms.datasets.load("activity", target=target, users=23)
    random = np.random.default_rng(7)
    spoilt = tuple(sorted(random.permutation([task.name for task in tasks.tasks])[:shuffled]))
    rows = {
        task.name: (task.inputs, random.permutation(task.labels) if task.name in spoilt else task.labels)
        for task in tasks.tasks
    }
    return Problem({**rows, f"user-{target}": _both(tasks)}, spoilt)


def gas() -> Problem:
    """Seven batches of gas measurements, in time order; the target is batch 8."""
    tasks = ms.datasets.load("gas")
    rows = {task.name: (task.inputs, task.labels) for task in tasks.tasks}
    rows["batch-9"] = _both(tasks)
    rows["batch-8"] = rows.pop("batch-8")
    return Problem(rows)


def digits() -> Problem:
    """scikit-learn's digits, 8 × 8: clean, mirrored, shuffled and noisy ones; the target is shifted by a pixel."""
    from sklearn.datasets import load_digits

    bunch, random = load_digits(), np.random.default_rng(3)
    order = random.permutation(len(bunch.target))
    images, labels = bunch.images[order], bunch.target[order]
    parts = dict(
        zip(
            ("clean", "mirrored", "shuffled", "noisy", "mine"),
            np.array_split(np.arange(len(order)), 5),
            strict=True,
        )
    )
    rows = {}
    for name, part in parts.items():
        these, found = images[part], labels[part]
        if name == "mirrored":
            these = these[:, :, ::-1]
        if name == "shuffled":
            found = random.permutation(found)
        if name == "noisy":
            these = these + random.normal(scale=8, size=these.shape)
        if name == "mine":
            these = np.roll(these, 1, axis=2)
        rows[name] = these.reshape(len(part), -1).round(2), found
    return Problem(rows, ("shuffled",))


PROBLEMS: dict[str, Callable[[], Problem]] = {
    "stations": stations,
    "activity, user 20": lambda: activity(20),
    "activity, user 20, 12 shuffled": lambda: activity(20, shuffled=12),
    "activity, user 33": lambda: activity(33),
    "gas, batch 8": gas,
    "digits": digits,
    "shops": shops,
}
SIX = list(PROBLEMS)[:6]


def _both(tasks: ms.TaskSet) -> tuple[np.ndarray, np.ndarray]:
    """The target's labelled and test rows."""
    parts = tasks.validation, tasks.test
    return np.concatenate([part.inputs for part in parts]), np.concatenate([part.labels for part in parts])


def loaded(problem: Problem, folder: Path, draw: int) -> ms.TaskSet:
    """The problem as a user has it: a CSV file for each source."""
    for name, (inputs, labels) in problem.rows.items():
        with (folder / f"{name}.csv").open("w", newline="") as stream:
            table = csv.writer(stream)
            table.writerow([*(f"x{number}" for number in range(inputs.shape[1])), "label"])
            table.writerows([*row, f"c{label}"] for row, label in zip(inputs.tolist(), labels, strict=True))
    return ms.datasets.load(str(folder), target=list(problem.rows)[-1], target_labels=problem.labels, seed=draw)


# What people would try, with no code of ours.


def own_references(tasks: ms.TaskSet) -> dict[str, float]:
    """Accuracy on the test rows of models that scikit-learn fits."""
    from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import StandardScaler

    scaler = StandardScaler().fit(np.concatenate([task.inputs for task in tasks.tasks]))
    parts = [(scaler.transform(part.inputs), part.labels) for part in (*tasks.tasks, tasks.validation)]
    inputs, labels = (np.concatenate(side) for side in zip(*parts, strict=True))
    known = len(parts[-1][1])
    tested = scaler.transform(tasks.test.inputs)
    found: dict[str, float] = {}
    for title, make in {
        "logistic regression": lambda: LogisticRegression(max_iter=1000),
        "forest": lambda: RandomForestClassifier(300, random_state=0),
        "boosting": lambda: HistGradientBoostingClassifier(random_state=0),
    }.items():
        for rows, weight in {"target only": None, "pooled": 1.0, "target × 10": 10.0}.items():
            if weight is None:
                model = make().fit(inputs[-known:], labels[-known:])
            else:
                weights = np.where(np.arange(len(labels)) < len(labels) - known, 1.0, weight)
                model = make().fit(inputs, labels, weights)
            found[f"{title}, {rows}"] = float(model.score(tested, tasks.test.labels))
    taken = _greedy(parts)
    model = _fit_with(parts, taken, parts[-1])
    found["logistic regression, greedy"] = float(model.score(tested, tasks.test.labels))
    return found


Part = tuple[np.ndarray, np.ndarray]


def _fit_with(parts: Sequence[Part], taken: Sequence[int], own: Part) -> Any:
    from sklearn.linear_model import LogisticRegression

    inputs = np.concatenate([*(parts[number][0] for number in taken), own[0]])
    labels = np.concatenate([*(parts[number][1] for number in taken), own[1]])
    weights = np.where(np.arange(len(labels)) < len(labels) - len(own[1]), 1.0, 10.0)
    return LogisticRegression(max_iter=1000).fit(inputs, labels, weights)


def _greedy(parts: Sequence[Part]) -> list[int]:
    """Sources added one by one while five-fold cross-validation on the labelled rows gets better."""
    from sklearn.model_selection import KFold

    inputs, labels = parts[-1]
    folds = list(KFold(5, shuffle=True, random_state=0).split(inputs))

    def judged(taken: Sequence[int]) -> float:
        return float(
            np.mean([
                _fit_with(parts, taken, (inputs[train], labels[train])).score(inputs[test], labels[test])
                for train, test in folds
            ])
        )  # fmt: skip

    taken: list[int] = []
    best = judged(taken)
    while left := [number for number in range(len(parts) - 1) if number not in taken]:
        scores = {number: judged([*taken, number]) for number in left}
        first = max(scores, key=lambda number: scores[number])
        if scores[first] <= best:
            break
        best, taken = scores[first], [*taken, first]
    return taken


# Running.


def answer(name: str, draw: int, seeds: int) -> dict[str, Any]:
    """What ``compare`` says and hands out, and how well the others do."""
    problem = PROBLEMS[name]()
    with tempfile.TemporaryDirectory() as folder:
        tasks = loaded(problem, Path(folder), draw)
        began = time.monotonic()
        comparison = ms.compare(tasks, seeds=seeds, out=Path(folder, "out"))
        seconds = time.monotonic() - began
        rates = by_rate(Path(folder, "out"))
    return {
        "problem": name,
        "draw": draw,
        "seeds": seeds,
        "handed": float(comparison.model.score(tasks.test.inputs, tasks.test.labels)),
        "references": own_references(tasks),
        "seconds": round(seconds, 1),
        "verdict": comparison.verdict,
        "first": comparison.remarks.first,
        "made of": comparison.remarks.final,
        "sources": {line.name: line.word for line in comparison.sources()},
        "spoilt": problem.spoilt,
        "thompson less uniform, by rate": rates,
    }


def by_rate(out: Path) -> dict[str, list[float]]:
    """The difference of single runs with equal rates: mean over seeds, and half of its 95 % interval."""
    scores: dict[str, dict[str, dict[int, float]]] = defaultdict(lambda: defaultdict(dict))
    for run in outcome.read(out / JUDGING):
        rate = f"{run.spec.settings['learning_rate']:g}"
        scores[rate][run.method][run.spec.seed] = run.final.test_accuracy if run.final else 0.0
    found = {}
    for rate, methods in scores.items():
        gaps = [methods["thompson"][seed] - methods["uniform"][seed] for seed in methods["uniform"]]
        half = stdtrit(len(gaps) - 1, 0.975) * np.std(gaps, ddof=1) / np.sqrt(len(gaps)) if len(gaps) > 1 else np.nan
        found[rate] = [round(float(np.mean(gaps)), 4), round(float(half), 4)]
    return found


def words(name: str, draw: int) -> dict[str, Any]:
    """What the table of sources says; only the networks that choose are fitted, at full length."""
    problem = PROBLEMS[name]()
    with tempfile.TemporaryDirectory() as folder:
        tasks = loaded(problem, Path(folder), draw)
    splits = split(tasks, range(10 * draw, 10 * draw + 10))  # every seed draws labelled rows, the same in all draws
    setup = Setup(fitted_to(ms.Joint(), tasks))
    choosing = methods_of(None)[:1]
    rates = networks.rates_of(setup, averaged=True)
    found = [run.outcome for run in runner.run(networks.jobs_of(setup, choosing, rates, splits.judging))]
    fits = networks.fitted(choosing, rates, splits.judging, found)
    parts = networks.by_unit(fits, splits.judging, choosing[0].name)
    metric = METRICS["accuracy"]
    ours = [
        networks.outcome_of(fits[choosing[0].name, place].runs, each.unit, parts[each.unit], metric, None)
        for place, each in enumerate(splits.judging)
    ]
    lines = sources.lines(splits, Judge(metric, splits.judges), Grams.of(tasks), ours, metric.margin_of(None))
    return {
        "problem": name,
        "draw": draw,
        "sources": {line.name: line.word for line in lines},
        "spoilt": problem.spoilt,
    }


def table(lines: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Means over draws."""
    by_problem: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for line in lines:
        by_problem[line["problem"]].append(line)
    yield "| problem | draws | the final model | best reference | difference | seconds |\n|---|---|---|---|---|---|"
    for name, own in by_problem.items():
        means = {title: np.mean([line["references"][title] for line in own]) for title in own[0]["references"]}
        best = max(means, key=lambda title: means[title])
        handed = np.mean([line["handed"] for line in own])
        seconds = max(line["seconds"] for line in own)
        yield (
            f"| {name} | {len(own)} | {handed:.3f} | {best} {means[best]:.3f} | {handed - means[best]:+.3f} | "
            f"{seconds:.0f} |"
        )


def counts(lines: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """How often each word was said of sound and of spoilt sources."""
    found: dict[tuple[str, str, str], int] = defaultdict(int)
    for line in lines:
        for source, word in line["sources"].items():
            found[line["problem"], "spoilt" if source in line["spoilt"] else "sound", word] += 1
    for (problem, kind, word), count in sorted(found.items()):
        yield f"{problem}: {kind} sources called '{word}': {count}"


def main() -> None:
    """Run draws that are not in the file yet, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", nargs="+", choices=list(PROBLEMS), default=SIX)
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--first", type=int, default=0, help="the first draw")
    parser.add_argument("--seeds", type=int, default=10, help="of each comparison; they do not change the final model")
    parser.add_argument("--sources", action="store_true", help="only what is said of sources")
    parser.add_argument("--out", type=Path, help="a file of JSON lines, one for each draw")
    parser.add_argument("--table", type=Path, help="only print what this file holds")
    asked = parser.parse_args()
    show = counts if asked.sources else table
    if asked.table:
        print("\n".join(show([json.loads(line) for line in asked.table.read_text().splitlines()])))
        return
    lines = []
    if asked.out and asked.out.exists():
        lines = [json.loads(line) for line in asked.out.read_text().splitlines()]
    done = {(line["problem"], line["draw"]) for line in lines}
    for draw in range(asked.first, asked.first + asked.draws):
        for name in asked.problems:
            if (name, draw) in done:
                continue
            lines.append(words(name, draw) if asked.sources else answer(name, draw, asked.seeds))
            print(json.dumps(lines[-1], ensure_ascii=False), flush=True)
            if asked.out:
                with asked.out.open("a") as stream:
                    stream.write(json.dumps(lines[-1], ensure_ascii=False) + "\n")
    print("\n".join(show(lines)))


if __name__ == "__main__":
    main()
