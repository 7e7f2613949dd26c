import numpy as np
import pytest

import metasched as ms
from metasched.errors import ConfigError, DataError
from metasched.tasks import Provenance
from metasched.tasks.assemble import Goal, Part, assemble, divide, target_parts


def part(name, labels, seed=0, inputs=None):
    if inputs is None:
        inputs = np.random.default_rng(seed).normal(size=(len(labels), 2)).astype(np.float32)
    return Part(
        inputs, np.array(labels), lambda row: f"{name}.csv line {row + 2}", Provenance(name, np.arange(len(labels)))
    )


def assembled(parts, **goal):
    return assemble(ms.TaskSet, "mine", parts, Goal(**goal))


def test_the_target_is_divided_by_label_in_its_order():
    tasks = assembled(
        {"s": part("s", ["a", "b"]), "t": part("t", ["a", "b"] * 30, seed=1)}, target="t", target_labels=8
    )
    assert np.bincount(tasks.validation.labels).tolist() == [4, 4]
    rows = tasks.provenance["validation"].rows
    assert np.all(np.diff(rows) > 0)
    assert sorted([*rows, *tasks.provenance["test"].rows]) == list(range(60))
    assert "8 of 60 rows, drawn at random (seed 0)" in tasks.notes[0]


@pytest.mark.parametrize(("rows", "expected"), [(30, 15), (500, 100)])
def test_half_of_the_target_at_most_a_hundred_rows_are_learnt_from_by_default(rows, expected):
    validation, test, note = divide(np.arange(rows) % 3, "t", None, 0)
    assert (len(validation), len(test)) == (expected, rows - expected)
    assert "--target-labels … (target_labels=…) changes that" in note


def test_numbers_are_divided_by_their_size():
    validation, _, _ = divide(np.linspace(0, 1, 100), "t", 10, 0)
    assert np.all(np.bincount(validation // 10, minlength=10) == 1)


def test_parts_named_validation_and_test_are_the_target():
    parts = {name: part(name, ["a", "b"] * 5, seed) for seed, name in enumerate(["s", "validation", "test"])}
    tasks = assembled(parts)
    assert [task.name for task in tasks.tasks] == ["s"]
    assert len(tasks.validation.labels) == len(tasks.test.labels) == 10
    fewer = assembled(parts, target_labels=4)
    assert np.bincount(fewer.validation.labels).tolist() == [2, 2]
    assert "4 of 10 validation rows are used" in fewer.notes[0]


def test_a_label_that_occurs_only_in_test_rows_is_named_by_file_and_line():
    parts = {"s": part("s", ["a", "b"]), "validation": part("validation", ["a", "b"], 1)}
    parts["test"] = part("test", ["a", "wolf", "wolf"], 2)
    with pytest.raises(DataError, match=r"test\.csv line 3: label 'wolf' occurs only in test rows \(2 such rows\)"):
        assembled(parts)
    taught = {**parts, "s": part("s", ["a", "wolf"])}
    assert assembled(taught).classes == ("a", "b", "wolf")


def test_a_test_row_that_repeats_a_validation_row_is_left_out_of_our_own_division():
    inputs = np.zeros((20, 2), np.float32)
    inputs[10:] = np.random.default_rng(0).normal(size=(10, 2))
    parts = {"s": part("s", ["a", "b"]), "t": part("t", ["a", "b"] * 10, inputs=inputs)}
    tasks = assembled(parts, target="t", target_labels=10)
    assert not any((row == 0).all() for row in tasks.test.inputs)
    assert any("repeat a validation row are left out" in note for note in tasks.notes)
    assert len(assembled(parts, target="t", target_labels=10, allow_overlap=True).test.labels) == 10


def test_a_row_in_both_files_of_a_divided_target_is_named_in_both():
    inputs = np.random.default_rng(5).normal(size=(4, 2)).astype(np.float32)
    parts = {"s": part("s", ["a", "b"]), "validation": part("validation", ["a", "b"] * 2, inputs=inputs)}
    parts["test"] = part("test", ["a", "b"], inputs=inputs[[1, 3]])
    with pytest.raises(DataError, match=r"test\.csv line 3: repeats validation\.csv line 5; remove one of them"):
        assembled(parts)
    assert len(assembled(parts, allow_overlap=True).test.labels) == 2


def test_a_target_of_equal_rows_is_refused():
    parts = {"s": part("s", ["a", "b"]), "t": part("t", ["a", "b"] * 10, inputs=np.zeros((20, 2), np.float32))}
    with pytest.raises(
        DataError, match="every test row repeats a validation row; give other rows, or --data allow_overlap=True"
    ):
        assembled(parts, target="t")


class TestTargetParts:
    @pytest.mark.parametrize(
        ("names", "target", "error", "message"),
        [
            (["a", "b"], None, ConfigError, r"which is the target.* Give --target … \(target=…\), one of a, b"),
            (["a", "bear"], "beer", ConfigError, "unknown target 'beer'; did you mean 'bear'"),
            (["a", "test"], None, DataError, "has 'test' but not 'validation'; give both"),
            (["a", "validation", "test"], "a", ConfigError, "leave out target"),
            (["a"], "a", DataError, "no source besides the target"),
            (["validation", "test"], None, DataError, "no source besides the target"),
            ([], None, DataError, "holds no sources"),
        ],
    )
    def test_what_is_no_target_is_refused(self, names, target, error, message):
        with pytest.raises(error, match=message):
            target_parts(names, target, "mine")


def test_a_target_of_one_row_cannot_be_divided():
    with pytest.raises(DataError, match="target 't' has 1 row"):
        divide(np.array([0]), "t", None, 0)
