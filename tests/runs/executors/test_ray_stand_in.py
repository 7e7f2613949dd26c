"""The Ray executor with a stand-in for Ray that makes orders in this process: it needs no cluster and no package."""

import sys
from contextlib import closing
from types import SimpleNamespace

import msgspec
import pytest

import metasched as ms
from metasched.errors import RunError
from metasched.runs import runner as engine
from metasched.runs.executors.ray import Ray
from metasched.runs.jobs import claim_folders, make_jobs
from metasched.runs.lease import Lease
from metasched.runs.status import failure, state_of

CONFIG = ms.Joint(updates=5, eval_every=1, batch_size=4)


class RayError(Exception):
    """A worker was lost."""


class RayTaskError(RayError):
    """A worker raised an exception."""


class Stored:
    """A reference to something in the store."""

    def __init__(self, value):
        self.value = value


class StandIn(SimpleNamespace):
    """What the executor uses of Ray; ``losses`` workers are lost before they have done anything."""

    def __init__(self, losses=0):
        exceptions = SimpleNamespace(RayError=RayError, RayTaskError=RayTaskError)
        super().__init__(losses=losses, options=None, exceptions=exceptions)

    def is_initialized(self):
        return True

    def cluster_resources(self):
        return {"CPU": 2.0}

    def put(self, value):
        return Stored(value)

    def get(self, what):
        if isinstance(what, list):
            return [self.get(each) for each in what]
        return what.value if isinstance(what, Stored) else what

    def wait(self, streams, **_):
        return streams[:1], streams[1:]

    def cancel(self, stream, force):
        """Orders end with the generator."""

    def remote(self, **options):
        self.options = options

        def made(function):
            def order(*words):
                if self.losses:
                    self.losses -= 1
                    raise RayError("the node\nis gone")
                yield from function(*words)

            return SimpleNamespace(remote=order)

        return made


@pytest.fixture
def ray(monkeypatch):
    stand_in = StandIn()
    monkeypatch.setitem(sys.modules, "ray", stand_in)
    return stand_in


@pytest.fixture
def jobs(tasks, tmp_path):
    asked = [
        job
        for word in ("thompson", "uniform")
        for job in make_jobs(tasks, word, learner=CONFIG, seeds=2, out=tmp_path / "runs" / word)
    ]
    return claim_folders(asked, tmp_path / "runs")


def run(jobs, folder, on_counts=None):
    got = {}
    with closing(Ray(folder, checkpoint_seconds=0)) as executor:
        executor.run(jobs, got.__setitem__, on_counts)
    return got


def numbers(outcome):
    return msgspec.structs.replace(outcome, origin=msgspec.structs.replace(outcome.origin, created="", command=""))


def test_outcomes_and_whole_folders_come_back(ray, jobs, tmp_path):
    ray.losses = 3
    got = run(jobs, tmp_path / "work")
    alone = engine.run([job._replace(folder=None) for job in jobs])
    assert [numbers(got[number]) for number in range(4)] == [numbers(result.outcome) for result in alone]
    for job in jobs:
        assert state_of(job.folder) == "done"
        names = {each.name for each in job.folder.iterdir()}
        assert {"model.json", "model.safetensors", "checkpoint.safetensors", "metrics.jsonl"} <= names
        assert "lease.json" not in names
    assert ray.options["runtime_env"]["env_vars"]["NPROC"] == "1"


def test_a_run_that_cannot_be_made_is_recorded_and_others_go_on(ray, jobs, tmp_path):
    (jobs[0].folder / "checkpoint.safetensors").write_text("{}")
    with pytest.raises(RunError, match=r"seed-0: failed 3 times .*has no complete checkpoint"):
        run(jobs[:2], tmp_path / "work")
    assert failure(jobs[0].folder).tries == 3
    assert state_of(jobs[1].folder) == "done"


def test_a_worker_with_other_versions_ends_the_command(ray, jobs, tmp_path, monkeypatch):
    monkeypatch.setattr("metasched.runs.executors.ray.versions", lambda: {"metasched": "9.9"})
    with pytest.raises(RunError, match=r"a worker has .*this process"):
        run(jobs, tmp_path / "work")


def test_what_comes_for_a_run_that_was_taken_over_is_not_written(ray, jobs, tmp_path, monkeypatch):
    where, held = jobs[0].folder, []

    def wait(streams, **_):
        if not held:
            Lease(where).take()
            held.append({each.name: each.read_bytes() for each in where.iterdir()})
        return streams, []

    def cancel(_, force):
        assert force
        held.append({each.name: each.read_bytes() for each in where.iterdir()})

    monkeypatch.setattr(ray, "wait", wait)
    monkeypatch.setattr(ray, "cancel", cancel)
    assert list(run(jobs[:1], tmp_path / "work")) == [0]
    assert len(held) == 2
    assert held[0] == held[1]
