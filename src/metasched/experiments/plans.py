"""Plans as text for a terminal and as JSON."""

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from rich.table import Table

from metasched.planning.plan import Plan
from metasched.report.tables import NOTHING, terminal

Policy = Literal["gittins", "mdp"]


def index_tables(plan: Plan) -> list[Table | str]:
    """Reward and Gittins index of every label of every task; one table when labels are shared, else one for each."""
    if plan.tasks.shared_labels:
        rewards, indices = label_table(plan, plan.probe.accuracy), label_table(plan, plan.indices)
        return ["Reward", rewards, "", "Gittins index", indices, ""]
    tables: list[Table | str] = []
    for number, task in enumerate(plan.tasks.tasks):
        values = zip(plan.probe.accuracy[number], plan.indices[number], plan.probe.present[number], strict=True)
        pairs = zip(task.classes, values, strict=False)
        rows = [[name, _number(reward, known), _number(index, known)] for name, (reward, index, known) in pairs]
        tables += [terminal([task.name, "reward", "index"], rows), ""]
    return tables


LEGEND = """\
  reward      validation accuracy (0 to 1) after fitting the first row of the
              label from the initial model
  index       Gittins index: the best rate of reward that drawing on the task
              from this label can earn; the policy gittins takes the largest
  mdp         the policy that solves the problem of all tasks together
  –           the label never occurs"""


def label_table(plan: Plan, values: NDArray[np.float64]) -> Table:
    """One row for each label and one column for each task; labels that never occur are dashes."""
    columns = zip(plan.tasks.classes, values.T, plan.probe.present.T, strict=False)
    rows = [[name, *map(_number, column, present)] for name, column, present in columns]
    return terminal(["label", *(task.name for task in plan.tasks.tasks)], rows)


def answer(plan: Plan, drawn: Mapping[Policy, NDArray[np.int64]]) -> str:
    """A sentence about where the policies would draw most. ``drawn`` has rows (N, C) by policy."""
    favourites = {}
    for name, rows in drawn.items():
        by_task = rows.sum(axis=1)
        share = by_task.max() / max(1, by_task.sum())
        favourites[name] = f"{plan.tasks.tasks[int(by_task.argmax())].name} ({share:.0%} of its rows)"
    first, second = (f"{name} would draw most on {favourite}" for name, favourite in favourites.items())
    return f"From the initial model, {first}, and {second}."


def policy_line(plan: Plan) -> str:
    """How the joint problem was solved, and how well."""
    policy = plan.policy
    kind = "coupled rewards mean_j A[i, s_i, s_j]" if plan.coupled else "separable rewards r[i, s_i]"
    line = f"Joint problem with {kind}: method {policy.method}, because {policy.reason}."
    if policy.residual is not None:
        line += f" Residual {policy.residual:.1e} after {policy.iterations} sweeps."
    return line


def plan_json(plan: Plan, batches: int, drawn: Mapping[Policy, NDArray[np.int64]]) -> dict[str, Any]:
    """All results, for a program to read. null marks a label that never occurs."""
    absent = ~plan.probe.present
    return {
        "set": plan.tasks.name,
        "simulated": plan.tasks.simulated,
        "tasks": [task.name for task in plan.tasks.tasks],
        "classes": [list(task.classes) for task in plan.tasks.tasks],
        "discount": plan.discount,
        "batch_size": plan.batch_size,
        "rewards": _listed(plan.probe.accuracy, absent),
        "rewards_by_class": plan.probe.by_class.tolist(),
        "transitions": plan.transitions.tolist(),
        "gittins_indices": _listed(plan.indices, absent),
        "joint": {
            "coupled": plan.coupled,
            "method": plan.policy.method,
            "reason": plan.policy.reason,
            "residual": plan.policy.residual,
            "iterations": plan.policy.iterations,
        },
        "batches": batches,
        "rows_drawn": {name: rows.tolist() for name, rows in drawn.items()},
    }


def _number(value: float, present: bool) -> str:
    return f"{value:.4f}" if present else NOTHING


def _listed(values: NDArray[np.float64], absent: NDArray[np.bool_]) -> list[list[float | None]]:
    return np.where(absent, None, values).tolist()  # type: ignore[call-overload, no-any-return]
