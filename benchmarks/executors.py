"""Executors: what they add to a run, how they grow with the number of runs, and what several processes gain.

``--idle 100 1000 10000``: workers that only write an outcome, so that all seconds are the executor's: folders, orders,
answers, outcomes; with the memory of the driver. ``--race``: small runs in this process and in workers, each in a
process and with a cache of compiled programs of its own, empty at first.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from common import peak_bytes

import metasched as ms
from metasched.runs.executors import Machines, executing
from metasched.runs.executors.local import Local
from metasched.runs.jobs import make_jobs
from metasched.runs.sweep import Finished

IDLE = [sys.executable, __file__, "--worker"]


def tasks(rows: int = 200, seed: int = 0) -> ms.TaskSet:
    """Three sources, four classes."""
    import numpy as np

    random = np.random.default_rng(seed)

    def drawn(count: int) -> tuple:
        labels = random.integers(0, 4, count)
        return np.eye(4, 20)[labels] * 2 + random.normal(size=(count, 20)), labels

    return ms.TaskSet.from_arrays(
        {name: drawn(rows) for name in "abc"}, validation=drawn(40), test=drawn(400), classes="pqrs"
    )


def idle_worker() -> None:
    """Answer every order with an outcome that needs no computing."""
    import msgspec

    from metasched.files import write_whole
    from metasched.runs import folder, outcome
    from metasched.runs.executors.worker import Answer, Order
    from metasched.runs.runner import outcome_of

    for line in sys.stdin.buffer:
        for place in map(Path, msgspec.json.decode(line, type=Order).folders):
            ended = outcome_of(folder.describe(place), [{"update": 1, "diverged": "made up"}])
            write_whole(place / folder.OUTCOME, outcome.encode(ended))
        sys.stdout.buffer.write(msgspec.json.encode(Answer(ending="done")) + b"\n")
        sys.stdout.buffer.flush()


def idle(counts: list[int]) -> None:
    """Seconds and memory for so many runs that cost nothing."""
    for count in counts:
        out = subprocess.run([sys.executable, __file__, "--idle-once", str(count)], capture_output=True, text=True)
        print(out.stdout + out.stderr, end="", flush=True)


def idle_once(count: int) -> None:
    """As :func:`idle`, for one count, in this process."""
    before = peak_bytes()
    place = Path(tempfile.mkdtemp())
    began = time.perf_counter()
    jobs = make_jobs(tasks(), "uniform", learner=ms.Joint(updates=1), seeds=count)
    described = time.perf_counter() - began
    executor = Local(place / "work", workers=2, command=IDLE)
    Finished(executor, place / "runs.jsonl").run(jobs)
    seconds = time.perf_counter() - began - described
    executor.close()
    again = time.perf_counter()
    Finished(Local(place / "work", workers=2, command=["false"]), place / "runs.jsonl").run(jobs)
    again = time.perf_counter() - again
    shutil.rmtree(place)
    print(
        f"{count:6,} runs: specs {described:.1f} s, executor {seconds:.1f} s ({seconds / count * 1e3:.1f} ms a run), "
        f"again {again:.1f} s; driver {peak_bytes() / 2**20:.0f} MiB, {before / 2**20:.0f} before"
    )


def once(executor: str, runs: int, updates: int) -> None:
    """Four methods on the demo's data, as many seeds as make so many runs, with one executor; its seconds."""
    place = Path(tempfile.mkdtemp())
    mine = ms.datasets.load("demo")
    config = ms.Joint(updates=updates)
    began = time.perf_counter()
    jobs = [
        job
        for word in ("thompson", "uniform", "target-only", "single:1")
        for job in make_jobs(mine, word, learner=config, seeds=runs // 4)
    ]
    with executing(Machines(executor), place / "work", 0.0) as chosen:
        Finished(chosen, place / "runs.jsonl").run(jobs)
        print(f"{time.perf_counter() - began:.2f}")
    shutil.rmtree(place)


def race(runs: int, updates: int, repeats: int, states: tuple[str, ...]) -> None:
    """``in-process`` and ``local`` in turns, from empty caches and from full ones."""
    for _ in range(repeats):
        caches = {name: tempfile.mkdtemp() for name in ("in-process", "local")}
        for state in states:
            seconds = {name: _timed(name, runs, updates, cache) for name, cache in caches.items()}
            told = ", ".join(f"{name} {taken:.1f} s" for name, taken in seconds.items())
            ratio = seconds["local"] / seconds["in-process"]
            print(f"{runs} runs of {updates} updates, {state}: {told} ({ratio:.0%})", flush=True)
        for cache in caches.values():
            shutil.rmtree(cache)


def _timed(name: str, runs: int, updates: int, cache: str) -> float:
    import os

    words = [sys.executable, __file__, "--once", name, "--runs", str(runs), "--updates", str(updates)]
    given = {**os.environ, "JAX_COMPILATION_CACHE_DIR": cache, "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.3"}
    return float(subprocess.run(words, env=given, capture_output=True, text=True, check=True).stdout)


def main() -> None:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--idle", type=int, nargs="+")
    parser.add_argument("--race", action="store_true")
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--updates", type=int, default=30)
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--cold", action="store_true", help="from empty caches alone")
    parser.add_argument("--once", help=argparse.SUPPRESS)
    parser.add_argument("--idle-once", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.worker:
        idle_worker()
    elif asked.idle_once:
        idle_once(asked.idle_once)
    elif asked.once:
        once(asked.once, asked.runs, asked.updates)
    if asked.idle:
        idle(asked.idle)
    if asked.race:
        race(asked.runs, asked.updates, asked.repeats, ("cold",) if asked.cold else ("cold", "warm"))


if __name__ == "__main__":
    main()
