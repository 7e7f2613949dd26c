"""``metasched paper``: tune, run and write down every cell that is asked for and not there yet."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from metasched.datasets import store
from metasched.datasets.simulate import simulate_weather
from metasched.datasets.weather import FILE
from metasched.errors import RunError
from metasched.experiments import Cell, Experiment, Method, methods
from metasched.meta.config import TrainConfig
from metasched.meta.diagnose import diagnose
from metasched.meta.evaluate import measured_order
from metasched.meta.records import Rates
from metasched.runs import cells, lanes
from metasched.runs.cells import OnLane, Setting
from metasched.runs.compact import compact
from metasched.runs.files import write_error, write_json, write_whole
from metasched.runs.lanes import Bench, Lane
from metasched.runs.origin import device, origin
from metasched.runs.supervised import Supervised, supervised
from metasched.tasks import TEST, TaskSet

GRID = tuple(Rates(inner, outer) for inner in (0.01, 0.03, 0.1) for outer in (1e-3, 3e-3))
"""Inner and outer rates that are tried for every method alike."""
TUNING_SEEDS = (1001, 1002)
"""Never reported."""
QUICK_TEST_ROWS = 300
WORK = ".work"
"""Folder of finished runs, beside the results."""


class Order(NamedTuple):
    """What to run: where, seeds, full or quick, the command for the record, options of data sets, whether to time."""

    out: Path
    seeds: tuple[int, ...]
    quick: bool
    command: str
    data: Mapping[str, Mapping[str, Any]]
    on_lane: OnLane | None = None
    timing: bool = True


def quick_cells(experiment: Experiment, wanted: Sequence[Cell]) -> list[Cell]:
    """The cells of a quick run: all of digits; elsewhere the paper regime and one cell of each other regime."""
    everywhere = ("few-label-30", *(("robust-40",) if experiment.name == "cifar" else ()))
    kept = experiment.name == "digits"
    return [cell for cell in wanted if kept or cell.regime == "paper" or cell.name in everywhere]


def quick(cell: Cell) -> Cell:
    """The same cell in a few seconds: fewer and shorter meta-updates, at most a hundred target labels.

    Numbers mean nothing then; tables and figures are complete. The ceiling is trained for one target of an experiment.
    """
    short = replace(
        cell.config,
        meta_updates=3,
        batches_per_update=min(cell.config.batches_per_update or 1, 4),
        steps_per_batch=min(cell.config.steps_per_batch, 4),
        eval_every=1,
        eval_rows=100,
        reward_rows=None,
    )
    return replace(cell, config=short, data={"target_labels": 100, **cell.data})


def _tasks(experiment: Experiment, cell: Cell, order: Order) -> TaskSet:
    """The task set of a cell; in a quick run with a few test rows."""
    tasks = experiment.load(cell, order.data.get(experiment.name))
    if not order.quick or len(tasks.test.labels) <= QUICK_TEST_ROWS:
        return tasks
    rows = measured_order(tasks)[:QUICK_TEST_ROWS]
    provenance = {**tasks.provenance, TEST: tasks.provenance[TEST].take(rows, "a few, for a quick run")}
    return replace(tasks, test=tasks.test.take(rows), provenance=provenance, recipe=None)


def claim(out: Path, quick: bool) -> None:
    """Make the folder of results; one that holds full results takes no quick ones, and the other way round."""
    mark = out / WORK / "settings.json"
    asked = {"quick": quick}
    known = mark.exists() or any(out.glob("*/*.json"))
    if known and (json.loads(mark.read_text()) if mark.exists() else {"quick": False}) != asked:
        raise RunError(f"{out}: holds {'full' if quick else 'quick'} results; choose another --out")
    try:
        mark.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise write_error(mark.parent, error) from None
    write_json(mark, asked)


def run_experiment(experiment: Experiment, wanted: Sequence[Cell], order: Order) -> list[Path]:
    """Run the cells of one experiment that are not there yet; the result files of all that were wanted."""
    benches: dict[Any, Bench] = {}
    paths = {cell.name: order.out / experiment.name / f"{cell.name}.json" for cell in wanted}
    settings = {cell.name: quick(cell) if order.quick else cell for cell in wanted}
    missing = [cell for name, cell in settings.items() if not _holds(paths[name], cell, order)]
    tuning = None if order.quick or not missing else _tuned(experiment, order, benches)
    ceilings: dict[Any, Supervised] = {}
    for cell in missing:
        tasks = _tasks(experiment, cell, order)
        everyone = methods(len(tasks.tasks))
        chosen = {method.name: _rates(tuning, method, cell.config) for method in everyone}
        runs = [Lane(method, seed, *chosen[method.name]) for method in everyone for seed in order.seeds]
        bench = _bench(experiment, cell, tasks, everyone, len(order.seeds) * len(everyone), benches)
        name = f"{experiment.name}/{cell.name}"
        kept = order.out / WORK / ("quick" if order.quick else "") / f"{name}.jsonl"
        outcomes = cells.run_lanes(bench, runs, kept, name, order.on_lane)
        of_target = _all_labels(cell)
        skipped = order.quick and of_target != _all_labels(experiment_cell(experiment, experiment.tuned_in))
        if of_target not in ceilings and not skipped:
            ceilings[of_target] = _ceiling(experiment, replace(cell, data=dict(of_target)), order)
        by_method = {
            method.name: dict(zip(order.seeds, outcomes[begin : begin + len(order.seeds)], strict=True))
            for begin, method in zip(range(0, len(runs), len(order.seeds)), everyone, strict=True)
        }
        setting = Setting(order.command, tuning)
        found = cells.result(experiment, cell, tasks, bench, by_method, everyone, ceilings.get(of_target), setting)
        _write(paths[cell.name], found)
    if order.timing:
        _add_seconds(experiment, list(paths.values()), order, benches)
    return list(paths.values())


def _all_labels(cell: Cell) -> tuple[tuple[str, Any], ...]:
    """The cell's options of the data set but for how many target labels there are: what its ceiling depends on."""
    return tuple(sorted((key, value) for key, value in cell.data.items() if key != "target_labels"))


def _write(path: Path, found: Mapping[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, (json.dumps(compact(found), separators=(",", ":")) + "\n").encode())


def experiment_cell(experiment: Experiment, name: str) -> Cell:
    """A cell by its name."""
    return next(cell for cell in experiment.cells if cell.name == name)


def _steps(config: Mapping[str, Any]) -> int:
    """Inner steps of one meta-update."""
    return int(config["batches_per_update"] or 1) * int(config["steps_per_batch"])


def _holds(path: Path, cell: Cell, order: Order) -> bool:
    """Whether a result file has the cell's settings and all the seeds; one that cannot be read is made again."""
    try:
        found = json.loads(path.read_text())
        config = {**asdict(cell.config), "abstain": True, "gradient": found["config"]["gradient"]}
        same = all(found["config"][name] == value for name, value in config.items() if value is not None)
        return same and all(
            set(order.seeds) <= set(row["seeds"]) for row in found["methods"].values() if row["family"] != "ceiling"
        )
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _bench(
    experiment: Experiment,
    cell: Cell,
    tasks: TaskSet,
    everyone: Sequence[Method],
    number: int,
    benches: dict[Any, Bench],
) -> Bench:
    """A program for the cell; one that was compiled for the same shapes and settings serves again."""
    shapes = (
        tasks.sizes,
        tasks.shape,
        len(tasks.validation.labels),
        min(cell.config.eval_rows, len(tasks.test.labels)),
    )
    together = lanes.lanes_at_once(number)
    key = (cell.config, shapes, together)
    if key in benches:
        return lanes.refill(benches[key], tasks)
    benches[key] = lanes.prepare(tasks, experiment.network, cell.config, everyone, together)
    return benches[key]


def _rates(tuning: Mapping[str, Any] | None, method: Method, config: TrainConfig) -> Rates:
    if tuning is None:
        return Rates(config.inner_rate, config.outer_rate)
    found = tuning["chosen"][method.name]
    return Rates(found["inner_rate"], found["outer_rate"])


def _tuned(experiment: Experiment, order: Order, benches: dict[Any, Bench]) -> dict[str, Any]:
    """For every method the rates with the best mean final accuracy over the tuning seeds, from the same grid."""
    path = order.out / WORK / experiment.name / "tuning.json"
    if path.exists():
        return dict(json.loads(path.read_text()))
    cell = experiment_cell(experiment, experiment.tuned_in)
    tasks = experiment.load(cell, order.data.get(experiment.name))
    everyone = methods(len(tasks.tasks))
    bench = _bench(experiment, cell, tasks, everyone, len(order.seeds) * len(everyone), benches)
    runs = [Lane(method, seed, *rates) for method in everyone for rates in GRID for seed in TUNING_SEEDS]
    name = f"{experiment.name}/tuning"
    outcomes = cells.run_lanes(bench, runs, order.out / WORK / f"{name}.jsonl", name, order.on_lane)
    finals = [outcome["final"]["test_accuracy"] if "final" in outcome else 0.0 for outcome in outcomes]
    scores = np.asarray(finals).reshape(len(everyone), len(GRID), len(TUNING_SEEDS)).mean(axis=2)
    best = scores.argmax(axis=1)
    inner_rates, outer_rates = (sorted(set(column)) for column in zip(*GRID, strict=True))
    tuning = {
        "seeds": list(TUNING_SEEDS),
        "cell": f"{experiment.name}/{cell.name}",
        "grid": {"inner_rate": inner_rates, "outer_rate": outer_rates},
        "chosen": {
            method.name: {
                "inner_rate": GRID[number][0],
                "outer_rate": GRID[number][1],
                "accuracy": round(float(row[number]), 4),
            }
            for method, number, row in zip(everyone, best, scores, strict=True)
        },
    }
    write_json(path, tuning)
    return tuning


def _ceiling(experiment: Experiment, cell: Cell, order: Order) -> Supervised:
    """A supervised network on all rows: every target label there is, clean tasks."""
    tasks = _tasks(experiment, replace(cell, noisy=(), irrelevant=None), order)
    config = replace(cell.config, heads="auto").resolve(tasks)
    return supervised(tasks, experiment.network, config, list(order.seeds), 60 if order.quick else 2000)


def _add_seconds(experiment: Experiment, paths: Sequence[Path], order: Order, benches: dict[Any, Bench]) -> None:
    """Write into result files how long each method takes, and what its decisions cost; timed where rates are tuned.

    A meta-update of another cell takes as much more as it has inner steps more. Results that another device made are
    left alone.
    """
    here = device()
    known = {path: json.loads(path.read_text()) for path in paths}
    unset = {path: found for path, found in known.items() if not found.get("timed") and found["device"] == here}
    if not unset:
        return
    listed = experiment_cell(experiment, experiment.tuned_in)
    cell = quick(listed) if order.quick else listed
    tasks = _tasks(experiment, cell, order)
    everyone = methods(len(tasks.tasks))
    bench = _bench(experiment, cell, tasks, everyone, 1, benches)
    alone = {method.name: lanes.seconds_per_update(bench, _plain_lane(method, cell.config)) for method in everyone}
    for path, found in unset.items():
        scale = _steps(found["config"]) / _steps(vars(cell.config))
        batches = found["config"]["batches_per_update"]
        for name, row in found["methods"].items():
            if name not in alone:
                continue
            row["seconds"] = [round(alone[name] * scale * found["config"]["meta_updates"], 3)] * len(row["seeds"])
            row["scheduling_seconds"] = float(f"{max(0.0, alone[name] - alone['cyclic']) * scale / batches:.3g}")
        _write(path, {**found, "timed": f"{experiment.name}/{cell.name}, each method alone"})


def _plain_lane(method: Method, config: TrainConfig) -> Lane:
    return Lane(method, 0, config.inner_rate, config.outer_rate)


def write_evidence(experiment: Experiment, order: Order) -> Path:
    """Order tests, transition matrices and the scaled error of one experiment's sources."""
    path = order.out / experiment.name / "evidence.json"
    permutations, steps = (999, 40) if order.quick else (10_000, 120)
    if _tested(path, permutations):
        return path
    cell = experiment.cells[0]
    tasks = experiment.load(replace(cell, noisy=(), irrelevant=None), order.data.get(experiment.name))
    config = replace(cell.config, batch_size=20, batches_per_update=None, steps_per_batch=1)
    found = diagnose(tasks, experiment.network, config, permutations=permutations, steps=steps)
    stationarity = found.stationarity
    scaled: dict[str, Any] | None = None
    if stationarity is not None:
        errors = stationarity.errors.mean(axis=0)
        fitted = stationarity.exponent[np.isfinite(stationarity.exponent)]
        times = np.arange(1, len(errors) + 1)
        curves = np.sqrt(times)[:, None] * errors
        scaled = {
            "steps": times.tolist(),
            "by_class": {
                name: np.round(curves[:, number], 4).tolist()
                for number, name in enumerate(tasks.classes)
                if np.isfinite(curves[:, number]).all()
            },
            "exponent": round(float(fitted.mean()), 4) if fitted.size else None,
        }
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(
        path,
        {
            "format": cells.FORMAT,
            "kind": "evidence",
            "experiment": experiment.name,
            "simulated": tasks.simulated,
            **origin(order.command),
            "permutations": permutations,
            "order": [
                {
                    "task": task.name,
                    "rows": len(task),
                    "p_permutation": test.p_value,
                    "p_asymptotic": test.asymptotic_p_value,
                    "p_diagonal": test.stickiness_p_value,
                    "association": test.cramers_v,
                }
                for task, test in zip(tasks.tasks, found.orders, strict=True)
            ],
            "transitions": {
                task.name: np.round(test.transitions, 4).tolist()
                for task, test in zip(tasks.tasks, found.orders, strict=True)
            },
            "classes": list(tasks.classes),
            "scaled_error": scaled,
        },
    )
    return path


def _tested(path: Path, permutations: int) -> bool:
    """Whether an evidence file is there, of at least so many permutations."""
    try:
        return int(json.loads(path.read_text())["permutations"]) >= permutations
    except (OSError, ValueError, KeyError, TypeError):
        return False


def weather_data(given: Path | None, out: Path, quick: bool) -> dict[str, Any]:
    """Options of the weather data: the given file, that of the data folders, or else one that we simulate.

    What is simulated is marked so in the file, and every result and caption says it.
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
