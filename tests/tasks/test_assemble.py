import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import metasched as ms
from helpers import make_regression, make_tasks
from metasched.errors import ConfigError, DataError
from metasched.tasks import Provenance
from metasched.tasks.assemble import Goal, SourceRows, assemble, divide, target_parts
from small_sets import build, build_regression, rows


def part(name, labels, seed=0, inputs=None):
    if inputs is None:
        inputs = np.random.default_rng(seed).normal(size=(len(labels), 2)).astype(np.float32)
    return SourceRows(
        inputs, np.array(labels), lambda row: f"{name}.csv line {row + 2}", Provenance(name, np.arange(len(labels)))
    )


def assembled(parts, **goal):
    return assemble("mine", parts, Goal(**goal))


def test_the_target_is_divided_by_label_in_its_order():
    tasks = assembled(
        {"s": part("s", ["a", "b"]), "t": part("t", ["a", "b"] * 30, seed=1)}, target="t", target_labels=8
    )
    assert np.bincount(tasks.validation.labels).tolist() == [4, 4]
    rows = tasks.provenance["validation"].rows
    assert np.all(np.diff(rows) > 0)
    assert sorted([*rows, *tasks.provenance["test"].rows]) == list(range(60))
    assert "8 of 60 rows are for validation, drawn at random (seed 0)" in tasks.notes[0]


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
            (["a"], "a", DataError, "no source apart from the target"),
            (["validation", "test"], None, DataError, "no source apart from the target"),
            ([], None, DataError, "has no sources"),
        ],
    )
    def test_what_is_no_target_is_refused(self, names, target, error, message):
        with pytest.raises(error, match=message):
            target_parts(names, target, "mine")


def test_a_target_of_one_row_cannot_be_divided():
    with pytest.raises(DataError, match="target 't' has 1 row"):
        divide(np.array([0]), "t", None, 0)


class TestLabelled:
    def test_keeps_order_sizes_and_names(self):
        tasks = build(tasks={"b": rows(5), "a": rows(7, seed=1)})
        assert [task.name for task in tasks.tasks] == ["b", "a"]
        assert tasks.sizes == (5, 7)
        assert tasks.shape == (2,)

    def test_inputs_become_float32_and_labels_int32(self):
        tasks = build()
        assert tasks.tasks[0].inputs.dtype == np.float32
        assert tasks.tasks[0].labels.dtype == np.int32
        assert tasks.validation.inputs.dtype == tasks.test.inputs.dtype == np.float32

    def test_bytes_are_pixels(self):
        image = np.array([[[0, 255]], [[51, 102]]], np.uint8)
        tasks = build(tasks={"a": (image, [0, 1])}, validation=(image[:1], [0]), test=(image[1:], [1]))
        np.testing.assert_allclose(tasks.tasks[0].inputs, [[[0, 1]], [[0.2, 0.4]]], rtol=1e-6)

    def test_validation_and_test_unpack_as_pairs(self):
        inputs, labels = build().test
        assert inputs.shape == (6, 2)
        assert labels.shape == (6,)

    def test_labels_are_shared_unless_a_task_has_classes_of_its_own(self):
        assert build().shared_labels
        own = build(classes={"a": ["cat", "dog"], "b": ["x", "y"], "target": ["x", "y"]})
        assert not own.shared_labels
        assert own.tasks[0].classes == ("cat", "dog")

    def test_without_names_classes_are_numbered(self):
        assert build(classes=None, validation=rows(label=3, seed=3)).classes == ("0", "1", "2", "3")

    def test_whole_numbers_written_as_floats_are_labels(self):
        assert build(validation=(rows(seed=3)[0], np.ones(6))).validation.labels.tolist() == [1] * 6


FINITE = st.floats(-1e6, 1e6, width=32)


class TestRegression:
    def test_rows_have_targets_and_unpack_as_before(self):
        tasks = make_regression(numbers=2)
        assert tasks.target_size == 2
        inputs, labels = tasks.validation
        assert tasks.validation.targets.shape == (len(labels), 2) == (len(inputs), 2)
        assert tasks.tasks[0].targets.dtype == np.float32
        assert make_tasks().target_size is None
        assert make_tasks().test.targets is None

    def test_one_number_a_row_is_a_column(self):
        assert build_regression().tasks[0].targets.shape == (6, 1)

    def test_labels_are_bins_of_the_first_number_named_by_their_range(self):
        targets = np.array([[0.0, 9], [1, 9], [2, 9], [3, 9]])
        tasks = ms.TaskSet.regression(
            {"a": (np.eye(4), targets[::-1])},
            validation=(np.eye(4) * 2, [[-5.0, 0], [1.9, 0], [2, 0], [50, 0]]),
            test=(np.eye(4), targets),
            bins=2,
        )
        assert tasks.classes == ("< 2", "≥ 2")
        assert tasks.tasks[0].labels.tolist() == [1, 1, 0, 0]
        assert tasks.validation.labels.tolist() == [0, 0, 1, 1]
        assert tasks.shared_labels

    def test_the_targets_own_rows_have_no_part_in_the_bins(self):
        random = np.random.default_rng(0)
        far = [(random.normal(size=(6, 2)), random.normal(size=6) + 1e6) for _ in range(2)]
        assert build_regression(validation=far[0], test=far[1]).classes == build_regression().classes

    @given(st.lists(FINITE, min_size=1, max_size=60), st.integers(2, 12))
    def test_no_bin_is_empty_and_values_keep_their_order(self, values, bins):
        values = np.array(values, np.float32)
        tasks = ms.TaskSet.regression(
            {"a": (np.zeros((len(values), 1)), values)},
            validation=(np.zeros((1, 1)), [0.0]),
            test=(np.ones((1, 1)), [0.0]),
            bins=bins,
        )
        labels = tasks.tasks[0].labels
        assert sorted(set(labels)) == list(range(len(tasks.classes)))
        assert len(tasks.classes) <= bins
        assert len(set(tasks.classes)) == len(tasks.classes)
        order = np.argsort(values, kind="stable")
        assert np.all(np.diff(labels[order]) >= 0)
        for value in np.unique(values):
            assert len(set(labels[values == value])) == 1

    def test_edges_that_lie_close_get_the_digits_that_tell_them_apart(self):
        values = 1000 + np.arange(4) / 1000
        tasks = build_regression(tasks={"a": (np.zeros((4, 2)), values)}, bins=4)
        assert tasks.classes == ("< 1000.001", "1000.001 … 1000.002", "1000.002 … 1000.003", "≥ 1000.003")

    def test_targets_that_are_all_the_same_are_one_bin(self):
        assert build_regression(tasks={"a": (np.zeros((4, 2)), [2.5] * 4)}).classes == ("any",)
