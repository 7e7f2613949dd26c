"""What our own results say about the schedulers with reward ``transfer``: final accuracy minus that of ``uniform``.

The numbers are those of ``results/``: ``make results`` writes ``reference_results.json``, and a test compares them.
"""

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from metasched.errors import unknown
from metasched.learners.settings import LEARNERS

Gains = Mapping[str, float]
"""For each task set: final accuracy minus that of ``uniform``, mean over ten seeds with 30 target labels each."""
_NUMBERS = json.loads(Path(__file__).with_name("reference_results.json").read_text())
GAINS: Mapping[str, Mapping[str, Gains]] = _NUMBERS["gains"]
"""The gains by learner and scheduler."""
ORDER: Mapping[str, Mapping[str, Mapping[str, tuple[float, float, float]]]] = _NUMBERS["order"]
"""On ``activity``, whose rows have an order, for each learner: the final accuracy of a scheduler that uses the order
minus that of one that does not, with the 95 % interval.
"""


def best(learner: str) -> str:
    """The scheduler with the highest mean gain over ``uniform``, among those that were run on all task sets.

    >>> best("joint")
    'thompson'
    """
    found = _of(learner)
    sets = {name for gains in found.values() for name in gains}
    return max((name for name, gains in found.items() if gains.keys() == sets), key=lambda name: _mean(found[name]))


def why(learner: str) -> str:
    """The numbers behind :func:`best`, as a sentence without a full stop."""
    name = best(learner)
    gains = _of(learner)[name]
    least, most = (pick(gains, key=lambda each: gains[each]) for pick in (min, max))
    return (
        f"with {LEARNERS[learner].title} {name} ended {_mean(gains):.3f} above uniform, the mean over "
        f"{len(gains)} task sets ({gains[least]:+.3f} on {least}, {gains[most]:+.3f} on {most})"
    )


def with_order(learner: str) -> tuple[str, str]:
    """The scheduler to use if labels have an order, and why. It uses the order only if that is shown to pay."""
    usual = best(learner)
    gaps = {knowing: blind[usual] for knowing, blind in ORDER[learner].items() if usual in blind}
    if not gaps:  # the best scheduler uses the order itself
        return usual, why(learner)
    knowing = max(gaps, key=lambda name: gaps[name][0])
    gap, low, high = gaps[knowing]
    told = (
        f"knowing the order {'has paid' if low > 0 else 'is not shown to pay'} (on activity, {knowing} minus {usual}, "
        f"which ignores labels: {gap:+.3f} [{low:+.3f}, {high:+.3f}])"
    )
    return (knowing, told) if low > 0 else (usual, f"{told}, and {why(learner)}")


def _of(learner: str) -> Mapping[str, Gains]:
    if learner not in GAINS:
        raise unknown("learner", learner, GAINS)
    return GAINS[learner]


def _mean(gains: Gains) -> float:
    return float(np.mean(list(gains.values())))
