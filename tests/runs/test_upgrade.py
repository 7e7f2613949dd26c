import json
import shutil
from dataclasses import asdict
from pathlib import Path

import msgspec
import pytest

import metasched as ms
from metasched.errors import DataError, RunError
from metasched.runs import folder
from metasched.runs import outcome as outcomes
from metasched.runs.spec import EARLIER
from metasched.runs.upgrade import upgrade_spec

STORED = Path(__file__).parent / "stored" / "0.1"
"""What version 0.1 wrote: a finished run with its model, one that was interrupted, and some runs of a comparison."""

OLD = [
    {
        "shared": {
            "format": 2,
            "spec": {"data": {"fingerprint": "0a"}, "network": "mlp", "scheduler": "ucb", "config": {"batch_size": 4}},
            "family": "active",
            "about": {
                "name": "a",
                "simulated": False,
                "tasks": ["a"],
                "source_rows": 9,
                "target_rows": 3,
                "test_rows": 5,
            },
            "origin": {"created": "2026-01-01T00:00:00+00:00", "command": "test", "device": "cpu"},
            "final": {"test_accuracy": 0.5, "initial_test_accuracy": 0.25},
        }
    },
    {"method": {"method": "ours", "spec": {"options": {"upper": 0.5}}, "final": {"balanced_accuracy": 0.4}}},
    {"run": "0a", "spec": {"seed": 0}, "by_class": [0.5, None], "drawn_by_label": [[1.5, 2.0]]},
    {"run": "0b", "spec": {"seed": 1}, "final": {"test_accuracy": 0.75}},
    {"method": {"method": "other", "spec": {"config": {"meta_updates": 2}}}},
    {"run": "0c", "spec": {"seed": 0}},
]


def put(path, lines):
    path.write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
    return path


def test_outcomes_of_the_last_version_are_read_with_what_their_neighbours_share(tmp_path):
    first, second, third = outcomes.read(put(tmp_path / "a.jsonl", OLD))
    assert [each.method for each in (first, second, third)] == ["ours", "ours", "other"]
    assert [each.spec.seed for each in (first, second, third)] == [0, 1, 0]
    assert first.spec.options == second.spec.options == {"upper": 0.5}
    assert third.spec.options == {}
    assert [each.run for each in (first, second, third)] == [each.spec.name for each in (first, second, third)]
    assert first.final == outcomes.Final(
        test_accuracy=0.5,
        initial_test_accuracy=0.25,
        balanced_test_accuracy=0.4,
        test_accuracy_by_class=(0.5, None),
        drawn_by_label=((1.5, 2.0),),
    )
    assert second.final.test_accuracy == 0.75
    assert third.final.balanced_test_accuracy is None


def test_a_line_of_this_version_takes_nothing_from_what_others_share(tmp_path):
    path = put(tmp_path / "a.jsonl", OLD)
    *_, last = outcomes.read(path)
    alone = msgspec.structs.replace(last, origin=msgspec.structs.replace(last.origin, device="gpu"), role="alone")
    with path.open("ab") as stream:
        stream.write(outcomes.encode(alone))
    assert list(outcomes.read(path))[-1] == alone


def test_what_was_written_by_the_version_before_the_last_is_refused(tmp_path):
    lines = [{"shared": {**OLD[0]["shared"], "format": 1}}, *OLD[1:]]
    with pytest.raises(DataError, match=r"line 3: is not an outcome of format 3 \(its format is 1\)"):
        list(outcomes.read(put(tmp_path / "a.jsonl", lines)))


class TestStored:
    def test_a_finished_run_has_the_settings_of_its_learner(self):
        found = folder.describe(STORED / "finished").spec
        assert (found.learner, found.reward, found.abstain) == ("joint", "transfer", False)
        usual = asdict(ms.Joint(updates=3, batches_per_update=3, eval_every=2))
        assert found.settings == {name: value for name, value in usual.items() if name not in EARLIER}

    def test_its_outcome_is_read_and_its_model_loads(self, tmp_path):
        (run,) = outcomes.read(STORED / "finished" / "outcome.jsonl")
        assert run.spec == folder.describe(STORED / "finished").spec
        assert run.final.test_accuracy == pytest.approx(0.7727, abs=1e-4)
        for name in ("model.json", "model.safetensors"):
            shutil.copy(STORED / "finished" / name, tmp_path)
        rows = {"a": [0.0, 1.0], "b": [0.5, -0.5], "c": [1.0, 2.0]}
        alone, within = (ms.load_model(path).predict(rows) for path in (tmp_path, STORED / "finished"))
        assert alone.tolist() == within.tolist()
        assert set(alone) <= {"calm", "storm"}

    def test_one_that_was_interrupted_is_refused_in_one_line_that_says_what_to_do(self, tmp_path):
        shutil.copytree(STORED / "unfinished", tmp_path / "a")
        with pytest.raises(RunError, match=r"started by metasched 0\.1, .* finish it with metasched 0\.1, or"):
            ms.resume(tmp_path / "a")

    def test_runs_of_a_comparison_are_read(self):
        found = list(outcomes.read(STORED / "comparison" / "outcomes.jsonl"))
        assert len(found) == 3
        assert {run.study.regime for run in found} == {"own runs"}
        assert all("learning_rate" in run.spec.settings for run in found)


def old_spec(**config):
    return {**json.loads((STORED / "unfinished" / "run.json").read_text())["spec"], "config": config}


def test_settings_of_algorithm_1_have_their_new_names():
    new = upgrade_spec(old_spec(meta_updates=5, inner_rate=0.1, outer_rate=0.2, source_weight=1.0, reward="gain"))
    assert new["settings"] == {"updates": 5, "inner_rate": 0.1, "outer_rate": 0.2}
    assert (new["reward"], new["abstain"]) == ("gain", False)
    assert "config" not in new


REMOVED = [
    ("row_weights", False, True),
    ("initial_share", 0.0, 0.5),
    ("adapt_on_target", 0, 3),
    ("inner_rates", "scalar", "layer"),
    ("inner_layers", "all", "head"),
]


@pytest.mark.parametrize(("name", "usual", "value"), REMOVED)
def test_a_setting_that_no_longer_exists_is_refused_by_name_unless_it_did_nothing(name, usual, value, tmp_path):
    assert name not in upgrade_spec(old_spec(**{name: usual}))["settings"]
    with pytest.raises(RunError, match=f"{name} is {value!r}, a setting that no longer exists; use metasched 0.1"):
        upgrade_spec(old_spec(**{name: value}))
    lines = [{"shared": {**OLD[0]["shared"], "spec": {**OLD[0]["shared"]["spec"], "config": {name: value}}}}, *OLD[1:]]
    with pytest.raises(DataError, match=f"line 3: .*{name} is {value!r}"):
        list(outcomes.read(put(tmp_path / "a.jsonl", lines)))


@pytest.mark.parametrize("damage", [{"config": None}, {"learner": ["joint"]}])
def test_a_damaged_description_of_the_last_version_is_named(damage, tmp_path):
    shutil.copytree(STORED / "finished", tmp_path / "a")
    path = tmp_path / "a" / "run.json"
    described = json.loads(path.read_text())
    path.write_text(json.dumps({**described, "spec": {**described["spec"], **damage}}))
    with pytest.raises(RunError, match=r"run\.json: is damaged \(Expected `.*`, got `.*`\); start the run again"):
        folder.describe(tmp_path / "a")
