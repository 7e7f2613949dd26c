"""``metasched paper``: the paper's experiments, run and reported."""

import shlex
import sys
from pathlib import Path
from typing import Literal

from metasched.cli.common import WhereFlags, app, at_least_one, listed, stderr
from metasched.cli.report import report
from metasched.errors import ConfigError, unknown

QUICK_SEEDS = 2


@app.command
def paper(
    where: WhereFlags,
    only: str = "",
    experiment: str = "",
    regime: Literal["all", "paper", "few-label", "robust", "sources"] = "all",
    seeds: int = 10,
    quick: bool = False,
    timing: bool = True,
    weather: Path | None = None,
    out: Path = Path("paper"),
    quiet: bool = False,
) -> None:
    """Run the paper's experiments and report them on one page.

    Finished runs are kept: a command that was interrupted goes on from there.

    Example: metasched paper --quick --out quick

    Args:
        where: Where runs are made.
        only: Figures and tables to make, such as fig3,table1; only the experiments behind them are run.
        experiment: Experiments to run, such as digits,cifar; by default all.
        regime: One regime only.
        seeds: Seeds of every method, counting up from 0.
        quick: Tiny settings and two seeds: every table and figure in minutes, numbers without meaning.
        timing: Whether to time every method alone as well; leave it out while the device does other work.
        weather: An ExtremeWeather file; by default the one in the data folders, else a simulated one, and said so.
        out: Folder of the results, the page and the files beside it.
        quiet: No progress bars.
    """
    from metasched.cli.progress import several
    from metasched.experiments import EXPERIMENTS
    from metasched.experiments import paper as runner
    from metasched.experiments.evidence import write_evidence
    from metasched.experiments.outputs import wanted
    from metasched.report import page
    from metasched.runs.executors import Machines

    named = listed(only)
    page.check_names(named)
    chosen = listed(experiment) or list(EXPERIMENTS)
    for name in chosen:
        if name not in EXPERIMENTS:
            raise unknown("experiment", name, EXPERIMENTS)
    if out.exists() and not out.is_dir():
        raise ConfigError(f"{out}: is a file; give a folder for --out")
    machines = Machines(where.executor, where.workers, where.address)
    machines.check()
    count = QUICK_SEEDS if quick else at_least_one("seeds", seeds)
    runner.claim(out, quick)
    command = shlex.join(["metasched", *sys.argv[1:]])
    with several(stderr(), quiet) as on_progress:
        for name in chosen:
            definition = EXPERIMENTS[name]
            needed, cells = wanted(named, name, definition.cells)
            if not needed:
                continue
            data = {name: runner.weather_data(weather, out, quick)} if name == "weather" else {}
            sweep = runner.Sweep(out, tuple(range(count)), quick, command, data, on_progress, timing, machines)
            write_evidence(definition, out / name / "evidence.json", command, data.get(name, {}), quick=quick)
            cells = [cell for cell in cells if regime in ("all", cell.regime)]
            runner.run_experiment(definition, runner.quick_cells(definition, cells) if quick else cells, sweep)
    report((out,), out / "page.html", only, quiet)
