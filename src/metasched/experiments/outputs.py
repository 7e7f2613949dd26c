"""Which cells stand behind each figure and table of the report."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from metasched.experiments.base import REGIMES, Cell, Regime

PAPER_SETS = ("digits", "cifar", "weather")
EVERY_SET = (*PAPER_SETS, "weather-points")


class Needs(NamedTuple):
    """Experiments and regimes whose results a figure or table shows; no regime: the evidence on their order alone."""

    experiments: tuple[str, ...]
    regimes: tuple[Regime, ...]


OUTPUTS: Mapping[str, Needs] = {
    "few-label": Needs(EVERY_SET, ("few-label",)),
    "robust": Needs(EVERY_SET, ("few-label", "robust")),
    "fig2": Needs(("digits",), ()),
    "fig3": Needs(("digits",), ("paper",)),
    "fig4": Needs(("cifar",), ("paper",)),
    "fig5": Needs(("weather",), ("paper",)),
    "runs": Needs((), ()),
    "time": Needs(EVERY_SET, ("few-label",)),
    "schedules": Needs(EVERY_SET, ("few-label", "robust")),
    "table1": Needs(PAPER_SETS, ("paper",)),
    "table2": Needs(("weather",), ("paper",)),
    "cifar-accuracy": Needs(("cifar",), ("paper",)),
    "p-values": Needs(EVERY_SET, ()),
    "transition-matrix": Needs(EVERY_SET, ()),
    "rows-used": Needs(("weather",), ("paper",)),
    "event-accuracy": Needs(("weather",), ("paper",)),
    "few-label-summary": Needs(EVERY_SET, ("few-label",)),
    "robust-summary": Needs(EVERY_SET, ("few-label", "robust")),
    "controls": Needs(EVERY_SET, REGIMES),
    "orderings": Needs(EVERY_SET, ("paper",)),
    "cost": Needs(EVERY_SET, ("few-label",)),
    "overall": Needs(EVERY_SET, REGIMES),
    "leaderboard": Needs(EVERY_SET, REGIMES),
}


def wanted(only: Sequence[str], experiment: str, cells: Sequence[Cell]) -> tuple[bool, list[Cell]]:
    """Whether an experiment is needed at all for these figures and tables, and which of its cells; all for none."""
    needs = [OUTPUTS[name] for name in only or OUTPUTS if experiment in OUTPUTS[name].experiments]
    regimes = {regime for need in needs for regime in need.regimes}
    return bool(needs), [cell for cell in cells if cell.regime in regimes]
