"""The methods that every experiment compares: baselines, controls, the paper's schedulers, the field's and ours."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Family = Literal["static", "active", "control", "ceiling"]
TARGET_ONLY = "target-only"
SUPERVISED = "supervised"
DISCOUNT = 0.9
"""γ of every plan: about ten batches of foresight."""


@dataclass(frozen=True)
class Method:
    """A row of a comparison.

    ``scheduler`` and ``options`` go to ``ms.schedulers.make``; ``reward`` is what it is told after a batch; with
    ``abstain`` it has one more arm, which trains nothing. ``role`` says in a few words what it stands for; ``ours`` on
    one method alone names it before the runs, and reports hold it against ``uniform`` as planned.
    """

    name: str
    family: Family
    role: str
    scheduler: str
    options: Mapping[str, Any] = field(default_factory=dict)
    reward: Literal["scaled", "accuracy", "gain"] = "scaled"
    abstain: bool = False


def methods(num_tasks: int) -> tuple[Method, ...]:
    """All methods for N tasks, baselines first. ``single`` with task N draws nothing: that is target-only."""
    gain: dict[str, Any] = {"reward": "gain"}
    return (
        Method("cyclic", "static", "round robin over tasks", "cyclic"),
        Method("sequential", "static", "task after task", "sequential"),
        Method("uniform", "static", "drawn at random", "uniform"),
        Method(TARGET_ONLY, "control", "no source rows", "single", {"task": num_tasks}, abstain=True),
        *(
            Method(f"single:{number + 1}", "control", f"task {number + 1} alone", "single", {"task": number})
            for number in range(num_tasks)
        ),
        Method("ucb", "active", "paper", "ucb", {"scale": "fixed"}),
        Method("gittins", "active", "paper", "gittins", {"refresh": 0}),
        Method("mdp", "active", "paper", "mdp", {"refresh": 0}),
        Method("thompson-gain", "active", "field", "thompson", **gain),
        Method("discounted-ucb-gain", "active", "field", "discounted_ucb", **gain),
        Method("ucb-gain", "active", "ours", "ucb", {"upper": 0.5}, **gain),
        Method("gittins-refresh", "active", "ours", "gittins", **gain),
        Method("mdp-refresh", "active", "ours", "mdp", **gain),
        Method("ucb-gain+abstain", "active", "ours, may abstain", "ucb", {"upper": 0.5}, abstain=True, **gain),
        Method("gittins-refresh+abstain", "active", "ours, may abstain", "gittins", abstain=True, **gain),
    )
