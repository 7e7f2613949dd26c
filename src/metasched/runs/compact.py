"""Result files kept small: what is the same for all seeds is written once, and curves keep sixteen points or fewer."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

POINTS = 16


def compact(found: Mapping[str, Any]) -> dict[str, Any]:
    """The result file of a cell in fewer bytes; doing it twice changes nothing.

    Curves are thinned to at most ``POINTS`` measurements, dense at first and sparse later, the last one included.
    Accuracies have three decimals, final ones four. The paper regime alone keeps rows by label and accuracy by class;
    schedules are kept by the cell of an experiment that rates were tuned in and by the first robust one.
    """
    paper = found["regime"] == "paper"
    ribbon = found["cell"].endswith(("/few-label-30", "/robust-40"))
    rows = {name: _row(row, paper, ribbon) for name, row in found["methods"].items()}
    return {**found, "methods": rows}


def _row(row: Mapping[str, Any], paper: bool, ribbon: bool) -> dict[str, Any]:
    kept = thinned(len(row["updates"]))
    small = dict(row)
    small["updates"] = [row["updates"][index] for index in kept]
    samples = row["samples"]
    if samples and isinstance(samples[0], list):
        samples = [pick(curve, kept) for curve in samples]
        small["samples"] = once(samples, list)
    else:
        small["samples"] = pick(samples, kept)
    small["test_accuracy"] = [_rounded(pick(curve, kept), 3) for curve in row["test_accuracy"]]
    small["final"] = {name: _rounded(values, 4) for name, values in row["final"].items()}
    small["drawn"] = once(row.get("drawn"), list)
    small["seconds"] = once(row.get("seconds"), float)
    small["abstained"] = once(row.get("abstained"), int)
    if not paper:
        small.pop("drawn_by_label", None)
        small.pop("per_class", None)
    if not ribbon:
        small.pop("schedule", None)
    return small


def once(by_seed: Any, kind: type) -> Any:
    """What every seed has alike, a value of that kind, written once; anything else as it is."""
    if not isinstance(by_seed, list) or not by_seed or not isinstance(by_seed[0], kind):
        return by_seed
    return by_seed[0] if all(value == by_seed[0] for value in by_seed) else by_seed


def thinned(points: int) -> list[int]:
    """Which of so many measurements are kept."""
    if points <= POINTS:
        return list(range(points))
    return sorted({round(place) - 1 for place in np.geomspace(1, points, POINTS)})


def pick(curve: Sequence[Any] | None, kept: Sequence[int]) -> list[Any] | None:
    """The kept measurements of a curve; None for a seed that has none."""
    return None if curve is None else [curve[index] for index in kept if index < len(curve)]


def _rounded(values: Sequence[float | None] | None, digits: int) -> list[float | None] | None:
    return None if values is None else [None if value is None else round(value, digits) for value in values]
