"""From fits to answers: the table, the verdict, the final model, and what each source is worth."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from msgspec import structs

from metasched.comparison import bench as benches
from metasched.comparison import networks, selection, sources
from metasched.comparison.asked import Asked, scored_by
from metasched.comparison.bench import JUDGING, TUNING, Bench
from metasched.comparison.estimate import FEWEST_UNITS, Judge, Part, Scores, contrasts, difference, estimate
from metasched.comparison.final import final_model
from metasched.comparison.methods import chooses, subject
from metasched.comparison.networks import Fitted, Key
from metasched.comparison.predictions import PREDICTIONS, as_csv
from metasched.comparison.references import References
from metasched.comparison.result import Comparison
from metasched.comparison.splits import Split, Splits, seeds_for
from metasched.comparison.wording import FINAL_TITLE, below_line, final_line, first_line, judged_line, warning_lines
from metasched.files import write_whole
from metasched.learners.losses import deviation_of, unit_of
from metasched.learners.metrics import Metric
from metasched.learners.predictor import Predictor
from metasched.references.grams import Grams
from metasched.report import diagnostics
from metasched.report.remarks import REMARKS, Between, MethodLine, Remarks
from metasched.report.remarks import write as write_remarks
from metasched.report.results import of_outcomes
from metasched.report.verdict import Verdict, stated
from metasched.runs import outcome as outcomes
from metasched.runs.folder import FINAL
from metasched.runs.outcome import OWN_RUNS, Study
from metasched.schedulers.resolve import BASELINE, TARGET_ONLY
from metasched.tasks import TaskSet

OUTCOMES = "outcomes.jsonl"
BY_ACCURACY = "; all of these judge by accuracy, which says little about the rare class"
MethodScores = Mapping[str, Mapping[int, Scores]]
"""The scores of every method, by unit."""


def answered(asked: Asked, bench: Bench) -> Comparison:
    """Make all fits, and write all answers into the folder of the bench."""
    splits, tasks, methods = bench.splits, bench.splits.official, bench.methods
    ours = subject(methods)
    metric = scored_by(bench.setup.learner, tasks)
    unit = unit_of(tasks)
    variance = None if unit is None else float(unit.variance)
    references = bench.beside
    # The fits.
    bench, folds = _fitted_on_folds(bench)
    fits = bench.networks(splits.judging, "judging", JUDGING)
    held = _referred(bench, references, ours.name, splits.folds, folds)
    judged = _referred(bench, references, ours.name, splits.judging, fits)
    # The final model.
    chosen = [run for (name, _), fit in (folds or fits).items() if name == ours.name for run in fit.runs]
    weights = sources.weights_of(tasks, chosen)
    # A model that was not judged because the budget was too short is not part of the final model, so its score is
    # known, too.
    whole = {title: next(iter(units.values())) for title, units in held.items() if units and judged.get(title)}
    final = final_model(bench, ours.name, folds, references, whole, weights, metric)
    final.model.save(bench.out / FINAL)
    # The results.
    parts = {method.name: networks.by_unit(fits, splits.judging, method.name) for method in methods} | judged
    judge = Judge(metric, splits.judges, variance)
    scores = {name: judge.scores(units) for name, units in parts.items() if units}
    runs = {method.name: benches.outcomes_of(bench, method, fits, variance) for method in methods}
    planned = {} if references is None else benches.planned(bench, references)
    mean = judge.scores(_mean_parts(parts, final.shares))
    table = _table(scores, mean, set(runs), splits.judges, planned)
    margin = metric.margin_of(deviation_of(tasks))
    gaining = "" if references is None else _gaining(scores, references, splits.judges)
    verdict = _verdict(scores, ours.name, chooses(ours), splits, metric, margin, gaining)
    rare = metric.name == "accuracy" and diagnostics.rare_class(tasks)
    grams = references.grams if references else Grams.of(tasks) if tasks.shared_labels else None
    lines = sources.lines(splits, judge, grams, runs[ours.name], margin)
    study = _study(asked, bench)
    found = [structs.replace(run, study=study) for several in runs.values() for run in several]
    results = of_outcomes(found)
    remarks = Remarks(
        cell=results.cells[0].key,
        methods=tuple(runs),
        units=tuple(dict.fromkeys(run.spec.seed for run in found)),
        ours=ours.name,
        metric=metric.name,
        case=verdict.case,
        verdict=f"{verdict.sentence}{BY_ACCURACY}" if rare else verdict.sentence,
        first=first_line(table, scores, ours.name, splits.judges, metric, _alone(references)),
        final=final_line(final.shares, table, metric),
        judged=judged_line(splits, bench.setup.learner, bench.rates, asked.setup.learner),
        table=table,
        sources=lines,
        lines=(
            *warning_lines(asked, tasks, runs[ours.name], references, judged, lines, splits),
            *below_line(table, scores, mean, splits.judges, metric),
        ),
    )
    outcomes.write(bench.out / OUTCOMES, found)
    write_remarks(bench.out / REMARKS, remarks)
    _predict_unlabelled(tasks, final.model, bench)
    return Comparison(asked.tasks, found, remarks, results.remarked(remarks), final.model, weights, bench.out)


def _fitted_on_folds(bench: Bench) -> tuple[Bench, dict[Key, Fitted]]:
    """Fit the networks on the folds. The bench that is returned has the length that the folds ask for."""
    folds = bench.splits.folds
    if not folds:
        return bench, {}
    fits = bench.networks(folds, "folds", TUNING)
    updates = networks.updates_to_make(bench.setup, fits, folds, bench.methods)
    if updates == bench.setup.learner.updates:
        return bench, fits
    shorter = replace(bench, setup=benches.with_length(bench.setup, updates))
    shorter.steps.total += len(fits) * len(bench.rates)
    return shorter, shorter.networks(folds, "folds", TUNING)


def _referred(
    bench: Bench, references: References | None, ours: str, splits: Sequence[Split], fits: Mapping[Key, Fitted]
) -> dict[str, dict[int, Part]]:
    """The predictions of the reference models on the splits, by title and unit, including splits with networks."""
    if references is None or not splits:
        return {}
    parts = bench.references(references, splits, benches.source_weights(bench, ours, fits, splits))
    return {title: benches.whole(own, splits) for title, own in parts.items()}


def _mean_parts(parts: Mapping[str, Mapping[int, Part]], shares: Mapping[str, float]) -> dict[int, Part]:
    """The predictions of a mean with the final model's shares, in the units in which all of its members were fitted."""
    members = {name: parts.get(name, {}) for name in shares}
    both = set.intersection(*(set(units) for units in members.values()))
    return {
        unit: selection.mean_part({name: units[unit] for name, units in members.items()}, shares)
        for unit in sorted(both)
    }


def _table(
    scores: MethodScores, mean: Mapping[int, Scores], own: set[str], judges: int, planned: Mapping[str, int]
) -> tuple[MethodLine, ...]:
    """All methods, best first. ``planned`` says how often reference models were meant to be judged."""
    baseline = scores[BASELINE]
    found = []
    for name, mine in {**scores, FINAL_TITLE: mean}.items():
        if not mine:
            continue
        gap = None if name == BASELINE else difference(mine, baseline, judges)
        line = MethodLine(
            name=name,
            kind="final" if name == FINAL_TITLE else "network" if name in own else "reference",
            score=Between.of(estimate(mine, judges).interval),
            over=None if gap is None else Between.of(gap.interval),
            units=len(mine),
            planned=planned.get(name),
        )
        found.append(line)
    return tuple(sorted(found, key=lambda line: -line.score.value))


def _alone(references: References | None) -> set[str]:
    """Titles of the models that learn only from the target's labelled rows."""
    if references is None:
        return set()
    return {references.title(recipe) for recipe in references.recipes if recipe.rows == "target"}


def _gaining(scores: MethodScores, references: References, judges: int) -> str:
    """The best other model, if it learns from sources and is shown to be better than the best one without."""
    found = {name: estimate(scores[name], judges).value for name in references.titles if name in scores}
    alone = [name for name in found if name in _alone(references)]
    with_sources = [name for name in found if name not in alone]
    if not with_sources or not alone:
        return ""
    best, other = (max(names, key=lambda name: found[name]) for names in (with_sources, alone))
    gap = difference(scores[best], scores[other], judges)
    return best if gap is not None and gap.interval.low > 0 else ""


def _verdict(
    scores: MethodScores, ours: str, active: bool, splits: Splits, metric: Metric, margin: float, gaining: str
) -> Verdict:
    """The verdict on ours, uniform and target-only. ``gaining`` is another model that gains from sources."""
    if splits.units < FEWEST_UNITS and splits.kind != "cross-validation":
        return Verdict(
            "too few seeds",
            f"Too few seeds to tell whether choosing is better than {BASELINE} or {TARGET_ONLY}: give at least "
            f"{FEWEST_UNITS}",
        )
    mine, uniform, alone = (scores[name] for name in (ours, BASELINE, TARGET_ONLY))
    pairs = [(mine, uniform), (mine, alone), (uniform, alone)]
    gaps = [gap for first, second in pairs if (gap := difference(first, second, splits.judges)) is not None]
    who = "Choosing" if active else ours.capitalize()
    found = contrasts(gaps, margin)
    if splits.kind == "cross-validation":  # users give seeds, not repeats
        found = [each._replace(needed=each.needed and seeds_for(each.needed)) for each in found]
    return stated(found, subject=who, metric=metric, margin=margin, gaining=gaining)


def _study(asked: Asked, bench: Bench) -> Study:
    """Where the outcomes belong among results."""
    tasks, learner = asked.tasks, bench.setup.learner
    return Study(
        experiment=tasks.name,
        regime=OWN_RUNS,
        variant=f"{learner.name} learner",
        cell=f"{tasks.name} {tasks.fingerprint[:16]} {learner.name}",
        title=f"{tasks.name}, {learner.name} learner",
        tuning={"averaged over": [list(rates) for rates in bench.rates], "updates": learner.updates},
    )


def _predict_unlabelled(tasks: TaskSet, model: Predictor, bench: Bench) -> None:
    """Predict the target's unlabelled rows, and write the predictions to a file."""
    if tasks.unlabelled is None:
        return
    write_whole(bench.out / PREDICTIONS, as_csv(model, tasks.unlabelled.names, tasks.unlabelled.inputs))
