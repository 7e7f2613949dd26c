"""What the page says first: does choosing help, cell by cell, grouped, the most important first."""

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

from metasched.report import compare, verdict
from metasched.report.cells import TARGET_ONLY, CellRuns, MethodRuns
from metasched.report.compare import Contrast, might_do, too_few
from metasched.report.results import Results
from metasched.report.statistics import Bounded, Interval

Tone = Literal["bad", "good", "plain"]
Group = Literal["worse", "sources", "better", "alike", "open"]
GROUPS: dict[Group, tuple[str, Tone]] = {
    "worse": ("Choosing hurts, use {baseline}:", "bad"),
    "sources": ("Sources do not help, target-only is better:", "bad"),
    "better": ("Choosing helps, over {baseline}:", "good"),
    "alike": ("Choosing makes no difference to {baseline}:", "plain"),
    "open": ("Too few seeds to tell whether better than {baseline}:", "plain"),
}
LISTED = 2
"""Cells of one experiment that a sentence names one by one; more are told together."""
MANY = 12
"""Of more comparisons than this the sentences tell no intervals: the figure beside them does."""


class Answer(NamedTuple):
    """What one cell shows: a method against a baseline, planned or picked after the fact, and against no sources."""

    cell: CellRuns
    ours: MethodRuns
    baseline: MethodRuns
    planned: bool
    contrast: Contrast
    alone: Contrast | None

    @property
    def group(self) -> Group:
        """Where it stands among the sentences."""
        if self.contrast.kind != "worse" and self.alone is not None and self.alone.kind == "worse":
            return "sources"
        return self.contrast.kind

    @property
    def sentence(self) -> str:
        """The verdict alone: that of ``metasched compare`` where it was planned, else corrected over all methods."""
        if self.planned:
            control = [self.cell.methods[name] for name in (TARGET_ONLY,) if name in self.cell.methods]
            finals = compare.in_common(self.ours, self.baseline, *control)
            gain = compare.gain_to_final(self.baseline, self.ours)
            return verdict.decide(*finals, fewer=gain, subject=self.ours.deed).sentence
        name, amount = self.baseline.name, points(self.contrast.difference)
        if self.alone is not None and self.alone.kind == "worse":
            return f"Sources do not help here: use target-only ({self.ours.name} is {points(self.alone.difference)})"
        words = {
            "better": f"Choosing helps here: {amount} over {name}",
            "worse": f"Choosing hurts here: {amount} against {name}; use {name}",
            "alike": f"Choosing does not help here: {name} is as good ({amount})",
            "open": f"Too few seeds to tell whether {self.ours.name} is better than {name} ({amount})"
            + might_do(self.contrast.needed),
        }
        return words[self.contrast.kind]


class Line(NamedTuple):
    """A sentence of the page: its first words, the rest, and whether it is good news."""

    lead: str
    rest: str
    tone: Tone = "plain"

    def __str__(self) -> str:
        return f"{self.lead} {self.rest}".strip()


class Opening(NamedTuple):
    """The title of the page, and the sentences under it."""

    title: str
    lines: tuple[Line, ...]
    answers: tuple[Answer, ...]


def opening(results: Results) -> Opening:
    """The verdict in one line, and in a few."""
    found = answers(results)
    if not found:
        title, lines = _nothing(results.cells)
        return Opening(title, (*lines, *_off(results.cells)), ())
    one = found[0]
    simulated = [Line("Simulated data.", "")] * any(answer.cell.simulated for answer in found)
    if len(found) == 1:
        title = f"{one.cell.experiment}: {one.sentence}" if results.cells[1:] else one.sentence
        return Opening(title, (*_about(one), *_off(results.cells), *simulated), found)
    lines = (*_below(results), *_grouped(found), *_off(results.cells), *simulated, *_others(found, results))
    return Opening(_counted(found), lines, found)


def answers(results: Results) -> tuple[Answer, ...]:
    """Of the cells with a planned contrast and of runs of one's own; without any, of all cells."""
    cells = [cell for cell in results.cells if compare.planned(cell) or cell.own] or results.cells
    planned = compare.planned_contrasts(cells)
    with_control = [
        (pair[0], cell.methods[TARGET_ONLY])
        for cell in cells
        if (pair := compare.planned(cell)) and TARGET_ONLY in cell.methods
    ]
    alone = compare.contrasts(with_control)
    found = []
    for cell in cells:
        pair = compare.chosen(cell)
        if pair is None:
            continue
        ours, baseline = pair
        tests = planned if ours in planned else compare.against(cell, baseline)
        controls = alone if ours in planned else compare.against(cell, cell.methods.get(TARGET_ONLY))
        if ours in tests:
            found.append(Answer(cell, ours, baseline, ours in planned, tests[ours], controls.get(ours)))
    order = list(GROUPS)
    return tuple(sorted(found, key=lambda answer: (order.index(answer.group), -abs(answer.contrast.difference.value))))


def _off(cells: Sequence[CellRuns]) -> list[Line]:
    """What looks off, as ``metasched compare`` says it."""
    return [
        Line(f"! {cell.label}:" if len(cells) > 1 else "!", line, "bad")
        for cell in cells
        if cell.remarks
        for line in cell.remarks.lines
    ]


def _nothing(cells: Sequence[CellRuns]) -> tuple[str, tuple[Line, ...]]:
    """What to say where nothing can be compared."""
    names = list(dict.fromkeys(name for cell in cells for name in cell.methods))
    if not names:
        return "No finished run", ()
    told = f"{', '.join(names[:4])}{' …' * (len(names) > 4)}"
    advice = "run uniform, target-only and a scheduler that chooses on the same data, with the same seeds."
    return f"Nothing to compare yet: {told} alone", (Line("To get a verdict,", advice),)


def _counted(found: Sequence[Answer]) -> str:
    """How many comparisons say what."""
    count = {group: sum(answer.group == group for answer in found) for group in GROUPS}
    parts = [f"Choosing helps in {count['better']} of {len(found)} comparisons"]
    parts += [f"hurts in {count['worse'] or 'none'}"]
    parts += [f"target-only is better in {count['sources']}"] * bool(count["sources"])
    parts += [f"{count['open']} need more seeds"] * bool(count["open"])
    return ", ".join(parts)


def _grouped(found: Sequence[Answer]) -> list[Line]:
    """A sentence for each kind of verdict, by baseline; cells of an experiment stand together."""
    lines = []
    for group, (lead, tone) in GROUPS.items():
        members = [answer for answer in found if answer.group == group]
        names = dict.fromkeys(answer.baseline.name for answer in members)
        for name in names:
            same = [answer for answer in members if answer.baseline.name == name]
            experiments = dict.fromkeys(answer.cell.experiment for answer in same)
            brief = len(found) > MANY
            parts = [
                _of_experiment([one for one in same if one.cell.experiment == each], brief) for each in experiments
            ]
            lines.append(Line(lead.format(baseline=name), "; ".join(parts) + ".", tone))
    return lines


def _of_experiment(same: Sequence[Answer], brief: bool) -> str:
    """The cells of one experiment: one by one with their intervals, or together, or ``brief``."""
    if len(same) <= (1 if brief else LISTED):
        return "; ".join(f"{answer.cell.label} {_amount(answer, brief)}" for answer in same)
    values = sorted(_told(answer).difference.value for answer in same)
    name = same[0].cell.experiment + " (simulated)" * same[0].cell.simulated
    span = f"{values[0]:+.2f} to {values[-1]:+.2f}".replace("-", "−").replace("0.", ".")
    needed = sorted(answer.contrast.needed for answer in same if answer.contrast.needed)
    most = f" to {needed[-1]:,}" if len(set(needed)) > 1 else ""
    seeds = f", about {needed[0]:,}{most} seeds might do" if needed else ""
    return f"{name}, {len(same)} cells {span}{seeds}"


def _told(answer: Answer) -> Contrast:
    return answer.alone if answer.group == "sources" and answer.alone else answer.contrast


def _amount(answer: Answer, brief: bool) -> str:
    difference = _told(answer).difference
    parts = [points(Interval(difference.value, math.nan, math.nan) if brief else difference)]
    if answer.group == "open":
        parts.append(might_do(answer.contrast.needed).removeprefix(": "))
    if answer.group == "better" and not brief:
        parts.append(fewer_rows(compare.gain_to_final(answer.baseline, answer.ours)))
    return ", ".join(filter(None, parts))


def _about(answer: Answer) -> list[Line]:
    """What stands under the verdict on one comparison."""
    ours, baseline, cell = answer.ours, answer.baseline, answer.cell
    scores = [
        f"{method.name} {score.value:.3f}"
        for method in (ours, baseline, cell.methods.get(TARGET_ONLY))
        if method is not None and (score := compare.typical(cell, method)) is not None
    ]
    difference = f"{ours.name} less {baseline.name} {points(answer.contrast.difference)}"
    seeds = f"{answer.contrast.pairs} seed{'s' * (answer.contrast.pairs != 1)}"
    told = f"{', '.join(scores)} ({compare.statistic([cell])} over {seeds}); {difference} ({cell.label})."
    lines = [Line("Test accuracy:", told)]
    if answer.alone is not None and answer.group != "sources" and not answer.planned:
        lines.append(Line("Against target-only:", _against_nothing(answer.alone)))
    if not answer.planned:
        count = len(compare.against(cell, baseline))
        how = f"{ours.name} is the best of the methods that choose, picked after the fact"
        lines.append(Line("Exploratory:", f"{how}; corrected over {count} comparison{'s' * (count != 1)}."))
    return lines


def _against_nothing(alone: Contrast) -> str:
    words = {
        "better": "the sources help.",
        "alike": "no difference: the sources are of no use here.",
        "worse": "the sources do harm.",
        "open": f"{too_few(alone.needed)}.",
    }
    return f"{points(alone.difference)}: {words[alone.kind]}"


def _below(results: Results) -> list[Line]:
    """Cells that only explore and in which the method that was named ends below the baseline."""
    below = [
        f"{cell.label} {points(gap)}"
        for cell in results.cells
        if cell.exploratory
        for pair in [compare.named(cell)]
        for gap in [compare.difference(*pair) if pair else None]
        if gap is not None and gap.high < 0
    ]
    lead = "Below uniform in cells that explore, not corrected:"
    return [Line(lead, "; ".join(below) + ".", "bad")] if below else []


def _others(found: Sequence[Answer], results: Results) -> list[Line]:
    """Whether these were planned, and how many cells were not looked at here."""
    lines = []
    if all(answer.planned for answer in found):
        ours = " and ".join(dict.fromkeys(answer.ours.name for answer in found))
        told = f"{ours} was named as ours before the runs; corrected over these {len(found)} comparisons."
        least, most = compare.seeds_needed(len(found)), max(answer.contrast.pairs for answer in found)
        if least and most < least:
            told += f" So many take at least {least} seeds for any one of them to be shown; there are {most}."
        lines.append(Line("Planned:", told))
    elif not any(answer.planned for answer in found):
        lines.append(Line("Exploratory:", "the best method that chooses of each cell, picked after the fact."))
    rest = len(results.cells) - len(found)
    if rest:
        count = f"{rest} more cell{'s' * (rest > 1)}"
        lines.append(Line("", f"{count}, which only explore{'s' * (rest == 1)}: folded below."))
    return lines


def fewer_rows(gain: Bounded | None) -> str:
    """How many times fewer rows, where that is shown: the interval lies above 1."""
    if gain is None or not gain.low > 1 or math.isnan(gain.value):
        return ""
    times = gain.bound if math.isinf(gain.value) else gain.value
    if not math.isfinite(times) or times < 1.05:
        return ""
    return f"{'more than ' * math.isinf(gain.value)}{times:.2g} × fewer rows"


def points(interval: Interval) -> str:
    """A difference of accuracies with its interval, as people say it.

    >>> points(Interval(0.07, 0.04, 0.1)), points(Interval(-0.001, -0.006, 0.005))
    ('+.07 [.04, .10]', '−.001 [−.006, +.005]')
    """
    value, low, high = interval
    digits = 2 if high - low >= 0.02 and abs(value) >= 0.01 else 3
    amount = _bare(value, digits, plus=True)
    if math.isnan(low):
        return amount
    plus = not low >= 0
    return f"{amount} [{_bare(low, digits, plus)}, {_bare(high, digits, plus)}]"


def _bare(value: float, digits: int, plus: bool) -> str:
    text = f"{abs(value):.{digits}f}"
    sign = "−" if value < 0 and float(text) else "+" if plus and float(text) else ""
    return sign + text.removeprefix("0")
