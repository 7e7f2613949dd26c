"""The figures and tables of the report: what each is called, and which cells stand behind it.

A function of ``report/`` makes each of them (``@makes(FIG3)``); to add one is one line here and that function.
"""

from collections.abc import Sequence
from typing import NamedTuple

from metasched.experiments import EXPERIMENTS
from metasched.experiments.definition import REGIMES, Cell, Regime

PAPER_SETS = ("digits", "cifar", "weather")
EVERY_SET = tuple(EXPERIMENTS)
TYPICAL = ("30 labels", "B=20", "own heads", "U850", "joint, 30 labels")
"""The variants that speak for their experiment and regime, where one has to."""
FIRST = "Curves and schedules"
"""What the page opens with; everything else is folded, by section."""
COMPARISONS = "Every comparison in numbers"
SPOILT = "Few labels and spoilt sources"
PAPER = "The paper's tables and figures"
SECTIONS = (FIRST, COMPARISONS, SPOILT, PAPER)
OF_OWN_RUNS = (FIRST, COMPARISONS)
"""The sections that speak of any runs, not of experiments."""


class Output(NamedTuple):
    """A figure or table: its name, title and section, and the experiments, regimes and variants whose results it needs.

    No regime: the evidence on their order alone. No variant: all.
    """

    name: str
    title: str
    section: str
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
    section: str,
    experiments: tuple[str, ...] = EVERY_SET,
    regimes: tuple[Regime, ...] = (),
    variants: tuple[str, ...] = (),
) -> Output:
    OUTPUTS[name] = Output(name, title, section, experiments, regimes, variants)
    return OUTPUTS[name]


_TYPICAL_SOURCES = ("Algorithm 1, 30 labels", "joint, 30 labels")
CONTRASTS = _output("contrasts", "Does choosing help?", FIRST, regimes=REGIMES)
SOURCES = _output("sources", "How fast accuracy rises", FIRST, regimes=("sources",), variants=_TYPICAL_SOURCES)
METHODS = _output("methods", "Every method and the linear model", FIRST, ())
RUNS = _output("runs", "How fast accuracy rises", FIRST, ())
SCHEDULES = _output("schedules", "Which source when", FIRST, regimes=("few-label", "robust", "sources"))
PLANNED = _output("planned", "Planned contrasts", COMPARISONS, regimes=REGIMES)
USEFUL_DRAWS = _output("useful-draws", "Share of draws from useful sources", COMPARISONS, regimes=("sources",))
SUMMARY = _output("summary", "Best of each kind, and the controls", COMPARISONS, regimes=REGIMES)
LEADERBOARD = _output("leaderboard", "Every method", COMPARISONS, regimes=REGIMES)
TIME = _output("time", "Accuracy against wall time", COMPARISONS, regimes=("few-label",))
COST = _output("cost", "Cost of scheduling", COMPARISONS, regimes=("few-label",))
FEW_LABEL = _output("few-label", "Few target labels", SPOILT, regimes=("few-label",))
ROBUST = _output("robust", "Noisy and irrelevant sources", SPOILT, regimes=("robust",))
FIG2 = _output("fig2", "Figure 2: scaled validation error by class", PAPER, ("digits",))
FIG3 = _output("fig3", "Figure 3: digits by batch size", PAPER, ("digits",), ("paper",))
FIG4 = _output("fig4", "Figure 4: CIFAR-100", PAPER, ("cifar",), ("paper",))
FIG5 = _output("fig5", "Figure 5: weather by test feature", PAPER, ("weather",), ("paper",), ("U850", "V850"))
TABLE1 = _output("table1", "Table 1: sample efficiency gain", PAPER, PAPER_SETS, ("paper",))
TABLE2 = _output("table2", "Table 2: weather accuracy by test feature", PAPER, ("weather",), ("paper",))
CIFAR_ACCURACY = _output("cifar-accuracy", "CIFAR-100: final accuracy", PAPER, ("cifar",), ("paper",))
ORDERINGS = _output("orderings", "Orderings that the paper claims", PAPER, regimes=("paper",))
P_VALUES = _output("p-values", "Appendix: p-values of label order", PAPER)
TRANSITION_MATRIX = _output("transition-matrix", "Appendix: transition matrices", PAPER, ("weather", "weather-points"))
ROWS_USED = _output("rows-used", "Appendix: rows used by task and event", PAPER, ("weather",), ("paper",))
EVENT_ACCURACY = _output("event-accuracy", "Appendix: accuracy by event type", PAPER, ("weather",), ("paper",))


CURVES = (SOURCES, RUNS, FEW_LABEL, ROBUST, FIG3, FIG4, FIG5)
"""One of them, the first that there is, stands beside the verdict."""


def wanted(only: Sequence[str], experiment: str, cells: Sequence[Cell]) -> tuple[bool, list[Cell]]:
    """Whether an experiment is needed at all for these figures and tables, and which of its cells; all for none."""
    needed = [OUTPUTS[name] for name in only or OUTPUTS if experiment in OUTPUTS[name].experiments]
    kept = [cell for cell in cells if any(output.needs(experiment, cell.regime, cell.variant) for output in needed)]
    return bool(needed), kept
