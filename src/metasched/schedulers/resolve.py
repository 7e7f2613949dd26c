"""From the name that a user gives to the scheduler. Only this module knows these names.

A name is that of a scheduler (``metasched.schedulers.names``), or

- ``auto``: the scheduler that did best in our results;
- ``single:<source>``: one source alone, by its name or its number from 1;
- ``useful``: uniform draws from the sources that are known to be useful;
- ``target-only``: no source at all, the control that shows what the target's own rows achieve.

Resolving has two steps, because a run stores the result of the first. :func:`resolve` turns a name, options and the
names of the sources into a :class:`SchedulerSpec`, plain values that no longer depend on names. :func:`build` makes the
scheduler from it, once a plan exists where one is needed.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from inspect import signature
from typing import Any

from metasched import schedulers
from metasched.errors import ConfigError, nearest, unknown
from metasched.schedulers.base import Family, Scheduler
from metasched.schedulers.gittins import PlanLike

AUTO = "auto"
TARGET_ONLY = "target-only"
SINGLE = "single:"
BEST_SINGLE = "oracle-best-single"
"""Every source alone, and the best of them in hindsight. These are several runs, so it is not a scheduler; ``train``
handles it.
"""
USEFUL = "useful"
BASELINE = "uniform"
"""The schedule with which choosing is compared."""
BEST = "thompson"
"""What ``auto`` stands for by default: the best scheduler in our results with the joint learner."""
PLAN_OPTIONS = ("discount", "stride", "smoothing", "rewards", "method")
"""Options of a scheduler with a plan that belong to :func:`metasched.plan`."""


@dataclass(frozen=True)
class SchedulerSpec:
    """A scheduler as a run stores it.

    Attributes:
        name: a scheduler's name, ``target-only``, ``useful`` or ``single:<number from 1>``.
        options: those of the scheduler and of its plan; sources are indices from 0.
    """

    name: str
    options: dict[str, Any]


def methods() -> tuple[str, ...]:
    """The names that stand for a schedule on any sources: the schedulers' names and ``target-only``."""
    return (*schedulers.names(), TARGET_ONLY)


def check_word(word: str, besides: Sequence[str] = (), names: Sequence[str] = ()) -> None:
    """Refuse an unknown name, unless it is in ``besides``. The sources are called ``names``."""
    known = (AUTO, *methods(), USEFUL, *besides)
    if word not in known and not word.startswith(SINGLE):
        source = word.partition(":")[2]
        one = nearest(source, names) or source or next(iter(names), "1")
        raise unknown("scheduler", word, (*known, f"{SINGLE}{one}", BEST_SINGLE))


def resolve(
    word: str,
    options: Mapping[str, Any],
    names: Sequence[str],
    *,
    useful: Collection[str] | None = None,
    auto: str = BEST,
) -> SchedulerSpec:
    """Resolve a name for sources with these names. ``useful`` is None if nobody knows the useful ones.

    ``options`` are those of the scheduler and of its plan, as the user gave them.

    >>> resolve("single:books", {}, ["web", "books"])
    SchedulerSpec(name='single:2', options={})
    """
    fixed = word in (TARGET_ONLY, USEFUL, BEST_SINGLE) or word.startswith(SINGLE)
    if fixed and options:
        raise ConfigError(f"scheduler '{word}' takes no options: leave out {', '.join(options)}")
    check_word(word, names=names)
    if word.startswith(SINGLE):
        return SchedulerSpec(f"{SINGLE}{_index(names, word.removeprefix(SINGLE)) + 1}", {})
    if word == "single" and set(options) <= {"task"}:
        return SchedulerSpec(f"{SINGLE}{(_index(names, options['task']) if options else 0) + 1}", {})
    if word == USEFUL:
        if not useful:
            raise ConfigError("no task is known to be useful; take another scheduler")
        return SchedulerSpec(word, {"tasks": [index for index, name in enumerate(names) if name in useful]})
    name, resolved = auto if word == AUTO else word, dict(options)
    if name == "uniform" and options.get("tasks") is not None:
        given = options["tasks"]
        resolved["tasks"] = [_index(names, one) for one in (given if isinstance(given, list | tuple) else [given])]
    if name in schedulers.names() and not needs_plan(name):
        own = signature(getattr(schedulers, name)).parameters  # some have their own discount
        strange = [key for key in options if key in PLAN_OPTIONS and key not in own]
        if strange:
            raise ConfigError(f"scheduler '{name}' needs no plan: leave out {', '.join(strange)}")
    return SchedulerSpec(name, resolved)


def build(
    spec: SchedulerSpec,
    sizes: Sequence[int | None],
    *,
    batch_size: int,
    abstain: bool = False,
    plan: PlanLike | None = None,
) -> Scheduler:
    """Build the scheduler for sources with these numbers of rows, None for streams. ``plan`` is for schedulers that
    need one.

    Sizes and ``batch_size``, which is 1 if rows are chosen one by one, decide how long ``sequential`` stays with a
    source. ``abstain`` adds one more arm, no source; the controls never choose it, so they do not get one.
    """
    name, options = spec.name, spec.options
    if name == TARGET_ONLY:  # always the arm without rows
        return schedulers.make("single", num_tasks=len(sizes), abstain=True, **{**options, "task": len(sizes)})
    if name == USEFUL:
        name = "uniform"
    if name.startswith(SINGLE):
        name, options = "single", {**options, "task": int(name.removeprefix(SINGLE)) - 1}
    fixed = {"name": name, "num_tasks": len(sizes), "plan": plan, "abstain": abstain and name != "single"}
    asked = plan_options(name, options)
    own = {key: value for key, value in options.items() if key not in asked}
    for key in own:
        if key in fixed:
            raise ConfigError(f"option {key} of scheduler '{name}' is set by metasched; leave it out")
    known = None if None in sizes else sizes
    if name == "proportional" and known is None:
        raise ConfigError("'proportional' needs all sizes, and a stream has none; give 'uniform' with weights")
    passes = [max(1, (size or 1) // batch_size) for size in sizes]
    return schedulers.make(**{**fixed, "passes": passes, "sizes": known, **own})


def family(name: str) -> Family:
    """Whether a schedule is static, active or a control."""
    if name in (TARGET_ONLY, USEFUL) or name.startswith(SINGLE):
        return "control"
    return schedulers.family(BEST if name == AUTO else name)


def needs_plan(name: str) -> bool:
    """Whether a schedule is made from a plan. Only a scheduler with its own name can be."""
    return name in schedulers.names() and schedulers.needs_plan(name)


def plan_options(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a schedule that belong to its plan. None if it needs no plan."""
    return {key: value for key, value in options.items() if needs_plan(name) and key in PLAN_OPTIONS}


def _index(names: Sequence[str], given: Any) -> int:
    """The index of a source that a user gives by name or by number, counted from 1. Names come first."""
    if str(given) in names:
        return list(names).index(str(given))
    if (type(given) is int or str(given).isdecimal()) and 1 <= int(given) <= len(names):
        return int(given) - 1
    raise ConfigError(f"{unknown('task', given, names)}; or give a number from 1 to {len(names)}")
