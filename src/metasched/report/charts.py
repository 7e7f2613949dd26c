"""Charts, through one specification for every format: Altair, and vl-convert for files without a browser."""

from pathlib import Path
from typing import Any

from metasched.errors import ConfigError, RunError
from metasched.learners.diagnose import Diagnosis
from metasched.optional import require

FORMATS = (".html", ".pdf", ".png", ".svg")


def check_format(path: Path) -> None:
    """Refuse an ending that no chart can be written to, before anything long starts."""
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
    """Write a chart in the format that the name ends in."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        chart.save(str(path), **({"ppi": 144} if path.suffix == ".png" else {}))
    except OSError as error:
        raise RunError(f"{path}: cannot write ({error.strerror or error}); choose another --out") from None
