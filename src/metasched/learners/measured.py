"""What our own results say of the schedulers on reward ``transfer``: who ended how far above ``uniform``.

The numbers are those of ``results/``: ``make results`` writes ``measured.json``, and a test holds it to them.
"""

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from metasched.errors import unknown

Gains = Mapping[str, float]
"""By task set: final accuracy less that of ``uniform``, mean over ten seeds with 30 target labels each."""
GAINS: Mapping[str, Mapping[str, Gains]] = json.loads(Path(__file__).with_name("measured.json").read_text())
"""By learner and scheduler."""
LEARNER_NAMES = {"joint": "the joint learner", "meta": "Algorithm 1"}
ORDERED = "activity"
"""The task set whose rows have the order that ``gittins`` and ``mdp`` are made for."""
KNOW_ORDER = ("gittins", "mdp")


def best(learner: str) -> str:
    """The scheduler that ended highest above ``uniform``, mean over task sets; of those that were run on all of them.

    >>> best("joint")
    'thompson'
    """
    found = _of(learner)
    sets = {name for gains in found.values() for name in gains}
    return max((name for name, gains in found.items() if gains.keys() == sets), key=lambda name: _mean(found[name]))


def why(learner: str) -> str:
    """The numbers behind :func:`best`, in a sentence without its stop."""
    name = best(learner)
    gains = _of(learner)[name]
    least, most = (pick(gains, key=lambda each: gains[each]) for pick in (min, max))
    return (
        f"with {LEARNER_NAMES[learner]} {name} on transfer ended {_mean(gains):.3f} above uniform, mean of "
        f"{len(gains)} task sets ({gains[least]:+.3f} on {least}, {gains[most]:+.3f} on {most})"
    )


def with_order(learner: str) -> tuple[str, str]:
    """What to take where labels have an order, and why: a scheduler that knows it only if that has paid."""
    gains = {name: found[ORDERED] for name, found in _of(learner).items() if ORDERED in found}
    knows = max(KNOW_ORDER, key=lambda name: gains[name])
    blind = max((name for name in gains if name not in KNOW_ORDER), key=lambda name: gains[name])
    paid = gains[knows] > gains[blind]
    told = (
        f"knowing the order has {'' if paid else 'not '}paid (on {ORDERED}, against uniform: {knows} "
        f"{gains[knows]:+.3f}, {blind}, which does not look at labels, {gains[blind]:+.3f})"
    )
    return (knows, told) if paid else (best(learner), f"{told}, and {why(learner)}")


def _of(learner: str) -> Mapping[str, Gains]:
    if learner not in GAINS:
        raise unknown("learner", learner, GAINS)
    return GAINS[learner]


def _mean(gains: Gains) -> float:
    return float(np.mean(list(gains.values())))
