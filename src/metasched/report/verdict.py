"""Does choosing help? The verdict on a comparison, and the sentences at the top of a page."""

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from metasched.learners.metrics import Metric
from metasched.report import compare
from metasched.report.cells import TARGET_ONLY, CellRuns, MethodRuns
from metasched.report.compare import (
    MARGIN,
    Contrast,
    Kind,
    gaps_of,
    might_do,
    seeds_needed,
    tested,
    too_few,
    what_lacks,
)
from metasched.report.remarks import Remarks
from metasched.report.results import Results
from metasched.report.statistics import Bounded, Interval
from metasched.report.tables import ACCURACY, against, in_units, point, points
from metasched.schedulers.resolve import BASELINE

Case = Literal["helps", "hurts", "as good", "no use for sources", "too few seeds"]
CASES: dict[Kind, Case] = {"better": "helps", "worse": "hurts", "alike": "as good", "open": "too few seeds"}
Tone = Literal["bad", "good", "plain"]
Group = Literal["worse", "sources", "better", "alike", "open"]
GROUPS: dict[Group, tuple[str, Tone]] = {
    "worse": ("Choosing hurts, use {baseline}:", "bad"),
    "sources": ("Sources do not help, target-only is better:", "bad"),
    "better": ("Choosing helps, over {baseline}:", "good"),
    "alike": ("Choosing is as good as {baseline}:", "plain"),
    "open": ("Too few seeds to tell whether better than {baseline}:", "plain"),
}
"""In the order of the page: what matters most to the reader comes first."""
LISTED = 2
"""A sentence names at most this many cells of one experiment. If there are more, they are summed up."""
MANY = 12
"""With more comparisons than this, the sentences leave out the intervals, which are in the figure."""


class Verdict(NamedTuple):
    """The case, and the sentence for people."""

    case: Case
    sentence: str


def decide(
    ours: ArrayLike,
    uniform: ArrayLike,
    target_only: ArrayLike | None = None,
    *,
    fewer: Bounded | None = None,
    subject: str = "Choosing",
    metric: Metric = ACCURACY,
    margin: float = MARGIN,
) -> Verdict:
    """The verdict on final scores (S,) of three methods, in the same order of seeds; higher is better.

    Sign-flip tests of ours − uniform and of both against target-only, corrected together (Holm), at 5 %. Sources are of
    use if ours or uniform ends above target-only. Only then is ours compared with uniform. Methods are called equally
    good if the 95 % interval of their difference lies within ``margin``. If a difference is neither shown nor that
    small, more seeds are needed. Every sentence gives both contrasts, and says which of them needs more seeds.
    ``fewer`` is how many times fewer rows ours needs to end where uniform does.

    >>> decide([0.8] * 8, [0.7] * 8, [0.6] * 8).sentence
    'Choosing helps here: +.100 [.100, .100] over uniform; +.200 [.200, .200] over target-only'
    """
    first, second = np.asarray(ours, np.float64), np.asarray(uniform, np.float64)
    control = None if target_only is None else np.asarray(target_only, np.float64)
    gaps = gaps_of(first, second, control)
    who = subject[0].lower() + subject[1:]
    least = seeds_needed(len(gaps))
    if len(first) < (least or math.inf):
        others = BASELINE if control is None else f"{BASELINE} or {TARGET_ONLY}"
        sentence = f"Too few seeds to tell whether {who} is better than {others}: give at least {least}"
        return Verdict("too few seeds", sentence)
    return stated(tested(gaps, [margin] * len(gaps)), fewer=fewer, subject=subject, metric=metric, margin=margin)


def stated(
    contrasts: Sequence[Contrast],
    *,
    fewer: Bounded | None = None,
    subject: str = "Choosing",
    metric: Metric = ACCURACY,
    margin: float = MARGIN,
    gaining: str = "",
) -> Verdict:
    """The verdict from contrasts: ours minus uniform, ours minus target-only and uniform minus target-only, or only the
    first.

    ``gaining`` is a model of another kind that is better with sources, if there is one.
    """
    gap, *alone = contrasts
    who = subject[0].lower() + subject[1:]
    if not alone or any(one.kind == "better" for one in alone):
        also = f"; {_clause(alone[0], TARGET_ONLY, metric=metric)}" if alone else ""
        return Verdict(CASES[gap.kind], _with_sources(gap, BASELINE, subject, who, fewer, also, metric))
    name, best = max(zip(("ours", BASELINE), alone, strict=True), key=lambda pair: pair[1].difference.value)
    if best.difference.high <= margin:
        beside = _clause(gap, BASELINE, "ours", metric)
        return Verdict("no use for sources", f"{_without_sources(name, best, metric, gaining)}; {beside}")
    standing = {"better": "better than", "worse": "worse than", "alike": "as good as"}
    lead = _clause(gap, BASELINE, who, metric)
    if gap.kind != "open":
        lead = f"{who} is {standing[gap.kind]} {BASELINE} ({points(gap.difference, metric)})"
    sentence = f"{lead}; {_clause(best, TARGET_ONLY, 'it' if name == 'ours' else name, metric)}"
    return Verdict("too few seeds", sentence[0].upper() + sentence[1:])


def _with_sources(
    gap: Contrast,
    baseline: str,
    subject: str,
    who: str,
    fewer: Bounded | None = None,
    also: str = "",
    metric: Metric = ACCURACY,
) -> str:
    """If sources are of use: what choosing among them does, and what else is known."""
    amount, rows = points(gap.difference, metric), fewer_rows(fewer)
    over, below = (against(gap.difference, baseline, metric, link=link) for link in ("over", "against"))
    sentences: dict[Kind, str] = {
        "better": f"{subject} helps here: {over}{rows and f', {rows}'}{also}",
        "worse": f"{subject} hurts here: {below}{also}; use {baseline}",
        "alike": f"{subject} does not help here: {baseline} is as good ({amount}){also}",
        "open": f"T{_clause(gap, baseline, who, metric)[1:]}{also}",
    }
    return sentences[gap.kind]


def _without_sources(name: str, alone: Contrast, metric: Metric = ACCURACY, gaining: str = "") -> str:
    """If sources are of no use: how far the better of the two methods with sources falls short."""
    if gaining:
        short = against(alone.difference, TARGET_ONLY, metric, who=name, link="against")
        return f"Sources do not help the network here ({short}), but they help {gaining}"
    short = against(alone.difference, "it", metric, who=name, link="against")
    return f"Sources do not help here: use {TARGET_ONLY} ({short})"


def _clause(test: Contrast, other: str, who: str = "", metric: Metric = ACCURACY) -> str:
    """A contrast in words. ``who`` names the first method if it is not obvious."""
    amount, subject = points(test.difference, metric), f"{who} is " if who else ""
    words: dict[Kind, str] = {
        "better": against(test.difference, other, metric, who=who),
        "worse": against(test.difference, other, metric, who=who, link="against"),
        "alike": f"{subject}as good as {other} ({amount})",
        "open": f"{what_lacks(test.needed)} to tell whether {subject}better than {other} ({amount}{_corrected(test)})"
        f"{might_do(test.needed)}",
    }
    return words[test.kind]


def _corrected(test: Contrast) -> str:
    """Why a difference is open although its own interval excludes 0."""
    clear = test.difference.low > 0 or test.difference.high < 0
    return ", not clear once corrected for several comparisons" if clear and test.p_holm > test.p_value else ""


def fewer_rows(gain: Bounded | None) -> str:
    """How many times fewer rows, if that is shown: the interval lies above 1."""
    if gain is None or not gain.low > 1 or math.isnan(gain.value):
        return ""
    times, above = (gain.bound, "more than ") if math.isinf(gain.value) else (gain.value, "")
    if not 1.05 <= times < math.inf:
        return ""
    return f"{above}{times:,.{1 if times < 10 else 0}f} × fewer rows"


class Answer(NamedTuple):
    """What a cell shows: a method minus a baseline, planned or picked after the runs, and minus no sources."""

    cell: CellRuns
    ours: MethodRuns
    baseline: MethodRuns
    planned: bool
    contrast: Contrast
    alone: Contrast | None

    @property
    def group(self) -> Group:
        """Its place among the sentences."""
        if self.contrast.kind != "worse" and self.alone is not None and self.alone.kind == "worse":
            return "sources"
        return self.contrast.kind

    @property
    def sentence(self) -> str:
        """The verdict: as in ``metasched compare`` if it was planned, otherwise corrected over all methods."""
        if self.planned:
            return decide_on(self.cell, self.ours, self.baseline).sentence
        if self.alone is not None and self.alone.kind == "worse":
            return _without_sources(self.ours.name, self.alone, self.cell.metric)
        return _with_sources(self.contrast, self.baseline.name, "Choosing", self.ours.name, metric=self.cell.metric)


def decide_on(cell: CellRuns, ours: MethodRuns, baseline: MethodRuns) -> Verdict:
    """The verdict on a method of a cell, on the seeds that all compared methods have."""
    control = [cell.methods[name] for name in (TARGET_ONLY,) if name in cell.methods]
    finals = compare.in_common(ours, baseline, *control)
    fewer = compare.gain_to_final(baseline, ours)
    return decide(*finals, fewer=fewer, subject=ours.subject, metric=cell.metric, margin=ours.margin)


class Sentence(NamedTuple):
    """A sentence of the page: its first words, the rest, and whether it is good news."""

    lead: str
    rest: str
    tone: Tone = "plain"

    def __str__(self) -> str:
        return f"{self.lead} {self.rest}".strip()


class Opening(NamedTuple):
    """The title of the page, and the sentences below it.

    Attributes:
        title: the verdict, or how many there are of each kind.
        sentences: the other sentences.
        answers: the answers of the cells without stored remarks.
        first: a line before the title, if a model of another kind is best.
        warnings: a line for each problem.
    """

    title: str
    sentences: tuple[Sentence, ...]
    answers: tuple[Answer, ...] = ()
    first: str = ""
    warnings: tuple[Sentence, ...] = ()

    @property
    def lines(self) -> list[str]:
        """All of it, in order."""
        return [line for line in (self.first, self.title, *map(str, (*self.sentences, *self.warnings))) if line]


def opening(results: Results) -> Opening:
    """The verdict in one line, and in a few sentences. A comparison has stored its own; others are computed from the
    runs.
    """
    cells, found = results.cells, answers(results)
    told = [(cell, cell.remarks) for cell in cells if cell.remarks is not None]
    warnings = tuple(
        Sentence(f"! {cell.label}:" if len(cells) > 1 else "!", line, "bad")
        for cell, remarks in told
        for line in remarks.lines
    )
    simulated = [Sentence("Simulated data.", "")] * any(cell.simulated for cell in spoken_of(results))
    if told and len(cells) == 1:
        (_, remarks) = told[0]
        beside = (Sentence("", _ended(remarks.final)), Sentence("", f"Judged by {_ended(remarks.judged)}"))
        return Opening(remarks.verdict, (*beside, *simulated), (), remarks.first, warnings)
    if not found and not told:
        title, advice = _nothing(cells)
        return Opening(title, advice)
    if len(found) == 1 and not told:
        one = found[0]
        title = f"{one.cell.experiment}: {one.sentence}" if len(cells) > 1 else one.sentence
        return Opening(title, (*_about(one), *simulated), found)
    stored = sorted(
        ((_group(remarks), _stored(cell, remarks)) for cell, remarks in told),
        key=lambda pair: list(GROUPS).index(pair[0]),
    )
    title = _counted([*(group for group, _ in stored), *(answer.group for answer in found)])
    sentences = (*_below(results), *(sentence for _, sentence in stored), *_grouped(found))
    return Opening(title, (*sentences, *simulated, *_others(found, results)), found, warnings=warnings)


def _ended(line: str) -> str:
    return f"{line.rstrip('.')}."


def _group(remarks: Remarks) -> Group:
    """The place of a comparison's verdict among others."""
    groups: dict[str, Group] = {case: kind for kind, case in CASES.items()}
    return {**groups, "no use for sources": "sources"}.get(remarks.case, "open")


def _stored(cell: CellRuns, remarks: Remarks) -> Sentence:
    """The verdict of a comparison as a sentence among others."""
    said = " ".join(_ended(line) for line in (remarks.first, remarks.verdict) if line)
    return Sentence(f"{cell.label}:", said, GROUPS[_group(remarks)][1])


def spoken_of(results: Results) -> list[CellRuns]:
    """The cells that the top of the page is about."""
    told = [cell for cell in results.cells if cell.remarks is not None]
    return [*told, *(answer.cell for answer in answers(results))]


def answers(results: Results) -> tuple[Answer, ...]:
    """The answers of the cells with a planned contrast and of the user's own runs. If there are none, of all cells.

    Comparisons are left out: their verdicts are stored, and their runs alone would give other verdicts.
    """
    cells = [cell for cell in results.untold if compare.planned(cell) or cell.own] or results.untold
    planned = compare.planned_contrasts(cells)
    pairs = {cell: pair for cell in cells if (pair := compare.planned(cell))}
    with_control = [cell for cell in pairs if TARGET_ONLY in cell.methods]
    alone = compare.contrasts((pairs[cell][0], cell.methods[TARGET_ONLY]) for cell in with_control)
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


def _nothing(cells: Sequence[CellRuns]) -> tuple[str, tuple[Sentence, ...]]:
    """What to say if nothing can be compared."""
    names = list(dict.fromkeys(name for cell in cells for name in cell.methods))
    if not names:
        return "No finished run", ()
    listed = f"{', '.join(names[:4])}{' …' * (len(names) > 4)}"
    advice = "run uniform, target-only and a scheduler that chooses on the same data, with the same seeds."
    return f"Nothing to compare yet: {listed} alone", (Sentence("To get a verdict,", advice),)


def _counted(found: Sequence[Group]) -> str:
    """How many comparisons have each result."""
    count = {group: found.count(group) for group in GROUPS}
    parts = [f"Choosing helps in {count['better']} of {len(found)} comparisons"]
    parts += [f"hurts in {count['worse'] or 'none'}"]
    parts += [f"target-only is better in {count['sources']}"] * bool(count["sources"])
    parts += [f"{count['open']} need more seeds"] * bool(count["open"])
    return ", ".join(parts)


def _grouped(found: Sequence[Answer]) -> list[Sentence]:
    """A sentence for each kind of verdict and each baseline. Cells of an experiment come together."""
    brief = len(found) > MANY
    groups: dict[tuple[Group, str], dict[str, list[Answer]]] = {}
    for group in GROUPS:
        for answer in found:
            if answer.group == group:
                same = groups.setdefault((group, answer.baseline.name), {})
                same.setdefault(answer.cell.experiment, []).append(answer)
    return [
        Sentence(
            GROUPS[group][0].format(baseline=baseline),
            "; ".join(_of_experiment(same, brief) for same in experiments.values()) + ".",
            GROUPS[group][1],
        )
        for (group, baseline), experiments in groups.items()
    ]


def _of_experiment(same: Sequence[Answer], brief: bool) -> str:
    """The cells of one experiment: one by one with their intervals, or summed up, or ``brief``."""
    if len(same) <= (1 if brief else LISTED):
        return "; ".join(f"{answer.cell.label} {_amount(answer, brief)}" for answer in same)
    values = sorted(_contrast(answer).difference.value for answer in same)
    name = same[0].cell.experiment + " (simulated)" * same[0].cell.simulated
    needed = sorted(answer.contrast.needed for answer in same if answer.contrast.needed)
    most = f" to {needed[-1]:,}" if len(set(needed)) > 1 else ""
    seeds = f", about {needed[0]:,}{most} seeds might do" if needed else ""
    digits = 2 if max(map(abs, values)) >= 0.01 else 3
    metric = same[0].cell.metric
    what = "" if metric.by_row else f" {metric.word}" if metric.higher_is_better else f" {metric.word} lower by"
    return f"{name}, {len(same)} cells{what} {point(values[0], digits)} to {point(values[-1], digits)}{seeds}"


def _contrast(answer: Answer) -> Contrast:
    """The contrast that decided the group."""
    return answer.alone if answer.group == "sources" and answer.alone else answer.contrast


def _amount(answer: Answer, brief: bool) -> str:
    difference = _contrast(answer).difference
    parts = [points(Interval(difference.value, math.nan, math.nan) if brief else difference, answer.cell.metric)]
    if answer.group == "open":
        parts.append(might_do(answer.contrast.needed).removeprefix(": "))
    if answer.group == "better" and not brief:
        parts.append(fewer_rows(compare.gain_to_final(answer.baseline, answer.ours)))
    return ", ".join(filter(None, parts))


def _about(answer: Answer) -> list[Sentence]:
    """The sentences below the verdict on one comparison."""
    ours, baseline, cell, metric = answer.ours, answer.baseline, answer.cell, answer.cell.metric
    scores = [
        f"{method.name} {in_units(score.value, metric)}"
        for method in (ours, baseline, cell.methods.get(TARGET_ONLY))
        if method is not None and (score := compare.typical(cell, method)) is not None
    ]
    difference = f"{ours.name} minus {baseline.name} {points(answer.contrast.difference, metric)}"
    if not metric.higher_is_better:
        difference = against(answer.contrast.difference, baseline.name, metric, who=ours.name)
    seeds = f"{answer.contrast.pairs} seed{'s' * (answer.contrast.pairs != 1)}"
    accuracy = f"{', '.join(scores)} ({compare.statistic([cell])} over {seeds}); {difference} ({cell.label})."
    sentences = [Sentence(f"T{metric.title[1:]}:", accuracy)]
    if answer.planned:
        return sentences
    if answer.alone is not None and answer.group != "sources":
        words: dict[Kind, str] = {
            "better": "the sources help.",
            "alike": "no difference: the sources are of no use here.",
            "worse": "the sources do harm.",
            "open": f"{too_few(answer.alone.needed)}.",
        }
        control = f"{points(answer.alone.difference, metric)}: {words[answer.alone.kind]}"
        sentences.append(Sentence("Against target-only:", control))
    count = len(compare.against(cell, baseline))
    how = f"{ours.name} is the best of the methods that choose, picked after the runs"
    return [*sentences, Sentence("Exploratory:", f"{how}; corrected over {count} comparison{'s' * (count != 1)}.")]


def _below(results: Results) -> list[Sentence]:
    """Exploratory cells in which the method named beforehand ends below the baseline."""
    below = [
        f"{cell.label} {points(gap, cell.metric)}"
        for cell in results.cells
        if cell.exploratory
        and (pair := compare.named(cell))
        and (gap := compare.difference(*pair)) is not None
        and gap.high < 0
    ]
    lead = "Below uniform in exploratory cells, not corrected:"
    return [Sentence(lead, "; ".join(below) + ".", "bad")] if below else []


def _others(found: Sequence[Answer], results: Results) -> list[Sentence]:
    """Whether these comparisons were planned, and how many other cells there are."""
    sentences = []
    if found and all(answer.planned for answer in found):
        ours = " and ".join(dict.fromkeys(answer.ours.name for answer in found))
        plan = f"{ours} was named as ours before the runs; corrected over these {len(found)} comparisons."
        least, most = compare.seeds_needed(len(found)), max(answer.contrast.pairs for answer in found)
        if least and most < least:
            plan += f" With so many comparisons, a difference can be shown only with {least} seeds; there are {most}."
        sentences.append(Sentence("Planned:", plan))
    elif found and not any(answer.planned for answer in found):
        sentences.append(
            Sentence("Exploratory:", "in each cell, the best of the methods that choose, picked after the runs.")
        )
    rest = len(results.untold) - len(found)
    if rest:
        count = f"{rest} more cell{'s are' if rest > 1 else ' is'}"
        sentences.append(Sentence("", f"{count} exploratory; see the tables below."))
    return sentences
