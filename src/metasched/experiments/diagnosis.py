"""A diagnosis as text for a terminal, as a chart and as JSON."""

import math
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.table import Table

from metasched.dependence import OrderTest
from metasched.errors import ConfigError, RunError
from metasched.learners.diagnose import LARGEST_VARIATION, Diagnosis, Stationarity
from metasched.optional import require
from metasched.report.tables import p_value, terminal

SHADES = " ░▒▓█"
FORMATS = (".html", ".pdf", ".png", ".svg")


def answer(diagnosis: Diagnosis) -> str:
    """The answer in one sentence: which scheduler to use, and why."""
    return f"Use --scheduler {diagnosis.recommendation}: {diagnosis.reason}."


def order_table(diagnosis: Diagnosis) -> Table:
    """One row for each task: p-values and effect sizes."""
    headings = (
        "task",
        "p Holm",
        "p shuf.",
        "p asym.",
        "V",
        "V shuf.",
        "TV",
        "rep.",
        "rep. shuf.",
        "p drift",
        "p local",
    )
    rows = [
        [
            task.name,
            *(str(p_value(p)) for p in (corrected, order.p_value, order.asymptotic_p_value)),
            *map("{:.2f}".format, (order.cramers_v, order.expected_cramers_v, order.total_variation)),
            *map("{:.2f}".format, (order.stickiness, order.expected_stickiness)),
            *(str(p_value(p)) for p in (order.drift_p_value, order.local_p_value)),
        ]
        for task, order, corrected in zip(diagnosis.tasks.tasks, diagnosis.orders, diagnosis.p_values, strict=True)
    ]
    return terminal([heading.replace(" ", "\n") for heading in headings], rows)


ORDER_LEGEND = """\
  p Holm      p shuf., corrected over tasks: below 0.05, order is not random
  p shuf.     share of shuffles with a larger χ² of label and next label
  p asym.     the same by the χ² distribution, the paper's test
  V, V shuf.  Cramér's V, 0 for no dependence to 1; and after shuffling
  TV          mean distance between rows of the transition matrix, 0 to 1
  rep.        how often a label repeats, 0 to 1; and after shuffling
  p drift     whether frequencies differ between tenths of the file
  p local     p shuf. against shuffles within tenths: order beyond drift"""


def heat_map(order: OrderTest, classes: tuple[str, ...]) -> list[str]:
    """A transition matrix as shades, one line for each label: blank for 0, full for 1."""
    width = max(map(len, classes))
    return [
        f"{name:>{width}} " + "".join(SHADES[math.ceil(value * (len(SHADES) - 1) - 1e-9)] * 2 for value in row)
        for name, row in zip(classes, order.transitions, strict=True)
    ]


def heat_maps(diagnosis: Diagnosis, width: int) -> str:
    """The transition matrices of all tasks, as many side by side as fit into ``width`` columns."""
    blocks = []
    for task, order in zip(diagnosis.tasks.tasks, diagnosis.orders, strict=True):
        lines = [task.name, *heat_map(order, task.classes)]
        size = max(map(len, lines))
        blocks.append([line.ljust(size) for line in lines])
    rows: list[str] = []
    while blocks:
        taken = [blocks.pop(0)]
        while blocks and sum(len(block[0]) + 3 for block in taken) + len(blocks[0][0]) <= width:
            taken.append(blocks.pop(0))
        height = max(map(len, taken))
        padded = [block + [" " * len(block[0])] * (height - len(block)) for block in taken]
        rows += ["   ".join(line).rstrip() for line in zip(*padded, strict=True)] + [""]
    return "\n".join(rows).rstrip()


def stationarity_lines(result: Stationarity, tasks: tuple[str, ...]) -> list[str]:
    """How far √t·e(t) is from constant, and the exponent that fits best."""
    variation, exponent = _mean(result.variation), _mean(result.exponent)
    steps = result.errors.shape[1]
    lines = [f"Scaled reward 1 − √t·error over {steps} steps on each task (mean over classes):"]
    width = max(map(len, tasks))
    for name, row in zip(tasks, range(len(tasks)), strict=True):
        lines.append(
            f"  {name:{width}}  √t·error varies by {_mean(result.variation[row]):.0%}; "
            f"error goes like t^{-_mean(result.exponent[row]):.2f} (assumed −½)"
        )
    verdict = "about constant, as assumed" if variation <= LARGEST_VARIATION else "not constant: the reward drifts"
    return [*lines, f"  √t·error is {verdict} (variation {variation:.0%}, exponent {-exponent:.2f})"]


def association_line(diagnosis: Diagnosis) -> str:
    """Which pairs of tasks move together."""
    if diagnosis.association is None or diagnosis.association_p_values is None:
        return "Association between tasks: not tested, their labels mean different things"
    names = [task.name for task in diagnosis.tasks.tasks]
    p = diagnosis.association_p_values
    linked = [
        f"{names[j]} with {names[i]} (p {p_value(p[i, j])}, V {diagnosis.association.cramers_v[i, j]:.2f})"
        for i in range(len(names))
        for j in range(i)
        if p[i, j] < diagnosis.orders[0].alpha
    ]
    smallest = p[np.tril_indices(len(p), k=-1)].min()
    found = "; ".join(linked) if linked else f"none shown (smallest p {p_value(smallest)})"
    return f"Association between tasks at equal positions, corrected over pairs: {found}"


def diagnosis_json(diagnosis: Diagnosis) -> dict[str, Any]:
    """All results, for a program to read."""
    tasks = [
        {
            "name": task.name,
            "rows": order.rows,
            "p_value": order.p_value,
            "p_value_holm": float(corrected),
            "p_value_asymptotic": order.asymptotic_p_value,
            "statistic": order.statistic,
            "cramers_v": order.cramers_v,
            "cramers_v_shuffled": order.expected_cramers_v,
            "total_variation": order.total_variation,
            "stickiness": order.stickiness,
            "stickiness_shuffled": order.expected_stickiness,
            "stickiness_p_value": order.stickiness_p_value,
            "drift_p_value": order.drift_p_value,
            "local_p_value": order.local_p_value,
            "transition_counts": order.counts.tolist(),
            "verdict": order.verdict(float(corrected)),
        }
        for task, order, corrected in zip(diagnosis.tasks.tasks, diagnosis.orders, diagnosis.p_values, strict=True)
    ]
    result: dict[str, Any] = {
        "set": diagnosis.tasks.name,
        "simulated": diagnosis.tasks.simulated,
        "tasks": tasks,
        "recommendation": diagnosis.recommendation,
        "reason": diagnosis.reason,
    }
    if diagnosis.association is not None and diagnosis.association_p_values is not None:
        result["association"] = {
            "p_value": diagnosis.association.p_value.tolist(),
            "p_value_holm": diagnosis.association_p_values.tolist(),
            "cramers_v": diagnosis.association.cramers_v.tolist(),
        }
    if diagnosis.stationarity is not None:
        result["stationarity"] = {
            "variation": _listed(diagnosis.stationarity.variation),
            "exponent": _listed(diagnosis.stationarity.exponent),
            "steps": diagnosis.stationarity.errors.shape[1],
        }
    return result


def check_format(path: Path) -> None:
    """Refuse a file ending for which no chart can be written, before any long work."""
    if path.suffix.lower() not in FORMATS:
        raise ConfigError(f"{path}: cannot write a chart as '{path.suffix}'; end the name in {', '.join(FORMATS)}")
    require("altair", "report")
    require("vl_convert", "report")


def transition_chart(diagnosis: Diagnosis) -> Any:
    """Transition matrices of all tasks as heat maps, side by side."""
    altair = require("altair", "report")
    shades = altair.Scale(domain=[0, 1], range=["#ffffff", "#08519c"])
    panels = []
    for task, order in zip(diagnosis.tasks.tasks, diagnosis.orders, strict=True):
        matrix = order.transitions
        cells = [
            {"from": here, "to": there, "probability": round(float(matrix[i, j]), 4)}
            for i, here in enumerate(task.classes)
            for j, there in enumerate(task.classes)
        ]
        panels.append(
            altair.Chart(altair.InlineData(values=cells))
            .mark_rect()
            .encode(
                x=altair.X("to:N", title="next label", sort=list(task.classes)),
                y=altair.Y("from:N", title="label", sort=list(task.classes)),
                color=altair.Color("probability:Q", scale=shades, title="probability"),
                tooltip=["from:N", "to:N", "probability:Q"],
            )
            .properties(title=task.name, width=160, height=160)
        )
    kind = "simulated " if diagnosis.tasks.simulated else ""
    title = f"Label transitions, {kind}{diagnosis.tasks.name}"
    return altair.concat(*panels, columns=3).properties(title=title)


def save_chart(chart: Any, path: Path) -> None:
    """Write a chart in the format of the file ending."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        chart.save(str(path), **({"ppi": 144} if path.suffix == ".png" else {}))
    except OSError as error:
        raise RunError(f"{path}: cannot write ({error.strerror or error}); choose another --out") from None


def _mean(values: NDArray[np.float64]) -> float:
    known = values[~np.isnan(values)]
    return float(known.mean()) if known.size else math.nan


def _listed(values: NDArray[np.float64]) -> Any:
    """Nested lists with None for NaN, which JSON does not have."""
    return np.where(np.isnan(values), None, values).tolist()  # type: ignore[call-overload]
