"""The numbers that come first: what few labels, noise and the paper's own regime showed, in a sentence each."""

from typing import NamedTuple

from metasched.experiments import published
from metasched.experiments.outputs import HEADLINED
from metasched.report import compare
from metasched.report.cells import TARGET_ONLY, Cell
from metasched.report.orderings import claims
from metasched.report.results import Results
from metasched.report.sheets import Number, estimate, p_value, ratio, signed


class Headline(NamedTuple):
    """A cell in four numbers and a sentence."""

    title: str
    numbers: tuple[tuple[str, str, Number], ...]
    """What, which method, how much."""
    sentence: str
    sources: tuple[Cell, ...]

    @property
    def line(self) -> str:
        """For a terminal."""
        parts = [f"{what} {name} {value}" if name else f"{what} {value}" for what, name, value in self.numbers]
        return f"{self.title}: {', '.join(parts)}{'. ' if parts else ''}{self.sentence}"


def headlines(results: Results) -> list[Headline]:
    """One for each experiment with few labels, with spoilt sources and of one's own; then the paper's orderings."""
    chosen: dict[tuple[str, str], Cell] = {}
    for cell in results.cells:
        if cell.regime != "paper" and ((cell.experiment, cell.regime) not in chosen or cell.variant in HEADLINED):
            chosen[cell.experiment, cell.regime] = cell
    cells = sorted(chosen.values(), key=lambda cell: (cell.regime == "robust", results.cells.index(cell)))
    lines = [line for cell in cells if (line := _of_cell(cell, results)) is not None]
    return lines + _orderings(results)


def _of_cell(cell: Cell, results: Results) -> Headline | None:
    """The planned contrast of a cell, or, exploratory, the best active scheduler against the best static one."""
    planned = compare.planned(cell)
    ours, theirs = planned or (compare.best_active(cell), compare.best_static(cell))
    if ours is None or theirs is None:
        return None
    tests = compare.planned_contrasts(results.cells) if planned else compare.against_best_static(cell)
    words = ("ours", "baseline") if planned else ("best active", "best static")
    shown = [(words[0], ours), (words[1], theirs), ("no sources", cell.methods.get(TARGET_ONLY))]
    numbers = [(what, method.name, estimate(compare.score(method))) for what, method in shown if method]
    numbers.append(("samples ratio", "", ratio(compare.gain_to_final(theirs, ours))))
    title = f"{cell.experiment}, {cell.variant}" + (" (simulated data)" if cell.simulated else "")
    if ours not in tests:
        return Headline(title, tuple(numbers), f"{ours.name} and {theirs.name} have no seed in common.", (cell,))
    test = tests[ours]
    ending = {
        "better": f"{ours.name} ends above {theirs.name}",
        "worse": f"{ours.name} ends below {theirs.name}",
        "no difference shown": f"no difference shown between {ours.name} and {theirs.name}",
    }.get(test.verdict, f"{ours.name} against {theirs.name}: {test.verdict}")
    seeds = f"{test.pairs} seed{'s' if test.pairs != 1 else ''}"
    sentence = (
        f"{'Planned' if planned else 'Exploratory'}: {ending}, {signed(test.difference)} in final accuracy (p "
        f"{p_value(test.p_holm)} after Holm over {'cells' if planned else 'methods'}, {seeds}). Samples ratio: rows "
        f"{theirs.name} draws over rows {ours.name} draws to reach {theirs.name}'s final accuracy."
    )
    return Headline(title, tuple(numbers), sentence, (cell,))


def _orderings(results: Results) -> list[Headline]:
    """By experiment in the paper's regime: the gains of one cell beside the published ones, and the claimed order."""
    lines = []
    for experiment in dict.fromkeys(cell.experiment for cell in results.of(regime="paper")):
        cells = results.of(experiment, "paper")
        cell = next((cell for cell in cells if cell.variant in HEADLINED), cells[0])
        chain = claims(experiment, cells)[-1:]
        for whole in chain:
            words = {"true": "holds", "false": "does not hold", "not shown": "is not shown"}[whole.by_accuracy]
            where = "" if len(cells) == 1 else f", all {len(cells)} cells together"
            sentence = f"By final accuracy{where}, {whole.claim} {words}."
            numbers = _gains(cell)
            if numbers:
                sentence = f"Gain over cyclic in samples to {cell.threshold:.0%}, {cell.variant}. {sentence}"
            simulated = " (simulated data)" if any(cell.simulated for cell in cells) else ""
            lines.append(Headline(f"{experiment}, the paper's regime{simulated}", numbers, sentence, tuple(cells)))
    return lines


def _gains(cell: Cell) -> tuple[tuple[str, str, Number], ...]:
    cyclic = cell.methods.get("cyclic")
    if cell.threshold is None or cyclic is None:
        return ()
    printed = published.GAIN.get(cell.experiment, {})
    return tuple(
        (
            f"gain (published: {printed[name]:g})" if name in printed else "gain (none published)",
            name,
            ratio(compare.gain_over(cyclic, cell.methods[name], cell.threshold)),
        )
        for name in published.ORDER
        if name != cyclic.name and name in cell.methods
    )
