"""One Ray cluster on this machine, small; test_ray_cluster.py has the big one."""

import subprocess
import sys
from contextlib import closing

import msgspec
import pytest

import metasched as ms
from helpers import make_tasks
from metasched.errors import ConfigError, RunError
from metasched.runs import runner as engine
from metasched.runs.jobs import claim_folders, make_jobs
from metasched.runs.lease import Lease
from metasched.runs.status import failure, state_of

ray = pytest.importorskip("ray")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default")]

CONFIG = ms.Joint(updates=5, eval_every=1, batch_size=4)


@pytest.fixture(scope="module")
def _cluster():
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


def executor(place, **options):
    from metasched.runs.executors.ray import Ray

    return Ray(place, **options)


def jobs_in(out, tasks, config=CONFIG):
    jobs = [
        job
        for word in ("thompson", "uniform")
        for job in make_jobs(tasks, word, learner=config, seeds=2, out=out / word)
    ]
    return claim_folders(jobs, out)


def numbers(outcome):
    return msgspec.structs.replace(outcome, origin=msgspec.structs.replace(outcome.origin, created="", command=""))


@pytest.mark.usefixtures("_cluster")
def test_workers_that_see_no_folder_bring_the_same_bits_and_whole_folders(tasks, tmp_path):
    jobs = jobs_in(tmp_path / "runs", tasks)
    got = {}
    with closing(executor(tmp_path / "work", checkpoint_seconds=0)) as chosen:
        chosen.run(jobs, got.__setitem__)
    alone = [numbers(result.outcome) for result in engine.run([job._replace(folder=None) for job in jobs])]
    assert [numbers(got[number]) for number in range(4)] == alone
    for job in jobs:
        assert state_of(job.folder) == "done"
        assert {"model.json", "model.safetensors", "checkpoint.safetensors", "metrics.jsonl"} <= {
            each.name for each in job.folder.iterdir()
        }
        engine.run([job])  # a folder as any other: it can be resumed, to the same end


@pytest.mark.usefixtures("_cluster")
def test_a_run_goes_on_from_the_checkpoint_in_its_folder(tasks, tmp_path):
    from helpers import Stop, stop_after

    job = jobs_in(tmp_path / "runs", tasks)[0]
    stop = stop_after(3)
    with pytest.raises(Stop):
        engine.run([job], on_record=lambda _, record: stop(record), checkpoint_seconds=0)
    got = {}
    with closing(executor(tmp_path / "work")) as chosen:
        chosen.run([job], got.__setitem__)
    (alone,) = engine.run([job._replace(folder=None)])
    assert numbers(got[0]) == numbers(alone.outcome)


@pytest.mark.usefixtures("_cluster")
def test_a_run_that_cannot_be_made_is_recorded_and_others_go_on(tasks, tmp_path):
    jobs = jobs_in(tmp_path / "runs", tasks)
    broken = msgspec.structs.replace(
        jobs[0].description, spec=msgspec.structs.replace(jobs[0].description.spec, scheduler="?")
    )
    got = {}
    with closing(executor(tmp_path / "work")) as chosen, pytest.raises(RunError, match="seed-0: failed 3 times"):
        chosen.run([jobs[0]._replace(description=broken), jobs[1]], got.__setitem__)
    assert list(got) == [1]
    assert "?" in failure(jobs[0].folder).error


@pytest.mark.usefixtures("_cluster")
def test_a_worker_with_other_versions_ends_the_command_with_both_named(tasks, tmp_path, monkeypatch):
    monkeypatch.setattr("metasched.runs.executors.ray.versions", lambda: {"metasched": "9.9"})
    with closing(executor(tmp_path / "work")) as chosen, pytest.raises(RunError, match=r"a worker has .*this process"):
        chosen.run(jobs_in(tmp_path / "runs", tasks), lambda *_: None)


@pytest.mark.usefixtures("_cluster")
def test_what_comes_for_a_run_that_was_taken_over_is_not_written(tasks, tmp_path):
    job = jobs_in(tmp_path / "runs", tasks)[0]
    taken = []

    def take(counts):
        if counts.running and not taken:
            taken.append(Lease(job.folder))

    with closing(executor(tmp_path / "work", checkpoint_seconds=0)) as chosen:
        written = chosen._receive

        def receive(flight, *rest):
            if len(taken) == 1:
                taken[0].take()
                taken.append("now it is somebody else's")
                before = {each.name: each.read_bytes() for each in job.folder.iterdir()}
                written(flight, *rest)
                assert {each.name: each.read_bytes() for each in job.folder.iterdir()} == before
            else:
                written(flight, *rest)

        chosen._receive = receive
        got = {}
        chosen.run([job], got.__setitem__, take)
    assert len(taken) == 2
    assert list(got) == [0]


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("127.0.0.1:1", "no Ray cluster answers at 127.0.0.1:1"),
        ("nowhere", "no Ray cluster answers at nowhere"),
        ("ray://127.0.0.1:10001", "give its host:port"),
    ],
)
def test_a_wrong_address_is_one_line_and_writes_nothing(address, message, tmp_path):
    if ray.is_initialized():
        ray.shutdown()
    with pytest.raises(ConfigError, match=message):
        ms.compare(make_tasks(validation=16), seeds=2, executor="ray", address=address, out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_the_command_runs_on_a_cluster_of_its_own(tmp_path):
    from metasched.datasets import save_npz

    data = tmp_path / "mine.npz"
    save_npz(make_tasks(validation=16), data)
    words = [
        "compare",
        str(data),
        "--no-references",
        "--methods",
        "uniform",
        "--seeds",
        "2",
        "--updates",
        "2",
        "--batch-size",
        "4",
    ]
    command = [
        sys.executable,
        "-c",
        "from metasched.cli import main; main()",
        *words,
        "--executor",
        "ray",
        "--workers",
        "2",
    ]
    told = subprocess.run([*command, "--out", str(tmp_path / "out")], capture_output=True, text=True, check=True)
    assert "Too few seeds to tell" in told.stdout
    runs = 2 * 3 * (2 + 5 + 3)  # methods × rates × (seeds, folds, final networks)
    assert f"compare: {runs} of {runs} runs" in told.stderr
    assert "Warning" not in told.stderr
