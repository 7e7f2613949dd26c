"""The methods that every experiment compares: baselines, controls, the paper's schedulers, the field's and ours."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from metasched.runs.outcome import OURS
from metasched.schedulers.base import Family
from metasched.schedulers.resolve import SINGLE, TARGET_ONLY, USEFUL, family
from metasched.schedulers.thompson import FADE
from metasched.tasks import TaskSet

SUPERVISED = "supervised"
DISCOUNT = 0.9
"""γ of every plan: about ten batches of foresight."""
PAPER_UCB = {"upper": 2.0, "scale": "fixed"}
"""The paper's bound, U = 2, in units of the reward."""


@dataclass(frozen=True)
class Method:
    """A row of a comparison.

    ``scheduler`` and ``options`` are those of ``ms.train``; ``reward`` is what it is told after a batch; with
    ``abstain`` it has one more arm, which trains nothing. ``role`` says in a few words what it stands for; ``ours`` on
    one method alone names it before the runs, and reports hold it against ``uniform`` as planned.
    """

    name: str
    role: str
    scheduler: str
    options: Mapping[str, Any] = field(default_factory=dict)
    reward: str = "scaled"
    abstain: bool = False

    @property
    def family(self) -> Family:
        """Static, active or a control: its scheduler says."""
        return family(self.scheduler)


def paper_methods(tasks: TaskSet, learner: str = "meta") -> tuple[Method, ...]:
    """The methods of the paper's experiments and what the field and we had beside them, baselines first."""
    del learner
    gain: dict[str, Any] = {"reward": "gain"}
    plan = {"discount": DISCOUNT}
    return (
        *_baselines(tasks),
        Method("ucb", "paper", "ucb", PAPER_UCB),
        Method("gittins", "paper", "gittins", {"refresh": 0, **plan}),
        Method("mdp", "paper", "mdp", {"refresh": 0, **plan}),
        Method("thompson-gain", "field", "thompson", {"forget": 1.0}, **gain),
        Method("discounted-ucb-gain", "field", "discounted_ucb", **gain),
        Method("ucb-gain", OURS, "ucb", {"upper": 0.5}, **gain),
        Method("gittins-refresh", OURS, "gittins", plan, **gain),
        Method("mdp-refresh", OURS, "mdp", plan, **gain),
        Method("ucb-gain+abstain", "ours, may abstain", "ucb", {"upper": 0.5}, abstain=True, **gain),
        Method("gittins-refresh+abstain", "ours, may abstain", "gittins", plan, abstain=True, **gain),
    )


def source_methods(tasks: TaskSet, learner: str) -> tuple[Method, ...]:
    """Where sources differ: Thompson sampling on transfer is ours, named before any run, against uniform."""
    del learner
    transfer: dict[str, Any] = {"reward": "transfer"}
    plan = {"discount": DISCOUNT}
    return (
        *_baselines(tasks, {"order": "random"}),
        *([Method(USEFUL, "the useful sources alone", USEFUL)] if tasks.useful else []),
        Method("ucb", "paper", "ucb", PAPER_UCB),
        Method("gittins", "paper", "gittins", {"refresh": 0, **plan}),
        *([Method("mdp", "paper", "mdp", {"refresh": 0, **plan})] if _joint_states(tasks) <= MOST_STATES else []),
        Method("thompson-transfer", OURS, "thompson", {"forget": FADE}, **transfer),
        Method("ucb-transfer", "bounds on transfer", "ucb", {"upper": 1.0}, **transfer),
        Method("gittins-transfer", "labels, one index a task", "gittins", plan, **transfer),
        Method("mdp-transfer", "labels of all tasks", "mdp", plan, **transfer),
        Method("exp3-alignment", "FLAD", "exp3", reward="alignment"),
    )


MOST_STATES = 10**7
"""Largest joint problem that the paper's MDP is solved for."""


def _joint_states(tasks: TaskSet) -> float:
    return float(max(len(task.classes) for task in tasks.tasks)) ** len(tasks.tasks)


def _baselines(tasks: TaskSet, in_turn: Mapping[str, Any] | None = None) -> tuple[Method, ...]:
    return (
        Method("cyclic", "round robin over tasks", "cyclic"),
        Method("sequential", "task after task", "sequential", in_turn or {}),
        Method("uniform", "drawn at random", "uniform"),
        Method(TARGET_ONLY, "no source rows", TARGET_ONLY),
        *(
            Method(f"{SINGLE}{task}", f"task {task} alone", f"{SINGLE}{task}")
            for task in range(1, len(tasks.tasks) + 1)
        ),
    )
