"""The numbers that come first: what few labels, noise and the paper's own regime showed, in a sentence each."""

from typing import NamedTuple

from metasched.experiments import published
from metasched.report import compare
from metasched.report.cells import TARGET_ONLY, Cell
from metasched.report.orderings import chain_verdict
from metasched.report.results import Results
from metasched.report.sheets import Number, estimate, p_value, ratio, signed

ONE_OF_EACH = ("30 labels", "80% noisy", "B=20", "own heads", "U850")
"""The variant that speaks for its experiment and regime, where there is one."""


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
        if cell.regime != "paper" and ((cell.experiment, cell.regime) not in chosen or cell.variant in ONE_OF_EACH):
            chosen[cell.experiment, cell.regime] = cell
    cells = sorted(chosen.values(), key=lambda cell: (cell.regime == "robust", results.cells.index(cell)))
    found = [line for line in map(_of_cell, cells) if line is not None]
    return found + _orderings(results)


def _of_cell(cell: Cell) -> Headline | None:
    static, active = compare.best_static(cell), compare.best_active(cell)
    if static is None or active is None:
        return None
    gain = ratio(compare.gain_over(cell, static, active, compare.middle(cell, static)))
    numbers = [
        ("best active", active, estimate(compare.score(cell, active))),
        ("best static", static, estimate(compare.score(cell, static))),
    ]
    if TARGET_ONLY in cell.methods:
        numbers.append(("no sources", TARGET_ONLY, estimate(compare.score(cell, TARGET_ONLY))))
    numbers.append(("samples ratio", "", gain))
    test = compare.against_best_static(cell)[active]
    seeds = f"{test.pairs} seed{'s' if test.pairs != 1 else ''}"
    told = {
        "better": f"{active} ends above {static}",
        "worse": f"{active} ends below {static}",
        "no difference shown": f"No difference shown between {active} and {static}",
        "too few seeds to tell": f"Too few seeds to tell {active} from {static}",
    }[test.outcome]
    sentence = (
        f"{told}: {signed(test.difference)} in final accuracy (p {p_value(test.p_holm)} after Holm, {seeds}). "
        f"Samples ratio: rows {static} draws over rows {active} draws to reach {static}'s final accuracy."
    )
    title = f"{cell.experiment}, {cell.variant}" + (" (simulated data)" if cell.simulated else "")
    return Headline(title, tuple(numbers), sentence, (cell,))


def _orderings(results: Results) -> list[Headline]:
    """By experiment in the paper's regime: the gains of one cell beside the published ones, and the claimed order."""
    found = []
    for experiment in dict.fromkeys(cell.experiment for cell in results.of(regime="paper")):
        cells = results.of(experiment, "paper")
        cell = next((cell for cell in cells if cell.variant in ONE_OF_EACH), cells[0])
        verdict = chain_verdict(cells)
        if verdict is None:
            continue
        claim, told = verdict
        words = {"true": "holds", "false": "does not hold", "not shown": "is not shown"}[told]
        where = "" if len(cells) == 1 else f", all {len(cells)} cells together"
        sentence = f"By final accuracy{where}, {claim} {words}."
        numbers = _gains(cell)
        if numbers:
            sentence = f"Gain over cyclic in samples to {cell.threshold:.0%}, {cell.variant}. {sentence}"
        simulated = " (simulated data)" if any(cell.simulated for cell in cells) else ""
        found.append(Headline(f"{experiment}, the paper's regime{simulated}", numbers, sentence, tuple(cells)))
    return found


def _gains(cell: Cell) -> tuple[tuple[str, str, Number], ...]:
    if cell.threshold is None or "cyclic" not in cell.methods:
        return ()
    known = published.GAIN.get(cell.experiment, {})
    return tuple(
        (
            f"gain (published: {known[name]:g})" if name in known else "gain (none published)",
            name,
            ratio(compare.gain_over(cell, "cyclic", name, cell.threshold)),
        )
        for name in published.ORDER
        if name != "cyclic" and name in cell.methods
    )
