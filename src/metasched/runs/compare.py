"""A comparison on one task set: rates tuned on folds of the target's labelled rows, then every method with every seed.

Every method is run once on each of four folds of the labelled rows with each pair of rates, those of the settings and
those of the grid; the best mean score on the held-out rows decides, and those of the settings win a tie. No test row
takes part. Then every method runs with every seed on all labelled rows and is scored on the test rows.
"""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import msgspec

from metasched import untrusted
from metasched.errors import ConfigError, DataError, RunError
from metasched.files import make_folder, write_json
from metasched.learners import rewards
from metasched.learners.folds import equal_splits
from metasched.runs import folder
from metasched.runs.executors import Machines, executing
from metasched.runs.folder import COMPARISON
from metasched.runs.jobs import claim_folders
from metasched.runs.outcome import OURS, OWN_RUNS, Outcome, Study
from metasched.runs.spec import EARLIER, differences, first_in_words
from metasched.runs.status import WORK
from metasched.runs.sweep import (
    GRIDS,
    SINGLE_BEST,
    Finished,
    Method,
    OnFinished,
    Rates,
    Rows,
    Setup,
    Tuned,
    best_single,
    chosen_rates,
    tune,
)
from metasched.runs.upgrade import upgrade_spec
from metasched.schedulers import Scheduler
from metasched.schedulers.resolve import BASELINE, BEST_SINGLE, SINGLE, TARGET_ONLY, check_word
from metasched.tasks import TaskSet

CHOOSING = "thompson"
"""The method that the verdict is on, unless another has the role ``ours``."""
CONTROLS = (BASELINE, TARGET_ONLY)
"""What the verdict holds it against."""
DEFAULT = (CHOOSING, BASELINE, TARGET_ONLY, SINGLE_BEST)
RUNS = "runs"
TUNING = Path(WORK) / "tuning.jsonl"
FOLDS = 4
TUNING_SEED = 1001
"""Of the runs on folds; never reported."""
FEWEST_ROWS = 2 * FOLDS
_NAME = re.compile(r"\w[\w .:+-]*")

OnProgress = Callable[[str, int, int], None]
"""Called with what is being done, the runs finished and all runs, whenever one has finished."""


def methods_of(
    given: Sequence[str | Method] | None, reward: str = rewards.DEFAULT, abstain: bool = False
) -> list[Method]:
    """Methods from words and objects, with the controls that a verdict needs; one of them has the role ``ours``.

    A word is a method of that name, with the given reward and ``abstain``. A method without a reward has it too.
    """
    if isinstance(given, str | Method) or not isinstance(given, Iterable | None):
        raise ConfigError(f"methods is {given!r}; give a list of words and ms.Method(name, scheduler, …)")
    asked: list[str | Method] = list(DEFAULT if given is None else given)
    for one in asked:
        if not isinstance(one, str | Method):
            raise ConfigError(f"a method is {one!r}; give a word, or ms.Method(name, scheduler, …)")
    if not asked:
        raise ConfigError("no methods; give one or more, each once")
    asked += [word for word in CONTROLS if word not in {getattr(one, "name", one) for one in asked}]
    found = [Method(one, one, abstain=abstain) if isinstance(one, str) else one for one in asked]
    found = [replace(method, reward=method.reward or reward) for method in found]
    for method in found:
        _check_method(method)
    folders = [runs_of(Path(), method).name.lower() for method in found]
    for number, name in enumerate(folders):
        if name in folders[:number]:
            raise ConfigError(f"two methods are called '{found[number].name}'; give each a name of its own")
    if sum(method.scheduler == SINGLE_BEST for method in found) > 1:
        raise ConfigError(f"{SINGLE_BEST} is asked for twice; give it once")
    named = [method for method in found if method.role == OURS]
    if len(named) > 1:
        raise ConfigError(f"{named[0].name} and {named[1].name} both have the role '{OURS}'; give it to one")
    others = [method for method in found if method.name not in CONTROLS]
    first = [*named, *(method for method in others if method.name == CHOOSING), *others]
    return [replace(method, role=OURS) if first and method is first[0] else method for method in found]


def _check_method(method: Method) -> None:
    if isinstance(method.scheduler, str):
        check_word(method.scheduler, besides=(SINGLE_BEST, BEST_SINGLE))
        if method.scheduler == BEST_SINGLE:
            raise ConfigError(f"{BEST_SINGLE} is chosen on test rows; give {SINGLE_BEST}, chosen on the labelled rows")
    elif not isinstance(method.scheduler, Scheduler):
        raise ConfigError(f"the scheduler of '{method.name}' is {method.scheduler!r}; give a word or a Scheduler")
    if not _NAME.fullmatch(str(method.name)):
        raise ConfigError(f"a method is called {method.name!r}; use letters, digits, spaces and - _ . : +")
    if method.name in CONTROLS and (method.scheduler != method.name or method.options):
        raise ConfigError(f"'{method.name}' is the name of a control; call your method something else")


def subject(methods: Sequence[Method]) -> Method:
    """The method that the verdict is on: ours, or the baseline where there are only controls."""
    ours = [method for method in methods if method.role == OURS]
    return next(iter(ours), None) or next(method for method in methods if method.name == BASELINE)


def run_methods(
    setup: Setup,
    tasks: TaskSet,
    methods: Sequence[Method],
    seeds: Sequence[int],
    *,
    tuned: bool = True,
    out: Path | None = None,
    on_progress: OnProgress | None = None,
    machines: Machines = Machines(),  # noqa: B008
) -> list[Outcome]:
    """Tune and run every method; the outcomes, method after method, seed after seed.

    With ``out`` everything is kept there. A comparison that was interrupted goes on to the same numbers, wherever the
    runs are made, and seeds can be added to a finished one.
    """
    own = not all(isinstance(made, str) for made in (setup.network, *(method.scheduler for method in methods)))
    machines.check(own)
    rows: Rows = [(seed, tasks) for seed in seeds]
    single = next((method for method in methods if method.scheduler == SINGLE_BEST), None)
    parts: Rows = [(TUNING_SEED, part) for part in fold_sets(tasks)] if tuned or single else []
    for method in methods:  # refuse what cannot run, before anything is computed or written
        setup.jobs(replace(method, scheduler=f"{SINGLE}1") if method is single else method, rows, setup.learner.rates)
    grid = list(dict.fromkeys([setup.learner.rates, *GRIDS[setup.learner.name]])) if tuned else []
    tries = len(parts) * (len(grid) * len(methods) + (len(tasks.tasks) - bool(grid) if single else 0))
    total = tries + len(methods) * len(seeds)

    def counting(what: str, before: int) -> OnFinished:
        def on_finished(done: int, standing: str) -> None:
            if on_progress:
                on_progress(f"{what}: {standing}" if standing else what, before + done, total)

        return on_finished

    learner = setup.learner.resolve(tasks)
    drawn = learner.updates * (learner.batches_per_update or 1) * learner.inner_steps * learner.batch_size
    numbers = total * drawn * math.prod(tasks.shape)
    reached = executing(machines, out and out / WORK, numbers, own)  # before anything is written
    with reached as executor, _claimed(out, setup, tasks, methods, seeds, tuned), closing(executor):
        quick = setup._replace(learner=replace(setup.learner, eval_every=setup.learner.updates))
        trials = Finished(executor, out / TUNING if out and parts else None)
        chosen, before = list(methods), 0
        if single:
            best = best_single(quick, single, parts, lambda jobs: trials.run(jobs, counting("tuning", 0)))
            best = replace(best, role=best.role or "chosen on the labelled rows")
            chosen = [best if method is single else method for method in methods]
            before = len(parts) * (len(tasks.tasks) - 1)  # its runs with the first rates count in both rounds
        results = [Tuned(method, setup.learner.rates) for method in chosen]
        if grid:
            results = tune(quick, chosen, parts, grid, lambda jobs: trials.run(jobs, counting("tuning", before)))
        study = _study(setup, tasks, results, grid)
        jobs = [
            job
            for asked, (method, rates, _) in zip(methods, results, strict=True)
            for job in setup.jobs(method, rows, rates, study, out and runs_of(out, asked))
        ]
        return Finished(executor).run(claim_folders(jobs, out and out / RUNS), counting("measuring", tries))


def runs_of(out: Path, method: Method) -> Path:
    """Where in the folder of a comparison the runs of a method are."""
    return out / RUNS / re.sub(r"[: ]", "-", method.name)


def fold_sets(tasks: TaskSet) -> list[TaskSet]:
    """The same sources with each fold of the target's labelled rows as test rows once; the real test rows are gone.

    All folds have one shape, so that one compiled program serves them.
    """
    labels = tasks.validation.labels
    if len(labels) < FEWEST_ROWS:
        raise DataError(
            f"{tasks.name}: the target has {len(labels)} labelled rows; rates are tuned on {FOLDS} folds of them: "
            f"label at least {FEWEST_ROWS}"
        )
    return [tasks.held_out(part) for _, part in equal_splits(labels, FOLDS)]


def _study(setup: Setup, tasks: TaskSet, results: Sequence[Tuned], grid: Sequence[Rates]) -> Study:
    """What the outcomes say of how they came about."""
    learner = setup.learner.name
    return Study(
        experiment=tasks.name,
        regime=OWN_RUNS,
        variant=f"{learner} learner",
        cell=f"{tasks.name} {tasks.fingerprint[:16]} {learner}",
        title=f"{tasks.name}, {learner} learner",
        tuning={
            "on": f"{FOLDS} folds of the target's labelled rows",
            "seeds": [TUNING_SEED],
            "grid": [list(pair) for pair in grid],
            "chosen": chosen_rates(results, setup.learner.rate_names),
        }
        if grid
        else None,
    )


@contextmanager
def _claimed(
    out: Path | None, setup: Setup, tasks: TaskSet, methods: Sequence[Method], seeds: Sequence[int], tuned: bool
) -> Iterator[None]:
    """The folder of a comparison, made or found to hold the same one; nobody else works in it meanwhile.

    A stored comparison may have fewer seeds. The new ones are written down before the first of them is run, so that a
    kill in between leaves a folder that says what it is to hold.
    """
    if out is None:
        yield
        return
    asked = {
        "data": tasks.fingerprint,
        "learner": setup.learner.name,
        "network": setup.network if isinstance(setup.network, str) else "own",
        "methods": {method.name: _plain(method) for method in methods},
        "seeds": list(seeds),
        "tuned": tuned,
        "settings": asdict(setup.learner),
    }
    mark = out / COMPARISON
    if not mark.exists():
        folder.refuse_content(out, COMPARISON)
        make_folder(out)
    with folder.locked(out):
        again = "compare again in another folder"
        stored = _upgraded(untrusted.read_json(mark, dict[str, Any], again)) if mark.exists() else asked
        if isinstance(settings := stored.get("settings"), dict):
            stored = {**stored, "settings": {**EARLIER, **settings}}
        # Seeds may be added to those that a folder holds, but none of these may be left out.
        known = stored.get("seeds")
        known = known if isinstance(known, list) else [known]
        if missing := [seed for seed in known if seed not in seeds]:
            held = f"{len(known)} seeds, {missing[0]} among them"
            raise RunError(f"{out}: holds a comparison with {held}; give at least these, or choose another folder")
        if len(known) == 1 and len(seeds) > 1:  # its runs lie where the folders of several seeds would
            raise RunError(
                f"{out}: holds a comparison with one seed, to which none can be added; choose another folder"
            )
        if found := dict(differences(stored | {"seeds": asked["seeds"]}, asked)):
            raise RunError(f"{out}: holds a comparison {first_in_words(found)}; choose another folder")
        write_json(mark, asked)
        yield


def _upgraded(stored: dict[str, Any]) -> dict[str, Any]:
    """What version 0.1 wrote, which knew only words for schedulers, as this version writes it."""
    words, config = stored.get("schedulers"), stored.get("config")
    if not isinstance(words, list) or not isinstance(config, dict):
        return stored
    spec = upgrade_spec({"learner": stored.get("learner"), "config": config})
    own = {"options": {}, "reward": spec["reward"], "abstain": spec["abstain"]}
    kept = {key: stored.get(key) for key in ("data", "learner", "network", "seeds")}
    methods = {str(word): {"scheduler": word, **own} for word in words}
    return {**kept, "methods": methods, "tuned": True, "settings": spec["settings"]}


def _plain(method: Method) -> dict[str, Any]:
    """A method as JSON. Its role decides no number."""
    scheduler = method.scheduler if isinstance(method.scheduler, str) else "own"
    options = msgspec.to_builtins(dict(method.options))
    plain = {"scheduler": scheduler, "options": options, "reward": method.reward, "abstain": method.abstain}
    return plain if method.batching is None else {**plain, "batching": method.batching}
