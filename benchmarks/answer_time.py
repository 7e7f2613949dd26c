"""How long `metasched compare` takes from files to the page, and where the time goes.

python benchmarks/answer_time.py                 # five CSV files of 500 rows x 40 columns, 4 methods x 10 seeds
python benchmarks/answer_time.py --seeds 3 --executor in-process

The command runs twice: *cold* with an empty folder for compiled programs, then *warm* with what the first has left
there. Wall time counts the whole machine, so the load is printed beside it; processor time counts the command and all
of its processes, whoever else uses the machine. A third run, in this process and warm, says which step took what.
Programs that start (`metasched --help`, `import metasched`) are timed first.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

import numpy as np

METHODS = ("thompson", "uniform", "ucb", "target-only")
TARGETS = {"cold": 20.0, "warm": 10.0}
STARTS = {
    "import metasched": (0.5, ["-c", "import metasched"]),
    "metasched --help": (0.4, ["-m", "metasched", "--help"]),
}
COMPILING = "/jax/core/compile/"


def write(folder: Path, sources: int, rows: int, columns: int) -> None:
    """CSV files of three classes; some sources have other class means than the target, which is the last file."""
    folder.mkdir()
    means = np.random.default_rng(0).normal(size=(3, columns))
    for number in range(sources):
        chance = np.random.default_rng(number + 1)
        away = 2.0 if number in (2, 3) else 0.3
        own = means + away * chance.normal(size=means.shape)
        labels = chance.integers(0, 3, rows)
        values = own[labels] + 2 * chance.normal(size=(rows, columns))
        lines = [",".join([*(f"x{column}" for column in range(columns)), "label"])]
        lines += [
            ",".join([*(f"{value:.5f}" for value in row), "abc"[label]])
            for row, label in zip(values, labels, strict=True)
        ]
        (folder / f"shop{number + 1}.csv").write_text("\n".join(lines) + "\n")


def timed(command: list[str], environment: dict[str, str]) -> tuple[float, float]:
    """Seconds of wall time and of processor time, of the command with all processes that it waited for."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.monotonic()
    subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    wall, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def breakdown(folder: Path, target: str, seeds: int, out: Path) -> None:
    """Run the comparison in this process and print the processor seconds of each step."""
    spent: dict[str, float] = defaultdict(float)
    last, began = time.process_time(), time.process_time()
    what = "importing"

    def switch(name: str) -> None:
        nonlocal last, what
        now = time.process_time()
        spent[what] += now - last
        last, what = now, name

    import jax

    import metasched as ms
    from metasched.comparison import references
    from metasched.runs.compiled import keep_compiled_programs

    compiling: dict[str, float] = defaultdict(float)
    jax.monitoring.register_event_duration_secs_listener(
        lambda event, seconds, **_: compiling.__setitem__(event, compiling[event] + seconds)
    )
    references.FEWEST_PARALLEL = 10**9  # in this process, where they can be counted
    keep_compiled_programs()
    switch("reading")
    tasks = ms.datasets.load(folder, target=target, target_labels=40)
    switch("other")
    found = ms.compare(
        tasks,
        METHODS,
        seeds=seeds,
        out=out,
        executor="in-process",
        on_progress=lambda step, *_: switch(step.partition(":")[0]),
    )
    switch("page")
    found.report(out / "page.html")
    switch("end")
    for name, seconds in sorted(spent.items(), key=lambda item: -item[1]):
        print(f"  {name:18} {seconds:6.1f} s")
    print(f"  {'all':18} {time.process_time() - began:6.1f} s")
    for event, seconds in compiling.items():
        if event.startswith(COMPILING) or "cache" in event:
            print(f"  of which {event.removeprefix(COMPILING)}: {seconds:.1f} s")


def main() -> None:
    """Measure, and print each figure beside its target."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in {"sources": 5, "rows": 500, "columns": 40, "seeds": 10}.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--executor", default="auto")
    parser.add_argument("--parts", nargs=4, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.parts:
        folder, target, seeds, out = given.parts
        breakdown(Path(folder), target, int(seeds), Path(out))
        return
    with tempfile.TemporaryDirectory() as place:
        folder, target = Path(place) / "shops", f"shop{given.sources}"
        write(folder, given.sources, given.rows, given.columns)
        environment = {**os.environ, "JAX_COMPILATION_CACHE_DIR": str(Path(place) / "compiled")}
        for name, (most, words) in STARTS.items():
            walls, seconds = zip(*(timed([sys.executable, *words], environment) for _ in range(5)), strict=True)
            print(f"{name}: {min(walls):.2f} s, {min(seconds):.2f} s of processor time (target {most} s)", flush=True)
        words = ["compare", str(folder), "--target", target, "--target-labels", "40", "--methods", ",".join(METHODS)]
        words += ["--seeds", str(given.seeds), "--executor", given.executor]
        for run, most in TARGETS.items():
            load = os.getloadavg()[0]
            command = [sys.executable, "-m", "metasched", *words, "--out", f"{place}/{run}"]
            wall, seconds = timed(command, environment)
            cores = len(os.sched_getaffinity(0))
            print(
                f"{run}: {wall:.1f} s (target {most:.0f} s), {seconds:.1f} s of processor time on {cores} cores; "
                f"load {load:.1f} before, {os.getloadavg()[0]:.1f} after",
                flush=True,
            )
        print("processor seconds of each step, warm, in one process:", flush=True)
        parts = [str(folder), target, str(given.seeds), f"{place}/parts"]
        subprocess.run([sys.executable, __file__, "--parts", *parts], env=environment, check=True)


if __name__ == "__main__":
    main()
