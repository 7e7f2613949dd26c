"""``metasched compare``: does choosing help on these data?"""

import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from metasched.cli.common import (
    Options,
    RowFlags,
    SetName,
    WhereFlags,
    app,
    listed,
    now,
    pairs,
    print_json,
    put,
    say,
    stderr,
    stdout,
    title,
)
from metasched.cli.settings import LearnerFlags, warn_renamed
from metasched.errors import ConfigError, MetaschedError

if TYPE_CHECKING:
    from metasched.runs.sweep import Method
    from metasched.tasks import TaskSet

_COMMAS = re.compile(r",(?![^\[({]*[\])}])")
"""Commas between options, but not those inside a list."""


@app.command
def compare(
    set: SetName,
    rows: RowFlags,
    asked: LearnerFlags,
    where: WhereFlags,
    methods: str = "",
    method: Options = (),
    seeds: int = 10,
    out: Path | None = None,
    network: str = "auto",
    tune: bool = True,
    references: bool = True,
    budget: str | None = None,
    quiet: bool = False,
    json: bool = False,
    schedulers: str = "",
) -> None:
    """Does choosing help, which model is best, and what is each source worth?

    Example: metasched compare shops/ --target shop5 --target-labels 40

    Args:
        set: A data set (see 'metasched data list'), a CSV, Parquet or .npz file, a folder of tables or of images.
        asked: The learner and its settings. Networks are averaged over several learning rates around the one given.
        methods: Schedulers, separated by commas; by default thompson (ours), uniform and target-only. The last two are
            always included. best-single is the source that does best on folds of the labelled rows.
        method: One more method in addition to --methods, NAME=SCHEDULER[:option=value,...], such as
            'wide=ucb:upper=2.0,reward=gain'. reward and abstain belong to the method; everything else is an option
            of the scheduler. May be repeated.
        seeds: Fit every method with this many seeds. If there are enough labelled rows, each seed draws its own.
        out: Folder of the runs and the page; by default a new one under runs/. The same command continues there, and
            with more seeds it only runs the new ones.
        rows: Which rows, and what to predict.
        where: Where runs are made.
        network: auto, mlp or cnn.
        tune: With --no-tune, networks use one learning rate, that of the settings, instead of several.
        references: With --no-references, no linear models, forests and boosting models are fitted.
        budget: A time limit, such as 90s, 2m or 1h; runs then have fewer steps.
        quiet: No progress.
        json: Print as JSON.
        schedulers: The old name of --methods.
    """
    from metasched.comparison.methods import DEFAULT

    if schedulers and methods:
        raise ConfigError("--schedulers is the old name of --methods; give --methods alone")
    if schedulers:
        warn_renamed("--schedulers", "--methods")
    named: list[str | Method] = [*(listed(methods or schedulers) or DEFAULT), *map(parsed, method)]
    tasks = rows.load(set)
    for note in () if quiet else tasks.notes:
        if not note.startswith("target "):  # a comparison divides the target again and again
            stderr().print(f"note: {note}", highlight=False, markup=False, soft_wrap=True)
    compared(
        *(tasks, named, out or Path("runs") / f"{title(set)}-compare-{now()}"),
        learner=asked.settings(),
        reward=asked.reward,
        abstain=asked.abstain,
        seeds=seeds,
        network=network,
        tune=tune,
        references=references,
        budget=budget,
        quiet=quiet,
        json=json,
        executor=where.executor,
        workers=where.workers,
        address=where.address,
    )


def parsed(text: str) -> "Method":
    """Read a method from NAME=SCHEDULER[:option=value,…]."""
    from metasched.runs.sweep import Method
    from metasched.schedulers.resolve import SINGLE

    name, equals, rest = text.partition("=")
    scheduler, _, options = rest.partition(":")
    if f"{scheduler}:" == SINGLE and "=" not in options:  # single:2 is one word
        scheduler, options = rest, ""
    if not (name and equals and scheduler) or ":" in name:
        raise ConfigError(f"--method {text}: expected NAME=SCHEDULER or NAME=SCHEDULER:option=value,…")
    known = pairs("--method", [word for word in _COMMAS.split(options) if word])
    own = {key: known.pop(key) for key in ("reward", "abstain") if key in known}
    return Method(name, scheduler, known, **own)


def compared(
    tasks: "TaskSet",
    methods: "Sequence[str | Method] | None",
    folder: Path,
    *,
    quiet: bool,
    json: bool,
    legend: str = "",
    **asked: Any,
) -> None:
    """Compare, show the progress and print the results. ``legend`` explains the methods."""
    from metasched.cli import progress
    from metasched.comparison.compare import PAGE
    from metasched.comparison.compare import compare as run
    from metasched.comparison.predictions import PREDICTIONS

    try:
        with progress.several(stderr(), quiet) as show:
            on_progress = show and (lambda what, done, total: show("compare", done, total, what))
            on_note = None if quiet else (lambda line: stderr().print(line, highlight=False, soft_wrap=True))
            comparison = run(tasks, methods, out=folder, on_progress=on_progress, on_note=on_note, **asked)
    except KeyboardInterrupt:
        stderr().print(f"Continue with: the same command, --out {folder}", highlight=False, soft_wrap=True)
        raise
    page: Path | None = folder / PAGE
    try:
        comparison.report(folder / PAGE)
    except MetaschedError as error:  # The page needs an extra, but the answer does not.
        page = None
        stderr().print(f"no page: {error}", highlight=False, markup=False, soft_wrap=True)
    if json:
        print_json({**comparison.summary(), "out": str(folder), "page": page and str(page)})
        return
    for line in filter(None, [comparison.remarks.first, comparison.verdict]):
        say(line)
    put()
    put(comparison.table(stdout().width))
    put()
    put(str(comparison.sources()))
    put()
    for line in (*filter(None, [legend]), *(f"! {line}" for line in comparison.warnings)):
        say(line)
    say(f"{comparison.remarks.final}. Use it: metasched predict {shlex.quote(str(folder))} FILE")
    if tasks.unlabelled is not None:
        say(f"Predictions for the {len(tasks.unlabelled):,} unlabelled rows of the target: {folder / PREDICTIONS}")
    say(f"Page: {page}" if page else f"Folder: {folder}")
