"""The methods that every experiment compares: baselines, controls, the paper's schedulers, those from the literature
and ours.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from metasched.learners.settings import Batching
from metasched.runs.outcome import OURS
from metasched.runs.sweep import Method
from metasched.schedulers.resolve import SINGLE, TARGET_ONLY, USEFUL
from metasched.schedulers.thompson import FADE
from metasched.tasks import TaskSet

SUPERVISED = "supervised"
DISCOUNT = 0.9
"""γ of all plans, which is about ten batches of foresight."""
PAPER_UCB = {"upper": 2.0, "scale": "fixed"}
"""The paper's bound, U = 2, in units of the reward."""


def _method(
    name: str, role: str, scheduler: str, options: Mapping[str, Any] | None = None, reward: str = "scaled", **more: Any
) -> Method:
    """A method with the paper's reward, unless it has its own."""
    return Method(name, scheduler, options or {}, reward, role=role, **more)


def paper_methods(tasks: TaskSet, batching: Batching = "per_source") -> tuple[Method, ...]:
    """The methods of the paper's experiments, and others from the literature and from us, baselines first.

    All of them take every batch from one source, as in the paper.
    """
    del batching
    gain: dict[str, Any] = {"reward": "gain"}
    plan = {"discount": DISCOUNT}
    return (
        *_baselines(tasks),
        _method("ucb", "paper", "ucb", PAPER_UCB),
        _method("gittins", "paper", "gittins", {"refresh": 0, **plan}),
        _method("mdp", "paper", "mdp", {"refresh": 0, **plan}),
        _method("thompson-gain", "field", "thompson", {"forget": 1.0}, **gain),
        _method("discounted-ucb-gain", "field", "discounted_ucb", **gain),
        _method("ucb-gain", OURS, "ucb", {"upper": 0.5}, **gain),
        _method("gittins-refresh", OURS, "gittins", plan, **gain),
        _method("mdp-refresh", OURS, "mdp", plan, **gain),
        _method("ucb-gain+abstain", "ours, may abstain", "ucb", {"upper": 0.5}, abstain=True, **gain),
        _method("gittins-refresh+abstain", "ours, may abstain", "gittins", plan, abstain=True, **gain),
    )


def source_methods(tasks: TaskSet, batching: Batching = "mixed") -> tuple[Method, ...]:
    """The methods for sources that differ. Ours is named before any run, and compared with uniform."""
    return mixed_methods(tasks) if batching == "mixed" else per_source_methods(tasks)


def mixed_methods(tasks: TaskSet) -> tuple[Method, ...]:
    """Methods with mixed batches, followed by the methods with one source per batch."""
    reward: dict[str, Any] = {"reward": "adam_transfer"}
    apart = [method for method in per_source_methods(tasks) if method.family != "control" or method.name == USEFUL]
    return (
        _method("uniform", "rows drawn at random", "uniform"),
        _method("proportional", "rows drawn by size", "proportional"),
        *_alone(tasks),
        *_useful(tasks),
        _method("thompson", OURS, "thompson", **reward),
        _method("mirror", "proportions that follow rewards", "mirror", **reward),
        _method("mirror-plain", "without Adam's scaling", "mirror", reward="transfer"),
        *(
            replace(
                method,
                name=f"{PER_SOURCE}{method.name}",
                role=f"one source a batch: {method.role}",
                batching="per_source",
            )
            for method in apart
        ),
    )


PER_SOURCE = "per-source "
"""The names of methods with one source per batch begin like this among those that mix rows."""


def per_source_methods(tasks: TaskSet) -> tuple[Method, ...]:
    """Methods with one source per batch. Thompson sampling on transfer is ours."""
    transfer: dict[str, Any] = {"reward": "transfer"}
    plan = {"discount": DISCOUNT}
    return (
        *_baselines(tasks, {"order": "random"}),
        *_useful(tasks),
        _method("ucb", "paper", "ucb", PAPER_UCB),
        _method("gittins", "paper", "gittins", {"refresh": 0, **plan}),
        *([_method("mdp", "paper", "mdp", {"refresh": 0, **plan})] if _joint_states(tasks) <= MOST_STATES else []),
        _method("thompson-transfer", OURS, "thompson", {"forget": FADE}, **transfer),
        _method("ucb-transfer", "bounds on transfer", "ucb", {"upper": 1.0}, **transfer),
        _method("gittins-transfer", "labels, one index a task", "gittins", plan, **transfer),
        _method("mdp-transfer", "labels of all tasks", "mdp", plan, **transfer),
        _method("exp3-alignment", "FLAD", "exp3", reward="alignment"),
    )


MOST_STATES = 10**7
"""The largest joint problem for which the paper's MDP is solved."""


def _joint_states(tasks: TaskSet) -> float:
    return float(max(len(task.classes) for task in tasks.tasks)) ** len(tasks.tasks)


def _baselines(tasks: TaskSet, in_turn: Mapping[str, Any] | None = None) -> tuple[Method, ...]:
    return (
        _method("cyclic", "round robin over tasks", "cyclic"),
        _method("sequential", "task after task", "sequential", in_turn or {}),
        _method("uniform", "drawn at random", "uniform"),
        *_alone(tasks),
    )


def _alone(tasks: TaskSet) -> tuple[Method, ...]:
    """Only the target without any source, and every source alone."""
    singles = [f"{SINGLE}{task}" for task in range(1, len(tasks.tasks) + 1)]
    return (
        _method(TARGET_ONLY, "no source rows", TARGET_ONLY),
        *(_method(single, f"task {task} alone", single) for task, single in enumerate(singles, 1)),
    )


def _useful(tasks: TaskSet) -> tuple[Method, ...]:
    return (_method(USEFUL, "the useful sources alone", USEFUL),) if tasks.useful else ()
