"""The figures and tables of the report: what each is called, and which cells stand behind it.

A function of ``report/`` makes each of them (``@makes(FIG3)``); to add one is one line here and that function.
"""

from collections.abc import Sequence
from typing import NamedTuple

from metasched.experiments import EXPERIMENTS
from metasched.experiments.base import REGIMES, Cell, Regime

PAPER_SETS = ("digits", "cifar", "weather")
EVERY_SET = tuple(EXPERIMENTS)
TYPICAL = ("30 labels", "B=20", "own heads", "U850", "joint, 30 labels")
"""The variants that speak for their experiment and regime, where one has to."""
HEADLINED = (*TYPICAL, "80% noisy")
"""The same among the headlines."""


class Output(NamedTuple):
    """A figure or table: its name, its title, and the experiments, regimes and variants whose results it needs.

    No regime: the evidence on their order alone. No variant: all.
    """

    name: str
    title: str
    experiments: tuple[str, ...]
    regimes: tuple[Regime, ...]
    variants: tuple[str, ...]

    def needs(self, experiment: str, regime: str, variant: str) -> bool:
        """Whether a cell stands behind it."""
        fits = experiment in self.experiments and regime in self.regimes
        return fits and (not self.variants or variant in self.variants)


OUTPUTS: dict[str, Output] = {}
"""All of them by name, in the order of the page."""


def _output(
    name: str,
    title: str,
    experiments: tuple[str, ...] = EVERY_SET,
    regimes: tuple[Regime, ...] = (),
    variants: tuple[str, ...] = (),
) -> Output:
    OUTPUTS[name] = Output(name, title, experiments, regimes, variants)
    return OUTPUTS[name]


SOURCES = _output(
    "sources", "Sources that differ", regimes=("sources",), variants=("Algorithm 1, 30 labels", "joint, 30 labels")
)
FEW_LABEL = _output("few-label", "Few target labels", regimes=("few-label",))
ROBUST = _output("robust", "Noisy and irrelevant sources", regimes=("robust",))
FIG2 = _output("fig2", "Figure 2: scaled validation error by class", ("digits",))
FIG3 = _output("fig3", "Figure 3: digits by batch size", ("digits",), ("paper",))
FIG4 = _output("fig4", "Figure 4: CIFAR-100", ("cifar",), ("paper",))
FIG5 = _output("fig5", "Figure 5: weather by test feature", ("weather",), ("paper",), ("U850", "V850"))
RUNS = _output("runs", "Runs of your own", ())
TIME = _output("time", "Accuracy against wall time", regimes=("few-label",))
SCHEDULES = _output("schedules", "Which task when", regimes=("few-label", "robust", "sources"))
PLANNED = _output("planned", "Planned contrasts", regimes=REGIMES)
TABLE1 = _output("table1", "Table 1: sample efficiency gain", PAPER_SETS, ("paper",))
TABLE2 = _output("table2", "Table 2: weather accuracy by test feature", ("weather",), ("paper",))
CIFAR_ACCURACY = _output("cifar-accuracy", "CIFAR-100: final accuracy", ("cifar",), ("paper",))
P_VALUES = _output("p-values", "Appendix: p-values of label order")
TRANSITION_MATRIX = _output("transition-matrix", "Appendix: transition matrices", ("weather", "weather-points"))
ROWS_USED = _output("rows-used", "Appendix: rows used by task and event", ("weather",), ("paper",))
EVENT_ACCURACY = _output("event-accuracy", "Appendix: accuracy by event type", ("weather",), ("paper",))
FEW_LABEL_SUMMARY = _output("few-label-summary", "Few target labels", regimes=("few-label",))
ROBUST_SUMMARY = _output("robust-summary", "Noisy and irrelevant sources", regimes=("few-label", "robust"))
CONTROLS = _output("controls", "Controls and ceiling", regimes=REGIMES)
ORDERINGS = _output("orderings", "Orderings that the paper claims", regimes=("paper",))
COST = _output("cost", "Cost of scheduling", regimes=("few-label",))
OVERALL = _output("overall", "Over all cells of a regime", regimes=REGIMES)
LEADERBOARD = _output("leaderboard", "Every method", regimes=REGIMES)


def wanted(only: Sequence[str], experiment: str, cells: Sequence[Cell]) -> tuple[bool, list[Cell]]:
    """Whether an experiment is needed at all for these figures and tables, and which of its cells; all for none."""
    needed = [OUTPUTS[name] for name in only or OUTPUTS if experiment in OUTPUTS[name].experiments]
    kept = [cell for cell in cells if any(output.needs(experiment, cell.regime, cell.variant) for output in needed)]
    return bool(needed), kept
