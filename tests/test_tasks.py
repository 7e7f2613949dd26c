import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import metasched as ms
from helpers import make_tasks
from metasched.errors import ConfigError, DataError
from metasched.tasks import stratified_rows


def rows(count=6, shape=(2,), label=0, seed=0):
    return np.random.default_rng(seed).normal(size=(count, *shape)), np.full(count, label)


def build(**changes):
    arguments = {
        "tasks": {"a": rows(seed=1), "b": rows(seed=2)},
        "validation": rows(seed=3),
        "test": rows(seed=4),
        "classes": ["x", "y"],
        **changes,
    }
    return ms.TaskSet.from_arrays(arguments.pop("tasks"), **arguments)


class TestBuilding:
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


class TestRefusing:
    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"tasks": {}}, "no tasks"),
            ({"tasks": {"a": rows(0)}}, r"task 'a' is empty"),
            ({"test": rows(0)}, r"test is empty"),
            ({"tasks": {"a": rows(label=2)}}, r"task 'a': row 0 has label 2, outside 0 … 1 \(6 such rows\)"),
            ({"validation": rows(label=-1, seed=3)}, r"validation: row 0 has label -1"),
            ({"tasks": {"a": rows(shape=(3,))}}, r"task 'a': one input has shape \(3,\), the test rows \(2,\)"),
            ({"tasks": {"a": (rows()[0], [0, 1])}}, r"task 'a': inputs \(6, 2\) and labels \(2,\) do not match"),
            ({"tasks": {"a": (rows()[0], [[0]] * 6)}}, r"do not match"),
            ({"tasks": {"a": (rows()[0], [0.5] * 6)}}, r"a: labels have dtype float64; give integers"),
            ({"tasks": {"a": (rows()[0], ["x"] * 6)}}, r"a: labels have dtype"),
            ({"tasks": {"a": ([["x", "y"]] * 6, [0] * 6)}}, r"a: inputs have dtype"),
            ({"tasks": {"test": rows()}}, r"may not be named"),
            ({"tasks": {"a": (rows()[0], [2**40] * 6)}}, r"do not fit 32 bits"),
        ],
    )
    def test_garbage_is_refused_with_its_place(self, changes, message):
        with pytest.raises(DataError, match=message):
            build(**changes)

    @pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e39])
    def test_a_pixel_that_is_no_number_is_named_by_row(self, bad):
        inputs, labels = rows()
        inputs[4, 1] = bad
        with pytest.raises(DataError, match=r"task 'a': row 4 holds NaN or infinity \(1 such rows\)"):
            build(tasks={"a": (inputs, labels)})

    def test_a_test_row_among_the_validation_rows_is_refused(self):
        test = rows(seed=4)
        leak = (np.concatenate([rows(seed=3)[0], test[0][2:3]]), np.zeros(7, int))
        with pytest.raises(DataError, match="test row 2 is also validation row 6"):
            build(validation=leak, test=test)
        assert build(validation=leak, test=test, allow_overlap=True).validation.labels.size == 7

    def test_the_same_input_with_another_label_is_no_leak(self):
        inputs, _ = rows(seed=4)
        assert build(validation=(inputs, [0] * 6), test=(inputs, [1] * 6))

    def test_rows_of_one_source_in_both_validation_and_test_are_refused(self):
        tasks = build()
        source = ms.Provenance("file", np.arange(6))
        with pytest.raises(DataError, match="row 0 of file is in both validation and test"):
            ms.TaskSet(
                "x",
                tasks.tasks,
                tasks.validation,
                tasks.test,
                tasks.classes,
                {**tasks.provenance, "validation": source, "test": source},
            )

    def test_classes_must_be_named_for_every_task(self):
        with pytest.raises(ConfigError, match="no labels for 'b'"):
            build(classes={"a": ["x"], "target": ["x"]})


class TestVariants:
    def test_target_labels_keeps_a_stratified_part(self):
        tasks = make_tasks(validation=300).variant(target_labels=30)
        full = make_tasks(validation=300).validation
        shares = np.bincount(full.labels) / 10
        assert len(tasks.validation.labels) == 30
        assert np.all(np.abs(np.bincount(tasks.validation.labels) - shares) <= 1)
        kept = tasks.provenance["validation"].rows
        np.testing.assert_array_equal(full.inputs[kept], tasks.validation.inputs)

    @pytest.mark.parametrize("count", [0, -1, 301])
    def test_an_impossible_number_of_target_labels_is_refused(self, count):
        with pytest.raises(ConfigError, match=f"asked for {count} target labels"):
            make_tasks(validation=300).variant(target_labels=count)

    def test_noise_permutes_labels_of_that_fraction_and_keeps_their_counts(self):
        clean = make_tasks(sizes=(1000, 1000))
        noisy = clean.variant(noise={"task-0": 0.4})
        changed = np.flatnonzero(clean.tasks[0].labels != noisy.tasks[0].labels)
        assert 150 < changed.size <= 400
        np.testing.assert_array_equal(np.bincount(clean.tasks[0].labels), np.bincount(noisy.tasks[0].labels))
        np.testing.assert_array_equal(clean.tasks[0].inputs, noisy.tasks[0].inputs)
        np.testing.assert_array_equal(clean.tasks[1].labels, noisy.tasks[1].labels)
        assert "labels of 400 rows permuted" in noisy.summary()

    def test_shuffled_order_moves_inputs_with_their_labels(self):
        ordered = make_tasks(sizes=(50,))
        shuffled = ordered.variant(shuffle_order=True)
        rows = shuffled.provenance["task-0"].rows
        assert not np.array_equal(rows, np.arange(50))
        np.testing.assert_array_equal(ordered.tasks[0].inputs[rows], shuffled.tasks[0].inputs)
        np.testing.assert_array_equal(ordered.tasks[0].labels[rows], shuffled.tasks[0].labels)

    def test_the_same_seed_gives_the_same_variant_and_another_seed_another(self):
        options = {"target_labels": 5, "noise": {"task-1": 0.5}, "shuffle_order": True}
        tasks = make_tasks(sizes=(60, 60))
        assert tasks.variant(**options, seed=3).fingerprint == tasks.variant(**options, seed=3).fingerprint
        assert tasks.variant(**options, seed=3).fingerprint != tasks.variant(**options, seed=4).fingerprint

    def test_one_option_does_not_change_what_another_draws(self):
        tasks = make_tasks(sizes=(60, 60), validation=40)
        alone = tasks.variant(target_labels=7)
        together = tasks.variant(target_labels=7, noise={"task-0": 1.0}, shuffle_order=True)
        np.testing.assert_array_equal(alone.validation.inputs, together.validation.inputs)

    @pytest.mark.parametrize("fraction", [-0.1, 1.1, float("nan")])
    def test_a_fraction_outside_0_to_1_is_refused(self, fraction):
        with pytest.raises(ConfigError, match="noise of task 'task-0'"):
            make_tasks().variant(noise={"task-0": fraction})

    def test_noise_for_an_unknown_task_suggests_the_nearest(self):
        with pytest.raises(ConfigError, match="did you mean 'task-0'"):
            make_tasks().variant(noise={"task0": 0.5})

    def test_a_negative_seed_is_refused(self):
        with pytest.raises(ConfigError, match="seed is -1"):
            make_tasks().variant(shuffle_order=True, seed=-1)


class TestByClass:
    def test_every_pair_of_task_and_class_is_a_task_with_its_rows_in_order(self):
        tasks = make_tasks(sizes=(12, 20))
        view = tasks.by_class()
        assert sum(view.sizes) == 32
        for task in view.tasks:
            source, label = task.name.split("/")
            original = next(own for own in tasks.tasks if own.name == source)
            rows = np.flatnonzero(original.labels == tasks.classes.index(label))
            np.testing.assert_array_equal(task.inputs, original.inputs[rows])
            np.testing.assert_array_equal(view.provenance[task.name].rows, rows)

    def test_pooled_classes_run_over_all_tasks(self):
        tasks = make_tasks(sizes=(12, 20))
        view = tasks.by_class(pooled=True)
        assert [task.name for task in view.tasks] == list(tasks.classes)
        labels = np.concatenate([task.labels for task in tasks.tasks])
        assert view.sizes == tuple(np.bincount(labels))
        inputs = np.concatenate([task.inputs for task in tasks.tasks])
        np.testing.assert_array_equal(view.tasks[1].inputs, inputs[labels == 1])

    def test_labels_of_their_own_cannot_be_pooled(self):
        own = build(classes={"a": ["cat", "dog"], "b": ["p", "q"], "target": ["x", "y"]})
        assert [task.name for task in own.by_class().tasks] == ["a/cat", "b/p"]
        with pytest.raises(ConfigError, match="pooling classes over tasks needs one label set"):
            own.by_class(pooled=True)

    def test_a_scheduler_runs_on_the_view(self):
        view = make_tasks(sizes=(40, 40)).by_class()
        run = ms.train(view, scheduler="ucb", config=ms.TrainConfig(batch_size=2, meta_updates=2))
        assert len(run.records[-1]["drawn"]) == len(view.tasks)


@given(st.lists(st.integers(0, 6), min_size=1, max_size=60), st.data())
def test_stratified_rows_are_distinct_in_order_and_fair(labels, data):
    labels = np.array(labels, np.int32)
    count = data.draw(st.integers(1, len(labels)))
    chosen = stratified_rows(labels, count, np.random.default_rng(0))
    assert len(chosen) == count
    assert np.all(np.diff(chosen) > 0)
    present, frequency = np.unique(labels, return_counts=True)
    taken = np.array([(labels[chosen] == label).sum() for label in present])
    if count >= len(present):
        assert taken.min() >= 1
    assert np.all(taken <= frequency)
    if count == len(labels):
        np.testing.assert_array_equal(taken, frequency)


class TestFingerprint:
    def test_is_the_same_for_equal_data(self):
        assert make_tasks().fingerprint == make_tasks().fingerprint

    def test_changes_with_a_label_an_input_or_a_name(self):
        base = build()
        inputs, labels = rows(seed=1)
        changed = labels.copy()
        changed[3] = 1
        moved = inputs.copy()
        moved[0, 0] += 1e-3
        variants = [
            build(tasks={"a": (inputs, changed), "b": rows(seed=2)}),
            build(tasks={"a": (moved, labels), "b": rows(seed=2)}),
            build(tasks={"c": (inputs, labels), "b": rows(seed=2)}),
        ]
        assert len({base.fingerprint, *(variant.fingerprint for variant in variants)}) == 4


class TestSummary:
    def test_tells_what_a_person_wants_to_know_first(self, tasks):
        text = tasks.summary()
        assert text.startswith("arrays: 3 tasks, 41 rows, inputs 4, 3 classes (shared)")
        assert "classes: c0, c1, c2" in text
        for word in ("task-0", "task-2", "validation", "test", "array, rows 0–11"):
            assert word in text
        assert str(tasks) == text

    def test_lists_classes_by_task_when_they_differ(self):
        own = build(classes={"a": ["cat", "dog"], "b": ["p", "q"], "target": ["x", "y"]})
        assert "classes of a: cat, dog" in own.summary()
        assert "classes of target: x, y" in own.summary()
