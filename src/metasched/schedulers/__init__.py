"""Schedulers by name. A new one is one file and one line in ``_REGISTRY``."""

from collections.abc import Callable, Mapping
from inspect import signature
from typing import Any

from metasched.errors import unknown
from metasched.schedulers import options as _options
from metasched.schedulers.abstain import with_abstain
from metasched.schedulers.base import Scheduler, State
from metasched.schedulers.cyclic import cyclic
from metasched.schedulers.discounted_ucb import discounted_ucb
from metasched.schedulers.either import either
from metasched.schedulers.epsilon_greedy import epsilon_greedy
from metasched.schedulers.exp3 import exp3
from metasched.schedulers.gittins import gittins
from metasched.schedulers.learning_progress import learning_progress
from metasched.schedulers.mdp import mdp
from metasched.schedulers.sequential import sequential
from metasched.schedulers.single import single
from metasched.schedulers.sliding_ucb import sliding_ucb
from metasched.schedulers.softmax import softmax
from metasched.schedulers.thompson import thompson
from metasched.schedulers.ucb import ucb
from metasched.schedulers.uniform import uniform

__all__ = [
    "Scheduler",
    "State",
    "cyclic",
    "discounted_ucb",
    "either",
    "epsilon_greedy",
    "exp3",
    "gittins",
    "learning_progress",
    "make",
    "mdp",
    "names",
    "sequential",
    "single",
    "sliding_ucb",
    "softmax",
    "thompson",
    "ucb",
    "uniform",
    "with_abstain",
]

_REGISTRY: Mapping[str, Callable[..., Scheduler]] = {
    "cyclic": cyclic,
    "sequential": sequential,
    "uniform": uniform,
    "single": single,
    "ucb": ucb,
    "gittins": gittins,
    "mdp": mdp,
    "epsilon_greedy": epsilon_greedy,
    "thompson": thompson,
    "exp3": exp3,
    "discounted_ucb": discounted_ucb,
    "sliding_ucb": sliding_ucb,
    "learning_progress": learning_progress,
    "softmax": softmax,
}


PLANNED = ("gittins", "mdp")
"""Schedulers that need a plan; see :func:`metasched.plan`."""


def names() -> tuple[str, ...]:
    """The schedulers that :func:`make` knows."""
    return tuple(_REGISTRY)


def make(
    name: str,
    *,
    num_tasks: int,
    plan: Any = None,
    context: Mapping[str, Any] | None = None,
    **options: Any,
) -> Scheduler:
    """Build the scheduler called ``name`` for ``num_tasks`` tasks.

    ``options`` are the user's: they must exist, and each scheduler checks their types and ranges. ``context`` is what
    the caller knows of the tasks (``passes``: batches in one pass through each) and ``plan`` what was computed for
    them beforehand; a scheduler takes of these what its signature names.
    """
    if name not in _REGISTRY:
        raise unknown("scheduler", name, _REGISTRY)
    factory = _REGISTRY[name]
    _options.whole("num_tasks", num_tasks, least=1)
    taken = [key for key in signature(factory).parameters if key != "num_tasks"]
    accepted = [key for key in taken if key != "plan"]
    for key in options:
        if key not in accepted:
            raise unknown(f"option of scheduler '{name}'", key, accepted)
    known = {"plan": plan, **(context or {})}
    offered = {key: value for key, value in known.items() if key in taken and value is not None}
    return factory(num_tasks, **{**offered, **options})
