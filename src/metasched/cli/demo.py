"""``metasched demo``: does choosing pay, on data that comes with the install?"""

from collections.abc import Mapping
from pathlib import Path

from metasched.cli.common import app, now, print_json, put, say, stderr, stdout
from metasched.learners.settings import Joint
from metasched.seeds import counting

METHODS: Mapping[str, str] = {
    "ours": "auto",
    "ucb": "ucb",
    "uniform": "uniform",
    "cyclic": "cyclic",
    "target-only": "target-only",
    "useful alone": "useful",
}
"""The rows of the table, and the scheduler of each."""
LEARNER = Joint(updates=10, batches_per_update=15, target_batch="all", eval_every=1, eval_rows=500)


@app.command
def demo(seeds: int = 7, out: Path | None = None, quiet: bool = False, json: bool = False) -> None:
    """Does choosing pay on digits at several angles? A table and a page.

    Example: metasched demo

    Args:
        seeds: Repeat with this many seeds.
        out: Folder of the runs and the page; by default a new one under runs/. A demo interrupted there continues.
        quiet: No progress.
        json: Print the table as JSON.
    """
    from metasched import datasets
    from metasched.cli import progress
    from metasched.optional import require
    from metasched.report import demonstration, page, results
    from metasched.runs.jobs import claim_folders, make_jobs
    from metasched.runs.outcome import Outcome
    from metasched.runs.runner import run

    for module in ("altair", "jinja2", "vl_convert"):
        require(module, "demo")
    folder = out or Path("runs") / f"demo-{now()}"
    chosen = counting(seeds)
    tasks = datasets.load("demo")
    if not (json or quiet):
        put(tasks.summary(), end="\n\n")
    jobs = [
        job
        for name, scheduler in METHODS.items()
        for job in make_jobs(
            *(tasks, scheduler),
            network="mlp",
            learner=LEARNER,
            seeds=chosen,
            out=folder / name.replace(" ", "-"),
            method=name,
            role=name,
        )
    ]
    finished: dict[str, list[Outcome]] = {name: [] for name in METHODS}
    with progress.several(stderr(), quiet) as show:

        def on_outcome(_: int, outcome: Outcome) -> None:
            done = finished[outcome.method]
            done.append(outcome)
            if show:
                show(outcome.method, len(done), seeds, demonstration.summarise(done, tasks).words)

        found = run(claim_folders(jobs, folder), on_outcome=on_outcome)
    rows = {
        name: demonstration.summarise([each.outcome for each in found if each.outcome.method == name], tasks)
        for name in METHODS
    }
    place = folder / "page.html"
    page.write(page.build(results.load([folder])), place)
    verdict = demonstration.verdict(rows)
    if json:
        print_json({"methods": demonstration.as_json(rows), "verdict": verdict, "out": str(folder), "page": str(place)})
        return
    put()
    stdout().print(demonstration.table(rows))
    say(f"\n{demonstration.legend(seeds, tasks)}\n\n{verdict}\n\nRuns: {folder}\nPage: {place}")
