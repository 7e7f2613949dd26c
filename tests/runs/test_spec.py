import msgspec
import pytest

import metasched as ms
from helpers import make_tasks
from metasched.runs.jobs import make_jobs
from metasched.runs.spec import DataSpec, RunSpec, first_in_words


def spec(**changes):
    known = {
        "data": DataSpec(fingerprint="0a", set="demo"),
        "network": "mlp",
        "scheduler": "ucb",
        "options": {"upper": 0.5},
        "learner": "meta",
        "settings": {"batch_size": 20, "inner_rate": 0.01},
        "reward": "transfer",
        "seed": 3,
        "versions": {"jax": "0.10.2"},
    }
    return RunSpec(**{**known, **changes})


@pytest.mark.parametrize(
    "change",
    [
        {"data": DataSpec(fingerprint="0b", set="demo")},
        {"data": DataSpec(fingerprint="0a", set="demo", options={"target_labels": 30})},
        {"network": "cnn"},
        {"scheduler": "thompson"},
        {"options": {}},
        {"settings": {"batch_size": 20, "inner_rate": 0.02}},
        {"reward": "gain"},
        {"abstain": True},
        {"seed": 4},
        {"learner": "joint"},
        {"own": ("network",)},
        {"versions": {"jax": "0.11.2"}},
    ],
)
def test_everything_that_decides_the_numbers_decides_the_name(change):
    assert spec(**change).name != spec().name


def test_the_name_does_not_depend_on_the_order_of_keys_or_on_a_round_trip():
    turned = spec(settings={"inner_rate": 0.01, "batch_size": 20})
    assert turned.name == spec().name
    assert msgspec.json.decode(msgspec.json.encode(spec()), type=RunSpec) == spec()
    assert msgspec.json.decode(msgspec.json.encode(spec()), type=RunSpec).name == spec().name


def test_differences_have_paths_and_both_values():
    other = spec(seed=4, settings={"batch_size": 20, "inner_rate": 0.5}, options={})
    assert spec().differences(other) == {
        "seed": (3, 4),
        "settings.inner_rate": (0.01, 0.5),
        "options.upper": (0.5, None),
    }
    assert spec().differences(spec()) == {}


class TestFirstInWords:
    def test_an_option_of_the_data_comes_before_the_rows_it_chose(self):
        few = DataSpec(fingerprint="0b" * 32, set="demo", options={"target_labels": 30})
        said = first_in_words(spec().differences(spec(data=few, seed=4)))
        assert said == "with another option target_labels of the data (none, not 30)"

    def test_so_does_the_data_set(self):
        said = first_in_words(spec().differences(spec(data=DataSpec(fingerprint="0b", set="digits"))))
        assert said == "with another data set (demo, not digits)"

    def test_rows_that_have_changed_are_called_so_with_short_checksums(self):
        changed = spec(data=DataSpec(fingerprint="0123456789abcdef" * 4, set="demo"))
        said = first_in_words(changed.differences(spec()))
        assert said.startswith("on other rows: the data have changed since")
        assert said.endswith("(checksum 0123456789ab, not 0a)")

    @pytest.mark.parametrize(
        ("changes", "words"),
        [
            ({"seed": 4}, "seed (3, not 4)"),
            ({"settings": {"batch_size": 20, "inner_rate": 0.5}}, "setting inner_rate (0.01, not 0.5)"),
            ({"options": {}}, "option upper of the scheduler (0.5, not none)"),
            ({"abstain": True}, "setting abstain (False, not True)"),
        ],
    )
    def test_anything_else_is_named_as_its_user_gave_it(self, changes, words):
        assert first_in_words(spec().differences(spec(**changes))) == f"with another {words}"


def test_a_job_of_train_is_written_down_whole():
    tasks = make_tasks()
    config = ms.AlgorithmOne(batch_size=4, updates=3)
    (job,) = make_jobs(tasks, "gittins", options={"discount": 0.9}, network="mlp", learner=config, seeds=(7,))
    found = job.description.spec
    assert found.settings["batches_per_update"] == 3
    assert found.settings["gradient"] == "stored"
    assert (found.scheduler, found.options, found.seed) == ("gittins", {"discount": 0.9}, 7)
    assert found.data.fingerprint == tasks.fingerprint
    assert {"python", "jax", "numpy", "metasched"} <= set(found.versions)
    assert msgspec.json.decode(msgspec.json.encode(found), type=RunSpec) == found
