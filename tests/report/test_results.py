import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import made_up_results as made
import metasched as ms
from helpers import make_tasks
from metasched.errors import DataError
from metasched.meta.networks import mlp
from metasched.report import page
from metasched.report.results import load


def changed(folder, **changes):
    return made.write(folder, {**made.cell(seeds=3, names=["cyclic", "ucb"]), **changes})


def spoil(folder, change):
    """A good cell beside one that ``change`` has spoilt; what is said about the bad one."""
    made.write(folder, made.cell(variant="10 labels", seeds=3, names=["cyclic", "ucb"]))
    content = made.cell(seeds=3, names=["cyclic", "ucb"])
    change(content)
    path = made.write(folder, content)
    results = load([folder])
    assert [cell.variant for cell in results.cells] == ["10 labels"]
    (fault,) = results.faults
    assert str(path) in fault
    assert "\n" not in fault
    return fault


class TestGoodFiles:
    def test_cells_come_in_the_order_of_the_paper(self, tmp_path):
        results = load([made.write_all(tmp_path, seeds=2, names=["cyclic"])])
        assert [cell.variant for cell in results.of("digits", "paper")] == ["B=1", "B=20", "B=100"]
        assert [cell.experiment for cell in results.cells[::5]] == [
            "digits",
            "digits",
            "cifar",
            "weather",
            "weather-points",
        ]
        assert [item.experiment for item in results.evidence] == ["digits", "cifar", "weather"]
        assert not results.faults
        assert not results.notes

    def test_arrays_have_the_shapes_they_say(self, tmp_path):
        (cell,) = load([changed(tmp_path)]).cells
        method = cell.methods["ucb"]
        assert method.samples.shape == method.test_accuracy.shape == (3, len(method.updates))
        assert method.per_class.shape == (3, 10)
        assert method.schedule.shape == (30, 6)
        assert cell.seeds == (0, 1, 2)

    def test_what_may_be_absent_may_be_absent(self, tmp_path):
        content = made.cell(seeds=3, names=["cyclic"])
        for key in ("drawn_by_label", "schedule", "scheduling_seconds", "per_class", "seconds", "abstained", "drawn"):
            del content["methods"]["cyclic"][key]
        (cell,) = load([made.write(tmp_path, content)]).cells
        assert cell.methods["cyclic"].schedule is None

    def test_a_method_may_have_only_its_final_accuracy(self, tmp_path):
        content = made.cell(seeds=3, names=["cyclic", "supervised"])
        content["methods"]["supervised"] = {
            "family": "ceiling",
            "seeds": [0, 1, 2],
            "updates": [],
            "samples": [],
            "test_accuracy": [],
            "final": {"test_accuracy": [0.9, 0.9, 0.9], "balanced_accuracy": None},
            "per_class": [],
            "drawn": None,
        }
        results = load([made.write(tmp_path, content)])
        assert results.faults == ()
        method = results.cells[0].methods["supervised"]
        assert method.test_accuracy.shape == (3, 0)
        assert list(method.final) == ["test_accuracy"]
        assert page.build(results).tables

    def test_a_seed_that_diverged_is_nan_and_is_named(self, tmp_path):
        content = made.cell(seeds=3, names=["cyclic", "ucb"])
        method = content["methods"]["ucb"]
        method["diverged"] = {"1": {"update": 7, "cause": "loss is not finite"}}
        method["final"]["test_accuracy"][1] = None
        method["test_accuracy"][1] = method["test_accuracy"][1][:3]
        method["samples"][1] = None
        results = load([made.write(tmp_path, content)])
        found = results.cells[0].methods["ucb"]
        assert np.isnan(found.final["test_accuracy"][1])
        assert np.isnan(found.test_accuracy[1, 3:]).all()
        assert "ucb diverged with seed 1 (at meta-update 7: loss is not finite)" in results.notes[0]


class TestSaysWhatIsMixed:
    def test_versions_and_devices(self, tmp_path):
        changed(tmp_path)
        made.write(tmp_path, made.cell(variant="10 labels", seeds=3, names=["cyclic", "ucb"], device="cpu: cpu"))
        old = {**made.ABOUT["versions"], "jax": "0.9.0"}
        made.write(tmp_path, made.cell(variant="100 labels", seeds=3, names=["cyclic", "ucb"], versions=old))
        notes = load([tmp_path]).notes
        assert "different versions of jax: 0.10.0 (2 files), 0.9.0 (1 files)" in notes[0]
        assert "different devices: cpu: cpu (1 files), gpu: NVIDIA H200 (2 files)" in notes[1]

    def test_missing_seeds(self, tmp_path):
        content = made.cell(seeds=4, names=["cyclic"])
        content["methods"]["ucb"] = made.method("ucb", 0.6, seeds=2)
        assert "ucb lacks seeds 2, 3" in load([made.write(tmp_path, content)]).notes[0]


class TestBadFiles:
    def test_half_written(self, tmp_path):
        made.write(tmp_path, made.cell(variant="10 labels", seeds=3, names=["cyclic"]))
        path = changed(tmp_path)
        path.write_text(path.read_text()[:500])
        results = load([tmp_path])
        assert len(results.cells) == 1
        assert results.faults == (f"{path}: is damaged or half written (not JSON); left out, run its cell again",)

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (lambda c: c.update(format=2), "has result format 2, this metasched reads 1"),
            (lambda c: c.update(threshold=7), "threshold is 7"),
            (lambda c: c.update(methods={}), "no methods"),
            (lambda c: c.update(simulated=None), "does not say whether its data are simulated"),
            (lambda c: c["methods"]["ucb"].update(family="lucky"), "family lucky"),
            (lambda c: c["methods"]["ucb"].update(seeds=[0, 0, 1]), "a seed twice"),
            (lambda c: c["methods"]["ucb"].update(seeds=["a"]), "no list of seeds"),
            (lambda c: c["methods"]["ucb"].update(samples=[[1]]), "samples is not a list of 3"),
            (lambda c: c["methods"]["ucb"]["final"].update(test_accuracy=[2, 0, 0]), "outside 0 to 1"),
            (lambda c: c["methods"]["ucb"]["final"].update(test_accuracy=["<b>", 0, 0]), "not a number"),
            (lambda c: c["methods"]["ucb"].update(seconds=[1e999, 1, 1]), "holds an infinite number"),
            (lambda c: c["methods"]["ucb"].update(seconds=[10**400, 1, 1]), "too large"),
            (lambda c: c["methods"]["ucb"]["updates"].reverse(), "updates do not increase"),
            (lambda c: c["methods"].update(ucb=[]), "is not an object"),
            (lambda c: c["methods"]["ucb"].update(diverged={"9": {}}), "seed 9 diverged"),
            (lambda c: c["methods"]["ucb"].update(diverged={"²": {}}), "seed ² diverged"),
        ],
    )
    def test_is_named_and_left_out(self, tmp_path, change, message):
        assert message in spoil(tmp_path, change)

    def test_another_json_file_is_not_a_result(self, tmp_path):
        changed(tmp_path)
        (tmp_path / "notes.json").write_text("[1, 2]")
        assert "is not a result file" in load([tmp_path]).faults[0]

    def test_the_same_cell_twice_counts_once(self, tmp_path):
        changed(tmp_path / "a")
        changed(tmp_path / "b")
        results = load([tmp_path])
        assert len(results.cells) == 1
        assert "which an earlier file has too" in results.faults[0]

    @pytest.mark.parametrize("name", ["empty", "absent"])
    def test_nothing_at_all_is_an_error(self, tmp_path, name):
        (tmp_path / "empty").mkdir()
        with pytest.raises(DataError, match="no results to report"):
            load([tmp_path / name])

    def test_bad_evidence_is_left_out(self, tmp_path):
        changed(tmp_path)
        content = made.evidence()
        content["scaled_error"]["by_class"]["3"] = [1, 2]
        made.write(tmp_path, content)
        assert "scaled_error of '3' is not a list of 40" in load([tmp_path]).faults[0]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    config = ms.TrainConfig(batch_size=4, meta_updates=3)
    tasks = make_tasks()
    for name, seeds in {"cyclic": (0, 1), "ucb": (0, 1), "target-only": (0, 1)}.items():
        ms.train(tasks, scheduler=name, config=config, seeds=seeds, out=folder / name)
    ms.train(tasks, scheduler="cyclic", config=config, seeds=(5,), out=folder / "more")
    return folder


class TestRunFolders:
    def test_runs_on_the_same_data_are_one_cell(self, runs):
        (cell,) = load([runs]).cells
        assert set(cell.methods) == {"cyclic", "ucb", "target-only"}
        assert cell.methods["cyclic"].seeds == (0, 1, 5)
        assert cell.methods["ucb"].family == "active"
        assert cell.methods["target-only"].samples.max() == 0
        assert not cell.simulated
        assert cell.title == "arrays, own runs"

    def test_numbers_are_those_of_the_run(self, runs):
        (cell,) = load([runs / "ucb"]).cells
        lines = [json.loads(line) for line in (runs / "ucb" / "metrics.jsonl").read_text().splitlines()]
        finals = [line["final"]["test_accuracy"] for line in lines if "final" in line]
        assert cell.methods["ucb"].final["test_accuracy"].tolist() == finals
        assert cell.methods["ucb"].schedule.sum() == sum(len(line["tasks"]) for line in lines if line["seed"] == 0)

    def test_runs_on_other_data_of_the_same_name_are_a_cell_of_their_own(self, runs, tmp_path):
        config = ms.TrainConfig(batch_size=4, meta_updates=3)
        ms.train(make_tasks(seed=1), scheduler="cyclic", config=config, out=tmp_path / "other")
        assert [cell.key for cell in load([runs, tmp_path]).cells] == ["arrays/own runs", "arrays/own runs (2)"]

    def test_a_run_with_other_settings_is_a_method_of_its_own(self, runs, tmp_path):
        config = ms.TrainConfig(batch_size=5, meta_updates=3)
        ms.train(make_tasks(), scheduler="ucb", config=config, out=tmp_path / "other")
        (cell,) = load([runs, tmp_path]).cells
        assert "ucb (batch_size 5, batches_per_update 1)" in cell.methods

    def test_a_run_that_has_not_finished_says_how_to_go_on(self, runs, tmp_path):
        half = tmp_path / "half"
        half.mkdir()
        (half / "run.json").write_text((runs / "ucb" / "run.json").read_text())
        (half / "metrics.jsonl").write_text((runs / "ucb" / "metrics.jsonl").read_text().splitlines()[0] + "\n")
        results = load([runs, half])
        assert "has no finished seed" in results.faults[0]
        assert len(results.cells) == 1


def test_a_seed_that_diverged_in_a_run_of_ones_own_is_reported(tmp_path):
    tasks = make_tasks()
    plain = mlp(3, (6,))
    bad = jax.random.key_data(jax.random.split(jax.random.key(1), 3)[0])

    def init(key, inputs):
        scale = jnp.where(jnp.all(jax.random.key_data(key) == bad), jnp.inf, 1.0)
        return jax.tree.map(lambda leaf: scale * leaf, plain.init(key, inputs))

    config = ms.TrainConfig(batch_size=4, meta_updates=2, eval_every=1)
    for name, seeds in (("a", (0, 1)), ("b", (2,))):
        ms.train(tasks, plain._replace(init=init), config=config, seeds=seeds, out=tmp_path / name)
    loaded = load([tmp_path])
    assert loaded.faults == ()
    (method,) = loaded.cells[0].methods.values()
    assert sorted(method.seeds) == [0, 1, 2]
    assert "at meta-update 1: the loss is no longer finite" in method.diverged[1]
    place = method.seeds.index(1)
    assert np.isnan(method.final["test_accuracy"][place])
    assert np.isnan(method.test_accuracy[place]).all()
    assert np.isfinite(np.delete(method.final["test_accuracy"], place)).all()
    assert any("diverged with seed 1" in note for note in loaded.notes)
