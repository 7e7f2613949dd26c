"""``metasched train`` and ``resume``."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import tyro

from metasched.cli.common import (
    Options,
    RowFlags,
    SetName,
    app,
    now,
    pairs,
    print_line,
    put,
    say,
    stderr,
    stdout,
    title,
)
from metasched.cli.settings import FurtherFlags, LearnerFlags, SchedulerName
from metasched.seeds import counting

if TYPE_CHECKING:
    from metasched.runs.train import OnRecord, Run

MOST_LABELLED = 1000
"""With at most this many labelled target rows, a linear model on them takes seconds, and its score is printed."""


@app.command
def train(
    set: SetName,
    rows: RowFlags,
    further: FurtherFlags,
    asked: LearnerFlags,
    scheduler: SchedulerName = "auto",
    option: Options = (),
    seeds: int = 1,
    out: Path | None = None,
    json: bool = False,
) -> None:
    """Train on a data set with one scheduler.

    Example: metasched train demo --scheduler uniform --seed 11 --out runs/a

    Args:
        set: A data set (see 'metasched data list'), a CSV, Parquet or .npz file, a folder of tables or of images.
        further: How to run it.
        asked: The learner and its settings.
        scheduler: By name.
        option: An option of the scheduler, key=value, such as upper=1.0; may be repeated.
        rows: Which rows, and what to predict.
        seeds: Train with this many seeds, counting from the first (--seed, by default 0).
        out: Folder of the run; by default a new one under runs/.
        json: Print every update as a line of JSON when it happens, and a last line with the result.
    """
    from metasched.runs import train as runs
    from metasched.schedulers.resolve import BEST_SINGLE

    options = pairs("--option", option)
    settings = asked.settings()
    chosen = counting(seeds, further.seed)
    folder = out or Path("runs") / f"{title(set)}-{scheduler}-{now()}"
    tasks = rows.load(set)
    if not (json or further.quiet):
        put(tasks.summary(), end="\n\n")

    def work(on_record: "OnRecord") -> "Run":
        return runs.train(
            tasks,
            scheduler,
            options=options,
            learner=settings,
            network=further.network,
            reward=asked.reward,
            abstain=asked.abstain,
            seeds=chosen,
            out=folder,
            on_record=on_record,
            trackers=further.tracker,
        )

    sweeps = len(tasks.tasks) if scheduler == BEST_SINGLE else 1
    _tracked(work, scheduler, sweeps * len(chosen) * settings.updates, folder, further.quiet, json)


@app.command
def resume(folder: tyro.conf.Positional[Path], tracker: Options = (), quiet: bool = False, json: bool = False) -> None:
    """Continue an interrupted run. The numbers stay the same.

    Example: metasched resume runs/a

    Args:
        folder: The folder of the run.
        tracker: Also send records, from the first on, to tensorboard, mlflow or wandb; may be repeated.
        quiet: No progress.
        json: Print every update, from the first on, as a line of JSON, and a last line with the result.
    """
    from metasched.runs import train as runs
    from metasched.runs.folder import describe, refuse_comparison, runs_in

    refuse_comparison(folder)
    found = [describe(each) for each in list(runs_in(folder)) or [folder]]
    updates = [description.spec.settings.get("updates") for description in found]
    total = sum(count for count in updates if isinstance(count, int))  # The descriptions have not been checked yet.
    names = dict.fromkeys(description.method for description in found)
    _tracked(lambda on_record: runs.resume(folder, on_record, tracker), ", ".join(names), total, folder, quiet, json)


def _tracked(
    work: "Callable[[OnRecord], Run]", name: str, total: int, folder: Path, quiet: bool, as_json: bool
) -> None:
    """Run ``work`` and show its progress, then print the results."""
    from metasched.cli import progress
    from metasched.references.baseline import baseline
    from metasched.report import diagnostics, tables
    from metasched.runs import checkpoint
    from metasched.runs.folder import runs_in

    try:
        with progress.training(stderr(), quiet) as track:
            # An interrupted run starts with the updates that its checkpoint contains.
            show = track(name, total, sum(checkpoint.updates(each) for each in runs_in(folder)))

            def on_record(record: dict[str, Any]) -> None:
                show(record)
                if as_json:
                    print_line(record)

            run = work(on_record)
    except KeyboardInterrupt:
        again = f"metasched resume {folder}" if any(runs_in(folder)) else "the same command again"
        stderr().print(f"Continue with: {again}", highlight=False, soft_wrap=True)
        raise
    if as_json:
        print_line({"final": {str(seed): final for seed, final in run.final.items()}, "out": str(folder)})
        return
    meta, metric = run.outcomes[0].spec.learner == "meta", run.outcomes[0].metric
    called = metric.title if run.outcomes[0].spec.settings.get("metric") else "test accuracy"
    for seed, final in run.final.items():
        initial = f" (initial model {metric.shown(final['initial_test_accuracy']):.4f})" if meta else ""
        value = metric.shown(final["test_accuracy"])
        put(f"seed {seed}: {called} {value:.4f}{initial} on {final['test_rows']:,} rows")
    for seed, record in run.diverged.items():
        put(f"seed {seed}: ended at update {record['update']}: {record['diverged']}")
    if run.reason:
        say(f"auto chose {run.outcomes[0].spec.scheduler}: {run.reason}")
    counts = np.sum([final["drawn_by_label"] for final in run.final.values()], axis=0)
    abstained = sum(record["abstained"] for record in run.records if "final" in record)
    if counts.any():
        put()
        stdout().print(tables.drawn_by_label(counts.tolist(), run.tasks))
    if abstained:
        what = "rows" if run.outcomes[0].spec.settings.get("batching") == "mixed" else "batches"
        put(f"abstained from {abstained:,} {what}")
    lines = [*run.tasks.warnings]
    if metric.by_row and len(run.tasks.validation.labels) <= MOST_LABELLED:  # the linear model has no other score
        linear = baseline(run.tasks, metric.name == "balanced-accuracy")
        put(f"\n{linear.name} on the target's labelled rows alone: {linear.score:.4f}")
        lines += [*diagnostics.unscaled(run.tasks), *diagnostics.of_runs(run.outcomes, linear)]
    for line in lines:
        say(f"! {line}")
    put(f"\nRun: {run.out or folder}")
