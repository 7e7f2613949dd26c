"""The number of cores changes no bit: alone, side by side, in workers, and where another machine goes on."""

import os
import subprocess
import sys
from contextlib import contextmanager

import pytest

import same_numbers
from campaign.compiling import QUICK

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system binds no process to cores"),
]
THREADS = ("NPROC", "PJRT_NPROC", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


@contextmanager
def bound_to(number):
    """This thread, and the processes that it starts meanwhile, may use so many cores; None: all that it may.

    Code between fork and exec could bind them as well, but a process with threads is not to run any there.
    """
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(cores)[:number])
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)


def numbers(what, data, place, threads=None):
    """What a process says that may use one core; or all cores, with so many threads of XLA."""
    environment = {name: value for name, value in os.environ.items() if name not in THREADS}
    # What one process has compiled would hide that another compiles something else.
    environment |= {"XLA_FLAGS": QUICK, "JAX_ENABLE_COMPILATION_CACHE": "false"}
    environment |= {"NPROC": str(threads)} if threads else {}
    with bound_to(None if threads else 1):
        done = subprocess.run(
            [sys.executable, same_numbers.__file__, what, data, place],
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
            timeout=600,
        )
    return dict(line.split() for line in done.stdout.splitlines())


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    same_numbers.save(folder / "rows.npz")
    same_numbers.save(folder / "images.npz", shape=(28, 28, 1), rows=60)
    return folder


@pytest.fixture(scope="module")
def on_one_core(data, tmp_path_factory):
    return numbers("alone", data, tmp_path_factory.mktemp("one"))


def test_one_core_and_sixteen_threads_give_the_same_bits(data, on_one_core, tmp_path):
    assert numbers("alone", data, tmp_path, threads=16) == on_one_core


def test_a_run_that_another_machine_resumes_gives_the_same_bits(data, on_one_core, tmp_path):
    assert set(numbers("begin", data, tmp_path).values()) == {"interrupted"}
    assert numbers("resume", data, tmp_path, threads=16) == on_one_core


def test_workers_give_the_same_bits(data, on_one_core, tmp_path):
    assert numbers("workers", data, tmp_path, threads=16) == on_one_core
