"""Which experiments each figure and table of the report needs, and what the report must know about our experiments."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from metasched.experiments.catalogue import EXPERIMENTS
from metasched.experiments.definition import REGIMES, Cell, Regime
from metasched.experiments.evidence import FILE, read_evidence
from metasched.report import outputs
from metasched.report.cells import CellRuns, MethodRuns
from metasched.report.outputs import M, Output
from metasched.report.results import Results

EVERY_SET = tuple(EXPERIMENTS)
TYPICAL = ("30 labels", "B=20", "own heads", "U850", "joint, 30 labels")
"""The variants that represent their experiment and regime if there is room for only one."""
SPOILT = "Few labels and spoilt sources"
PAPER = "The paper's tables and figures"


class Needs(NamedTuple):
    """The experiments, regimes and variants whose results a figure or table needs.

    Without a regime it needs only the evidence on label order, without variants all of them.
    """

    experiments: tuple[str, ...] = EVERY_SET
    regimes: tuple[Regime, ...] = ()
    variants: tuple[str, ...] = ()

    def cell(self, experiment: str, regime: str, variant: str) -> bool:
        """Whether it needs this cell."""
        fits = experiment in self.experiments and regime in self.regimes
        return fits and (not self.variants or variant in self.variants)


class Entry(NamedTuple):
    """A method of a cell, as a row of a table."""

    cell: CellRuns
    method: MethodRuns


NEEDS: dict[str, Needs] = {
    "contrasts": Needs(regimes=REGIMES),
    "schedules": Needs(regimes=("few-label", "robust", "sources")),
    "planned": Needs(regimes=REGIMES),
    "summary": Needs(regimes=REGIMES),
    "leaderboard": Needs(regimes=REGIMES),
}
"""For each name of an output. Outputs of the report that are listed here also show experiments; :func:`makes` adds
ours.
"""


def makes(
    name: str, title: str, section: str, needs: Needs, *, after: str = "", curves: bool = False
) -> Callable[[M], M]:
    """Register a figure or table of experiments, as ``report.outputs.makes``, with the results that it needs."""
    NEEDS[name] = needs
    return outputs.makes(name, title, section, after=after, curves=curves)


def behind(output: Output, results: Results) -> list[CellRuns]:
    """The cells that a figure or table shows."""
    needs = NEEDS[output.name]
    return [cell for cell in results.cells if needs.cell(cell.experiment, cell.regime, cell.variant)]


def wanted(only: Sequence[str], experiment: str, cells: Sequence[Cell]) -> tuple[bool, list[Cell]]:
    """Whether an experiment is needed for these figures and tables (all if none are named), and which of its cells."""
    outputs.outputs()
    needed = [needs for name, needs in NEEDS.items() if name in (only or NEEDS) and experiment in needs.experiments]
    behind = [cell for cell in cells if any(needs.cell(experiment, cell.regime, cell.variant) for needs in needed)]
    return bool(behind) or any(not needs.regimes for needs in needed), behind


def register() -> None:
    """Tell the report about our experiments. Figures and tables register when their modules are imported."""
    from metasched.experiments import paper_figures, paper_tables, tables  # noqa: F401

    outputs.EXPERIMENTS.names += EVERY_SET
    outputs.EXPERIMENTS.regimes += REGIMES
    outputs.EXPERIMENTS.typical |= set(TYPICAL)
    outputs.EXPERIMENTS.every_schedule.add("robust")
    outputs.READERS[FILE] = read_evidence
    outputs.NOTES["summary"] = tables.supervised_claim
