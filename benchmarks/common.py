"""What the benchmarks share. Import it first: it holds every library to one thread, peers and ours alike."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

for library in ("OPENBLAS", "MKL", "OMP", "NUMBA"):
    os.environ.setdefault(f"{library}_NUM_THREADS", "1")

import numpy as np  # noqa: E402 it reads the number of threads when it is imported

WEATHER = np.array(  # the transition matrix in the paper's appendix
    [
        [0.721, 0.256, 0.020, 0.003],
        [0.052, 0.901, 0.033, 0.014],
        [0.004, 0.037, 0.939, 0.020],
        [0.000, 0.017, 0.454, 0.529],
    ]
)


def fastest(*runs: Callable[[], Any], repeats: int = 3, clock: Callable[[], float] = time.perf_counter) -> list[float]:
    """Seconds of the fastest of several runs of each function, taken in turns so that all meet the same machine.

    With ``clock=time.process_time`` only the seconds of this process count, whoever else uses the machine.
    """
    seconds: list[list[float]] = [[] for _ in runs]
    for _ in range(repeats):
        for run, found in zip(runs, seconds, strict=True):
            start = clock()
            run()
            found.append(clock() - start)
    return [min(found) for found in seconds]


def medians(
    sides: Mapping[str, Callable[[], Any]], repeats: int, clock: Callable[[], float] = time.perf_counter
) -> dict[str, float]:
    """Median seconds of each side after one call to warm up, in turns and by the clock as in :func:`fastest`."""
    for run in sides.values():
        run()
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(repeats):
        for name, run in sides.items():
            start = clock()
            run()
            seconds[name].append(clock() - start)
    return {name: float(np.median(taken)) for name, taken in seconds.items()}


def random_problem(tasks: int, labels: int, seed: int = 0) -> tuple[Any, Any]:
    """Dense random chains (N, C, C) and scores A (N, C, C)."""
    random = np.random.default_rng(seed)
    return random.dirichlet(np.ones(labels), (tasks, labels)), random.uniform(size=(tasks, labels, labels))


def memory_in_child(script: str, *arguments: str) -> int:
    """What ``script`` prints when run in a process of its own with ``arguments``: bytes."""
    command = [sys.executable, script, *arguments]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[-1])


def resident_bytes() -> int:
    """Bytes this process holds now."""
    return _status("VmRSS")


def peak_bytes() -> int:
    """The most this process ever held; ``getrusage`` would count what its parent held."""
    return _status("VmHWM")


def _status(key: str) -> int:
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(key))
