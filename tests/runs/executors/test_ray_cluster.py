"""Three nodes, of which two go; the driver is killed and started again. Takes minutes: METASCHED_BIG=1 runs it."""

import os
import signal
import subprocess
import sys
import time

import msgspec
import pytest

import metasched as ms
from helpers import make_tasks
from metasched.datasets import save_npz
from metasched.runs import outcome as outcomes

pytest.importorskip("ray")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not os.environ.get("METASCHED_BIG"), reason="takes minutes; METASCHED_BIG=1 runs it"),
    pytest.mark.filterwarnings("default"),
]


@pytest.fixture
def cluster():
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    yield cluster
    cluster.shutdown()


def finished(out):
    """Runs that have ended by now, on folds, on judging rows and of final networks."""
    lines = [
        path.read_bytes().count(b"\n") for name in ("folds", "judging") for path in out.glob(f".work/{name}.jsonl")
    ]
    return sum(lines) + len(list(out.glob("runs/*/*/outcome.jsonl")))


def wait_for(count, out, driver, seconds=600):
    end = time.monotonic() + seconds
    while finished(out) < count:
        assert driver.poll() is None, f"the driver ended early with {driver.returncode}"
        assert time.monotonic() < end, f"only {finished(out)} runs have ended, {count} were expected"
        time.sleep(0.1)


def alike(outcome):
    """All of an outcome but when, by which command and where it was made."""
    plain = msgspec.to_builtins(outcome)
    return {key: value for key, value in plain.items() if key != "origin"}


def test_a_comparison_ends_with_the_same_outcomes_when_nodes_and_the_driver_go(cluster, tmp_path):
    removed, orphaned = cluster.add_node(num_cpus=1), cluster.add_node(num_cpus=1)
    cluster.wait_for_nodes()
    data = tmp_path / "mine.npz"
    save_npz(make_tasks(sizes=(60, 60, 60), validation=16, test=60), data)
    names = ["thompson", "uniform", "target-only"]
    out = tmp_path / "out"
    words = ["compare", str(data), "--methods", ",".join(names), "--updates", "40", "--seeds", "4", "--no-references"]
    where = ["--out", str(out), "--executor", "ray", "--address", cluster.address, "--json"]
    command = [sys.executable, "-c", "from metasched.cli import main; main()", *words, *where]

    driver = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    wait_for(8, out, driver)
    cluster.remove_node(removed, allow_graceful=False)
    wait_for(16, out, driver)
    orphaned.kill_raylet()
    wait_for(24, out, driver)
    driver.send_signal(signal.SIGKILL)
    driver.wait()
    before = finished(out)
    assert before < 108  # three methods with three rates: five folds, four seeds, three final networks
    cluster.add_node(num_cpus=1)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=600)
    assert finished(out) == 108

    config = ms.Joint(updates=40)
    tasks = ms.datasets.load(str(data))
    here = tmp_path / "here"
    ms.compare(tasks, names, seeds=4, learner=config, references=False, executor="in-process", out=here)
    got, wanted = (
        {
            str(path.relative_to(place)): {outcome.run: alike(outcome) for outcome in outcomes.read(path)}
            for path in [*place.glob("runs/*/*/outcome.jsonl"), *place.glob(".work/*.jsonl"), place / "outcomes.jsonl"]
        }
        for place in (out, here)
    )
    assert got == wanted
