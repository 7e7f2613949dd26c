"""``metasched compare``: does choosing help on these data?"""

from pathlib import Path

from metasched.cli.common import RowFlags, SetName, WhereFlags, app, listed, now, print_json, put, say, stderr, stdout
from metasched.cli.settings import LearnerFlags


@app.command
def compare(
    set: SetName,
    rows: RowFlags,
    asked: LearnerFlags,
    where: WhereFlags,
    schedulers: str = "",
    seeds: int = 10,
    out: Path | None = None,
    network: str = "auto",
    quiet: bool = False,
    json: bool = False,
) -> None:
    """Run several schedulers on the same rows and say whether choosing helps.

    Example: metasched compare shops/ --target shop5 --target-labels 40

    Args:
        set: A data set (see 'metasched data list'), a CSV, Parquet or .npz file, a folder of tables or of images.
        asked: The learner and its settings; its rates are tuned from there, alike for all, on folds of the target's
            labelled rows.
        schedulers: Names, separated by commas; by default thompson (ours), uniform, target-only and best-single, the
            source that did best on the labelled rows. uniform and target-only are always there.
        seeds: Run every scheduler with this many seeds.
        out: Folder of the runs and the page; by default a new one under runs/. The same command goes on there, and
            with more seeds runs those alone.
        rows: Which rows, and what to predict.
        where: Where runs are made.
        network: auto, mlp or cnn.
        quiet: No progress.
        json: Print as JSON.
    """
    from metasched.cli import progress
    from metasched.comparison import PAGE
    from metasched.comparison import compare as run
    from metasched.errors import MetaschedError

    folder = out or Path("runs") / f"{Path(set).stem}-compare-{now()}"
    tasks = rows.load(set)
    try:
        with progress.several(stderr(), quiet) as show:
            comparison = run(
                tasks,
                listed(schedulers) or None,
                learner=asked.settings(),
                reward=asked.reward,
                abstain=asked.abstain,
                seeds=seeds,
                network=network,
                out=folder,
                on_progress=show and (lambda what, done, total: show("compare", done, total, what)),
                executor=where.executor,
                workers=where.workers,
                address=where.address,
            )
    except KeyboardInterrupt:
        stderr().print(f"Continue with: the same command, --out {folder}", highlight=False, soft_wrap=True)
        raise
    place: Path | None = folder / PAGE
    try:
        comparison.report(folder / PAGE)
    except MetaschedError as error:  # the page needs an extra; the answer does not
        place = None
        stderr().print(f"no page: {error}", highlight=False, markup=False, soft_wrap=True)
    if json:
        print_json({**comparison.summary(), "out": str(folder), "page": place and str(place)})
        return
    say(comparison.verdict + "\n")
    put(comparison.table(stdout().width))
    for line in comparison.warnings:
        say(f"! {line}")
    say(f"Page: {place}" if place else f"Runs: {folder}")
