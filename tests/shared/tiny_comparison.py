"""Comparisons that take seconds, and what tests ask of them."""

from dataclasses import replace

import msgspec

import metasched as ms
from helpers import make_tasks

LEARNER = ms.Joint(batch_size=4, batches_per_update=2, updates=2, eval_every=1)
NETWORK = ms.networks.mlp(3, (4,))


def compared(tasks=None, methods=("uniform",), **changes):
    """A comparison with the smallest settings, in this process."""
    asked = {"seeds": 2, "learner": LEARNER, "network": NETWORK, "references": False, "executor": "in-process"}
    return ms.compare(tasks or make_tasks(), methods, **{**asked, **changes})


def divided(labelled=12, rows=40, **options):
    """A task set whose target metasched divided as it was asked to: every seed draws its own labelled rows."""
    return replace(make_tasks(validation=labelled, test=rows - labelled, **options), split="asked")


def numbers(outcomes):
    """All that outcomes say but how long runs took and where they were made."""
    return [msgspec.structs.replace(one, origin=None, seconds=None, scheduling_seconds=None) for one in outcomes]
