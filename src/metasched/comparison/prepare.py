"""From a request to a bench: everything is checked, the folder is claimed, the length is decided, workers are ready."""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

from metasched.comparison import bench as benches
from metasched.comparison import budget as budgets
from metasched.comparison import networks, place
from metasched.comparison.asked import Asked, scored_by
from metasched.comparison.bench import TUNING, Bench, OnProgress, Steps
from metasched.comparison.budget import Pace
from metasched.comparison.estimate import FEWEST_UNITS
from metasched.comparison.methods import chooses, subject
from metasched.comparison.references import References, seconds_of
from metasched.comparison.splits import Splits, split, units_for
from metasched.errors import ConfigError
from metasched.files import make_folder, write_whole
from metasched.runs import runner
from metasched.runs.executors import AUTO, Machines, executing
from metasched.runs.executors.local import cores
from metasched.runs.jobs import Job
from metasched.runs.status import WORK
from metasched.runs.sweep import SINGLE_BEST, Finished, Method, Rates, best_single
from metasched.schedulers.resolve import SINGLE

PROGRAMS = 2
"""How many programs are compiled for each method. Runs on folds and runs that judge have different shapes."""
NUMBERS_A_SECOND = 4e6
"""About how many numbers one core learns from in a second (rows drawn × numbers per row). Used if no run was timed."""
OnNote = Callable[[str], None]
"""Called with a line for people before the fits start."""


@contextmanager
def prepared(
    asked: Asked,
    splits: Splits,
    machines: Machines,
    out: Path,
    on_progress: OnProgress | None = None,
    on_note: OnNote | None = None,
) -> Iterator[Bench]:
    """Yield the bench, for as long as its folder is ours."""
    began = time.monotonic()
    methods = asked.methods
    own = not all(isinstance(made, str) for made in (asked.setup.network, *(method.scheduler for method in methods)))
    machines.check(own)
    rates = networks.rates_of(asked.setup, asked.tune)
    single = next((method for method in methods if method.scheduler == SINGLE_BEST), None)
    ready = [replace(method, scheduler=f"{SINGLE}1") if method is single else method for method in methods]
    # Anything that cannot run is refused here, before the first byte is written.
    jobs = networks.jobs_of(asked.setup, ready, rates, splits.judging[:1])
    known = place.stored(out)
    pace, trees = None, True
    if known is not None:
        asked = asked.going_on(known)
    else:
        there = cores() if machines.name in (AUTO, "local") and not own else 1
        pace = _pace(jobs[:1], len(methods), machines.workers or there)
        if asked.budget is not None:
            counts = _runs_by_seeds(asked, splits, len(methods) * len(rates))
            cut = budgets.within(asked.setup.learner, pace, counts, asked.budget)
            trees = cut.trees
            asked = asked.with_seeds(cut.seeds)._replace(setup=asked.setup._replace(learner=cut.learner))
    if asked.left_out:
        splits = split(asked.tasks, asked.seeds)
    runs = len(methods) * len(rates) * (len(splits.judging) + len(splits.folds) + len(benches.FINAL_SEEDS))
    learner = asked.setup.learner.resolve(splits.official)
    if pace is None:
        drawn = learner.updates * (learner.batches_per_update or 1) * learner.inner_steps * learner.batch_size
        seconds = runs * drawn * float(math.prod(asked.tasks.shape)) / NUMBERS_A_SECOND
    else:
        seconds = runs * learner.updates * pace.update
    reached = executing(machines, out / WORK, seconds, own)
    with reached as executor, place.claimed(out, asked.as_json()), closing(executor):
        ended = out / benches.ENDED
        if place.grown(known, asked.budget):
            ended.unlink(missing_ok=True)
        if not trees:
            make_folder(ended.parent)
            write_whole(ended, b"")
        single_runs = len(asked.tasks.tasks) * len(splits.folds) if single else 0
        deadline = math.inf if asked.budget is None else -math.inf if ended.exists() else began + asked.budget
        beside = _references(asked, ready, splits)
        steps = Steps(runs + single_runs, on_progress)
        bench = Bench(asked.setup, methods, rates, splits, out, executor, steps, deadline, beside)
        fits = bench.reference_fits()
        steps.total += len(fits)
        if on_note:
            expected = None
            if pace is not None:
                expected = pace.seconds(runs + single_runs, asked.setup.learner.updates)
                expected += seconds_of(beside, fits) if beside else 0.0
            for line in (_announced(asked, rates, steps.total, len(fits), expected), *_cuts(asked, not ended.exists())):
                on_note(line)
            if splits.units < FEWEST_UNITS and splits.kind != "cross-validation":
                on_note(f"with so few seeds no difference can be shown; give --seeds {FEWEST_UNITS} or more")
        yield bench if single is None else _with_best_single(bench, single)


def _references(asked: Asked, methods: Sequence[Method], splits: Splits) -> References | None:
    """The reference models, unless they were turned off."""
    if not asked.references:
        return None
    balanced = scored_by(asked.setup.learner, splits.official).by_class
    return References.of(splits.official, chosen=chooses(subject(methods)), balanced=balanced)


def _runs_by_seeds(asked: Asked, splits: Splits, models: int) -> dict[int, int]:
    """The number of runs for each number of seeds, from the fewest that can show a difference to all of them."""
    units = {seeds: units_for(splits.kind, seeds) for seeds in range(1, len(asked.seeds) + 1)}
    enough = [seeds for seeds, count in units.items() if count >= FEWEST_UNITS] or [len(asked.seeds)]
    each = len(splits.judging) // splits.units
    beside = len(splits.folds) + len(benches.FINAL_SEEDS)
    return {seeds: models * (each * units[seeds] + beside) for seeds in enough}


def _pace(jobs: Sequence[Job], methods: int, workers: int) -> Pace:
    """How long runs take, from one run of one update. Its compilation stands for that of every program to come."""
    began = time.monotonic()
    (update,) = runner.seconds_per_update(jobs, 1)
    compiling = max(0.0, time.monotonic() - began - 2 * update)
    return Pace(update, workers, compiling * methods * PROGRAMS / max(1, workers))


def _announced(asked: Asked, rates: Sequence[Rates], total: int, beside: int, seconds: float | None) -> str:
    """Say how many fits there are, and about how long they take."""
    learner = asked.setup.learner
    steps = learner.updates * (learner.batches_per_update or 1)
    rated = f", {len(rates)} learning rates" if len(rates) > 1 else ""
    others = f" and {beside:,} reference models" if beside else ""
    what = (
        f"{total:,} fits: {total - beside:,} networks of {steps:,} steps ({len(asked.methods)} methods{rated}){others}"
    )
    if seconds is None:
        return f"{what}; continuing"
    bound = "" if asked.budget is not None else "; --budget limits the time"
    return f"{what}, about {budgets.in_words(seconds)}{bound}"


def _cuts(asked: Asked, trees: bool) -> Iterator[str]:
    """What is left out because the budget is too short."""
    if asked.references and not trees:
        yield "the budget is too short for forests and boosting; they are left out"
    if asked.left_out:
        every = len(asked.seeds) + len(asked.left_out)
        yield f"the budget is too short for all seeds: {len(asked.seeds)} of {every} are run"


def _with_best_single(bench: Bench, single: Method) -> Bench:
    """The bench with the source that does best on the folds as ``best-single``."""
    folds = bench.splits.folds
    if not folds:
        raise ConfigError(
            f"{SINGLE_BEST} is chosen on folds, but there are too few labelled rows for that; leave it out"
        )
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
