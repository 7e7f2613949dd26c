"""The networks of a comparison: every method with every learning rate on every split, and the mean over the rates.

Forty labelled rows cannot tell which rate is best. If each method had its own rate, methods would differ because of
their rates, in either direction. So no rate is chosen: a method is judged by the mean of the predictions of runs with
all rates.
"""

import statistics
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from metasched.comparison.estimate import Part, together
from metasched.comparison.splits import Split
from metasched.learners.evaluation import judged_rows
from metasched.learners.metrics import Metric
from metasched.runs.jobs import Job
from metasched.runs.outcome import Final, Outcome, outputs_of
from metasched.runs.sweep import Method, Rates, Setup
from metasched.tasks import TaskSet

FACTORS = (0.3, 1.0, 3.0)
"""The rates in the mean, as multiples of the setting."""
STOP_ERRORS = 1.0
"""Training ends earlier if held-out rows were predicted better then, by this many standard errors of the difference."""

Key = tuple[str, int]
"""A method and the place of a split."""


def rates_of(setup: Setup, averaged: bool) -> list[Rates]:
    """The rates of every method: the first rate of the settings times ``FACTORS``, or only the settings."""
    first, *rest = setup.learner.rates
    return [(float(f"{first * factor:.6g}"), *rest) for factor in (FACTORS if averaged else (1.0,))]


def jobs_of(setup: Setup, methods: Sequence[Method], rates: Sequence[Rates], splits: Sequence[Split]) -> list[Job]:
    """Make a job for every method, rate and split, in that order. Jobs that cannot run are refused."""
    rows = [(split.seed, split.tasks) for split in splits]
    return [job for method in methods for each in rates for job in setup.jobs(method, rows, each, predictions=True)]


class Fitted(NamedTuple):
    """A method on a split: its runs, one for each rate, and the mean of their predictions for the judging rows."""

    runs: tuple[Outcome, ...]
    part: Part


def fitted(
    methods: Sequence[Method], rates: Sequence[Rates], splits: Sequence[Split], outcomes: Sequence[Outcome]
) -> dict[Key, Fitted]:
    """The outcomes of :func:`jobs_of`, by method and place of the split."""
    shaped = np.arange(len(outcomes)).reshape(len(methods), len(rates), len(splits))
    found = {}
    for method, numbers in zip(methods, shaped, strict=True):
        for place, split in enumerate(splits):
            runs = tuple(outcomes[number] for number in numbers[:, place])
            found[method.name, place] = Fitted(runs, Part(_mean_outputs(runs, split), answers_of(split), split.rows))
    return found


def answers_of(split: Split) -> NDArray[np.generic]:
    """The labels, or numbers to predict, of the rows that judge."""
    test, rows = split.tasks.test, judged_rows(split.tasks)
    return test.labels[rows] if test.targets is None else test.targets[rows]


def _mean_outputs(runs: Sequence[Outcome], split: Split) -> NDArray[np.float32]:
    """The mean over runs that did not diverge. If all diverged, the prediction of a model that knows nothing."""
    ended = [outputs_of(run) for run in runs if run.final]
    if ended:
        # Sources may have more classes than the target. Probability for these classes counts for none of the target's.
        width = split.tasks.target_size or len(split.tasks.classes)
        return np.asarray(np.mean(np.stack(ended)[:, :, :width], axis=0, dtype=np.float64), np.float32)
    count, known = len(split.rows), split.tasks.validation
    if known.targets is None:
        return np.full((count, len(split.tasks.classes)), 1 / len(split.tasks.classes), np.float32)
    return np.tile(known.targets.mean(axis=0), (count, 1)).astype(np.float32)


def by_unit(fits: Mapping[Key, Fitted], splits: Sequence[Split], method: str) -> dict[int, Part]:
    """The predictions of a method, by unit."""
    parts: dict[int, list[Part]] = {}
    for place, split in enumerate(splits):
        parts.setdefault(split.unit, []).append(fits[method, place].part)
    return {unit: together(several) for unit, several in parts.items()}


# One outcome for each unit, for reports.


def outcome_of(runs: Sequence[Outcome], unit: int, part: Part, metric: Metric, variance: float | None) -> Outcome:
    """The outcome of a unit. Its curve is the mean over runs, its final score that of their mean predictions."""
    ended = [run for run in runs if run.final]
    middle = runs[(len(runs) - 1) // 2]
    spec = msgspec.structs.replace(middle.spec, seed=unit)
    common = {"run": spec.name, "spec": spec}
    if not ended:
        return msgspec.structs.replace(middle, **common)
    score = metric.oriented(metric.score(part.outputs, part.answers, unit=variance))
    longest = max((run.updates for run in ended), key=len)
    same = [run for run in ended if run.updates == longest]
    curve = tuple(float(np.mean(column)) for column in zip(*(run.test_accuracy for run in same), strict=True))
    schedules = [run.schedule for run in same if run.schedule]
    return msgspec.structs.replace(
        middle,
        **common,
        updates=longest,
        samples=same[0].samples,
        test_accuracy=curve,
        final=_final(score, part, ended),
        drawn=_mean_drawn([run.drawn for run in ended if run.drawn is not None]),
        abstained=round(statistics.fmean(run.abstained for run in ended)),
        schedule=None if not schedules else _mean_schedule(schedules),
        rewards=mean_rewards(ended),
        diverged=None,
    )


def _final(score: float, part: Part, runs: Sequence[Outcome]) -> Final:
    """The score, and the means over runs of everything else in a final evaluation."""
    finals = [run.final for run in runs if run.final]
    balanced = [final.balanced_test_accuracy for final in finals if final.balanced_test_accuracy is not None]
    tables = [final.drawn_by_label for final in finals if final.drawn_by_label]
    by_label = np.rint(np.mean(np.array(tables, np.float64), axis=0)).tolist() if tables else None
    return Final(
        test_accuracy=score,
        test_rows=len(part.rows),
        balanced_test_accuracy=statistics.fmean(balanced) if balanced else None,
        drawn_by_label=None if by_label is None else tuple(map(tuple, by_label)),
    )


def _mean_drawn(counts: Sequence[Sequence[int]]) -> tuple[int, ...] | None:
    return tuple(map(int, np.rint(np.mean(counts, axis=0)))) if counts else None


def _mean_schedule(schedules: Sequence[Sequence[Sequence[int]]]) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(row) for row in np.rint(np.mean(np.array(schedules), axis=0)).astype(int).tolist())


def mean_rewards(runs: Sequence[Outcome]) -> tuple[float | None, ...] | None:
    """The mean reward of each source over the runs that drew it and know its rewards."""
    tables = [run.rewards for run in runs if run.rewards is not None]
    if not tables:
        return None
    columns = [[value for value in column if value is not None] for column in zip(*tables, strict=True)]
    return tuple(float(np.mean(values)) if values else None for values in columns)


# How long to train


def updates_to_make(
    setup: Setup, fits: Mapping[Key, Fitted], splits: Sequence[Split], methods: Sequence[Method]
) -> int:
    """The number of updates after which held-out labelled rows were predicted best, over all methods and rates
    together.

    Training ends early only if the end is worse than some earlier evaluation by more than ``STOP_ERRORS`` standard
    errors of the difference over splits. Few rows judge, so the best moment is mostly chance.
    """
    curves = [
        [np.array(run.test_accuracy) for method in methods for run in fits[method.name, place].runs if run.final]
        for place in range(len(splits))
    ]
    lengths = {len(curve) for several in curves for curve in several}
    if len(lengths) != 1 or not all(curves) or len(splits) < 2:
        return setup.learner.updates
    by_split = np.array([np.mean(several, axis=0) for several in curves])
    gaps = by_split[:, :-1] - by_split[:, -1:]
    errors = gaps.std(axis=0, ddof=1) / np.sqrt(len(splits))
    ahead = gaps.mean(axis=0) - STOP_ERRORS * errors
    if not ahead.size or ahead.max() <= 0:
        return setup.learner.updates
    times = next(run.updates for fit in fits.values() for run in fit.runs if run.final)
    return int(times[int(ahead.argmax())])


def length(tasks: TaskSet, batch_size: int) -> int:
    """The steps of a run: about one pass over all source rows, at least 1,000 and at most 3,000.

    Each method draws this many batches, whatever the sizes of the sources.
    """
    return int(np.clip(sum(tasks.sizes) // batch_size, 1000, 3000))
