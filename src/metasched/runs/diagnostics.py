"""What is off with a task set or with runs on it: each doubt is one line that says what to do. All checks are pure."""

from collections.abc import Mapping, Sequence

import numpy as np

from metasched.learners.baseline import Baseline, Floats, logistic, scaler
from metasched.learners.folds import equal_splits
from metasched.runs.outcome import Outcome
from metasched.tasks import Task, TaskSet

LARGEST_RATIO = 1000.0
"""Between the largest values of two features."""
LARGEST_SIZE = 30.0
"""Root of the mean square of all values."""
LEVEL = 0.01
PERMUTATIONS = 999
SHUFFLED_FOLDS = 4
SHUFFLED_ROWS = 500
"""Rows of a source that are looked at, at most; fewer than a tenth of that tell nothing."""
SHUFFLED_ITERATIONS = 10
"""A fit need not be the best to show that there is something to be found, and the test is exact whatever it is."""
NOTEWORTHY = 0.01
"""A gain in the last third of a run from which it counts as still improving."""


def of_tasks(tasks: TaskSet) -> list[str]:
    """Doubts about the rows."""
    return [*unscaled(tasks), *shuffled(tasks)]


def unscaled(tasks: TaskSet) -> list[str]:
    """Inputs far from one scale: features a thousand times larger than others, or all of them far above 1."""
    rows = np.concatenate([task.inputs.reshape(len(task), -1) for task in tasks.tasks])
    largest = np.abs(rows).max(axis=0)
    alive = np.flatnonzero(largest)
    if not alive.size:
        return ["all inputs are zero: check how they were read"]
    high, low = alive[largest[alive].argmax()], alive[largest[alive].argmin()]
    fix = "standardise the inputs: (x − mean) / deviation of the source rows"
    if largest[high] > LARGEST_RATIO * largest[low]:
        return [
            f"inputs are not on one scale: feature {high + 1} goes up to {largest[high]:.3g}, feature {low + 1} to "
            f"{largest[low]:.3g}; {fix}"
        ]
    size = float(np.sqrt(np.mean(np.square(rows, dtype=np.float64))))
    return [f"inputs are large (typically {size:.3g}, networks want about 1); {fix}"] if size > LARGEST_SIZE else []


def shuffled(tasks: TaskSet) -> list[str]:
    """Sources in which a linear model finds nothing about the labels, though there are rows enough to find it."""
    return [
        f"labels of '{task.name}' look shuffled: logistic regression on its own rows does no better than chance "
        f"(p = {p:.2f}); check how it was labelled, or leave it out"
        for task in tasks.tasks
        if (p := label_p_value(task)) > LEVEL
    ]


def label_p_value(task: Task) -> float:
    """p-value of a permutation test that the inputs of a source say nothing about its labels; 0 with too few rows.

    Logistic regression predicts each of four folds from the others; the statistic is the mean probability it gives the
    right label, against labels permuted within folds. In regression labels are bins of the first number.
    """
    random = np.random.default_rng(0)
    chosen = np.sort(random.permutation(len(task))[:SHUFFLED_ROWS])
    labels = np.unique(task.labels[chosen], return_inverse=True)[1]
    classes = int(labels.max()) + 1
    if len(chosen) < max(SHUFFLED_ROWS // 10, 10 * classes) or classes < 2:
        return 0.0
    inputs = scaler(task.inputs[chosen])(task.inputs[chosen])
    answers = np.eye(classes)[labels]
    penalty = float(len(chosen)) / 10
    observed, drawn = 0.0, np.zeros(PERMUTATIONS)
    for rest, part in equal_splits(labels, SHUFFLED_FOLDS):
        chances = _chances(inputs[part] @ logistic(inputs[rest], answers[rest], penalty, SHUFFLED_ITERATIONS))
        observed += chances[np.arange(len(part)), labels[part]].sum()
        orders = random.permuted(np.tile(labels[part], (PERMUTATIONS, 1)), axis=1)
        drawn += chances[np.arange(len(part)), orders].sum(axis=1)
    return float((1 + np.sum(drawn >= observed - 1e-12)) / (1 + PERMUTATIONS))


def _chances(outputs: Floats) -> Floats:
    raised = np.exp(outputs - outputs.max(axis=1, keepdims=True))
    return np.asarray(raised / raised.sum(axis=1, keepdims=True))


def small_source(tasks: TaskSet, batch_size: int) -> list[str]:
    """A batch larger than a source."""
    smallest = min(tasks.tasks, key=len)
    if len(smallest) >= batch_size:
        return []
    return [
        f"source '{smallest.name}' has {len(smallest)} rows, fewer than a batch of {batch_size}: all batches have "
        f"{len(smallest)} rows; leave the source out for larger ones"
    ]


def of_runs(runs: Sequence[Outcome], baseline: Baseline, target_only: Sequence[Outcome] = ()) -> list[str]:
    """Doubts about the runs of one method: they end below simpler things, or have not ended yet."""
    ends = [run.final.test_accuracy for run in runs if run.final]
    if not ends:
        return []
    name, end, rows = runs[0].method, float(np.mean(ends)), runs[0].about.target_rows
    lines = []
    if end < baseline.score:
        lines.append(
            f"{name} ({end:.3f}) ends below {baseline.name} on the {rows} target rows alone ({baseline.score:.3f}): "
            "use that, or look for sources closer to the target"
        )
    others = [run.final.test_accuracy for run in target_only if run.final]
    if others and end < np.mean(others):
        lines.append(
            f"{name} ({end:.3f}) ends below target-only ({np.mean(others):.3f}): these sources mislead; use "
            "target-only, or leave the worst source out"
        )
    return lines + still_improving(runs)


def above(runs: Sequence[Outcome], others: Mapping[str, Sequence[Outcome]]) -> list[str]:
    """The best of the other methods, where it ends above these runs at nearly every seed that both have.

    ``others`` has each method's runs by what to type to use it.
    """
    mine = {run.spec.seed: run.final.test_accuracy for run in runs if run.final}
    gaps = {}
    for use, other in others.items():
        theirs = {run.spec.seed: run.final.test_accuracy for run in other if run.final}
        gaps[use] = [theirs[seed] - mine[seed] for seed in mine if seed in theirs]
    best = max(gaps, key=lambda use: np.mean(gaps[use] or [-np.inf]), default=None)
    if best is None or len(gaps[best]) < 2:
        return []
    mean, error = float(np.mean(gaps[best])), float(np.std(gaps[best], ddof=1) / np.sqrt(len(gaps[best])))
    if mean <= 2 * error:
        return []
    name = others[best][0].method
    return [f"{name} ends above {runs[0].method} (+{mean:.3f}); if it stays so on other rows, use it: {best}"]


def still_improving(runs: Sequence[Outcome]) -> list[str]:
    """Whether test accuracy rose in the last third of the updates, beyond chance, and how many updates more it wants.

    If a third gains ρ times what the one before did, the gain falls below noteworthy after so many thirds more.
    """
    curves = [run.test_accuracy for run in runs if run.final]
    points = min(map(len, curves), default=0)
    if points < 7:
        return []
    values = np.array([curve[-points:] for curve in curves])
    third = points // 3
    # Means of neighbouring points: single measurements go up and down.
    ends = points - 2 * third, points - third, points
    start, middle, end = (values[:, place - third : place].mean(axis=1) for place in ends)
    gain, before = end - middle, float(np.mean(middle - start))
    error = float(np.std(gain, ddof=1) / np.sqrt(len(gain))) if len(gain) > 1 else np.inf
    last = float(gain.mean())
    if last < NOTEWORTHY or last < 2 * error:
        return []
    ratio = float(np.clip(last / before if before > 0 else 1.0, 0.2, 0.8))
    thirds = max(1, int(np.ceil(np.log(NOTEWORTHY / last) / np.log(ratio))))
    updates = int(runs[0].spec.settings["updates"])
    more = -(-updates * thirds // 3)
    return [
        f"{runs[0].method} is still improving at the end (+{last:.3f} in the last third): about {more:,} updates more; "
        f"give --updates {updates + more}"
    ]
