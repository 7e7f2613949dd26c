"""The methods of a cell against each other: best baselines, samples to a threshold, gains, paired tests."""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Literal, NamedTuple

import numpy as np

from metasched.dependence import holm
from metasched.report import statistics
from metasched.report.cells import SINGLE, STATIC, Cell, Floats
from metasched.report.statistics import Arrivals, Gain, Interval
from metasched.report.tables import reached

ALPHA = 0.05
Outcome = Literal["better", "worse", "no difference shown", "too few seeds to tell"]


class Comparison(NamedTuple):
    """A method against the best static baseline: difference of final accuracy on the seeds that both have."""

    difference: Interval
    p_value: float
    p_holm: float
    pairs: int
    outcome: Outcome


class Threshold(NamedTuple):
    """An accuracy to reach, and where it comes from."""

    value: float
    origin: str


def chance(cell: Cell) -> float:
    """Accuracy of guessing: what a seed that diverged counts as."""
    return 1 / len(cell.classes) if cell.classes else 0.0


def finals(cell: Cell, name: str, measure: str = "test_accuracy") -> dict[int, float]:
    """Final accuracy by seed; chance for a seed that diverged, nothing for one that was not measured."""
    method = cell.methods[name]
    values = method.final.get(measure)
    if values is None:
        return {}
    known = {seed: float(value) for seed, value in zip(method.seeds, values, strict=True)}
    return {
        seed: chance(cell) if np.isnan(value) else value
        for seed, value in known.items()
        if seed in method.diverged or not np.isnan(value)
    }


def differences(cell: Cell, first: str, second: str) -> Floats:
    """Final accuracy of the first less that of the second, on the seeds that both have."""
    ours, theirs = finals(cell, first), finals(cell, second)
    return np.array([ours[seed] - theirs[seed] for seed in sorted(ours.keys() & theirs.keys())], np.float64)


def middle(cell: Cell, name: str) -> float:
    """Median final accuracy over seeds; −∞ when nothing was measured."""
    values = list(finals(cell, name).values())
    return float(np.median(values)) if values else -np.inf


def best(cell: Cell, names: Iterable[str]) -> str | None:
    """The name with the largest median final accuracy; the first of equals, None when there is none."""
    return max((name for name in names if finals(cell, name)), key=lambda name: middle(cell, name), default=None)


def best_static(cell: Cell) -> str | None:
    """The best of cyclic, sequential and uniform."""
    return best(cell, (name for name in STATIC if name in cell.methods))


def best_active(cell: Cell) -> str | None:
    """The best scheduler that learns or plans: picked after the fact."""
    return best(cell, (name for name, method in cell.methods.items() if method.family == "active"))


def best_single(cell: Cell) -> str | None:
    """The best single task in hindsight."""
    return best(cell, (name for name in cell.methods if name.startswith(SINGLE) or name.split(" ")[0] == "single"))


def thresholds(cell: Cell) -> list[Threshold]:
    """The accuracy fixed before the run, and the final one of the best static baseline."""
    found = [] if cell.threshold is None else [Threshold(cell.threshold, "fixed before the run")]
    static = best_static(cell)
    if static is not None and (cell.threshold is None or cell.regime == "few-label"):
        found.append(Threshold(middle(cell, static), f"final accuracy of {static}"))
    return found


@lru_cache(maxsize=8192)
def arrivals(cell: Cell, name: str, threshold: float) -> dict[int, tuple[float, float]]:
    """By seed: source rows drawn until the threshold was reached for good (∞: never), and rows drawn in all."""
    method = cell.methods[name]
    if not method.updates.size:
        return {}
    longest = float(np.nanmax(method.samples)) if not np.isnan(method.samples).all() else 0.0
    found: dict[int, tuple[float, float]] = {}
    for seed, samples, accuracy in zip(method.seeds, method.samples, method.test_accuracy, strict=True):
        if seed in method.diverged:
            found[seed] = (np.inf, longest)
            continue
        measured = ~(np.isnan(samples) | np.isnan(accuracy))
        records = [
            {"update": int(update), "samples": float(drawn), "test_accuracy": float(value)}
            for update, drawn, value in zip(
                method.updates[measured], samples[measured], accuracy[measured], strict=True
            )
        ]
        if records:
            at = reached(records, threshold)
            found[seed] = (np.inf if at is None else float(at.samples), float(samples[measured].max()))
    return found


def collected(by_seed: dict[int, tuple[float, float]], seeds: Sequence[int]) -> Arrivals:
    """Arrivals of these seeds, in this order."""
    rows = np.array([by_seed[seed] for seed in seeds], np.float64).reshape(-1, 2)
    return Arrivals(rows[:, 0], rows[:, 1])


def median_samples(cell: Cell, name: str, threshold: float) -> statistics.Median | None:
    """Median samples to the threshold; None without measurements."""
    by_seed = arrivals(cell, name, threshold)
    return statistics.median_samples(collected(by_seed, sorted(by_seed))) if by_seed else None


def gain_over(cell: Cell, baseline: str, name: str, threshold: float) -> Gain | None:
    """Samples of the baseline over samples of the method, on the seeds that both have."""
    theirs, ours = arrivals(cell, baseline, threshold), arrivals(cell, name, threshold)
    seeds = sorted(theirs.keys() & ours.keys())
    return statistics.gain(collected(theirs, seeds), collected(ours, seeds)) if seeds else None


def score(cell: Cell, name: str, measure: str = "test_accuracy") -> Interval | None:
    """Interquartile mean of final accuracy with its interval."""
    values = list(finals(cell, name, measure).values())
    return statistics.interquartile_interval([values]) if values else None


@lru_cache(maxsize=512)
def against_best_static(cell: Cell) -> dict[str, Comparison]:
    """Every method but the ceiling against the best static baseline, corrected over all of them (Holm)."""
    static = best_static(cell)
    if static is None:
        return {}
    gaps = {
        name: differences(cell, name, static)
        for name, method in cell.methods.items()
        if name != static and method.family != "ceiling"
    }
    gaps = {name: values for name, values in gaps.items() if values.size}
    p_values = [statistics.sign_flip_test(values) for values in gaps.values()]
    found = {}
    for (name, values), p, corrected in zip(gaps.items(), p_values, holm(p_values), strict=True):
        mean = float(values.mean())
        outcome: Outcome = "no difference shown"
        if corrected <= ALPHA:
            outcome = "better" if mean > 0 else "worse"
        elif statistics.smallest_p(len(values)) > ALPHA:
            outcome = "too few seeds to tell"
        interval = statistics.mean_interval([values])
        found[name] = Comparison(interval, p, float(corrected), len(values), outcome)
    return found
