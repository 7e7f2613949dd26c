"""The methods that every experiment compares: baselines, controls, the paper's schedulers, the field's and ours."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from metasched.runs.choices import SINGLE, TARGET_ONLY, family
from metasched.schedulers.base import Family

SUPERVISED = "supervised"
DISCOUNT = 0.9
"""γ of every plan: about ten batches of foresight."""


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


def methods(num_tasks: int) -> tuple[Method, ...]:
    """All methods for N tasks, baselines first."""
    gain: dict[str, Any] = {"reward": "gain"}
    plan = {"discount": DISCOUNT}
    return (
        Method("cyclic", "round robin over tasks", "cyclic"),
        Method("sequential", "task after task", "sequential"),
        Method("uniform", "drawn at random", "uniform"),
        Method(TARGET_ONLY, "no source rows", TARGET_ONLY),
        *(Method(f"{SINGLE}{task}", f"task {task} alone", f"{SINGLE}{task}") for task in range(1, num_tasks + 1)),
        Method("ucb", "paper", "ucb", {"scale": "fixed"}),
        Method("gittins", "paper", "gittins", {"refresh": 0, **plan}),
        Method("mdp", "paper", "mdp", {"refresh": 0, **plan}),
        Method("thompson-gain", "field", "thompson", **gain),
        Method("discounted-ucb-gain", "field", "discounted_ucb", **gain),
        Method("ucb-gain", "ours", "ucb", {"upper": 0.5}, **gain),
        Method("gittins-refresh", "ours", "gittins", plan, **gain),
        Method("mdp-refresh", "ours", "mdp", plan, **gain),
        Method("ucb-gain+abstain", "ours, may abstain", "ucb", {"upper": 0.5}, abstain=True, **gain),
        Method("gittins-refresh+abstain", "ours, may abstain", "gittins", plan, abstain=True, **gain),
    )
