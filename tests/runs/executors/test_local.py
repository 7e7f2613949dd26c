import subprocess
import sys
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

import metasched as ms
from helpers import make_tasks
from metasched.datasets import save_npz
from metasched.errors import ConfigError, RunError
from metasched.runs import runner as engine
from metasched.runs.executors.local import Local, _Worker, environment
from metasched.runs.executors.queue import Bundle
from metasched.runs.executors.worker import Order, obey
from metasched.runs.jobs import claim_folders, make_jobs
from metasched.runs.outcome import versions
from metasched.runs.status import failure, state_of

CONFIG = ms.Joint(updates=5, eval_every=1, batch_size=4)


def jobs_in(out, tasks, words=("thompson", "uniform"), seeds=(0, 1), config=CONFIG):
    how = {"learner": config, "seeds": seeds, "predictions": True}
    jobs = [job for word in words for job in make_jobs(tasks, word, **how, out=out / word)]
    return claim_folders(jobs, out)


def numbers(outcome):
    """All that was measured, and the spec: not when and by which command."""
    return msgspec.structs.replace(outcome, origin=msgspec.structs.replace(outcome.origin, created="", command=""))


def bring(executor, jobs, got):
    """Put the outcomes that an executor brings into ``got``, by number."""
    with closing(executor):
        executor.run(jobs, got.__setitem__)
    return got


@pytest.fixture
def expected(tasks):
    """The outcomes as one process alone has them, in a program for each method, as workers have them."""
    how = {"learner": CONFIG, "seeds": (0, 1), "predictions": True}
    groups = [make_jobs(tasks, word, **how) for word in ("thompson", "uniform")]
    return [numbers(result.outcome) for jobs in groups for result in engine.run(jobs)]


@pytest.mark.slow
def test_workers_bring_the_same_bits_record_what_fails_and_never_repeat_what_is_done(tasks, expected, tmp_path):
    out = tmp_path / "runs"
    jobs = jobs_in(out, tasks)
    broken = jobs[1].folder
    (broken / "checkpoint.safetensors").write_text("{}")
    got = {}
    with pytest.raises(
        RunError, match=r"seed-1: failed 3 times \(.*has no complete checkpoint.*; all other runs are kept"
    ):
        bring(Local(tmp_path / "work", workers=2), jobs, got)
    assert {number: numbers(outcome) for number, outcome in got.items()} == {
        number: expected[number] for number in (0, 2, 3)
    }
    assert state_of(broken) == "failed"
    assert failure(broken).tries == 3
    assert "has no complete checkpoint" in failure(broken).details
    assert not (tmp_path / "work" / "rows").exists()

    (broken / "checkpoint.safetensors").unlink()
    stamps = {job.folder: (job.folder / "outcome.jsonl").stat().st_mtime_ns for job in jobs if job.folder != broken}
    again = bring(Local(tmp_path / "work", workers=1), jobs, {})
    assert [numbers(again[number]) for number in range(4)] == expected
    assert {place: (place / "outcome.jsonl").stat().st_mtime_ns for place in stamps} == stamps
    assert state_of(broken) == "done"


def test_what_is_done_needs_no_worker(tasks, tmp_path):
    jobs = jobs_in(tmp_path / "runs", tasks, ("uniform",))
    engine.run(jobs)
    assert sorted(bring(Local(tmp_path / "work", 2, command=["/nothing/of/that/name"]), jobs, {})) == [0, 1]


@pytest.mark.skipif(sys.platform == "win32", reason="sh")
def test_an_order_to_a_worker_that_has_just_died_is_lost_and_nothing_else(tmp_path):
    worker = _Worker(0, 0, tmp_path / "log", ["sh", "-c", "exit 3"])
    worker._process.wait()
    order = Order(folders=("a",), rows=("b",), versions={}, checkpoint_seconds=1.0)
    worker.give(Bundle((0,), None), order)
    assert worker.answer() is None
    assert "exit code 3" in worker.fate()
    worker.leave()
    worker.end(0.0)


def until(condition, what, seconds=600):
    """Wait for what must come; only a test that hangs reaches the limit, however busy the machine is."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.05)


LONG = replace(CONFIG, updates=150)
# A kill from outside races the worker, and on a busy machine comes when the run has ended. So the first worker of a run
# stops by itself: when it should write its second checkpoint, with the records up to there written.
WORKER = """
import os, signal, sys, time
from pathlib import Path
from metasched.runs import checkpoint
from metasched.runs.executors.worker import main

save = checkpoint.save

def save_or_stop(place, tensors, update):
    note = Path(sys.argv[1]) / place.name
    with note.open("a") as lines:
        lines.write(f"{os.getpid()} {update}\\n")
    seen = note.read_text().splitlines()
    if len(seen) == 2 and all(line.startswith(f"{os.getpid()} ") for line in seen):
        if sys.argv[2] == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        while True:
            time.sleep(1)
    save(place, tensors, update)

checkpoint.save = save_or_stop
main()
"""


def stopping(notes, then):
    """A worker's command: at every checkpoint it notes process and update; at the second it will "die" or "wait"."""
    notes.mkdir()
    return [sys.executable, "-c", WORKER, str(notes), then]


def noted(notes):
    """For each run the (process, update) of every checkpoint that somebody has come to."""
    lines = {note.name: note.read_text().splitlines() for note in notes.iterdir()}
    return {name: [tuple(map(int, line.split())) for line in own] for name, own in lines.items()}


def lives(process):
    """Whether a process is there, and no zombie that nobody has waited for."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.slow
def test_a_worker_that_is_killed_costs_what_came_after_the_last_checkpoint(tasks, tmp_path):
    (job,) = jobs_in(tmp_path / "runs", tasks, ("uniform",), (3,), LONG)
    command = stopping(tmp_path / "notes", "die")
    got = bring(Local(tmp_path / "work", workers=1, checkpoint_seconds=0, command=command), [job], {})
    ((first, kept), (killed, lost), *others) = noted(tmp_path / "notes")[job.folder.name]
    assert first == killed
    assert kept < lost
    assert len({process for process, _ in others}) == 1
    assert all(process != first and update > kept for process, update in others)
    assert others[-1][1] == LONG.updates
    (alone,) = engine.run(make_jobs(tasks, "uniform", learner=LONG, seeds=[3], predictions=True))
    assert numbers(got[0]) == numbers(alone.outcome)


DRIVER = """
import sys
from pathlib import Path
sys.path[:0] = {paths!r}
from test_local import LONG, jobs_in, stopping
from metasched import datasets
from metasched.runs.executors.local import Local

executor = Local(Path({work!r}), workers=2, checkpoint_seconds=0, command=stopping(Path({notes!r}), "wait"))
executor.run(jobs_in(Path({out!r}), datasets.load({data!r}), ['uniform'], config=LONG), lambda number, outcome: None)
"""


@pytest.mark.slow
def test_workers_end_with_a_driver_that_is_killed_and_others_go_on_from_the_checkpoints(tmp_path):
    data, out, notes, here = tmp_path / "mine.npz", tmp_path / "out", tmp_path / "notes", Path(__file__).parent
    save_npz(make_tasks(), data)
    paths = [str(here), str(here.parent.parent / "shared")]
    script = DRIVER.format(paths=paths, work=str(tmp_path / "work"), notes=str(notes), out=str(out), data=str(data))
    driver = subprocess.Popen([sys.executable, "-c", script])

    def both_wait():
        assert driver.poll() is None
        return notes.exists() and [len(lines) for lines in noted(notes).values()] == [2, 2]

    until(both_wait, "no run has come to its second checkpoint")
    workers = {process for lines in noted(notes).values() for process, _ in lines}
    assert len(workers) == 2
    assert all(map(lives, workers))
    driver.kill()
    driver.wait()
    until(lambda: not any(map(lives, workers)), "a worker outlives its driver")
    assert len(list(out.glob("*/*/lease.json"))) == 2

    tasks = ms.datasets.load(str(data))
    got = bring(Local(tmp_path / "work", workers=2), jobs_in(out, tasks, ["uniform"], config=LONG), {})
    alone = engine.run([job._replace(folder=None) for job in jobs_in(out, tasks, ["uniform"], config=LONG)])
    assert [numbers(got[number]) for number in range(2)] == [numbers(result.outcome) for result in alone]


def test_a_worker_with_other_versions_is_refused_with_both_named(tasks, tmp_path):
    (job,) = jobs_in(tmp_path, tasks, ("uniform",), (0,))
    order = Order(folders=(str(job.folder),), rows=("",), versions={**versions(), "jax": "0.1"}, checkpoint_seconds=1)
    answer = obey(order)
    assert answer.ending == "refused"
    assert f"jax {versions()['jax']}, but this process has 0.1" in answer.error


def test_what_was_made_in_python_stays_in_this_process(tmp_path):
    network = ms.Network(lambda key, inputs: {}, lambda weights, inputs: inputs)
    with pytest.raises(ConfigError, match="made in Python cannot be sent to other processes"):
        ms.compare(make_tasks(validation=16), network=network, executor="local", seeds=2, out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_every_worker_has_one_thread_and_the_programs_of_all(monkeypatch):
    monkeypatch.setenv("XLA_FLAGS", "--mine")
    given = environment(0, 0)
    assert given["XLA_FLAGS"] == "--mine"  # the keys of compiled programs hold the flags, so all have the same
    assert given["NPROC"] == given["OMP_NUM_THREADS"] == "1"
    assert given["JAX_COMPILATION_CACHE_DIR"]


def test_every_worker_with_an_accelerator_has_its_own(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,5")
    assert [environment(number, 2)["CUDA_VISIBLE_DEVICES"] for number in range(2)] == ["2", "5"]
