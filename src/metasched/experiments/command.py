"""Commands of the experiments: ``metasched paper`` runs and reports them, ``data simulate-weather`` makes data."""

import shlex
import sys
from pathlib import Path
from typing import Literal

import tyro

from metasched.cli.common import WhereFlags, app, listed, put, stderr
from metasched.cli.data import data_app
from metasched.cli.report import report
from metasched.errors import ConfigError, unknown, whole_number

QUICK_SEEDS = 2


@app.command
def paper(
    where: WhereFlags,
    only: str = "",
    experiment: str = "",
    regime: Literal["all", "paper", "few-label", "robust", "sources"] = "all",
    seeds: int = 10,
    all: bool = False,
    quick: bool = False,
    timing: bool = True,
    weather: Path | None = None,
    out: Path = Path("paper"),
    quiet: bool = False,
) -> None:
    """Run the paper's experiments and report them on one page.

    Finished runs are stored, so an interrupted command continues where it stopped.

    Example: metasched paper --quick --out quick

    Args:
        where: Where runs are made.
        only: Figures and tables to make, such as fig3,table1; only the experiments behind them are run.
        experiment: Experiments to run, such as digits,cifar; by default the paper's: digits, cifar, weather and
            weather-points.
        regime: One regime only.
        seeds: The number of seeds of every method, counted from 0.
        all: Also run our own experiments.
        quick: Tiny settings and two seeds: every table and figure of the paper in minutes, but meaningless numbers.
        timing: Also time every method separately; use --no-timing while the device does other work.
        weather: An ExtremeWeather file; by default the one in the data folders, otherwise a simulated one, which is
            marked as simulated.
        out: Folder of the results, the page and its files.
        quiet: No progress bars.
    """
    from metasched.cli.progress import several
    from metasched.experiments import paper as runner
    from metasched.experiments.catalogue import EXPERIMENTS, PAPER
    from metasched.experiments.evidence import write_evidence
    from metasched.experiments.outputs import wanted
    from metasched.report import page
    from metasched.runs.executors import Machines

    named = listed(only)
    page.check_names(named)
    chosen = listed(experiment)
    for name in chosen:
        if name not in EXPERIMENTS:
            raise unknown("experiment", name, EXPERIMENTS)
    if not chosen:
        ours = all or not any(
            wanted(named, name, each.cells)[0] for name, each in PAPER.items()
        )  # --only may name outputs that only our experiments have
        chosen = list(EXPERIMENTS if ours else PAPER)
    if out.exists() and not out.is_dir():
        raise ConfigError(f"{out}: is a file; give a folder for --out")
    machines = Machines(where.executor, where.workers, where.address)
    machines.check()
    count = QUICK_SEEDS if quick else whole_number("seeds", seeds, 1)
    page.check_place(out / "page.html")
    runner.claim(out, quick)
    command = shlex.join(["metasched", *sys.argv[1:]])
    with several(stderr(), quiet) as on_progress:
        for name in chosen:
            definition = EXPERIMENTS[name]
            needed, cells = wanted(named, name, definition.cells)
            if not needed:
                continue
            data = {name: runner.weather_data(weather, out, quick)} if name == "weather" else {}
            request = runner.Request(out, tuple(range(count)), quick, data, on_progress, timing, machines)
            write_evidence(definition, out / name / "evidence.json", command, data.get(name, {}), quick=quick)
            cells = [cell for cell in cells if regime in ("all", cell.regime)]
            runner.run_experiment(definition, runner.quick_cells(definition, cells) if quick else cells, request)
    report((out,), out / "page.html", only, quiet)


@data_app.command(name="simulate-weather")
def simulate(
    out: tyro.conf.Positional[Path],
    images: int = 600,
    height: int = 192,
    width: int = 288,
    seed: int = 0,
    quiet: bool = False,
) -> None:
    """Write a simulated file in the ExtremeWeather format, marked as simulated.

    Example: metasched data simulate-weather weather.h5 --images 600

    Args:
        out: The file to write. An existing file is never overwritten.
        images: Number of images, six hours apart.
        height: Rows of the grid (768 in the real data).
        width: Columns of the grid (1152 in the real data).
        seed: Equal seeds give equal events.
        quiet: No progress bar.
    """
    from metasched.cli import progress
    from metasched.experiments.datasets.simulate import simulate_weather

    with progress.counting(stderr(), "images", quiet) as on_image:
        simulate_weather(out, images=images, height=height, width=width, seed=seed, progress=on_image)
    put(f"{out}: {images} simulated images of {height} × {width}; load it with --data path={out}")
