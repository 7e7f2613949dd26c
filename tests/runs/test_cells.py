"""Finished runs are kept at once and never run again."""

import json

import pytest

import metasched as ms
from helpers import make_tasks
from metasched.experiments.methods import Method
from metasched.runs import cells, lanes
from metasched.runs.lanes import Lane

CONFIG = ms.TrainConfig(batch_size=4, meta_updates=3, batches_per_update=4, eval_every=1)
CYCLIC = Method("cyclic", "static", "", "cyclic")
NOTHING = Method("target-only", "control", "", "single", {"task": 3}, abstain=True)
WANTED = [Lane(method, seed, 0.05, 1e-3) for method in (CYCLIC, NOTHING) for seed in (0, 1)]


@pytest.fixture(scope="module")
def bench():
    return lanes.prepare(make_tasks(), "mlp", CONFIG, (CYCLIC, NOTHING), together=1)


@pytest.fixture
def asked(monkeypatch):
    """The lanes that were really run."""
    seen = []
    real = lanes.run

    def run(bench, wanted):
        seen.extend(wanted)
        return real(bench, wanted)

    monkeypatch.setattr(lanes, "run", run)
    return seen


def test_what_is_kept_of_a_run(bench, tmp_path):
    first, _, nothing, _ = cells.run_lanes(bench, WANTED, tmp_path / "kept.jsonl", "cell")
    assert first["updates"] == [1, 2, 3]
    assert first["samples"] == [16, 32, 48]
    assert first["schedule"] == [[2, 1, 1, 0], [1, 2, 1, 0], [1, 1, 2, 0]]
    assert sum(first["drawn"]) == sum(map(sum, first["drawn_by_label"])) == 48
    assert nothing["samples"] == [0, 0, 0]
    assert nothing["abstained"] == 12
    assert nothing["schedule"] == [[0, 0, 0, 4]] * 3
    assert nothing["final"]["test_accuracy"] == nothing["final"]["initial_test_accuracy"]


def test_finished_runs_are_not_run_again(bench, tmp_path, asked):
    kept, told = tmp_path / "kept.jsonl", []
    half = cells.run_lanes(bench, WANTED[:2], kept, "cell", lambda *now: told.append(now))
    assert asked == WANTED[:2]
    assert told == [("cell", 0, 2), ("cell", 1, 2), ("cell", 2, 2)]
    told.clear()
    whole = cells.run_lanes(bench, WANTED, kept, "cell", lambda *now: told.append(now))
    assert asked == WANTED
    assert told == [("cell", 2, 4), ("cell", 3, 4), ("cell", 4, 4)]
    assert whole[:2] == half
    assert cells.run_lanes(bench, WANTED[::-1], kept, "cell") == whole[::-1]
    assert asked == WANTED


@pytest.mark.parametrize("keep", [-1, -20, 1])
def test_a_line_that_was_cut_short_is_dropped_and_its_run_made_again(bench, tmp_path, asked, keep):
    """Cut before the line's end, in its middle, and right after its first letter."""
    kept = tmp_path / "kept.jsonl"
    whole = cells.run_lanes(bench, WANTED, kept, "cell")
    content = kept.read_bytes()
    last = content.rstrip(b"\n").rindex(b"\n") + 1
    kept.write_bytes(content[:keep] if keep < 0 else content[: last + keep])
    asked.clear()
    assert cells.run_lanes(bench, WANTED, kept, "cell") == whole
    assert asked == WANTED[-1:]
    assert kept.read_bytes() == content


def test_other_rates_are_another_run(bench, tmp_path, asked):
    kept = tmp_path / "kept.jsonl"
    cells.run_lanes(bench, WANTED[:1], kept, "cell")
    other = WANTED[0]._replace(inner_rate=0.06)
    cells.run_lanes(bench, [other], kept, "cell")
    assert asked == [WANTED[0], other]


def test_a_run_that_diverged_is_kept_with_its_cause(bench, tmp_path):
    kept = tmp_path / "kept.jsonl"
    (outcome,) = cells.run_lanes(bench, [Lane(CYCLIC, 0, 1e30, 1e-3)], kept, "cell")
    assert outcome["diverged"]["update"] == 1
    assert "lower inner_rate" in outcome["diverged"]["cause"]
    assert json.loads(kept.read_text())["outcome"] == outcome
