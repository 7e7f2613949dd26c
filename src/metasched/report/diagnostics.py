"""Warnings about a task set or about its runs: one line each, which says what to do."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
from scipy.special import softmax

from metasched.learners.folds import equal_splits
from metasched.learners.metrics import MetricName
from metasched.references.baseline import Baseline
from metasched.references.linear import logistic, scaler
from metasched.report.statistics import Interval, mean_of_means
from metasched.runs.outcome import Outcome
from metasched.tasks import Task, TaskSet

BALANCED = ("balanced-accuracy", "auc", "f1")
"""Metrics to which a rare class matters."""
LARGEST_RATIO = 1000.0
"""The largest allowed ratio between the largest values of two features."""
LARGEST_SIZE = 30.0
"""The largest allowed root mean square of all input values."""
PERMUTATIONS = 199
SHUFFLED_BELOW = 4.0
"""Labels may be shuffled if they are predicted better than random labels by fewer standard deviations than this. On the
built-in sets sound sources reach 4.9 to 67, and shuffled ones −2.4 to 2.8.
"""
SHUFFLED_FOLDS = 4
SHUFFLED_ROWS = 500
"""The most rows of a source that are tested. A source with fewer than a tenth of that is not tested."""
SHUFFLED_ITERATIONS = 10
"""The iterations of the fit. The test is exact however good the fit is, and a rough fit is enough to find a rule."""
MOST_NAMED = 3
"""A sentence names at most this many sources."""
RARE = 0.05
"""The largest share of a class among the target's labelled rows for which accuracy says little about the class."""
FEWEST_LABELS = 20
"""With fewer labelled rows, the share of a class among them says little about its real share."""
NOTEWORTHY = 0.01
"""The smallest gain in the last third of a run that counts as still improving. For errors in the unit of the numbers to
predict, it is a share of their standard deviation.
"""


def of_tasks(tasks: TaskSet, metric: MetricName | None = None) -> list[str]:
    """Warnings about the rows, for models that are judged by this metric."""
    named = [] if metric in BALANCED else rare_class(tasks)
    return [*one_source(tasks), *unscaled(tasks), *shuffled(tasks), *named]


def one_source(tasks: TaskSet) -> list[str]:
    """A warning if there is only one source."""
    if len(tasks.tasks) > 1:
        return []
    return [f"'{tasks.tasks[0].name}' is the only source, so there is nothing to choose"]


def unscaled(tasks: TaskSet) -> list[str]:
    """A warning if some features are a thousand times larger than others, or all features are far above 1."""
    rows = np.concatenate([task.inputs.reshape(len(task), -1) for task in tasks.tasks])
    largest = np.abs(rows).max(axis=0)
    alive = np.flatnonzero(largest)
    if not alive.size:
        return ["all inputs are zero: check how they were read"]
    high, low = alive[largest[alive].argmax()], alive[largest[alive].argmin()]
    fix = "standardise the inputs: (x − mean) / deviation of the source rows"
    if largest[high] > LARGEST_RATIO * largest[low]:
        return [
            f"inputs are on different scales: feature {high + 1} goes up to {largest[high]:.3g}, feature {low + 1} to "
            f"{largest[low]:.3g}; {fix}"
        ]
    size = float(np.sqrt(np.mean(np.square(rows, dtype=np.float64))))
    return [f"inputs are large (typically {size:.3g}, networks want about 1); {fix}"] if size > LARGEST_SIZE else []


def shuffled(tasks: TaskSet) -> list[str]:
    """A warning about sources whose labels a linear model cannot predict, if it can predict those of most sources."""
    strengths = {task.name: label_strength(task) for task in tasks.tasks}
    found = look_shuffled(tasks, strengths)
    if not found:
        return []
    largest = max(strengths[name] for name in found)
    many = len(found) > 1
    whose, which, most = ("their", "they were", "at most ") if many else ("its", "it was", "")
    score = f"{largest:.1f}".replace("-", "−")
    return [
        f"labels of {some_of(found)} look shuffled: a model learns them from {whose} inputs hardly better than it "
        f"learns labels in random order (z-score {most}{score}, sound sources have {SHUFFLED_BELOW:g} or more); check "
        f"how {which} labelled, or leave {'them' if many else 'it'} out"
    ]


def some_of(names: Sequence[str]) -> str:
    """Sources in a sentence: all of a few, the first of many.

    >>> some_of(["a"]), some_of(["a", "b"]), some_of(list("abcde"))
    ("'a'", "'a' and 'b'", "'a', 'b' and 3 more")
    """
    if len(names) > MOST_NAMED:
        return f"'{names[0]}', '{names[1]}' and {len(names) - 2} more"
    *others, last = (f"'{name}'" for name in names)
    return f"{', '.join(others)} and {last}" if others else last


def look_shuffled(tasks: TaskSet, strengths: Mapping[str, float]) -> list[str]:
    """The sources whose labels have nothing to do with their inputs, although they have enough rows to show it.

    The z-score of a sound source of n rows grows with √n. So the expected z-score of a source follows from the other
    sources and from its number of rows. If it is small, a weak result says nothing.
    """
    rows = {task.name: min(len(task), SHUFFLED_ROWS) for task in tasks.tasks}
    known = {name: strength for name, strength in strengths.items() if not np.isnan(strength)}
    sound = [strength / np.sqrt(rows[name]) for name, strength in known.items() if strength >= SHUFFLED_BELOW]
    usual = float(np.median(sound)) if sound else 0.0
    return [
        name
        for name, strength in known.items()
        if strength < SHUFFLED_BELOW and usual * np.sqrt(rows[name]) >= 2 * SHUFFLED_BELOW
    ]


def label_strength(task: Task) -> float:
    """How much better the inputs of a source predict its labels than shuffled labels, in standard deviations.

    Logistic regression predicts each of four folds from the others. The statistic is the mean probability of the right
    label, compared with labels permuted within folds. In regression the labels are bins of the first target. NaN if
    there are too few rows or only one label.
    """
    random = np.random.default_rng(0)
    chosen = np.sort(random.permutation(len(task))[:SHUFFLED_ROWS])
    labels = np.unique(task.labels[chosen], return_inverse=True)[1]
    classes = int(labels.max()) + 1
    if len(chosen) < max(SHUFFLED_ROWS // 10, 10 * classes) or classes < 2:
        return math.nan
    inputs = scaler(task.inputs[chosen])(task.inputs[chosen])
    answers = np.eye(classes)[labels]
    penalty = float(len(chosen)) / 10
    observed, drawn = 0.0, np.zeros(PERMUTATIONS)
    for rest, part in equal_splits(labels, SHUFFLED_FOLDS):
        fitted = logistic(inputs[rest], answers[rest], penalty, SHUFFLED_ITERATIONS)
        chances = softmax(inputs[part] @ fitted, axis=1)
        observed += chances[np.arange(len(part)), labels[part]].sum()
        orders = random.permuted(np.tile(labels[part], (PERMUTATIONS, 1)), axis=1)
        drawn += chances[np.arange(len(part)), orders].sum(axis=1)
    spread = float(drawn.std())
    return float(observed - drawn.mean()) / spread if spread > 0 else math.nan


def rare_class(tasks: TaskSet) -> list[str]:
    """A warning if a class is so rare among the target's labelled rows that a model could ignore it and still be
    accurate.

    If there are many classes, all are rare. Then a class only counts if it has less than half of an equal share.
    """
    counts = np.bincount(tasks.validation.labels, minlength=len(tasks.classes))
    rows, present = int(counts.sum()), np.flatnonzero(counts)
    if tasks.target_size is not None or rows < FEWEST_LABELS or len(present) < 2:
        return []
    rarest = present[counts[present].argmin()]
    share = counts[rarest] / rows
    if share > RARE or share >= 1 / (2 * len(present)):
        return []
    return [
        f"'{tasks.classes[rarest]}' is {100 * share:.2g} % of the target's labels, so accuracy says little about it; "
        "give --metric balanced-accuracy or auc"
    ]


def small_source(tasks: TaskSet, batch_size: int) -> list[str]:
    """A warning if a batch with rows of a single source is larger than the smallest source."""
    smallest = min(tasks.tasks, key=len)
    if len(smallest) >= batch_size:
        return []
    return [
        f"source '{smallest.name}' has {len(smallest)} rows, fewer than a batch of {batch_size}, so all batches "
        f"have {len(smallest)} rows; for larger batches, leave this source out"
    ]


def of_runs(runs: Sequence[Outcome], baseline: Baseline) -> list[str]:
    """Warnings about the runs of one method: they end below a simpler model, or are still improving."""
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
    return lines + still_improving(runs)


def is_above_zero(interval: Interval) -> bool:
    """Whether the whole 95 % interval of a mean is above zero. False for a single seed, which has no interval."""
    return bool(interval.low > 0)


def still_improving(runs: Sequence[Outcome]) -> list[str]:
    """A warning if the score still rises in the last third of the updates, with the number of updates to add.

    If each third gains ρ times as much as the one before, the gain is below ``NOTEWORTHY`` after log(NOTEWORTHY / gain)
    / log(ρ) more thirds.
    """
    curves = [run.test_accuracy for run in runs if run.final]
    points = min(map(len, curves), default=0)
    if points < 7:
        return []
    values = np.array([curve[-points:] for curve in curves])
    third = points // 3
    # Single evaluations are noisy, so compare the means over thirds.
    ends = points - 2 * third, points - third, points
    start, middle, last = (values[:, end - third : end].mean(axis=1) for end in ends)
    gain, before = mean_of_means([last - middle]), float(np.mean(middle - start))
    metric = runs[0].metric
    noteworthy = NOTEWORTHY * (runs[0].about.deviation or 0.0) if metric.relative else NOTEWORTHY
    if gain.value <= 0 or gain.value < noteworthy or not is_above_zero(gain):
        return []
    ratio = float(np.clip(gain.value / before if before > 0 else 1.0, 0.2, 0.8))
    thirds = max(1, int(np.ceil(np.log(max(noteworthy, gain.value / 100) / gain.value) / np.log(ratio))))
    updates = int(runs[0].spec.settings["updates"])
    more = -(-updates * thirds // 3)
    how = f"+{gain.value:.3f}" if metric.higher_is_better else f"{metric.word} lower by {gain.value:.4g}"
    return [
        f"{runs[0].method} is still improving at the end ({how} in the last third); it may need about "
        f"{more:,} more updates: give --updates {updates + more}"
    ]
