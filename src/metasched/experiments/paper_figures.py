"""The figures of the paper and of our experiments."""

import numpy as np

from metasched.experiments.evidence import evidence_in
from metasched.experiments.outputs import PAPER, SPOILT, Needs, behind, makes
from metasched.report import plots
from metasched.report.cells import CellRuns, MethodRuns
from metasched.report.figures import (
    BAND_NOTE,
    Figure,
    Panel,
    curves,
    in_words,
    points_of,
    shown,
    thinned,
    typical,
)
from metasched.report.outputs import COMPARISONS, FIRST, Output, UnavailableError
from metasched.report.plots import Data, in_order, rounded, stroke
from metasched.report.results import Results
from metasched.report.verdict import answers


@makes(
    "sources",
    "How fast accuracy rises",
    FIRST,
    Needs(regimes=("sources",), variants=("Algorithm 1, 30 labels", "joint, 30 labels")),
    after="contrasts",
    curves=True,
)
def accuracy_against_rows(output: Output, results: Results) -> list[Figure]:
    """Accuracy against samples in the cells of a figure, planned ones in the order of the verdicts."""
    order = [answer.cell for answer in answers(results) if answer.planned]
    cells = behind(output, results)
    return [
        curves(output, [*(cell for cell in order if cell in cells), *(cell for cell in cells if cell not in order)])
    ]


makes("few-label", "Few target labels", SPOILT, Needs(regimes=("few-label",)), curves=True)(accuracy_against_rows)
makes("robust", "Noisy and irrelevant sources", SPOILT, Needs(regimes=("robust",)), curves=True)(accuracy_against_rows)


@makes("fig2", "Figure 2: scaled validation error by class", PAPER, Needs(("digits",)))
def scaled_errors(output: Output, results: Results) -> list[Figure]:
    """√t·e(t) by class over inner steps."""
    figures: list[Figure] = []
    for item in evidence_in(results):
        error = item.scaled_error
        if error is None or not error.by_class:
            continue
        points = [
            {"name": name, "x": rounded(error.steps[index]), "y": rounded(value)}
            for name, values in error.by_class.items()
            for index in thinned(len(error.steps))
            if (value := values[index]) is not None
        ]
        ends = ", ".join(
            f"{name} {values[-1]:.2f}" for name, values in error.by_class.items() if values[-1:] != (None,)
        )
        alt = f"Lines of √t·e(t) over inner steps t, one for each class. At the last step: {ends}."
        strokes = in_order(list(error.by_class))
        plot = plots.lines(item.key, points, strokes, "inner step t", "√t · validation error")
        note = "If √t·e(t) were constant, the paper's reward 1 − √t·e(t) would not depend on time."
        note += f" The error itself falls like t^−{error.exponent:.2f} (assumed: t^−½)." if error.exponent else ""
        key = f"{output.name}-{item.experiment}" if figures else output.name
        title = f"{output.title}, {item.experiment}"
        figures.append(Figure(key, title, note, (Panel(item.experiment, plot, alt, item.experiment),), (item,)))
    if not figures:
        raise UnavailableError("no evidence.json with scaled_error")
    return figures


for name, title, needs in (
    ("fig3", "Figure 3: digits by batch size", Needs(("digits",), ("paper",))),
    ("fig4", "Figure 4: CIFAR-100", Needs(("cifar",), ("paper",))),
    ("fig5", "Figure 5: weather by test feature", Needs(("weather",), ("paper",), ("U850", "V850"))),
):
    makes(name, title, PAPER, needs, curves=True)(accuracy_against_rows)


@makes("time", "Accuracy against wall time", COMPARISONS, Needs(regimes=("few-label",)), after="leaderboard")
def wall_time(output: Output, results: Results) -> list[Figure]:
    """Accuracy against seconds, for one cell of each experiment and regime."""

    def timed(cell: CellRuns) -> list[MethodRuns]:
        return [method for method in shown(cell) if method.seconds and any(method.updates)]

    cells = [cell for cell in typical(results) if timed(cell)]
    if not cells:
        raise UnavailableError("no cell has recorded the seconds of its runs")
    panels = []
    for cell in cells:
        points: Data = []
        for method in timed(cell):
            updates = np.array(method.updates, np.float64)
            points += points_of(method, float(np.median(method.seconds)) * updates / updates[-1])
        strokes = [stroke(method.name) for method in timed(cell)]
        plot = plots.lines(cell.key, points, strokes, "seconds", "test accuracy")
        panels.append(Panel(cell.label, plot, in_words(cell, "wall seconds"), cell.label))
    note = (
        "The median wall time of a run, spread evenly over its meta-updates. It includes planning, training "
        "and evaluation. "
        f"{BAND_NOTE}"
    )
    return [Figure(output.name, output.title, note, tuple(panels), tuple(cells))]
