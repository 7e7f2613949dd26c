"""An experiment of the tests' own, run from its definition to result files."""

import json
from dataclasses import replace

import numpy as np
import pytest

import metasched as ms
from helpers import make_tasks
from metasched.experiments import Cell, Experiment, methods
from metasched.report import results
from metasched.runs import cells, lanes, paper

CONFIG = ms.TrainConfig(
    batch_size=5, batches_per_update=6, meta_updates=4, eval_every=1, eval_rows=200, validation_batch="all"
)
SEEDS = (0, 1)
NAMES = [method.name for method in methods(3)]


@pytest.fixture(scope="module")
def experiment(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "set.npz"
    ms.datasets.save_npz(make_tasks(sizes=(60, 50, 40), validation=20, test=90), path)
    few = {"target_labels": 9}
    return Experiment(
        name="digits",
        title="made up",
        dataset=str(path),
        network="mlp",
        tuned_in="few-label-9",
        cells=(
            Cell("few-label-9", "few-label", "9 labels", CONFIG, 0.6, few),
            Cell("robust-40", "robust", "40% noisy", CONFIG, 0.5, few, noisy=(1,)),
        ),
    )


def order(out, **changes):
    return paper.Order(**{"out": out, "seeds": SEEDS, "quick": True, "command": "test", "data": {}, **changes})


@pytest.fixture(scope="module")
def finished(experiment, tmp_path_factory):
    """A quick run of everything."""
    out = tmp_path_factory.mktemp("results")
    paper.write_evidence(experiment, order(out))
    paths = list(paper.run_experiment(experiment, experiment.cells, order(out)))
    assert [path.name for path in paths] == ["few-label-9.json", "robust-40.json"]
    return out


@pytest.fixture
def ran(monkeypatch):
    """Every lane that is really run from now on."""
    seen, real = [], lanes.run

    def run(bench, wanted):
        seen.extend(wanted)
        return real(bench, wanted)

    monkeypatch.setattr(lanes, "run", run)
    return seen


UPDATES = 3
"""Meta-updates of a quick run."""


def read(out, name):
    return json.loads((out / "digits" / f"{name}.json").read_text())


def numbers(found):
    """A result file without what differs between two runs of the same thing."""
    timed = ("seconds", "scheduling_seconds")
    rows = {
        name: {key: value for key, value in row.items() if key not in timed} for name, row in found["methods"].items()
    }
    return {**{key: value for key, value in found.items() if key not in ("created", "timed")}, "methods": rows}


def test_the_report_reads_what_was_written(finished):
    loaded = results.load([finished])
    assert loaded.faults == ()
    assert [cell.key for cell in loaded.cells] == ["digits/few-label-9", "digits/robust-40"]
    assert len(loaded.evidence) == 1
    for cell in loaded.cells:
        assert list(cell.methods) == [*NAMES, "supervised"]
        for method in cell.methods.values():
            assert method.seeds == SEEDS
            assert np.isfinite(method.final["test_accuracy"]).all()


def test_a_result_says_what_was_run_and_adds_up(finished):
    found = read(finished, "few-label-9")
    assert found["threshold"] == 0.6
    assert found["target_rows"] == 9
    assert found["test_rows"] == 90
    assert found["source_rows"] == 150
    assert found["config"]["meta_updates"] == UPDATES
    for name, row in found["methods"].items():
        if name == "supervised":
            assert row["rows"] == 150 + 20
            continue
        assert row["updates"] == list(range(1, UPDATES + 1))
        assert row["scheduling_seconds"] >= 0
    for method in results.load([finished]).cells[0].methods.values():
        if method.name != "supervised":
            assert (method.seconds > 0).all()
            batches = UPDATES * found["config"]["batches_per_update"] - method.abstained
            np.testing.assert_array_equal(method.drawn.sum(axis=1), method.samples[:, -1])
            np.testing.assert_array_equal(method.drawn.sum(axis=1), batches * 5)
    assert found["methods"]["target-only"]["drawn"] == [0, 0, 0]
    assert found["methods"]["single:3"]["drawn"][:2] == [0, 0]


def test_cells_differ_where_their_data_do(finished):
    few, robust = read(finished, "few-label-9"), read(finished, "robust-40")
    for name in ("target-only", "single:1"):
        assert few["methods"][name]["final"] == robust["methods"][name]["final"]
    assert few["methods"]["single:2"]["final"] != robust["methods"]["single:2"]["final"]
    assert few["methods"]["supervised"] == robust["methods"]["supervised"]


def test_evidence_has_a_test_for_every_task(finished):
    found = read(finished, "evidence")
    assert [row["task"] for row in found["order"]] == ["task-0", "task-1", "task-2"]
    assert all(0 < row["p_permutation"] <= 1 for row in found["order"])
    assert np.sum(found["transitions"]["task-1"], axis=1) == pytest.approx([1, 1, 1], abs=1e-3)


def test_what_is_there_is_not_run_again(experiment, finished, ran):
    before = {path: path.read_bytes() for path in finished.rglob("*.json")}
    paper.write_evidence(experiment, order(finished))
    list(paper.run_experiment(experiment, experiment.cells, order(finished)))
    assert ran == []
    assert {path: path.read_bytes() for path in finished.rglob("*.json")} == before


def test_a_lost_result_is_made_again_from_the_runs_that_were_kept(experiment, finished, ran):
    expected = read(finished, "robust-40")
    kept = finished / ".work" / "quick" / "digits" / "robust-40.jsonl"
    lines = kept.read_text().splitlines(keepends=True)
    kept.write_text("".join(lines[:-2]) + lines[-2][:40])
    (finished / "digits" / "robust-40.json").write_text('{"methods": {')
    list(paper.run_experiment(experiment, experiment.cells, order(finished)))
    assert [(lane.method.name, lane.seed) for lane in ran] == [(NAMES[-1], 0), (NAMES[-1], 1)]
    assert numbers(read(finished, "robust-40")) == numbers(expected)


def test_more_seeds_run_only_what_is_missing(experiment, finished, ran):
    first = experiment.cells[:1]
    list(paper.run_experiment(experiment, first, order(finished, seeds=(0, 1, 2), timing=False)))
    assert {lane.seed for lane in ran} == {2}
    assert len(ran) == len(NAMES)
    assert read(finished, "few-label-9")["methods"]["ucb"]["seeds"] == [0, 1, 2]


def test_every_method_is_tuned_on_the_same_grid(experiment, finished, tmp_path, ran, monkeypatch):
    grid = ((0.01, 1e-3), (0.1, 3e-3))
    monkeypatch.setattr(paper, "GRID", grid)
    monkeypatch.setattr(paper, "TUNING_SEEDS", (1001,))
    full = replace(experiment, cells=experiment.cells[:1])
    out = tmp_path / "results"
    list(paper.run_experiment(full, full.cells, order(out, quick=False, seeds=(0,), timing=False)))
    tuning = [lane for lane in ran if lane.seed == 1001]
    assert sorted({(lane.inner_rate, lane.outer_rate) for lane in tuning}) == sorted(grid)
    assert len(tuning) == len(NAMES) * 2

    finals = {}
    for line in (out / ".work" / "digits" / "tuning.jsonl").read_text().splitlines():
        entry = json.loads(line)
        finals[entry["lane"]] = entry["outcome"]["final"]["test_accuracy"]
    chosen = read(out, "few-label-9")["tuning"]["chosen"]
    assert list(chosen) == NAMES
    for name in NAMES:
        tried = [finals[f"{name} seed=1001 inner={inner:g} outer={outer:g}"] for inner, outer in grid]
        best = grid[int(np.argmax(tried))]
        assert (chosen[name]["inner_rate"], chosen[name]["outer_rate"]) == best
        assert chosen[name]["accuracy"] == pytest.approx(max(tried), abs=1e-4)
    reported = {lane.method.name: (lane.inner_rate, lane.outer_rate) for lane in ran if lane.seed == 0}
    assert reported == {name: (chosen[name]["inner_rate"], chosen[name]["outer_rate"]) for name in NAMES}


def test_a_quick_result_is_not_taken_for_a_full_one(experiment, finished):
    path = finished / "digits" / "few-label-9.json"
    cell = experiment.cells[0]
    assert paper._holds(path, paper.quick(cell), order(finished))
    longer = replace(cell, config=replace(cell.config, meta_updates=60))
    assert not paper._holds(path, longer, order(finished, quick=False))
    assert not paper._tested(finished / "digits" / "evidence.json", 10_000)
    assert paper._tested(finished / "digits" / "evidence.json", 999)


def test_a_quick_cell_is_short_and_otherwise_the_same():
    cell = Cell("a", "paper", "a", replace(CONFIG, steps_per_batch=100, meta_updates=60, reward_rows=50), 0.5)
    short = paper.quick(cell).config
    assert (short.meta_updates, short.steps_per_batch, short.batches_per_update) == (3, 4, 4)
    assert short.reward_rows is None
    given = {"steps_per_batch": 100, "batches_per_update": 6, "meta_updates": 60, "reward_rows": 50, "eval_rows": 200}
    assert replace(short, **given) == cell.config


def test_lanes_that_are_timed_alone_have_a_program_of_their_own(experiment, monkeypatch):
    """On an accelerator comparisons run side by side; a program for many lanes cannot run one."""
    made = []
    monkeypatch.setattr(lanes, "lanes_at_once", lambda number: min(number, 4))
    monkeypatch.setattr(lanes, "prepare", lambda *arguments: made.append(arguments[-1]) or object())
    tasks, benches = experiment.load(experiment.cells[0]), {}
    many = paper._bench(experiment, experiment.cells[0], tasks, methods(3), 40, benches)
    alone = paper._bench(experiment, experiment.cells[0], tasks, methods(3), 1, benches)
    assert many is not alone
    assert made == [4, 1]


def test_a_method_that_diverged_for_every_seed_can_still_be_reported():
    outcome = {"diverged": {"update": 3, "cause": "the loss is no longer finite"}}
    columns = cells._columns({0: outcome, 1: outcome})
    assert columns["updates"] == []
    assert columns["final"]["test_accuracy"] == [None, None]
    assert columns["diverged"] == {"0": outcome["diverged"], "1": outcome["diverged"]}
