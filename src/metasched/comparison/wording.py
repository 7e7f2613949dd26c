"""The lines of a comparison for people, apart from the verdict."""

from collections.abc import Container, Mapping, Sequence

from metasched.comparison.asked import Asked
from metasched.comparison.estimate import Estimate, Part, Scores, difference
from metasched.comparison.references import References
from metasched.comparison.sources import BETTER_WITHOUT, ROWS_HARM, SHUFFLED
from metasched.comparison.splits import Splits, units_for
from metasched.learners.metrics import Metric
from metasched.learners.settings import LearnerSettings
from metasched.report import diagnostics
from metasched.report.diagnostics import some_of
from metasched.report.remarks import MethodLine, SourceLine
from metasched.report.tables import against, in_units
from metasched.runs.outcome import Outcome
from metasched.runs.sweep import Rates
from metasched.tasks import TaskSet

MOST_NAMED = 3
CLEAR = 0.01
"""Below this p-value, the final model is said to be worse than a single model."""
FINAL_TITLE = "the final model"
LONGER = "with a longer --budget and the same --out, the command continues and adds what is missing"


def first_line(
    table: Sequence[MethodLine],
    scores: Mapping[str, Mapping[int, Scores]],
    ours: str,
    judges: int,
    metric: Metric,
    alone: Container[str] = (),
) -> str:
    """The line before the verdict, if a reference model ends above ours. Otherwise empty.

    The verdict is about networks. So this line names the reference model with the best score of all, and the best of
    those that learn from the target ``alone``.
    """
    whole = [line for line in table if line.kind != "final" and not line.cut]
    mine = next((place for place, line in enumerate(whole) if line.name == ours), 0)
    above = [line for line in whole[:mine] if line.kind == "reference"]
    without = next((line for line in above if line.name in alone), None)
    named = {line.name: line for line in (*(line for line in above[:1] if line is whole[0]), without) if line}
    sentences = []
    for line in named.values():
        gap = difference(scores[line.name], scores[ours], judges)
        if gap is None:
            continue
        what = "is the best single model here" if line is whole[0] else f"is better than {ours}"
        how = f"{what}, without any source" if line is without else what
        said = f"{line.name} {how} ({in_units(line.score.value, metric)}): {against(gap.interval, ours, metric)}"
        sentences.append(said[0].upper() + said[1:] + _how_clear(gap))
    return ". ".join(sentences)


def _how_clear(gap: Estimate) -> str:
    if gap.units < 2:
        return ", but it was judged only once"
    return "" if gap.interval.low > 0 else ", which is not a clear difference"


def final_line(shares: Mapping[str, float], table: Sequence[MethodLine], metric: Metric) -> str:
    """The members of the final model, and its score in the table."""
    named = [f"{name} ({share:.0%})" for name, share in list(shares.items())[:MOST_NAMED]]
    more = len(shares) - len(named)
    listed = ", ".join(named) + (f" and {more} more" if more else "")
    what = f"the mean of {listed}" if len(shares) > 1 else next(iter(shares))
    scored = [line.score.value for line in table if line.kind == "final"]
    shown = f"; its {metric.word} in the table is {in_units(scored[0], metric)}" if scored else ""
    return f"The final model is {what}{shown}"


def below_line(
    table: Sequence[MethodLine],
    scores: Mapping[str, Mapping[int, Scores]],
    final: Mapping[int, Scores],
    judges: int,
    metric: Metric,
) -> list[str]:
    """A line if the final model is clearly below the best single model, at 1 %."""
    best = next((line for line in table if line.kind != "final" and not line.cut), None)
    gap = None if best is None else difference(final, scores[best.name], judges)
    mine = next((line for line in table if line.kind == "final"), None)
    if best is None or mine is None or gap is None or gap.value >= 0 or gap.p_value > CLEAR:
        return []
    own, other = (in_units(line.score.value, metric) for line in (mine, best))
    return [
        f"{FINAL_TITLE} ({own}) is clearly below {best.name} ({other}): there were too few labelled rows to "
        "choose its members well; label more rows"
    ]


def judged_line(splits: Splits, learner: LearnerSettings, rates: Sequence[Rates], asked: LearnerSettings) -> str:
    """Which rows judged, and how networks were trained."""
    labelled = len(splits.judging[0].tasks.validation.labels)
    tested = len(splits.judging[0].tasks.test.labels)
    how = {
        "redrawn": f"{splits.units} seeds, each with {labelled:,} labelled rows of its own and {tested:,} test rows",
        "given": f"{splits.units} seeds on your {labelled:,} labelled rows and {tested:,} test rows",
        "cross-validation": f"{splits.units} times 5-fold cross-validation on {splits.judges:,} labelled rows",
    }[splits.kind]
    steps = learner.updates * (learner.batches_per_update or 1)
    stopped = f" (stopped early, of {asked.updates * (asked.batches_per_update or 1):,})"
    early = stopped if learner.updates < asked.updates else ""
    listed = ", ".join(f"{first:g}" for first, *_ in rates)
    mean = f"the mean of {len(rates)} learning rates ({listed})" if len(rates) > 1 else f"learning rate {listed}"
    return f"{how}; networks: {steps:,} steps{early}, {mean}"


def harmful_lines(names: Sequence[str]) -> list[str]:
    """A line about the sources that are harmful by both measures, if there are any.

    >>> harmful_lines(["west"])[0][:26], harmful_lines(list("abcde"))[0][:62]
    ("'west' is harmful: learnin", "'a', 'b' and 3 more are harmful: learning their rows lowers th")
    """
    if not names:
        return []
    if len(names) == 1:
        why = "learning its rows lowers the score, and leaving it out raises the score; check how it was labelled"
        return [f"{some_of(names)} is harmful: {why}, or leave it out"]
    why = "learning their rows lowers the score, and leaving out one of them raises the score"
    return [f"{some_of(names)} are harmful: {why}; check how they were labelled, or leave them out"]


def suspicious_lines(lines: Sequence[SourceLine]) -> list[str]:
    """A line for each measure below 0, about the sources for which only this measure is below 0."""
    found = []
    for why in (ROWS_HARM, BETTER_WITHOUT):
        names = [line.name for line in lines if line.why == why]
        if len(names) == 1:
            found.append(f"{some_of(names)} may be harmful: {why}; check how it was labelled")
        elif names:
            of_each = why.replace("its rows", "their rows").replace("leaving it out", "leaving out one of them")
            found.append(f"{some_of(names)} may be harmful: {of_each}; check how they were labelled")
    return found


def warning_lines(
    asked: Asked,
    tasks: TaskSet,
    ours: Sequence[Outcome],
    references: References | None,
    judged: Mapping[str, Mapping[int, Part]],
    lines: Sequence[SourceLine],
    splits: Splits,
) -> list[str]:
    """A line for each problem. ``judged`` has the predictions of reference models, by title."""
    found = [*tasks.warnings, *diagnostics.of_tasks(tasks, asked.setup.learner.metric)]
    if asked.setup.learner.batching == "per_source":
        found += diagnostics.small_source(asked.tasks, asked.batch_size)
    if references is not None and references.lacking:
        found.append(
            f"forests and boosting are left out, because {references.lacking} is not installed; install it with: pip "
            "install 'metasched[references]'"
        )
    harmful = [line.name for line in lines if line.word == "harmful" and line.why != SHUFFLED]
    found += [*harmful_lines(harmful), *suspicious_lines(lines), *diagnostics.still_improving(ours)]
    if missing := [title for title in (references.titles if references else ()) if not judged.get(title)]:
        found.append(f"the budget left no time to judge {some_of(missing)}; {LONGER}")
    if splits.units < (units := units_for(splits.kind, len(asked.seeds))):
        what = "repeats of the cross-validation" if splits.kind == "cross-validation" else "seeds"
        found.append(f"the budget left time for {splits.units} of {units} {what}; {LONGER}")
    return found
