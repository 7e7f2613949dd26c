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


def names() -> tuple[str, ...]:
    return tuple(_REGISTRY)


def needs_plan(name: str) -> bool:
    return name in ("gittins", "mdp")


def family(name: str) -> Any:
    return "static" if name in ("cyclic", "sequential", "uniform") else "control" if name == "single" else "active"


def make(
    name: str, *, num_tasks: int, plan: Any = None, passes: Any = None, abstain: bool = False, **options: Any
) -> Scheduler:
    if name not in _REGISTRY:
        raise unknown("scheduler", name, _REGISTRY)
    factory = _REGISTRY[name]
    _options.whole("num_tasks", num_tasks, least=1)
    taken = [key for key in signature(factory).parameters if key != "num_tasks"]
    accepted = [key for key in taken if key != "plan"]
    for key in options:
        if key not in accepted:
            raise unknown(f"option of scheduler '{name}'", key, accepted)
    known = {"plan": plan, "passes": passes if passes is None else list(passes) + [1] * abstain}
    offered = {key: value for key, value in known.items() if key in taken and value is not None}
    made = factory(num_tasks + abstain, **{**offered, **options})
    return with_abstain(made) if abstain else made
