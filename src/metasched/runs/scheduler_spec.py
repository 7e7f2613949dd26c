"""The scheduler of a run: its word resolved for a learner's settings, and checked before anything is computed."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, NoReturn

from metasched.learners import reference_results
from metasched.learners.config import TrainConfig
from metasched.planning.plan import Plan, make
from metasched.schedulers import Scheduler, resolve
from metasched.schedulers.resolve import AUTO, TARGET_ONLY, SchedulerSpec, needs_plan, plan_options
from metasched.tasks import TaskSet


class Choice(NamedTuple):
    """A scheduler by name with its options, the settings that go with it, and why, where the choice was ours."""

    name: str
    options: dict[str, Any]
    config: TrainConfig
    reason: str | None = None


def choose(word: str, options: Mapping[str, Any], tasks: TaskSet, config: TrainConfig, learner: str) -> Choice:
    """What a word stands for on these tasks and with this learner; settings are resolved.

    ``auto`` is the scheduler that did best with the learner in our results (``reference_results``).
    ``target-only`` in joint training abstains from every batch, and so takes as many steps as any other; Algorithm 1
    steps on the target once in an update whatever is drawn, and has no batches then.
    """
    auto, reason = (f(learner) if word == AUTO else None for f in (reference_results.best, reference_results.why))
    names = [task.name for task in tasks.tasks]
    spec = resolve.resolve(word, options, names, useful=tasks.useful, auto=auto or resolve.BEST)
    if spec.name == TARGET_ONLY:
        config = replace(config, abstain=True) if learner == "joint" else replace(config, batches_per_update=0)
    resolved = config.resolve(tasks)
    check_stored(spec.name, spec.options, tasks, resolved)
    return Choice(spec.name, spec.options, resolved, reason)


def check_stored(name: str, options: Mapping[str, Any], tasks: TaskSet, config: TrainConfig) -> None:
    """Refuse options that do not exist or do not fit, before anything is computed or written."""
    plan = None
    if needs_plan(name):
        asked = plan_options(name, options)
        plan = make(tasks, _unmeasured, batch_size=config.batch_size, cursor=config.cursor, **asked)
        if options.get("refresh") == 0 and not config.abstain:  # a static plan measures rewards when it is built
            options = {**options, "refresh": 1}
    build(name, options, tasks.sizes, config, plan)


def _unmeasured() -> NoReturn:
    raise AssertionError("a check measures no rewards")


def build(
    name: str, options: Mapping[str, Any], sizes: Sequence[int], config: TrainConfig, plan: Plan | None
) -> Scheduler:
    """The scheduler of a choice, for tasks with so many rows; ``plan`` where it needs one."""
    spec = SchedulerSpec(name, dict(options))
    return resolve.build(spec, sizes, batch_size=config.batch_size, abstain=config.abstain, plan=plan)
