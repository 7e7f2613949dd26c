"""``compare``: which method is best on these tasks, how sure that is, the best model, and what each source is worth."""

import os
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from metasched.comparison import bench as benches
from metasched.comparison import budget as budgets
from metasched.comparison import networks, place, selection, sources
from metasched.comparison.bench import JUDGING, TUNING, Bench, OnProgress, Steps
from metasched.comparison.budget import Pace
from metasched.comparison.estimate import FEWEST_UNITS, Judge, Scores, contrasts, difference, estimate
from metasched.comparison.methods import methods_of, plain, subject
from metasched.comparison.networks import Fitted, Key
from metasched.comparison.references import References, in_parallel
from metasched.comparison.result import PAGE, Comparison
from metasched.comparison.splits import Splits, split
from metasched.comparison.wording import final_line, first_line, judged_line
from metasched.datasets import SetLike, as_tasks
from metasched.errors import ConfigError
from metasched.files import write_whole
from metasched.learners import rewards
from metasched.learners.losses import unit_of
from metasched.learners.metrics import Metric, MetricName, metric_of
from metasched.learners.networks import Network
from metasched.learners.predictor import Predictor
from metasched.learners.renamed import clear_arguments
from metasched.learners.settings import Joint, LearnerSettings, settings_of
from metasched.references.mean import mean_of
from metasched.references.recipes import Recipe, fit_recipe
from metasched.report import diagnostics
from metasched.report.remarks import REMARKS, Between, MethodLine, Remarks, SourceLine
from metasched.report.remarks import write as write_remarks
from metasched.report.results import of_outcomes
from metasched.report.verdict import Verdict, stated
from metasched.runs import outcome as outcomes
from metasched.runs import runner
from metasched.runs.executors import AUTO, Machines, executing
from metasched.runs.executors.local import cores
from metasched.runs.folder import FINAL
from metasched.runs.jobs import plain_settings
from metasched.runs.outcome import OWN_RUNS, Outcome, Study
from metasched.runs.status import WORK
from metasched.runs.sweep import SINGLE_BEST, Finished, Method, Setup, best_single
from metasched.schedulers.resolve import BASELINE, SINGLE, TARGET_ONLY, USEFUL
from metasched.seeds import check_seed, counting
from metasched.tasks import TaskSet

__all__ = ["PAGE", "Comparison", "compare"]

OUTCOMES = "outcomes.jsonl"
PREDICTIONS = "predictions.csv"
EVALUATIONS = 10
"""Times that a run is evaluated along the way."""

OnNote = Callable[[str], None]
"""Called with a line for people, before the fits begin."""


@clear_arguments
def compare(
    tasks: SetLike,
    methods: Sequence[str | Method] | None = None,
    *,
    learner: LearnerSettings | str = "joint",
    metric: MetricName | None = None,
    reward: str = rewards.DEFAULT,
    abstain: bool = False,
    seeds: int | Sequence[int] = 10,
    network: Network | str = "auto",
    tune: bool = True,
    references: bool = True,
    budget: str | float | None = None,
    out: str | os.PathLike[str] | None = None,
    on_progress: OnProgress | None = None,
    on_note: OnNote | None = None,
    executor: str = AUTO,
    workers: int | None = None,
    address: str | None = None,
    schedulers: Sequence[str] | None = None,
) -> Comparison:
    """Fit methods on the same rows; say whether choosing helps, which model is best and what each source is worth.

    Args:
        tasks: the sources and the target, or the name or path of a data set that needs no options.
        methods: words as ``ms.train`` takes them for schedulers, :class:`Method` objects, or both. ``"best-single"`` is
            the one source that does best on folds of the target's labelled rows. By default ``thompson`` (ours),
            ``uniform`` and ``target-only``. The verdict is on the method with the role ``"ours"``, else on
            ``thompson``, else on the first one; ``uniform`` and ``target-only``, which it is held against, are
            always there.
        learner: :class:`Joint` or :class:`AlgorithmOne` with their settings, or the word for one, as in
            :func:`train`.
        metric: what models are judged by: ``"accuracy"``, ``"balanced-accuracy"``, ``"auc"``, ``"f1"``, ``"log-loss"``,
            or, where numbers are predicted, ``"r2"`` or ``"mae"``.
        reward: what schedulers are told after each batch, unless a :class:`Method` has a reward of its own.
        abstain: whether the schedulers of methods given as words may also draw no source.
        seeds: how many, or which. Every seed draws its own labelled rows, where there are rows to draw from.
        network: a :class:`Network`, or ``"auto"``, ``"mlp"``, ``"cnn"``.
        tune: whether networks are the mean over several learning rates, the same for every method; else all have the
            rate of the settings.
        references: whether models of other kinds (linear, forest, boosting) are fitted beside the networks.
        budget: the longest that it may take, such as ``"2m"`` or a number of seconds; runs then have fewer steps.
        out: folder of everything. A comparison that was interrupted there goes on, to the same numbers; with more seeds
            than before only these are run.
        on_progress: called with what is being done, the fits finished and all fits.
        on_note: called with a line that says how much there is to do, and about how long it takes.
        executor: where runs are made: ``"in-process"``, ``"local"`` in others of this machine, ``"ray"`` on a
            Ray cluster; ``"auto"`` is ``"local"`` where that is faster. The numbers are the same.
        workers: how many runs are made at once; by default as many as there are cores, or accelerators.
        address: of a Ray cluster, ``"host:6379"`` or ``"auto"``; without it ``"ray"`` starts one on this machine.
        schedulers: the old name of ``methods``.

    Returns:
        The comparison.

    Examples:
        >>> learner = ms.Joint(batch_size=10, updates=2, batches_per_update=2)
        >>> comparison = ms.compare(tasks, seeds=4, learner=learner)
        >>> comparison.decision.case in ("helps", "hurts", "as good", "no use for sources", "too few seeds")
        True
        >>> len(comparison.model.predict(tasks.test.inputs)) == len(tasks.test.labels)
        True
    """
    if schedulers is not None:
        warnings.warn("compare(schedulers=…) is now compare(methods=…)", DeprecationWarning, stacklevel=2)
        if methods is not None:
            raise ConfigError("schedulers is the old name of methods; give methods alone")
        methods = schedulers
    tasks = as_tasks(tasks)
    settings = settings_of(learner)
    if metric is not None:
        settings = replace(settings, metric=metric)
    numbers = _seeds(seeds)
    found = methods_of(methods, reward, abstain)
    splits = split(tasks, numbers)
    machines = Machines(executor, workers, address)
    seconds = budgets.seconds_of(budget)
    with _folder(out) as path:
        setup = Setup(_with_length(settings, splits.official), network)
        asked = _Asked(tasks, setup, found, numbers, tune, references, seconds, settings.batch_size)
        with _bench(asked, splits, machines, path, on_progress, on_note) as bench:
            comparison = _compared(asked, bench)
        return replace(comparison, out=None if out is None else path)


class _Asked(NamedTuple):
    """What was asked for, checked; ``batch_size`` is the one before it was fitted to the smallest source."""

    tasks: TaskSet
    setup: Setup
    methods: Sequence[Method]
    seeds: Sequence[int]
    tune: bool
    references: bool
    budget: float | None
    batch_size: int

    def as_json(self) -> dict[str, Any]:
        """What ``comparison.json`` says."""
        setup = self.setup
        return {
            "data": self.tasks.fingerprint,
            "learner": setup.learner.name,
            "network": setup.network if isinstance(setup.network, str) else "own",
            "methods": {method.name: plain(method) for method in self.methods},
            "seeds": list(self.seeds),
            "tuned": self.tune,
            "references": self.references,
            "budget": self.budget,
            "settings": plain_settings(setup.learner),
        }


def _seeds(seeds: Any) -> tuple[int, ...]:
    if not isinstance(seeds, int | np.integer):
        if not isinstance(seeds, Iterable) or isinstance(seeds, str):
            raise ConfigError(f"seeds is {seeds!r}; give how many, at least 2, or a list of them")
        found = tuple(check_seed(seed) for seed in seeds)
        if len(found) < 2 or len(set(found)) < len(found):
            raise ConfigError(f"seeds are {list(found)}; give at least 2 different whole numbers ≥ 0")
        return found
    if isinstance(seeds, bool) or seeds < 2:
        raise ConfigError(f"seeds is {seeds}; a comparison needs at least 2, and 10 to tell")
    return tuple(counting(int(seeds)))


def _with_length(settings: LearnerSettings, tasks: TaskSet) -> LearnerSettings:
    """The settings with what follows from the rows: the length of a run, and how often it is evaluated."""
    if settings.batching == "per_source":
        settings = replace(settings, batch_size=min(settings.batch_size, *tasks.sizes))
    if settings.batches_per_update is None and isinstance(settings, Joint):
        steps = networks.length(tasks, settings.batch_size)
        settings = replace(settings, batches_per_update=-(-steps // settings.updates))
    if settings.eval_every is None:
        settings = replace(settings, eval_every=max(1, settings.updates // EVALUATIONS))
    return settings


@contextmanager
def _folder(out: str | os.PathLike[str] | None) -> Iterator[Path]:
    """The folder of the comparison; a temporary one where nothing is to be kept."""
    if out is not None:
        yield Path(out)
        return
    with tempfile.TemporaryDirectory(prefix="metasched-") as folder:
        yield Path(folder) / "comparison"


@contextmanager
def _bench(
    asked: _Asked,
    splits: Splits,
    machines: Machines,
    out: Path,
    on_progress: OnProgress | None,
    on_note: OnNote | None,
) -> Iterator[Bench]:
    """Everything checked, the folder claimed, the length decided, workers at hand."""
    began = time.monotonic()
    setup, methods = asked.setup, asked.methods
    own = not all(isinstance(made, str) for made in (setup.network, *(method.scheduler for method in methods)))
    machines.check(own)
    rates = networks.rates_of(setup, asked.tune)
    single = next((method for method in methods if method.scheduler == SINGLE_BEST), None)
    first = splits.judging[:1]
    ready = [replace(method, scheduler=f"{SINGLE}1") if method is single else method for method in methods]
    jobs = networks.jobs_of(setup, ready, rates, first)  # refuse what cannot run, before anything is written
    known = place.stored(out)
    runs = len(methods) * len(rates) * (len(splits.judging) + len(splits.folds) + len(benches.FINAL_SEEDS))
    pace = None
    if known is not None:
        asked = _with_stored_length(asked, known)
    else:
        there = cores() if machines.name in (AUTO, "local") and not own else 1
        pace = Pace(runner.seconds_per_update(jobs[:1], 1)[0], machines.workers or there)
        if asked.budget is not None:
            learner = budgets.within(setup.learner, pace, runs, asked.budget)
            asked = asked._replace(setup=setup._replace(learner=learner))
    setup = asked.setup
    learner = setup.learner.resolve(splits.official)
    drawn = learner.updates * (learner.batches_per_update or 1) * learner.inner_steps * learner.batch_size
    reached = executing(machines, out / WORK, runs * drawn * float(_size(asked.tasks)), own)
    with reached as executor, place.claimed(out, asked.as_json()), closing(executor):
        if on_note:
            on_note(_announced(asked, rates, runs, pace))
        count = runs + (len(asked.tasks.tasks) * len(splits.folds) if single else 0)
        steps = Steps(count, on_progress)
        deadline = float("inf") if asked.budget is None else began + asked.budget
        bench = Bench(setup, methods, rates, splits, out, executor, steps, deadline)
        yield bench if single is None else _with_best_single(bench, single)


def _size(tasks: TaskSet) -> int:
    count = 1
    for size in tasks.shape:
        count *= size
    return count


def _with_stored_length(asked: _Asked, known: Mapping[str, Any]) -> _Asked:
    """With a budget the length was decided by the speed of a machine: a comparison that goes on keeps its length."""
    settings = known.get("settings")
    if asked.budget is None or known.get("budget") != asked.budget or not isinstance(settings, dict):
        return asked
    length = {key: settings[key] for key in ("updates", "batches_per_update") if isinstance(settings.get(key), int)}
    learner = replace(asked.setup.learner, **length)
    return asked._replace(setup=asked.setup._replace(learner=learner))


def _announced(asked: _Asked, rates: Sequence[Any], runs: int, pace: Pace | None) -> str:
    learner = asked.setup.learner
    steps = learner.updates * (learner.batches_per_update or 1)
    what = f"{runs:,} runs of {steps:,} steps ({len(asked.methods)} methods, {len(rates)} learning rates)"
    if pace is None:
        return f"{what}; going on"
    seconds = budgets.in_words(pace.seconds(runs, learner.updates))
    beside = ", and reference models" if asked.references else ""
    bound = "" if asked.budget is not None else "; --budget bounds it"
    return f"{what}, about {seconds} on {pace.workers} core{'s' * (pace.workers > 1)}{beside}{bound}"


def _with_best_single(bench: Bench, single: Method) -> Bench:
    """The bench with ``best-single`` as the source that does best on the folds."""
    folds = bench.splits.folds
    if not folds:
        raise ConfigError(f"{SINGLE_BEST} is chosen on folds, and there are too few labelled rows; leave it out")
    kept = Finished(bench.executor, bench.out / TUNING)
    learner = replace(bench.setup.learner, eval_every=bench.setup.learner.updates)
    found = best_single(
        bench.setup._replace(learner=learner),
        single,
        [(each.seed, each.tasks) for each in folds],
        lambda jobs: kept.run(jobs, bench.steps.counting("single sources")),
    )
    bench.steps.ended(len(bench.splits.official.tasks) * len(folds))
    found = replace(found, role=found.role or "chosen on the labelled rows")
    return replace(bench, methods=[found if method is single else method for method in bench.methods])


# From fits to answers.


def _compared(asked: _Asked, bench: Bench) -> Comparison:
    splits, tasks, methods = bench.splits, bench.splits.official, bench.methods
    ours = subject(methods)
    metric = _metric(bench)
    unit = unit_of(tasks)
    variance = None if unit is None else float(unit.variance)
    folds = bench.networks(splits.folds, "folds", TUNING) if splits.folds else {}
    if folds:
        updates = networks.updates_to_make(bench.setup, folds, splits.folds, methods)
        if updates < bench.setup.learner.updates:
            bench = replace(bench, setup=benches.with_length(bench.setup, updates))
            folds = bench.networks(splits.folds, "folds", TUNING)
    fits = bench.networks(splits.judging, "judging", JUDGING)
    judge = Judge(metric, splits.judges, variance)
    by_method = {method.name: judge.scores(networks.by_unit(fits, splits.judging, method.name)) for method in methods}
    chooses = ours.family == "active"
    beside = References.of(tasks, chosen=chooses) if asked.references else None
    held, judged = _references(bench, beside, ours.name, folds, fits)
    scores = by_method | {title: judge.scores(parts) for title, parts in judged.items() if parts}
    # The final model.
    finals = {method.name: bench.final_networks(method) for method in methods}
    candidates = _candidates(bench, finals, folds, held)
    alone = ours.name if finals[ours.name] else FALLBACK.title(regression=tasks.target_size is not None)
    shares = selection.weights(candidates) if candidates else {alone: 1.0}
    weights = _final_weights(bench, ours.name, folds, fits)
    model = _final_model(bench, finals, beside, shares, weights)
    model.save(bench.out / FINAL)
    # What came of it.
    runs = {method.name: benches.outcomes_of(bench, method, fits, variance) for method in methods}
    mean = _final_scores(judge, splits, fits, judged, shares)
    table = _table(scores, mean, {method.name for method in methods}, splits.judges)
    margin = metric.margin_of(_deviation(tasks))
    verdict = _verdict(scores, ours, splits, metric, margin)
    lines = sources.lines(splits, judge, beside.grams if beside else None, runs[ours.name], margin)
    own = _study(asked, bench)
    found = [replace_study(run, own) for several in runs.values() for run in several]
    results = of_outcomes(found)
    cell = results.cells[0]
    remarks = Remarks(
        cell=cell.key,
        methods=tuple(runs),
        units=tuple(dict.fromkeys(run.spec.seed for run in found)),
        ours=ours.name,
        metric=metric.name,
        case=verdict.case,
        verdict=verdict.sentence,
        first=first_line(table, scores, ours.name, splits.judges, metric),
        final=final_line(shares, candidates, metric, variance),
        judged=judged_line(splits, bench.setup.learner, bench.rates, asked.setup.learner),
        table=table,
        sources=lines,
        lines=tuple(_warnings(asked, tasks, runs[ours.name], beside, lines)),
    )
    outcomes.write(bench.out / OUTCOMES, found)
    write_remarks(bench.out / REMARKS, remarks)
    _predict_unlabelled(tasks, model, bench.out)
    return Comparison(asked.tasks, found, remarks, results.remarked(remarks), model, weights, bench.out)


def _metric(bench: Bench) -> Metric:
    settings, tasks = bench.setup.learner, bench.splits.official
    return metric_of(settings.metric, balanced=settings.balanced_accuracy, regression=tasks.target_size is not None)


def _deviation(tasks: TaskSet) -> float | None:
    return None if tasks.validation.targets is None else float(tasks.validation.targets.std())


def _references(
    bench: Bench,
    references: References | None,
    ours: str,
    folds: Mapping[Key, Fitted],
    fits: Mapping[Key, Fitted],
) -> tuple[dict[str, Any], dict[str, Any]]:
    """What reference models predict: on the folds by title, as one part; on the judging splits by title and unit."""
    if references is None:
        return {}, {}
    splits = bench.splits
    found: list[dict[str, Any]] = []
    for several, known in ((splits.folds, folds), (splits.judging, fits)):
        weights = benches.source_weights(bench, ours, known, several) if known else []
        found.append(bench.references(references, several, weights) if several else {})
    held = {title: benches.whole(parts, splits.folds) for title, parts in found[0].items()}
    judged = {title: benches.whole(parts, splits.judging) for title, parts in found[1].items()}
    return {title: next(iter(units.values())) for title, units in held.items() if units}, judged


def _candidates(
    bench: Bench, finals: Mapping[str, Sequence[Predictor]], folds: Mapping[Key, Fitted], held: Mapping[str, Any]
) -> dict[str, Any]:
    """What every model that may be the final one predicts for held-out labelled rows.

    A method all final networks of which diverged has no model.
    """
    named = [method for method in bench.methods if folds and method.scheduler != USEFUL and finals[method.name]]
    own = {
        method.name: next(iter(networks.by_unit(folds, bench.splits.folds, method.name).values())) for method in named
    }
    return {**own, **held}


def _final_weights(
    bench: Bench, ours: str, folds: Mapping[Key, Fitted], fits: Mapping[Key, Fitted]
) -> dict[str, float]:
    """The weights of sources that choosing found with the official labelled rows, or with those of the seeds."""
    known = folds or fits
    runs = [run for (name, _), fit in known.items() if name == ours for run in fit.runs]
    return sources.weights_of(bench.splits.official, runs)


FALLBACK = Recipe("majority", "target")
"""The final model where all networks diverged and there are no others."""


def _final_model(
    bench: Bench,
    finals: Mapping[str, Sequence[Predictor]],
    references: References | None,
    shares: Mapping[str, float],
    weights: Mapping[str, float],
) -> Predictor:
    """The mean of the chosen models, each fitted on all official labelled rows."""
    members: list[Predictor] = []
    given: list[float] = []
    for name, own in finals.items():
        share = shares.get(name, 0.0)
        if share:
            members += own
            given += [share / len(own)] * len(own)
    recipes: list[Recipe] = []
    if references is not None:
        recipes = [recipe for recipe in references.recipes if references.title(recipe) in shares]
        made: dict[int, Predictor] = {}
        in_parallel(
            [partial(references.fit, recipe, bench.splits.official, weights, 0) for recipe in recipes],
            made.__setitem__,
        )
        members += [made[number] for number in range(len(recipes))]
        given += [shares[references.title(recipe)] for recipe in recipes]
    if not members:
        return fit_recipe(FALLBACK, bench.splits.official)
    return members[0] if len(members) == 1 else mean_of(members, given)


def _final_scores(
    judge: Judge,
    splits: Splits,
    fits: Mapping[Key, Fitted],
    judged: Mapping[str, Any],
    shares: Mapping[str, float],
) -> dict[int, Scores]:
    """Scores of a mean with the final model's weights, in the units in which all of its members were fitted."""
    methods = {name for name, _ in fits}
    units = {
        name: networks.by_unit(fits, splits.judging, name) if name in methods else judged.get(name, {})
        for name in shares
    }
    both = set.intersection(*(set(each) for each in units.values()))
    parts = {
        unit: selection.mean_part({name: each[unit] for name, each in units.items()}, shares) for unit in sorted(both)
    }
    return judge.scores(parts)


FINAL_TITLE = "the final model"


def _table(
    scores: Mapping[str, Mapping[int, Scores]], mean: Mapping[int, Scores], own: set[str], judges: int
) -> tuple[MethodLine, ...]:
    """Every method, best first."""
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
        )
        found.append(line)
    return tuple(sorted(found, key=lambda line: -line.score.value))


def _verdict(
    scores: Mapping[str, Mapping[int, Scores]], ours: Method, splits: Splits, metric: Metric, margin: float
) -> Verdict:
    """The sentence on ours, uniform and target-only."""
    if splits.units < FEWEST_UNITS and splits.kind != "cross-validation":
        return Verdict(
            "too few seeds",
            f"Too few seeds to tell whether choosing is better than {BASELINE} or {TARGET_ONLY}: give at least "
            f"{FEWEST_UNITS}",
        )
    mine, uniform, alone = (scores[name] for name in (ours.name, BASELINE, TARGET_ONLY))
    pairs = [(mine, uniform), (mine, alone), (uniform, alone)]
    gaps = [gap for first, second in pairs if (gap := difference(first, second, splits.judges)) is not None]
    who = "Choosing" if ours.family == "active" else ours.name.capitalize()
    return stated(contrasts(gaps, margin), subject=who, metric=metric, margin=margin)


def _study(asked: _Asked, bench: Bench) -> Study:
    """The place of the outcomes among results."""
    tasks, learner = asked.tasks, bench.setup.learner
    return Study(
        experiment=tasks.name,
        regime=OWN_RUNS,
        variant=f"{learner.name} learner",
        cell=f"{tasks.name} {tasks.fingerprint[:16]} {learner.name}",
        title=f"{tasks.name}, {learner.name} learner",
        tuning={"averaged over": [list(rates) for rates in bench.rates], "updates": learner.updates},
    )


def replace_study(run: Outcome, study: Study) -> Outcome:
    """The outcome as one of that study, without predictions, which only the comparison needs."""
    from msgspec import structs

    return structs.replace(run, study=study)


def _warnings(
    asked: _Asked,
    tasks: TaskSet,
    ours: Sequence[Outcome],
    references: References | None,
    worth: Sequence[SourceLine],
) -> list[str]:
    """A line for each thing that is off."""
    found = [*tasks.warnings, *diagnostics.of_tasks(tasks, asked.setup.learner.metric)]
    if asked.setup.learner.batching == "per_source":
        found += diagnostics.small_source(asked.tasks, asked.batch_size)
    if references is not None and references.lacking:
        found.append(
            f"forests and boosting are left out, because {references.lacking} is not installed; install it with: pip "
            "install 'metasched[references]'"
        )
    found += [
        f"'{line.name}' is harmful: {line.why}; check how it was labelled, or leave it out"
        for line in worth
        if line.word == "harmful" and not any(f"'{line.name}'" in warning for warning in found)
    ]
    return [*found, *diagnostics.still_improving(ours)]


def _predict_unlabelled(tasks: TaskSet, model: Predictor, out: Path) -> None:
    """Predictions for the target's unlabelled rows, as a file."""
    if tasks.unlabelled is None:
        return
    from metasched.comparison.predictions import as_csv

    write_whole(out / PREDICTIONS, as_csv(model, tasks.unlabelled.names, tasks.unlabelled.inputs))
