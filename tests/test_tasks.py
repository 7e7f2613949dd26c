import copy
import pickle
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import metasched as ms
from helpers import make_regression, make_tasks
from metasched.errors import ConfigError, DataError
from metasched.tasks import bin_edges, stratified_rows


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


def build_regression(**changes):
    def rows(seed, count=6):
        random = np.random.default_rng(seed)
        return random.normal(size=(count, 2)), random.normal(size=count)

    arguments = {"tasks": {"a": rows(1), "b": rows(2)}, "validation": rows(3), "test": rows(4), **changes}
    return ms.TaskSet.regression(arguments.pop("tasks"), **arguments)


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

    def test_copies_of_a_split_keep_its_targets(self):
        split = make_regression().test
        for twin in (copy.deepcopy(split), pickle.loads(pickle.dumps(split)), split._replace(labels=split.labels)):
            np.testing.assert_array_equal(twin.targets, split.targets)

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

    @given(st.lists(FINITE, min_size=1, max_size=60, unique=True), st.integers(2, 12))
    def test_bins_of_different_values_hold_equally_many_but_for_one(self, values, bins):
        values = np.array(values, np.float32)
        counts = np.bincount(np.searchsorted(bin_edges(values, bins), values, side="right"))
        if len(values) >= bins:
            assert len(counts) == bins
            assert counts.max() - counts.min() <= 2
        else:
            assert counts.max() <= 2

    def test_edges_that_lie_close_get_the_digits_that_tell_them_apart(self):
        values = 1000 + np.arange(4) / 1000
        tasks = build_regression(tasks={"a": (np.zeros((4, 2)), values)}, bins=4)
        assert tasks.classes == ("< 1000.001", "1000.001 … 1000.002", "1000.002 … 1000.003", "≥ 1000.003")

    def test_targets_that_are_all_the_same_are_one_bin(self):
        assert build_regression(tasks={"a": (np.zeros((4, 2)), [2.5] * 4)}).classes == ("any",)

    @pytest.mark.parametrize(
        ("changes", "error", "message"),
        [
            ({"bins": 1}, ConfigError, "bins is 1"),
            ({"bins": 2.5}, ConfigError, "bins is 2.5"),
            ({"tasks": {}}, DataError, "no tasks"),
            ({"tasks": {"test": rows()}}, DataError, "may not be named"),
            ({"tasks": {"a": rows(0)}}, DataError, "task 'a' is empty"),
            ({"tasks": {"a": (rows()[0], [0.5])}}, DataError, r"task 'a': inputs \(6, 2\) and targets \(1, 1\) do not"),
            ({"tasks": {"a": (rows()[0], np.zeros((6, 1, 1)))}}, DataError, r"and targets \(6, 1, 1\) do not match"),
            ({"tasks": {"a": (rows()[0], np.zeros((6, 0)))}}, DataError, r"and targets \(6, 0\) do not match"),
            (
                {"tasks": {"a": (rows()[0], np.zeros((6, 3)))}},
                DataError,
                "task 'a': one target has 3 numbers, those of",
            ),
            ({"tasks": {"a": (rows()[0], ["x"] * 6)}}, DataError, "a: targets have dtype"),
            ({"tasks": {"a": (rows()[0][:, :1], [0.5] * 6)}}, DataError, "task 'a': one input has shape"),
        ],
    )
    def test_garbage_is_refused_with_its_place(self, changes, error, message):
        with pytest.raises(error, match=message):
            build_regression(**changes)

    @pytest.mark.parametrize("bad", [np.nan, np.inf, 1e39])
    @pytest.mark.parametrize("where", ["task 'a'", "validation", "test"])
    def test_a_target_that_is_no_number_is_named_by_row(self, bad, where):
        inputs, targets = np.random.default_rng(9).normal(size=(6, 2)), np.zeros(6)
        targets[[4, 5]] = bad
        key = "tasks" if where == "task 'a'" else where
        with pytest.raises(DataError, match=rf"{where}: the target of row 4 is NaN or infinite \(2 such rows\)"):
            build_regression(**{key: {"a": (inputs, targets)} if key == "tasks" else (inputs, targets)})

    def test_all_rows_have_targets_or_none(self):
        tasks = build_regression()
        with pytest.raises(DataError, match="task 'a' and the test rows must both have targets or neither"):
            replace(tasks, tasks=(replace(tasks.tasks[0], targets=None), tasks.tasks[1]))

    def test_the_same_input_with_another_target_is_no_leak(self):
        inputs = np.random.default_rng(4).normal(size=(6, 2))
        assert build_regression(validation=(inputs, np.arange(6)), test=(inputs, np.arange(6) + 0.5))
        with pytest.raises(DataError, match="test row 0 is also validation row 0"):
            build_regression(validation=(inputs, np.arange(6)), test=(inputs, np.arange(6)))

    def test_the_fingerprint_covers_the_targets(self):
        tasks = make_regression()
        moved = tasks.tasks[1].targets.copy()
        moved[3, 1] += 1e-3
        for changed in (
            replace(tasks, tasks=(tasks.tasks[0], replace(tasks.tasks[1], targets=moved), tasks.tasks[2])),
            replace(tasks, test=ms.Split(*tasks.test, tasks.test.targets + 1)),
        ):
            assert changed.fingerprint != tasks.fingerprint
        assert make_regression().fingerprint == tasks.fingerprint

    @given(st.integers(0, 2**16), st.floats(0, 1), st.integers(1, 12))
    def test_variants_keep_inputs_labels_and_targets_together(self, seed, fraction, count):
        tasks = make_regression()
        changed = tasks.variant(target_labels=count, noise={"task-1": fraction}, shuffle_order=True, seed=seed)
        for name in ("task-0", "task-2", "validation"):
            before, after = (
                {**{t.name: t for t in s.tasks}, "validation": s.validation}[name] for s in (tasks, changed)
            )
            origin = changed.provenance[name].rows
            np.testing.assert_array_equal(after.inputs, before.inputs[origin])
            np.testing.assert_array_equal(after.labels, before.labels[origin])
            np.testing.assert_array_equal(after.targets, before.targets[origin])
        clean, noisy = tasks.tasks[1], changed.tasks[1]
        np.testing.assert_array_equal(np.sort(noisy.targets, axis=0), np.sort(clean.targets, axis=0))
        bins = {row.tobytes(): label for row, label in zip(clean.targets, clean.labels, strict=True)}
        assert [bins[row.tobytes()] for row in noisy.targets] == noisy.labels.tolist()

    @pytest.mark.parametrize("pooled", [False, True])
    def test_bins_can_be_the_tasks(self, pooled):
        tasks = make_regression(bins=3)
        view = tasks.by_class(pooled=pooled)
        assert sum(view.sizes) == sum(tasks.sizes)
        known = {
            row.inputs.tobytes(): row for task in tasks.tasks for row in map(task.take, np.arange(len(task))[:, None])
        }
        for task in view.tasks:
            assert len(set(task.labels)) == 1
            for index in range(len(task)):
                row = known[task.inputs[index].tobytes()]
                np.testing.assert_array_equal(task.targets[index], row.targets[0])

    def test_the_summary_says_what_is_predicted_and_what_schedulers_see(self):
        text = make_regression(numbers=2, bins=4).summary()
        assert text.startswith(
            "regression: 3 tasks, 95 rows, inputs 4, targets of 2 numbers, seen by schedulers as 4 bins"
        )
        assert "targets of 1 number, seen" in make_regression(numbers=1).summary()
