"""An experiment of the tests' own, run from its definition to result files."""

import json
from dataclasses import replace

import numpy as np
import pytest

import metasched as ms
from helpers import make_tasks
from metasched.experiments import paper
from metasched.experiments.definition import Cell, Experiment, target_drawn
from metasched.experiments.evidence import _tested, write_evidence
from metasched.experiments.methods import paper_methods, source_methods
from metasched.runs import outcome as outcomes
from metasched.runs import runner as engine
from metasched.runs.executors import Machines

pytestmark = pytest.mark.slow
CONFIG = ms.AlgorithmOne(
    batching="per_source",
    batch_size=5,
    batches_per_update=6,
    updates=4,
    eval_every=1,
    eval_rows=200,
    target_batch="all",
)
SEEDS = (0, 1)
NAMES = [method.name for method in paper_methods(make_tasks())]
UPDATES = 3
"""Meta-updates of a quick run."""


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
            Cell("robust-40", "robust", "40% noisy", CONFIG, 0.5, few, noisy=(2,)),
        ),
    )


def request(out, **changes):
    told = {"seeds": SEEDS, "quick": True, "data": {}, "machines": Machines("in-process")}
    return paper.Request(**{"out": out, **told, **changes})


@pytest.fixture(scope="module")
def finished(experiment, tmp_path_factory):
    """A quick run of everything."""
    out = tmp_path_factory.mktemp("results")
    write_evidence(experiment, out / "digits" / "evidence.json", "test", {}, quick=True)
    paths = paper.run_experiment(experiment, experiment.cells, request(out))
    assert [path.name for path in paths] == ["few-label-9.jsonl.gz", "robust-40.jsonl.gz"]
    return out


@pytest.fixture
def ran(monkeypatch):
    """Every job that is really run from now on."""
    seen, real = [], engine.run

    def run(jobs, **how):
        seen.extend(job.description for job in jobs)
        return real(jobs, **how)

    monkeypatch.setattr(engine, "run", run)
    return seen


def read(out, name):
    """Outcomes by method, then by seed."""
    found = {}
    for outcome in outcomes.read(out / "digits" / f"{name}.jsonl.gz"):
        found.setdefault(outcome.method, {})[outcome.spec.seed] = outcome
    return found


def finals(found):
    return {name: [outcome.final for outcome in own.values()] for name, own in found.items()}


def test_a_result_file_has_every_method_with_every_seed_and_adds_up(finished):
    found = read(finished, "few-label-9")
    assert list(found) == [*NAMES, "supervised"]
    for name, own in found.items():
        assert tuple(own) == SEEDS
        for outcome in own.values():
            assert outcome.study.cell == "digits/few-label-9"
            assert outcome.study.threshold == 0.6
            assert (outcome.about.source_rows, outcome.about.target_rows, outcome.about.test_rows) == (150, 9, 90)
            if name == "supervised":
                assert (outcome.family, outcome.spec.learner) == ("ceiling", "supervised")
                assert outcome.role == "trained on all 170 rows of sources and target"
                continue
            assert outcome.updates == tuple(range(1, UPDATES + 1))
            assert outcome.seconds > 0
            assert outcome.scheduling_seconds >= 0
            batches = UPDATES * outcome.spec.settings["batches_per_update"] - outcome.abstained
            assert sum(outcome.drawn) == outcome.samples[-1] == 5 * batches
    assert found["target-only"][0].drawn == (0, 0, 0)
    assert found["single:3"][0].drawn[:2] == (0, 0)
    assert found["ucb-gain+abstain"][0].spec.abstain
    assert found["ucb-gain"][0].spec.reward == "gain"


def test_cells_differ_where_their_data_do(finished):
    few, robust = finals(read(finished, "few-label-9")), finals(read(finished, "robust-40"))
    for name in ("target-only", "single:1", "supervised"):
        assert few[name] == robust[name]
    assert few["single:2"] != robust["single:2"]


def test_schedules_are_kept_where_a_figure_shows_them(finished):
    for name, kept in (("few-label-9", 0), ("robust-40", 1)):
        for method, own in read(finished, name).items():
            assert sum(outcome.schedule is not None for outcome in own.values()) == kept * (method != "supervised")


def test_evidence_has_a_test_for_every_task(finished):
    found = json.loads((finished / "digits" / "evidence.json").read_text())
    assert [row["task"] for row in found["order"]] == ["task-0", "task-1", "task-2"]
    assert all(0 < row["p_permutation"] <= 1 for row in found["order"])
    assert np.sum(found["transitions"]["task-1"], axis=1) == pytest.approx([1, 1, 1], abs=1e-3)


def test_what_is_there_is_not_run_again(experiment, finished, ran):
    before = {path: path.read_bytes() for path in finished.rglob("*.json*")}
    write_evidence(experiment, finished / "digits" / "evidence.json", "test", {}, quick=True)
    paper.run_experiment(experiment, experiment.cells, request(finished))
    assert ran == []
    assert {path: path.read_bytes() for path in finished.rglob("*.json*")} == before


def test_a_lost_result_is_made_again_from_the_runs_that_were_kept(experiment, finished, ran):
    expected = read(finished, "robust-40")
    kept = finished / ".work" / "quick" / "digits" / "robust-40.jsonl"
    lines = kept.read_text().splitlines(keepends=True)
    kept.write_text("".join(lines[:-2]) + lines[-2][:40])
    (finished / "digits" / "robust-40.jsonl.gz").write_text('{"methods": {')
    paper.run_experiment(experiment, experiment.cells, request(finished))
    again = {outcome.run for outcome in outcomes.read(kept)}
    assert len(again) == len(NAMES) * len(SEEDS)
    assert len(ran) == 2
    assert finals(read(finished, "robust-40")) == finals(expected)


def test_more_seeds_run_only_what_is_missing(experiment, finished, ran):
    paper.run_experiment(experiment, experiment.cells[:1], request(finished, seeds=(0, 1, 2), timing=False))
    assert {description.spec.seed for description in ran} == {2}
    assert len(ran) == len(NAMES)
    assert tuple(read(finished, "few-label-9")["ucb"]) == (0, 1, 2)


def test_every_method_is_tuned_on_the_same_grid(experiment, tmp_path, ran, monkeypatch):
    grid = ((0.01, 1e-3), (0.1, 3e-3))
    monkeypatch.setattr(paper, "GRIDS", {"meta": grid})
    monkeypatch.setattr(paper, "TUNING_SEEDS", (1001,))
    full = replace(experiment, cells=experiment.cells[:1])
    paper.run_experiment(full, full.cells, request(tmp_path, quick=False, seeds=(0,), timing=False))

    def rates(description):
        return description.spec.settings["inner_rate"], description.spec.settings["outer_rate"]

    tuning = [description for description in ran if description.spec.seed == 1001]
    assert sorted(set(map(rates, tuning))) == sorted(grid)
    assert len(tuning) == len(NAMES) * 2
    tried = {
        (outcome.method, *rates(outcome)): outcome.final.test_accuracy
        for outcome in outcomes.read(tmp_path / ".work" / "digits" / "tuning.jsonl")
    }
    found = read(tmp_path, "few-label-9")
    chosen = found["ucb"][0].study.tuning["chosen"]
    assert list(chosen) == NAMES
    for name in NAMES:
        accuracies = [tried[name, inner, outer] for inner, outer in grid]
        assert rates(found[name][0]) == grid[int(np.argmax(accuracies))]
        assert chosen[name]["accuracy"] == pytest.approx(max(accuracies), abs=1e-4)


def test_a_quick_result_is_not_taken_for_a_full_one(experiment, finished):
    path = finished / "digits" / "robust-40.jsonl.gz"
    cell = experiment.cells[1]
    assert paper._held(path, paper.quick(cell), SEEDS)
    assert not paper._held(path, replace(cell, config=replace(cell.config, updates=60)), SEEDS)
    assert not paper._held(path, paper.quick(cell), (0, 1, 5))
    assert not _tested(finished / "digits" / "evidence.json", 10_000)
    assert _tested(finished / "digits" / "evidence.json", 999)


def test_a_folder_takes_either_quick_or_full_results(tmp_path):
    paper.claim(tmp_path / "a", quick=True)
    with pytest.raises(ms.MetaschedError, match="holds quick results; choose another --out"):
        paper.claim(tmp_path / "a", quick=False)
    (tmp_path / "b" / "digits").mkdir(parents=True)
    (tmp_path / "b" / "digits" / "few-label-9.jsonl").write_text("")
    with pytest.raises(ms.MetaschedError, match="holds full results"):
        paper.claim(tmp_path / "b", quick=True)


def test_a_quick_cell_is_short_and_otherwise_the_same():
    cell = Cell("a", "paper", "a", replace(CONFIG, steps_per_batch=100, updates=60, reward_rows=50), 0.5)
    short = paper.quick(cell).config
    assert (short.updates, short.steps_per_batch, short.batches_per_update) == (3, 4, 4)
    assert short.reward_rows is None
    given = {"steps_per_batch": 100, "batches_per_update": 6, "updates": 60, "reward_rows": 50, "eval_rows": 200}
    assert replace(short, **given) == cell.config


def test_labels_drawn_by_seed_are_rows_that_tuning_never_saw(tmp_path, ran, monkeypatch):
    """Both learners; every seed has labels of its own, and all runs of a cell still share one program."""
    monkeypatch.setattr(paper, "GRIDS", {"joint": ((1e-3,),)})
    monkeypatch.setattr(paper, "MORE_TUNING_SEEDS", (1001,))
    path = tmp_path / "set.npz"
    tasks = make_tasks(sizes=(60, 50, 40), validation=40, test=160)
    ms.datasets.save_npz(tasks, path)
    joint = ms.Joint(batch_size=5, batches_per_update=6, updates=4, eval_every=1, eval_rows=200, target_batch="all")
    cell = Cell("joint-9", "sources", "joint, 9 labels", joint, 0.6, draw_labels=9)
    experiment = Experiment("made-up", "made up", str(path), "mlp", "9", (cell,), source_methods)
    made = []
    real = paper.runner.engine.prepare
    monkeypatch.setattr(paper.runner.engine, "prepare", lambda *given, **more: made.append(1) or real(*given, **more))
    (written,) = paper.run_experiment(experiment, (cell,), request(tmp_path / "out", quick=False, timing=False))
    assert len(made) == 2 * 2  # tuning and the cell, with mixed batches and with one source a batch
    found = list(outcomes.read(written))
    ours = [outcome for outcome in found if outcome.role == "ours"]
    assert [(outcome.method, outcome.spec.seed) for outcome in ours] == [("thompson", seed) for seed in SEEDS]
    assert {outcome.spec.learner for outcome in found} == {"joint"}
    assert len({outcome.spec.data.fingerprint for outcome in found}) == len(SEEDS)
    loaded = experiment.load(cell)
    tuned, first, second = (
        target_drawn(loaded, 9, seed, tuning) for seed, tuning in ((1001, True), (0, False), (1, False))
    )

    def rows(split):
        return {row.tobytes() for row in split.inputs}

    everything = rows(tuned.validation) | rows(tuned.test)
    for reported in (first, second):
        assert not everything & (rows(reported.validation) | rows(reported.test))
        assert len(reported.validation.labels) == 9
    assert rows(first.validation) != rows(second.validation)
    assert rows(first.validation) | rows(first.test) == rows(second.validation) | rows(second.test)
