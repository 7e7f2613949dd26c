"""Runs experiments: tunes, runs and writes every requested cell that does not exist yet.

A cell is a sweep of methods × seeds. Every finished run is stored at once, as a line in a file next to the results.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from metasched import untrusted
from metasched.datasets import store
from metasched.errors import DataError, RunError
from metasched.experiments.compact import compact
from metasched.experiments.datasets.simulate import simulate_weather
from metasched.experiments.datasets.weather import FILE
from metasched.experiments.definition import Cell, Experiment, target_drawn
from metasched.experiments.methods import SUPERVISED
from metasched.experiments.pooled import MODELS, pooled
from metasched.experiments.pooled import SEEDS as POOLED_SEEDS
from metasched.experiments.supervised import supervised
from metasched.files import make_folder, write_json
from metasched.learners.evaluation import evaluation_order
from metasched.learners.settings import AlgorithmOne
from metasched.runs import folder, runner
from metasched.runs import outcome as outcomes
from metasched.runs.executors import Executor, Machines, executing
from metasched.runs.jobs import Job, plain_settings
from metasched.runs.outcome import OURS, Final, Outcome, Study, device
from metasched.runs.spec import EARLIER
from metasched.runs.status import WORK
from metasched.runs.sweep import GRIDS, Finish, Finished, Method, Rates, Rows, Setup, chosen_rates, tune
from metasched.schedulers.resolve import SINGLE, TARGET_ONLY, USEFUL
from metasched.tasks import TEST, TaskSet

TUNING_SEEDS = (1001, 1002)
"""Never reported."""
MORE_TUNING_SEEDS = (1001, 1002, 1003, 1004)
"""Experiments in which each seed has its own labels."""
QUICK_TEST_ROWS = 300
WHOLE = "digits"
"""The experiment that a quick run has with all cells and methods."""
QUICK_BASELINES = ("cyclic", "uniform", TARGET_ONLY, USEFUL)
SHOWN_LABELS = 30
"""If labels are drawn by seed, cells with this many labels are the planned ones, and they store a schedule for the
figures.
"""

OnCellProgress = Callable[[str, int, int, str], None]
"""Called with a name, the finished runs, all runs, and the state of the others in words, whenever it has changed."""
Tuning = Mapping[str, Any]
"""The rates of each method, and how they were found."""


class Request(NamedTuple):
    """What to run and how. ``data`` has options of data sets by experiment. With ``timing`` every method is also timed
    alone.
    """

    out: Path
    seeds: tuple[int, ...]
    quick: bool
    data: Mapping[str, Mapping[str, Any]]
    on_progress: OnCellProgress | None = None
    timing: bool = True
    machines: Machines = Machines()

    def file_of_runs(self, name: str) -> Path:
        """The file of finished runs with this name."""
        return self.out / WORK / ("quick" if self.quick else "") / f"{name}.jsonl"


def claim(out: Path, quick: bool) -> None:
    """Make the folder of results. Quick and full results cannot share a folder."""
    mark = out / WORK / "settings.json"
    asked = {"quick": quick}
    for path in (*out.glob("*"), *out.glob("*/*"), *(out / WORK).rglob("*")):
        folder.refuse_linked(path, out)
    used = mark.exists() or any(out.glob("*/*.jsonl*"))
    again = "choose another --out"
    if used and (untrusted.read_json(mark, dict[str, Any], again) if mark.exists() else {"quick": False}) != asked:
        raise RunError(f"{out}: holds {'full' if quick else 'quick'} results; choose another --out")
    make_folder(mark.parent)
    write_json(mark, asked)


def run_experiment(experiment: Experiment, wanted: Sequence[Cell], request: Request) -> list[Path]:
    """Run the cells of an experiment that do not exist yet. Returns the result files of all requested cells."""
    paths = {cell.name: _result_file(request.out / experiment.name, cell.name) for cell in wanted}
    settings = {cell.name: quick(cell) if request.quick else cell for cell in wanted}
    missing = [cell for name, cell in settings.items() if not _held(paths[name], cell, request.seeds)]
    make_folder(request.out / WORK)
    much = 0.0 if request.quick or not missing else math.inf
    reached = executing(request.machines, request.out / WORK, much)
    with reached as executor, folder.locked(request.out / WORK), closing(executor):
        _run_cells(experiment, missing, paths, request, executor)
    if not request.quick and find_spec("sklearn"):
        for cell in wanted:
            _add_pooled(experiment, cell, paths[cell.name], request)
    if request.timing:
        _add_seconds(experiment, [cell for cell in wanted if not cell.draw_labels], paths, request)
    return list(paths.values())


def _result_file(folder: Path, name: str) -> Path:
    """The file for the outcomes of a cell. An uncompressed file of an earlier version stays."""
    plain = folder / f"{name}{outcomes.LINES}"
    return plain if plain.exists() else folder / f"{name}{outcomes.PACKED}"


def _run_cells(
    experiment: Experiment, missing: Sequence[Cell], paths: Mapping[str, Path], request: Request, executor: Executor
) -> None:
    """Tune for each cell, run it, and write its result file."""
    ceilings: dict[Any, list[Outcome]] = {}
    for cell in missing:
        tuning = None if request.quick else _tune(experiment, cell.learner, request, executor)
        study = _study(experiment, cell, tuning)
        rows = _rows_by_seed(cell, _tasks(experiment, cell, request), request.seeds, tuning=False)
        setup = _setup(experiment, cell)
        rates = {} if tuning is None else tuning["chosen"]
        jobs = [
            job
            for method in _methods(experiment, cell, rows[0][1], request.quick)
            for job in setup.jobs(method, rows, _rates(rates.get(method.name), setup), study)
        ]
        name = f"{experiment.name}/{cell.name}"
        finished = _finish(name, request, executor)(jobs)
        all_labels = _all_labels(cell)
        skipped = cell.draw_labels or (request.quick and all_labels != _all_labels(_tuned_in(experiment, cell.learner)))
        if all_labels not in ceilings and not skipped:
            ceilings[all_labels] = _ceiling(experiment, replace(cell, data=dict(all_labels)), jobs[0], request)
        ceiling = [msgspec.structs.replace(outcome, study=study) for outcome in ceilings.get(all_labels, [])]
        _write(paths[cell.name], [*finished, *ceiling], cell)


def _setup(experiment: Experiment, cell: Cell) -> Setup:
    return Setup(cell.config, experiment.network)


def _finish(name: str, request: Request, executor: Executor) -> Finish:
    """A function that runs the jobs with this name, stores their outcomes in a file, and shows the progress."""
    store = Finished(executor, request.file_of_runs(name))

    def finish(jobs: list[Job]) -> list[Outcome]:
        def report(done: int, standing: str) -> None:
            if request.on_progress:
                request.on_progress(name, done, len(jobs), standing)

        return store.run(jobs, report)

    return finish


def _rows_by_seed(cell: Cell, tasks: TaskSet, seeds: Sequence[int], tuning: bool) -> Rows:
    """The rows of every seed. If labels are drawn by seed, each seed has its own rows."""
    if cell.draw_labels is None:
        return [(seed, tasks) for seed in seeds]
    return [(seed, target_drawn(tasks, cell.draw_labels, seed, tuning)) for seed in seeds]


def _tuned_in(experiment: Experiment, learner: str) -> Cell:
    """The cell in which the rates of a learner are tuned."""
    names = {cell.name for cell in experiment.cells}
    own = f"{learner}-{experiment.tuned_in}"
    return experiment.cell(own if own in names else experiment.tuned_in)


def quick_cells(experiment: Experiment, wanted: Sequence[Cell]) -> list[Cell]:
    """The cells of a quick run: all of digits; for other experiments the paper regime and one cell with 30 labels."""
    everywhere = ("few-label-30", "joint-30")
    return [cell for cell in wanted if experiment.name == WHOLE or cell.regime == "paper" or cell.name in everywhere]


def _methods(experiment: Experiment, cell: Cell, tasks: TaskSet, short: bool) -> list[Method]:
    """The methods of an experiment. A quick run has all of digits; for others the paper's, ours and the baselines.

    Every run of a convolutional network takes a second or more, and single tasks would be half of all runs.
    """
    found = list(experiment.methods(tasks, cell.config.batching))
    if not short or experiment.name == WHOLE:
        return found
    return [method for method in found if method.role in ("paper", OURS) or method.name in QUICK_BASELINES]


def quick(cell: Cell) -> Cell:
    """The same cell in a few seconds: fewer and shorter meta-updates, at most a hundred target labels.

    The numbers then mean nothing, but tables and figures are complete. The ceiling is trained for one target of an
    experiment.
    """
    short = replace(
        cell.config,
        updates=3,
        batches_per_update=min(cell.config.batches_per_update or 1, 4),
        eval_every=1,
        eval_rows=100,
        reward_rows=None,
    )
    if isinstance(short, AlgorithmOne):
        short = replace(short, steps_per_batch=min(short.steps_per_batch, 4))
    return replace(cell, config=short, data=cell.data if cell.draw_labels else {"target_labels": 100, **cell.data})


def _tasks(experiment: Experiment, cell: Cell, request: Request) -> TaskSet:
    """The task set of a cell, with few test rows in a quick run."""
    tasks = experiment.load(cell, request.data.get(experiment.name))
    if not request.quick or cell.draw_labels or len(tasks.test.labels) <= QUICK_TEST_ROWS:
        return tasks
    rows = evaluation_order(tasks)[:QUICK_TEST_ROWS]
    provenance = {**tasks.provenance, TEST: tasks.provenance[TEST].take(rows, "a few, for a quick run")}
    return replace(tasks, test=tasks.test.take(rows), provenance=provenance, recipe=None)


def _study(experiment: Experiment, cell: Cell, tuning: Tuning | None) -> Study:
    return Study(
        experiment=experiment.name,
        regime=cell.regime,
        variant=cell.variant,
        cell=f"{experiment.name}/{cell.name}",
        title=f"{experiment.title}; {cell.regime}, {cell.variant}",
        threshold=cell.threshold,
        tuning=None if tuning is None else dict(tuning),
        exploratory=cell.draw_labels not in (None, SHOWN_LABELS),
    )


def _write(path: Path, found: Sequence[Outcome], cell: Cell) -> None:
    """Write the result file of a cell, with rows by label only in the paper's regime, and schedules if a figure shows
    them.

    If labels are drawn by seed, single tasks have final accuracies but no curves.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    shown = cell.name in ("few-label-30", "robust-40") or cell.draw_labels == SHOWN_LABELS
    first = {outcome.method: outcome.run for outcome in reversed(found) if outcome.final is not None}

    def scheduled(outcome: Outcome) -> bool:
        return shown and (first.get(outcome.method) == outcome.run or (bool(cell.draw_labels) and outcome.role == OURS))

    lines = [
        compact(
            outcome,
            by_label=cell.regime == "paper",
            schedule=scheduled(outcome),
            curve=not (cell.draw_labels and outcome.spec.scheduler.startswith(SINGLE)),
        )
        for outcome in found
    ]
    outcomes.write(path, lines)


def _held(path: Path, cell: Cell, seeds: Sequence[int]) -> bool:
    """Whether a result file has the cell's settings and all the seeds. A file that cannot be read is made again."""
    try:
        found = [
            outcome for outcome in outcomes.read(path) if outcome.family != "ceiling" and outcome.method not in MODELS
        ]
    except DataError:
        return False
    of_method = (*cell.config.rate_names, "gradient", "batches_per_update", "batching")
    wanted = {key: value for key, value in asdict(cell.config).items() if value is not None and key not in of_method}
    usual = {**asdict(type(cell.config)()), **EARLIER}
    seen: dict[str, set[int]] = {}
    batchings = set()  # methods with one source per batch next to those that mix rows
    for outcome in found:
        settings = {**usual, **outcome.spec.settings}  # a later setting had its default
        batchings.add(settings["batching"])
        if any(settings[key] != value for key, value in wanted.items()):
            return False
        seen.setdefault(outcome.method, set()).add(outcome.spec.seed)
    return cell.config.batching in batchings and all(set(seeds) <= own for own in seen.values())


def _rates(chosen: Mapping[str, float] | None, setup: Setup) -> Rates:
    if chosen is None:
        return setup.learner.rates
    # Version 0.1 called the rate of the joint learner outer_rate.
    return tuple(chosen.get(name) or chosen["outer_rate"] for name in setup.learner.rate_names)


def _tune(experiment: Experiment, learner: str, request: Request, executor: Executor) -> Tuning:
    """For every method the rates with the best mean final accuracy over the tuning seeds, from the same grid."""
    name = f"{experiment.name}/tuning" if learner == "meta" else f"{experiment.name}/tuning-{learner}"
    path = request.out / WORK / f"{name}.json"
    if path.exists():
        return untrusted.read_json(path, dict[str, Any], "remove it to tune again")
    cell = _tuned_in(experiment, learner)
    seeds = TUNING_SEEDS if cell.draw_labels is None else MORE_TUNING_SEEDS
    rows = _rows_by_seed(cell, experiment.load(cell, request.data.get(experiment.name)), seeds, tuning=True)
    grid, setup = GRIDS[learner], _setup(experiment, cell)
    finish = _finish(name, request, executor)
    results = tune(setup, experiment.methods(rows[0][1], cell.config.batching), rows, grid, finish)
    names = setup.learner.rate_names
    tuning = {
        "seeds": list(seeds),
        "cell": f"{experiment.name}/{cell.name}",
        "grid": {key: sorted(set(values)) for key, values in zip(names, zip(*grid, strict=True), strict=True)},
        "chosen": chosen_rates(results, names),
    }
    write_json(path, tuning)
    return tuning


def _all_labels(cell: Cell) -> tuple[tuple[str, Any], ...]:
    """The cell's options of the data set except for the number of target labels. The ceiling depends on them."""
    return tuple(sorted((key, value) for key, value in cell.data.items() if key != "target_labels"))


def _ceiling(experiment: Experiment, cell: Cell, like: Job, request: Request) -> list[Outcome]:
    """The ceiling: a supervised network on all rows, with every target label and clean tasks."""
    tasks = _tasks(experiment, replace(cell, noisy=(), irrelevant=None), request)
    config = replace(cell.config, heads="auto").resolve(tasks)
    found = supervised(tasks, experiment.network, config, list(request.seeds), 60 if request.quick else 2000)
    described = like.description
    lines = []
    for place, seed in enumerate(request.seeds):
        settings = plain_settings(config)
        spec = msgspec.structs.replace(
            described.spec, learner=SUPERVISED, scheduler="none", options={}, settings=settings, seed=seed
        )
        accuracy = found.accuracy[place]
        lines.append(
            Outcome(
                run=spec.name,
                spec=spec,
                method=SUPERVISED,
                family="ceiling",
                role=f"trained on all {found.rows:,} rows of sources and target",
                about=described.about,
                origin=described.origin,
                final=Final(
                    test_accuracy=accuracy,
                    initial_test_accuracy=accuracy,
                    balanced_test_accuracy=found.balanced[place],
                    test_accuracy_by_class=tuple(found.by_class[place]),
                ),
            )
        )
    return lines


def _add_pooled(experiment: Experiment, cell: Cell, path: Path, request: Request) -> None:
    """Add to the result file of a planned cell the scores of models on the pooled rows, if labels are shared."""
    if cell.draw_labels != SHOWN_LABELS or cell.learner != "joint":
        return
    found = list(outcomes.read(path))
    if any(outcome.method in MODELS for outcome in found):
        return
    tasks = _tasks(experiment, cell, request)
    if not tasks.shared_labels:
        return
    like = {outcome.spec.seed: outcome for outcome in reversed(found) if outcome.final is not None}
    for seed, rows in _rows_by_seed(cell, tasks, [seed for seed in POOLED_SEEDS if seed in like], tuning=False):
        for name, accuracy in pooled(rows, seed).items():
            spec = msgspec.structs.replace(
                like[seed].spec, learner=name, scheduler="none", options={}, settings={}, reward="none"
            )
            found.append(
                Outcome(
                    run=spec.name,
                    spec=spec,
                    method=name,
                    family="control",
                    role=MODELS[name],
                    study=like[seed].study,
                    about=like[seed].about,
                    origin=outcomes.origin(like[seed].origin.command),
                    final=Final(test_accuracy=accuracy),
                )
            )
    outcomes.write(path, found)


def _add_seconds(experiment: Experiment, cells: Sequence[Cell], paths: Mapping[str, Path], request: Request) -> None:
    """Write into result files how long each method and its decisions take, timed in the cell where rates are tuned.

    In other cells, the time of a meta-update is proportional to its inner steps. Results from another device are left
    alone.
    """
    here = device()
    untimed = {
        paths[cell.name]: found
        for cell in cells
        for found in [list(outcomes.read(paths[cell.name]))]
        if all(outcome.seconds is None and outcome.origin.device == here for outcome in found)
    }
    if not untimed:
        return
    listed = experiment.cell(experiment.tuned_in)
    cell = quick(listed) if request.quick else listed
    tasks = _tasks(experiment, cell, request)
    setup = _setup(experiment, cell)
    jobs = [
        job
        for method in _methods(experiment, cell, tasks, request.quick)
        for job in setup.jobs(method, [(0, tasks)], setup.learner.rates)
    ]
    names = [job.description.method for job in jobs]
    alone = dict(zip(names, runner.seconds_per_update(jobs, 1 if request.quick else 5), strict=True))
    steps = _steps(asdict(cell.config))

    def timed(outcome: Outcome) -> Outcome:
        config = outcome.spec.settings
        if outcome.method not in alone:
            return outcome
        scale = _steps(config) / steps if config["batches_per_update"] else 1.0
        seconds = alone[outcome.method] * scale * config["updates"]
        cost = max(0.0, alone[outcome.method] - alone["cyclic"]) * scale / (config["batches_per_update"] or 1)
        return msgspec.structs.replace(outcome, seconds=round(seconds, 3), scheduling_seconds=float(f"{cost:.3g}"))

    for path, found in untimed.items():
        outcomes.write(path, [timed(outcome) for outcome in found])


def _steps(config: Mapping[str, Any]) -> int:
    """Inner steps of one meta-update."""
    return int(config["batches_per_update"]) * int(config.get("steps_per_batch", 1))


def weather_data(given: Path | None, out: Path, quick: bool) -> dict[str, Any]:
    """The options of the weather data: the given file, that of the data folders, or otherwise a simulated one.

    Simulated data are marked in the file, and every result and caption says so.
    """
    if given is not None or store.find(FILE) is not None:
        return {} if given is None else {"path": str(given)}
    images = 120 if quick else 900
    path = out / WORK / f"simulated-weather-{images}.h5"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        simulate_weather(path, images=images, height=192, width=288)
    split = {"validation_images": 25, "training_images": 60} if quick else {}
    return {"path": str(path), **split}
