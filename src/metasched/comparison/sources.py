"""What each source is worth: how often it was drawn, how much its rows helped the target, what is lost without it.

Three things are measured for every source.

- *share*: of the rows that ours drew.
- *transfer*: the mean reward of its rows, by seed: above 0 where learning them raises the target's score.
- *lost*: by how much the score falls if this source alone is left out of a linear model of all sources and the target's
  labelled rows. Such a model takes no time to fit, and it uses every row, so that a bad source shows.

A source is called harmful if its labels look shuffled, or if its rows lower the target's score by both measures. Each
has to be shown at 1 %, because people throw data away if they read this word. If only one measure is shown to be below
0, a warning names the source (``wording.suspicious_lines``).
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from metasched.comparison.estimate import FEWEST_UNITS, Estimate, Judge, Part, difference, together
from metasched.comparison.networks import answers_of
from metasched.comparison.splits import Split, Splits
from metasched.learners.evaluation import judged_rows
from metasched.references.grams import Grams
from metasched.references.leave_out import left_out_scores
from metasched.report.diagnostics import label_strength, look_shuffled
from metasched.report.remarks import Between, SourceLine, Word
from metasched.runs.outcome import Outcome
from metasched.tasks import TaskSet

LEVEL = 0.01
"""The level at which anything is claimed about a source."""
MOST_PASSES = 4.0
"""A weight counts at most this many passes over a small source for each pass over the mean source."""
SMALLEST_PROBABILITY = 1e-3
SHUFFLED = "its labels look shuffled"
"""Why a source is harmful. Otherwise it is harmful by both measures."""
ROWS_HARM = "learning its rows lowers the score, but leaving it out does not clearly raise the score"
BETTER_WITHOUT = "leaving it out raises the score, but learning its rows does not clearly lower the score"
"""Why a source may be harmful."""
SLIGHT = 0.1
"""A transfer below this share of the largest one is not enough to keep a source that can be left out without a loss."""


def lines(
    splits: Splits, judge: Judge, grams: Grams | None, ours: Sequence[Outcome], margin: float
) -> tuple[SourceLine, ...]:
    """A line for every source, most drawn first. ``ours`` has the outcomes of the method that chooses, by unit."""
    tasks = splits.official
    shares = shares_of(tasks, ours)
    transfers = _transfers(tasks, ours)
    losses = {} if grams is None else _losses(splits, judge, grams)
    strengths = {task.name: label_strength(task) for task in tasks.tasks}
    shuffled = look_shuffled(tasks, strengths)
    largest = max((abs(found.value) for found in transfers.values()), default=0.0)
    found = []
    for place, task in enumerate(tasks.tasks):
        transfer, lost = transfers.get(place), losses.get(place)
        word, why = judged(transfer, lost, task.name in shuffled, margin, SLIGHT * largest)
        line = SourceLine(
            name=task.name,
            rows=len(task),
            share=shares[place],
            transfer=between(transfer),
            lost=between(lost),
            word=word,
            why=why,
        )
        found.append(line)
    return tuple(sorted(found, key=lambda line: -(line.share or 0.0)))


def judged(
    transfer: Estimate | None, lost: Estimate | None, shuffled: bool, margin: float, slight: float = 0.0
) -> tuple[Word, str]:
    """The verdict on a source, and the reason. Transfers below ``slight`` are small compared with those of other
    sources.
    """
    helps, harms = (shown(transfer, side) for side in (1, -1))
    missed, better = (shown(lost, side) for side in (1, -1))
    alike = lost is not None and max(map(abs, lost.interval_at(LEVEL)[1:])) <= margin
    if shuffled:
        return "harmful", SHUFFLED
    if harms and better:
        return "harmful", "learning its rows lowers the score, and leaving it out raises it"
    if harms or better:
        if helps or missed:
            return "cannot tell", "the two measures disagree"
        return "cannot tell", ROWS_HARM if harms else BETTER_WITHOUT
    if alike:  # The gain or loss is then too small to keep the source for it.
        helps, missed = helps and transfer is not None and transfer.value >= slight, False
    if helps or missed:
        whys = ["learning its rows raises the score"] * helps + ["leaving it out lowers the score"] * missed
        return "keep", " and ".join(whys)
    if alike:
        return "no difference", f"the score changes by less than {margin:.2g} without it"
    if any(found is not None and found.units < FEWEST_UNITS for found in (transfer, lost)):
        return "cannot tell", f"too few seeds: give at least {FEWEST_UNITS}"
    return "cannot tell", "neither measure is clear"


def shown(found: Estimate | None, side: int) -> bool:
    """Whether a mean is shown to be above 0 (``side`` 1) or below 0 (−1)."""
    return found is not None and found.value * side > 0 and found.p_value <= LEVEL


def between(found: Estimate | None) -> Between | None:
    """The stored form, with the interval that decides about the words."""
    return None if found is None else Between.of(found.interval_at(LEVEL))


def shares_of(tasks: TaskSet, ours: Sequence[Outcome]) -> list[float | None]:
    """The share of each source in the drawn rows. None if no rows were drawn."""
    drawn = [run.drawn for run in ours if run.drawn]
    total = np.sum(drawn, axis=0) if drawn else np.zeros(len(tasks.tasks))
    return [float(count / total.sum()) if total.sum() else None for count in total]


def weights_of(tasks: TaskSet, runs: Sequence[Outcome]) -> dict[str, float]:
    """The weight of one row of each source that choosing found: the draws of a source divided by its rows, with mean 1.

    Schedulers choose sources, so a row of a small source is drawn more often than one of a large source with the same
    worth. Rows that are seen more than about four times teach hardly anything more (Muennighoff et al. 2023,
    arXiv:2305.16264). So a source counts as no smaller than a quarter of the mean source, and nine rows cannot outweigh
    500. If nothing was drawn, all weights are equal.
    """
    shares = np.asarray([share or 0.0 for share in shares_of(tasks, runs)])
    sizes = np.asarray(tasks.sizes, np.float64)
    found = shares / np.maximum(sizes, sizes.mean() / MOST_PASSES) if shares.any() else np.ones(len(sizes))
    found = found / np.average(found, weights=sizes)
    return {task.name: float(weight) for task, weight in zip(tasks.tasks, found, strict=True)}


def _transfers(tasks: TaskSet, ours: Sequence[Outcome]) -> dict[int, Estimate]:
    """The mean reward of each source with its interval over units."""
    tables = [run.rewards for run in ours if run.rewards is not None]
    found = {}
    for place in range(len(tasks.tasks)):
        values = [value for table in tables if (value := table[place]) is not None]
        if values:
            found[place] = over_units(values)
    return found


def over_units(values: Sequence[float]) -> Estimate:
    """The mean of numbers by unit, with Student's t."""
    count = len(values)
    error = float(np.std(values, ddof=1)) / math.sqrt(count) if count > 1 else 0.0
    return Estimate(float(np.mean(values)), error, float(max(count - 1, 1)), count, 0.0)


def _losses(splits: Splits, judge: Judge, grams: Grams) -> dict[int, Estimate]:
    """For each source, the score of the linear model with all sources minus its score without this source."""
    whole: dict[int, list[Part]] = {}
    without: list[dict[int, list[Part]]] = [{} for _ in grams.names]
    for split in splits.judging:
        outputs = left_out_scores(grams, split.tasks.validation, split.tasks.test.inputs[judged_rows(split.tasks)])
        whole.setdefault(split.unit, []).append(_part(outputs.all, split))
        for place, each in enumerate(outputs.without):
            without[place].setdefault(split.unit, []).append(_part(each, split))
    scores = judge.scores(_by_unit(whole))
    gaps = [difference(scores, judge.scores(_by_unit(parts)), judge.rows) for parts in without]
    return {place: gap for place, gap in enumerate(gaps) if gap is not None}


def _by_unit(parts: Mapping[int, Sequence[Part]]) -> dict[int, Part]:
    return {unit: together(several) for unit, several in parts.items()}


def _part(outputs: np.ndarray, split: Split) -> Part:
    """The outputs of least squares. For classes they are clipped to probabilities."""
    if split.tasks.target_size is None:
        outputs = np.maximum(outputs, SMALLEST_PROBABILITY)
        outputs = outputs / outputs.sum(axis=1, keepdims=True)
    return Part(outputs.astype(np.float32), answers_of(split), split.rows)
