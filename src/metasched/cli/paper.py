"""``metasched paper``: the paper's experiments, run and reported."""

import shlex
import sys
from pathlib import Path
from typing import Literal

from metasched.cli.common import app, at_least_one, stderr
from metasched.errors import ConfigError, unknown


@app.command
def paper(
    only: str = "",
    experiment: str = "",
    regime: Literal["all", "paper", "few-label", "robust"] = "all",
    seeds: int = 10,
    quick: bool = False,
    timing: bool = True,
    weather: Path | None = None,
    out: Path = Path("results"),
    quiet: bool = False,
) -> None:
    """Run the paper's experiments, as far as they have not been run, and build the report.

    Every finished run is kept: an interrupted command goes on where it stopped, and a finished one only reports.

    Example: metasched paper --quick --out quick

    Args:
        only: Tables and figures to make, such as fig3,table1; only the experiments behind them are run.
        experiment: Experiments to run, such as digits,cifar; by default all.
        regime: One regime only.
        seeds: Seeds of every method, counting up from 0.
        quick: Tiny settings and two seeds: every table and figure in minutes, numbers without meaning.
        timing: Whether to time every method alone as well; leave it out while the device does other work.
        weather: An ExtremeWeather file; by default the one in the data folders, else a simulated one, and said so.
        out: Folder of the results; the report goes beside them.
        quiet: No progress bars.
    """
    from metasched.experiments import EXPERIMENTS
    from metasched.report.counting import several
    from metasched.runs import paper as runs

    wanted = [name for name in experiment.split(",") if name] or list(EXPERIMENTS)
    for name in wanted:
        if name not in EXPERIMENTS:
            raise unknown("experiment", name, EXPERIMENTS)
    if out.exists() and not out.is_dir():
        raise ConfigError(f"{out}: is a file; give a folder for --out")
    count = 2 if quick else at_least_one("seeds", seeds)
    command = shlex.join(["metasched", *sys.argv[1:]])
    place = runs.weather_file(weather, out, quick) if "weather" in wanted else None
    data = {"weather": {"path": str(place)}} if place else {}
    with several(stderr(), quiet) as on_lane:
        order = runs.Order(out, tuple(range(count)), quick, command, data, on_lane, timing)
        for name in wanted:
            definition = EXPERIMENTS[name]
            runs.write_evidence(definition, order)
            cells = [cell for cell in definition.cells if regime in ("all", cell.regime)]
            for _ in runs.run_experiment(definition, cells, order):
                pass
