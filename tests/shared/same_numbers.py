"""Runs in a process of their own, with a digest of every number that they give; tests start it on some of the cores.

The networks are wide enough for XLA to share their products and sums among threads where it has several.
"""

import hashlib
import sys
from pathlib import Path

import numpy as np

import metasched as ms
from metasched.runs.executors import Machines, executing
from metasched.runs.jobs import claim_folders, make_jobs

RUNS = {
    "joint": ("rows.npz", ms.Joint(updates=2, eval_every=1)),
    "meta": ("rows.npz", ms.AlgorithmOne(updates=2, batch_size=8, eval_every=1)),
    "images": ("images.npz", ms.Joint(updates=2, eval_every=1, batching="per_source")),
}
HOW = {"scheduler": "thompson", "seeds": (0, 1)}


def save(path, shape=(1200,), rows=240):
    """Write a task set, so that a run on it can be resumed."""
    random = np.random.default_rng(0)

    def part(count):
        return random.normal(size=(count, *shape)).astype("f4"), np.arange(count) % 3

    sources = {"a": part(rows), "b": part(rows)}
    ms.datasets.save_npz(ms.TaskSet.from_arrays(sources, validation=part(60), test=part(600)), path)


def told(run):
    """A digest of all records, and of what the models predict."""
    found = hashlib.sha256(repr(run.records).encode())
    for seed in run.final:
        found.update(np.ascontiguousarray(run.model(seed).predict_proba(run.tasks.test.inputs)).tobytes())
    return found.hexdigest()


def alone(data, place, learner):
    return told(ms.train(data, learner=learner, **HOW))


def begin(data, place, learner):
    def stop(record):
        if record["update"] == 1:
            raise KeyboardInterrupt

    try:
        ms.train(data, learner=learner, out=place, on_record=stop, **HOW)
    except KeyboardInterrupt:
        return "interrupted"


def resume(data, place, learner):
    return told(ms.resume(place))


def workers(data, place, learner):
    jobs = make_jobs(ms.datasets.load(data), learner=learner, out=place, **HOW)
    with executing(Machines("local", 2), place.with_suffix(".work"), 0) as executor:
        executor.run(claim_folders(jobs, place), lambda *_: None)
    return told(ms.resume(place))


if __name__ == "__main__":
    step, data, place = sys.argv[1:]
    for name, (file, learner) in RUNS.items():
        act = {"alone": alone, "begin": begin, "resume": resume, "workers": workers}[step]
        print(name, act(Path(data) / file, Path(place) / name, learner))
