"""From the word that a user gives for a scheduler to the scheduler.

The one place that knows ``auto``, ``target-only``, ``single:<task>``, ``useful`` and the schedulers' own names.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from inspect import signature
from typing import Any, NamedTuple, NoReturn

from metasched import schedulers
from metasched.errors import ConfigError, unknown
from metasched.learners import reference_results
from metasched.learners.config import TrainConfig
from metasched.planning.plan import Plan, make
from metasched.schedulers import Scheduler
from metasched.schedulers.base import Family
from metasched.tasks import TaskSet

TARGET_ONLY = "target-only"
BASELINE = "uniform"
"""The schedule that choosing is held against."""
SINGLE = "single:"
BEST_SINGLE = "oracle-best-single"
USEFUL = "useful"
AUTO = "auto"
PLAN_OPTIONS = ("discount", "stride", "smoothing", "rewards", "method")
"""Options of a planned scheduler that are meant for :func:`metasched.plan`."""


class Choice(NamedTuple):
    """A scheduler by name with its options, the settings that go with it, and why, where the choice was ours."""

    name: str
    options: dict[str, Any]
    config: TrainConfig
    reason: str | None = None


def methods() -> tuple[str, ...]:
    """What ``train`` takes by name, besides ``auto``: schedulers, and the control that draws nothing from sources.

    ``single:<task>``, ``oracle-best-single`` and ``useful``, the tasks known to be useful alone, are further controls.
    """
    return (*schedulers.names(), TARGET_ONLY)


def choose(word: str, options: Mapping[str, Any], tasks: TaskSet, config: TrainConfig, learner: str) -> Choice:
    """What a word stands for on these tasks and with this learner; settings are resolved.

    ``auto`` is the scheduler that did best with the learner in our results (``reference_results``).
    ``target-only`` in joint training abstains from every batch, and so takes as many steps as any other; Algorithm 1
    steps on the target once in an update whatever is drawn, and has no batches then.
    """
    if (word == BEST_SINGLE or word.startswith(SINGLE)) and options:
        raise ConfigError(f"scheduler '{word}' takes no options: leave out {', '.join(options)}")
    check_word(word)
    if word.startswith(SINGLE):
        return Choice(f"{SINGLE}{_index(tasks, word.removeprefix(SINGLE)) + 1}", {}, config.resolve(tasks))
    if word == USEFUL:
        return Choice(word, {"tasks": _useful(tasks, options)}, config.resolve(tasks))
    if word == "single" and set(options) <= {"task"}:
        return Choice(f"{SINGLE}{_index(tasks, options.get('task', 1)) + 1}", {}, config.resolve(tasks))
    if word == "uniform" and options.get("tasks") is not None:
        options = {**options, "tasks": _indices(tasks, options["tasks"])}
    if word == TARGET_ONLY:
        without = replace(config, abstain=True) if learner == "joint" else replace(config, batches_per_update=0)
        return Choice(word, dict(options), without.resolve(tasks))
    reason = None
    if word == AUTO:
        word, reason = reference_results.best(learner), reference_results.why(learner)
    resolved = config.resolve(tasks)
    _check(word, options, tasks, resolved)
    return Choice(word, dict(options), resolved, reason)


def check_word(word: str, besides: Sequence[str] = ()) -> None:
    """Refuse a word that stands for no scheduler on any tasks, and is none of those ``besides``."""
    known = (AUTO, *methods(), USEFUL, *besides)
    if word not in known and not word.startswith(SINGLE):
        raise unknown("scheduler", word, (*known, f"{SINGLE}1", BEST_SINGLE))


def _check(name: str, options: Mapping[str, Any], tasks: TaskSet, config: TrainConfig) -> None:
    """Refuse options that do not exist or do not fit, before anything is computed or written."""
    asked = plan_options(name, options)
    if not schedulers.needs_plan(name):
        own = signature(getattr(schedulers, name)).parameters
        strange = [key for key in options if key in PLAN_OPTIONS and key not in own]
        if strange:
            raise ConfigError(f"scheduler '{name}' makes no plan: leave out {', '.join(strange)}")
        build(name, options, tasks.sizes, config, None)
        return
    plan = make(tasks, _unmeasured, batch_size=config.batch_size, cursor=config.cursor, **asked)
    static = options.get("refresh") == 0 and not config.abstain  # a static plan measures rewards when it is built
    build(name, {**options, "refresh": 1} if static else options, tasks.sizes, config, plan)


def check_stored(name: str, options: Mapping[str, Any], tasks: TaskSet, config: TrainConfig) -> None:
    """Refuse a choice that was written down, unless :func:`choose` can have made it."""
    if planned(name):
        _check(name, options, tasks, config)
    else:
        build(name, options, tasks.sizes, config, None)


def _unmeasured() -> NoReturn:
    raise AssertionError("a check measures no rewards")


def plan_options(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Of a scheduler's options, those of its plan; none where it makes none."""
    return {key: value for key, value in options.items() if planned(name) and key in PLAN_OPTIONS}


def planned(name: str) -> bool:
    """Whether a choice of that name makes a plan; words that are no scheduler's own name do not."""
    return name in schedulers.names() and schedulers.needs_plan(name)


def build(
    name: str, options: Mapping[str, Any], sizes: Sequence[int], config: TrainConfig, plan: Plan | None
) -> Scheduler:
    """The scheduler of a choice, for tasks with so many rows; ``plan`` where it needs one."""
    if name == TARGET_ONLY:
        if options:
            raise ConfigError(f"scheduler '{name}' takes no options: leave out {', '.join(options)}")
        return schedulers.make("single", num_tasks=len(sizes), abstain=True, task=len(sizes))  # the arm without rows
    if name == USEFUL:
        name = "uniform"
    if name.startswith(SINGLE):
        name, options = "single", {"task": int(name.removeprefix(SINGLE)) - 1}
    asked = plan_options(name, options)
    own = {key: value for key, value in options.items() if key not in asked}
    made = {"name": name, "num_tasks": len(sizes), "plan": plan, "abstain": config.abstain and name != "single"}
    for key in own:
        if key in made:
            raise ConfigError(f"option {key} of scheduler '{name}' is not for you to give: leave it out")
    passes = [max(1, size // config.batch_size) for size in sizes]
    return schedulers.make(**{**made, "passes": passes, **own})


def family(name: str) -> Family:
    """Whether a schedule is static, active or a control."""
    return "control" if name in (TARGET_ONLY, USEFUL) or name.startswith(SINGLE) else schedulers.family(name)


def _useful(tasks: TaskSet, options: Mapping[str, Any]) -> list[int]:
    """Indices of the tasks that are known to be useful."""
    if options:
        raise ConfigError(f"scheduler '{USEFUL}' takes no options: leave out {', '.join(options)}")
    if not tasks.useful:
        raise ConfigError(f"{tasks.name}: no task is known to be useful; take another scheduler")
    return [index for index, task in enumerate(tasks.tasks) if task.name in tasks.useful]


def _index(tasks: TaskSet, given: Any) -> int:
    """The index of a task that a person names, by name or by number, counting from 1."""
    names = [task.name for task in tasks.tasks]
    if str(given) in names:
        return names.index(str(given))
    if (type(given) is int or str(given).isdecimal()) and 1 <= int(given) <= len(names):
        return int(given) - 1
    raise ConfigError(f"{unknown('task', given, names)}; or give a number from 1 to {len(names)}")


def _indices(tasks: TaskSet, given: Any) -> list[int]:
    """The indices of tasks that a person names, one or a list."""
    return [_index(tasks, each) for each in (given if isinstance(given, list | tuple) else [given])]
