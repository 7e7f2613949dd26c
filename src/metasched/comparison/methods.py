"""Which methods are compared: the default ones, those that the user names, and the controls that a verdict needs."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from metasched.errors import ConfigError
from metasched.learners import rewards
from metasched.runs.outcome import OURS
from metasched.runs.sweep import SINGLE_BEST, Method
from metasched.schedulers import Scheduler
from metasched.schedulers.resolve import BASELINE, BEST_SINGLE, TARGET_ONLY, check_word

CHOOSING = "thompson"
"""The method that the verdict is about, unless another method has the role ``ours``."""
CONTROLS = (BASELINE, TARGET_ONLY)
"""The methods that it is compared with."""
DEFAULT = (CHOOSING, BASELINE, TARGET_ONLY)
RUNS = "runs"
_NAME = re.compile(r"\w[\w .:+-]*")


def methods_of(
    given: Sequence[str | Method] | None, reward: str = rewards.DEFAULT, abstain: bool = False
) -> list[Method]:
    """Make methods from names and objects, with the controls that a verdict needs. One of them has the role ``ours``.

    A name becomes a method of that name, with the given reward and ``abstain``. A method without a reward also gets the
    given one.
    """
    if isinstance(given, str | Method) or not isinstance(given, Iterable | None):
        raise ConfigError(f"methods is {given!r}; give a list of names and ms.Method(name, scheduler, …)")
    asked: list[str | Method] = list(DEFAULT if given is None else given)
    for one in asked:
        if not isinstance(one, str | Method):
            raise ConfigError(f"a method is {one!r}; give the name of a scheduler, or ms.Method(name, scheduler, …)")
    if not asked:
        raise ConfigError("methods is empty; give at least one")
    asked += [word for word in CONTROLS if word not in {getattr(one, "name", one) for one in asked}]
    found = [Method(one, one, abstain=abstain) if isinstance(one, str) else one for one in asked]
    found = [replace(method, reward=method.reward or reward) for method in found]
    for method in found:
        _check_method(method)
    folders = [runs_of(Path(), method).name.lower() for method in found]
    for number, name in enumerate(folders):
        if name in folders[:number]:
            raise ConfigError(f"two methods are called '{found[number].name}'; give each its own name")
    if sum(method.scheduler == SINGLE_BEST for method in found) > 1:
        raise ConfigError(f"{SINGLE_BEST} is asked for twice; give it once")
    named = [method for method in found if method.role == OURS]
    if len(named) > 1:
        raise ConfigError(f"{named[0].name} and {named[1].name} both have the role '{OURS}'; give it to one")
    others = [method for method in found if method.name not in CONTROLS]
    first = [*named, *(method for method in others if method.name == CHOOSING), *others]
    return [replace(method, role=OURS) if first and method is first[0] else method for method in found]


def _check_method(method: Method) -> None:
    if isinstance(method.scheduler, str):
        check_word(method.scheduler, besides=(SINGLE_BEST, BEST_SINGLE))
        if method.scheduler == BEST_SINGLE:
            raise ConfigError(
                f"{BEST_SINGLE} is chosen by its test score; use {SINGLE_BEST}, which is chosen on the labelled rows"
            )
    elif not isinstance(method.scheduler, Scheduler):
        raise ConfigError(f"the scheduler of '{method.name}' is {method.scheduler!r}; give a name or a Scheduler")
    if not _NAME.fullmatch(str(method.name)):
        raise ConfigError(f"a method is called {method.name!r}; use letters, digits, spaces and - _ . : +")
    if method.name in CONTROLS and (method.scheduler != method.name or method.options):
        raise ConfigError(f"'{method.name}' is the name of a control; call your method something else")


def subject(methods: Sequence[Method]) -> Method:
    """The method that the verdict is about: ours, or the baseline if there are only controls."""
    ours = [method for method in methods if method.role == OURS]
    return next(iter(ours), None) or next(method for method in methods if method.name == BASELINE)


def chooses(method: Method) -> bool:
    """Whether the method learns which sources to draw from."""
    return method.family == "active"


def runs_of(out: Path, method: Method) -> Path:
    """The folder of the final runs of a method, inside the folder of a comparison."""
    return out / RUNS / re.sub(r"[: ]", "-", method.name)


def plain(method: Method) -> dict[str, Any]:
    """A method as JSON. Its role affects no number."""
    scheduler = method.scheduler if isinstance(method.scheduler, str) else "own"
    options = msgspec.to_builtins(dict(method.options))
    plain = {"scheduler": scheduler, "options": options, "reward": method.reward, "abstain": method.abstain}
    return plain if method.batching is None else {**plain, "batching": method.batching}
