import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import metasched as ms
from helpers import make_regression, make_tasks
from small_sets import build, build_regression, rows


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
