"""What holds for every tracker: each record once, whatever happens; and the run never notices a tracker."""

import json
import subprocess
import sys
import threading
from types import SimpleNamespace

import pytest

import metasched as ms
from metasched.errors import ConfigError
from metasched.learners.networks import mlp
from metasched.optional import require
from metasched.runs import trackers

CONFIG = ms.AlgorithmOne(batch_size=4, updates=6)


class Memory:
    """A tracker of one's own: a list."""

    name = "memory"
    folder = "kept"

    def __init__(self):
        self.described, self.logged, self.ended = [], [], []

    def start(self, description, folder):
        assert folder.is_dir()
        self.described.append(description)

    def log(self, records):
        self.logged += [(record["seed"], record["update"]) for record in records]

    def finish(self, final):
        self.ended.append(set(final))


class Broken(Memory):
    name = folder = "broken"

    def __init__(self, place):
        super().__init__()
        self.place = place

    def start(self, description, folder):
        if self.place == "start":
            raise ConnectionError("the server\nis gone")

    def log(self, records):
        if self.place == "log":
            raise OSError(28, "No space left on device")

    def finish(self, final):
        if self.place == "finish":
            raise RuntimeError


class Stop(BaseException):
    """As abrupt as a kill: nothing of ours catches it."""


def run(tasks, out, **options):
    known = {"learner": CONFIG, "seeds": (0, 1), "out": out}
    return ms.train(tasks, "cyclic", network=mlp(3, hidden=(8,)), **known, **options)


def stop_at(seed, update):
    def on_record(record):
        if (record["seed"], record["update"]) == (seed, update):
            raise Stop

    return on_record


EVERYTHING = [(seed, update) for seed in (0, 1) for update in range(1, 7)]


def test_a_tracker_gets_what_the_run_is_every_record_and_the_end(tasks, tmp_path):
    memory = Memory()
    run(tasks, tmp_path / "a", trackers=[memory])
    (described,) = memory.described
    first = json.loads((tmp_path / "a" / "seed-0" / "run.json").read_text())
    del first["format"], first["spec"]["seed"]
    assert described == {**first, "seeds": [0, 1]}
    assert memory.logged == EVERYTHING
    assert memory.ended == [{0, 1}]


@pytest.mark.parametrize("checkpoint_seconds", [0, 1000])
@pytest.mark.parametrize("moment", [(0, 4), (1, 2)])
def test_records_replayed_or_computed_again_are_not_logged_twice(tasks, tmp_path, moment, checkpoint_seconds):
    memory = Memory()
    with pytest.raises(Stop):
        run(
            tasks,
            tmp_path / "a",
            trackers=[memory],
            on_record=stop_at(*moment),
            checkpoint_seconds=checkpoint_seconds,
        )
    assert memory.logged == EVERYTHING[: EVERYTHING.index(moment) + 1]
    run(tasks, tmp_path / "a", trackers=[memory])
    assert memory.logged == EVERYTHING
    assert memory.ended == [{0} if moment[0] else set(), {0, 1}]


def test_a_tracker_that_joins_later_gets_everything_from_the_first_update_on(tasks, tmp_path):
    with pytest.raises(Stop):
        run(tasks, tmp_path / "a", on_record=stop_at(1, 3), checkpoint_seconds=0)
    memory = Memory()
    run(tasks, tmp_path / "a", trackers=[memory])
    assert memory.logged == EVERYTHING
    after_the_end = Memory()
    after_the_end.folder = "elsewhere"
    run(tasks, tmp_path / "a", trackers=[after_the_end])
    assert after_the_end.logged == EVERYTHING


@pytest.mark.parametrize(
    ("place", "reason"),
    [("start", "the server is gone"), ("log", "[Errno 28] No space left on device"), ("finish", "RuntimeError")],
)
def test_a_tracker_that_fails_is_one_line_and_changes_nothing(tasks, tmp_path, caplog, place, reason):
    memory = Memory()
    result = run(tasks, tmp_path / "a", trackers=[Broken(place), memory])
    assert result.records == run(tasks, tmp_path / "b").records
    assert memory.logged == EVERYTHING
    (line,) = caplog.messages
    assert line == f"metasched: tracker broken failed, the run goes on without it: {reason}"


def test_a_failure_is_seen_by_a_person_who_set_up_no_logging():
    code = "from metasched.runs.trackers import _drop, tensorboard as t; _drop(t.TensorBoard, 'disk full')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == "metasched: tracker tensorboard failed, the run goes on without it: disk full\n"


def test_a_tracker_that_hangs_does_not_hold_up_the_run(tasks, tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(trackers, "FINISH_SECONDS", 0.05)
    released = threading.Event()
    hanging = Memory()
    hanging.log = lambda records: released.wait(600)
    try:
        assert len(run(tasks, tmp_path / "a", trackers=[hanging]).records) == 12
        assert "tracker memory failed, the run goes on without it: did not answer for 0.05 s" in caplog.text
    finally:
        released.set()


def test_how_far_a_tracker_got_must_be_readable(tasks, tmp_path, caplog):
    run(tasks, tmp_path / "a", trackers=[Memory()])
    (tmp_path / "a" / "kept" / "logged.json").write_text("{")
    again = Memory()
    run(tasks, tmp_path / "a", trackers=[again])
    assert "logged.json is damaged; delete" in caplog.text
    assert again.logged == []


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        ("tensorbord", "unknown tracker 'tensorbord'; did you mean 'tensorboard'"),
        ("absent", "this needs absent_package"),
    ],
)
def test_what_cannot_be_tracked_is_said_before_anything_starts(tasks, tmp_path, monkeypatch, chosen, message):
    def absent():
        return require("absent_package", "tensorboard")

    monkeypatch.setitem(trackers._REGISTRY, "absent", "Absent")
    monkeypatch.setitem(sys.modules, "metasched.runs.trackers.absent", SimpleNamespace(Absent=absent))
    with pytest.raises(ConfigError, match=message):
        run(tasks, tmp_path / "a", trackers=[chosen])
    assert not (tmp_path / "a").exists()


def test_a_run_without_a_folder_has_no_place_for_trackers(tasks):
    with pytest.raises(ConfigError, match="give out="):
        run(tasks, None, trackers=["tensorboard"])


def test_two_trackers_with_one_folder_are_refused(tasks, tmp_path):
    with pytest.raises(ConfigError, match="two trackers want the folder 'kept'"):
        run(tasks, tmp_path / "a", trackers=[Memory(), Memory()])


def test_every_number_of_a_record_has_a_name():
    record = {
        "seed": 3,
        "update": 2,
        "samples": 40,
        "drawn": [30, 10],
        "tasks": [0, 0, 0, 1],
        "loss": 0.5,
        "test_rows": 9,
        "final": {"test_accuracy": 0.25, "drawn_by_label": [[1]], "test_rows": 10},
    }
    assert trackers.numbers(record, ["near", "far"]) == {
        "samples": 40.0,
        "loss": 0.5,
        "drawn/near": 30.0,
        "drawn/far": 10.0,
        "final/test_accuracy": 0.25,
    }
