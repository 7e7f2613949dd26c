"""Makes outcomes small: curves of at most sixteen points, few decimals, and no more detail than a report shows."""

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from metasched.runs.outcome import Final, Outcome

POINTS = 16


def compact(outcome: Outcome, *, by_label: bool, schedule: bool, curve: bool = True) -> Outcome:
    """The same outcome in fewer bytes. Compacting twice changes nothing.

    Curves are thinned to at most ``POINTS`` measurements, dense at first and sparse later, including the last one.
    Without ``curve`` only the last is kept. Accuracies have three decimals, final ones four. Rows by label and accuracy
    by class are kept with ``by_label``, and the batches of every update with ``schedule``.
    """
    kept = thinned(len(outcome.updates))[0 if curve else -1 :]
    return msgspec.structs.replace(
        outcome,
        updates=_pick(outcome.updates, kept),
        samples=_pick(outcome.samples, kept),
        test_accuracy=tuple(round(value, 3) for value in _pick(outcome.test_accuracy, kept)),
        final=outcome.final and _compact_final(outcome.final, by_label),
        schedule=outcome.schedule if schedule else None,
    )


def _compact_final(final: Final, by_label: bool) -> Final:
    shares = {name: _rounded(value, 4) for name, value in msgspec.structs.asdict(final).items() if type(value) is float}
    classes = final.test_accuracy_by_class if by_label else None
    return msgspec.structs.replace(
        final,
        **shares,
        test_accuracy_by_class=classes and tuple(_rounded(share, 3) for share in classes),
        drawn_by_label=final.drawn_by_label if by_label else None,
    )


def thinned(points: int) -> list[int]:
    """Which measurements are kept."""
    if points <= POINTS:
        return list(range(points))
    return sorted({round(place) - 1 for place in np.geomspace(1, points, POINTS)})


def _pick(curve: Sequence[Any], kept: Sequence[int]) -> tuple[Any, ...]:
    return tuple(curve[index] for index in kept)


def _rounded(value: float | None, digits: int) -> float | None:
    return None if value is None else round(value, digits)
