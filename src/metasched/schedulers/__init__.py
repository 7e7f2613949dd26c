"""Schedulers by name. A new scheduler is one file and a line in ``_SCHEDULERS`` under the name of its function."""

from collections.abc import Callable, Mapping, Sequence
from inspect import signature
from typing import Any

import numpy as np

from metasched.errors import flag, unknown, whole_number
from metasched.schedulers.base import Family, Scheduler, State, key_of_draw
from metasched.schedulers.combine import switch, with_abstain
from metasched.schedulers.cyclic import cyclic
from metasched.schedulers.discounted_ucb import discounted_ucb
from metasched.schedulers.epsilon_greedy import epsilon_greedy
from metasched.schedulers.exp3 import exp3
from metasched.schedulers.gittins import PlanLike, gittins
from metasched.schedulers.learning_progress import learning_progress
from metasched.schedulers.mdp import mdp
from metasched.schedulers.mirror import mirror
from metasched.schedulers.proportional import proportional
from metasched.schedulers.sequential import sequential
from metasched.schedulers.single import single
from metasched.schedulers.sliding_ucb import sliding_ucb
from metasched.schedulers.softmax import softmax
from metasched.schedulers.thompson import thompson
from metasched.schedulers.ucb import ucb
from metasched.schedulers.uniform import uniform

_SCHEDULERS: tuple[Callable[..., Scheduler], ...] = (
    cyclic,
    sequential,
    uniform,
    proportional,
    single,
    ucb,
    gittins,
    mdp,
    epsilon_greedy,
    thompson,
    mirror,
    exp3,
    discounted_ucb,
    sliding_ucb,
    learning_progress,
    softmax,
)
_REGISTRY: Mapping[str, Callable[..., Scheduler]] = {scheduler.__name__: scheduler for scheduler in _SCHEDULERS}

__all__ = [
    "Family",
    "PlanLike",
    "Scheduler",
    "State",
    "cyclic",
    "discounted_ucb",
    "epsilon_greedy",
    "exp3",
    "family",
    "gittins",
    "key_of_draw",
    "learning_progress",
    "make",
    "mdp",
    "mirror",
    "names",
    "needs_plan",
    "proportional",
    "sequential",
    "single",
    "sliding_ucb",
    "softmax",
    "switch",
    "thompson",
    "ucb",
    "uniform",
    "with_abstain",
]


def names() -> tuple[str, ...]:
    """List the names of all schedulers.

    Returns:
        Their names.

    Examples:
        >>> {"ucb", "gittins", "mdp", "thompson"} <= set(ms.schedulers.names())
        True
    """
    return tuple(_REGISTRY)


def needs_plan(name: str) -> bool:
    """Tell whether a scheduler needs a plan; see :func:`metasched.plan`.

    Args:
        name: one of :func:`names`.

    Returns:
        Whether it does.

    Examples:
        >>> [name for name in ms.schedulers.names() if ms.schedulers.needs_plan(name)]
        ['gittins', 'mdp']
    """
    return "plan" in signature(_factory(name)).parameters


def family(name: str) -> Family:
    """Tell the kind of a scheduler.

    Args:
        name: one of :func:`names`.

    Returns:
        ``"static"``, ``"active"`` or ``"control"``.

    Examples:
        >>> ms.schedulers.family("uniform"), ms.schedulers.family("thompson")
        ('static', 'active')
    """
    return "active" if needs_plan(name) else make(name, num_tasks=1).family


def make(
    name: str,
    *,
    num_tasks: int,
    plan: PlanLike | None = None,
    passes: Sequence[int] | None = None,
    sizes: Sequence[int] | None = None,
    abstain: bool = False,
    **options: Any,
) -> Scheduler:
    """Build the scheduler called ``name`` for N tasks.

    Args:
        name: one of :func:`names`.
        num_tasks: N.
        plan: the plan for the tasks, for schedulers that need one.
        passes: the batches in one pass through each task, for schedulers that use them.
        sizes: the rows of each task, for schedulers that use them.
        abstain: whether the scheduler has one more arm, N, which means no source this time (:func:`with_abstain`).
        **options: options of the scheduler. It checks their names, types and ranges.

    Returns:
        The scheduler.

    Examples:
        >>> ms.schedulers.make("ucb", num_tasks=12, upper=0.5).family
        'active'
    """
    factory = _factory(name)
    arms = whole_number("num_tasks", num_tasks, least=1) + flag("abstain", abstain)
    accepted = [key for key in signature(factory).parameters if key not in ("num_tasks", "plan")]
    for key in options:
        if key not in accepted:
            raise unknown("option", key, accepted, of=f"scheduler '{name}'")
    if plan is not None and needs_plan(name):
        options["plan"] = plan
    if passes is not None and "passes" in accepted:
        options["passes"] = np.append(passes, 1) if abstain else passes
    if sizes is not None and "sizes" in accepted:
        options["sizes"] = np.append(sizes, 0) if abstain else sizes
    scheduler = factory(arms, **options)
    return with_abstain(scheduler) if abstain else scheduler


def _factory(name: str) -> Callable[..., Scheduler]:
    if name not in _REGISTRY:
        raise unknown("scheduler", name, _REGISTRY)
    return _REGISTRY[name]
