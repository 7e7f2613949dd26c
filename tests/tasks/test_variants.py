from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import metasched as ms
from helpers import make_regression, make_tasks
from metasched.errors import ConfigError
from metasched.tasks import few_labels, stratified_rows
from small_sets import build, rows


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
        with pytest.raises(ConfigError, match=f"target_labels is {count}; give 1 to "):
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


class TestIrrelevant:
    def test_the_values_of_every_input_of_that_task_are_in_one_other_order(self):
        tasks = make_tasks(shape=(2, 3))
        changed = tasks.with_irrelevant("task-1")
        order = np.random.default_rng(0).permutation(6)
        before, after = (own.tasks[1].inputs.reshape(-1, 6) for own in (tasks, changed))
        np.testing.assert_array_equal(after, before[:, order])
        assert changed.shape == (2, 3)
        for number in (0, 2):
            assert changed.tasks[number] is tasks.tasks[number]
        np.testing.assert_array_equal(changed.tasks[1].labels, tasks.tasks[1].labels)
        assert "the values of every input are in the same random order" in changed.summary()

    def test_another_seed_is_another_order_and_numbers_to_predict_stay(self):
        tasks = make_regression()
        assert tasks.with_irrelevant("task-0").fingerprint != tasks.with_irrelevant("task-0", seed=1).fingerprint
        np.testing.assert_array_equal(tasks.with_irrelevant("task-0").tasks[0].targets, tasks.tasks[0].targets)

    def test_an_unknown_task_and_a_negative_seed_are_refused(self):
        with pytest.raises(ConfigError, match="did you mean 'task-0'"):
            make_tasks().with_irrelevant("task0")
        with pytest.raises(ConfigError, match="seed is -1"):
            make_tasks().with_irrelevant("task-0", seed=-1)


class TestWrongLabels:
    def test_every_label_of_that_task_is_the_next_but_one(self):
        tasks = make_tasks()
        wrong = tasks.with_wrong_labels("task-1", shift=2)
        np.testing.assert_array_equal(wrong.tasks[1].labels, (tasks.tasks[1].labels + 2) % 3)
        assert wrong.tasks[1].inputs is tasks.tasks[1].inputs
        assert wrong.tasks[0] is tasks.tasks[0]
        assert "task-1: every label k became k + 2" in wrong.summary()

    @pytest.mark.parametrize("shift", [0, 3, -6])
    def test_a_shift_that_changes_nothing_is_refused(self, shift):
        with pytest.raises(ConfigError, match=f"shift is {shift}, which does not change the 3 labels"):
            make_tasks().with_wrong_labels("task-1", shift=shift)

    def test_numbers_to_predict_have_no_wrong_labels(self):
        with pytest.raises(ConfigError, match="wrong labels need classes"):
            make_regression().with_wrong_labels("task-1")


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

    def test_pooled_rows_name_each_source_once(self):
        a, b = rows(seed=1), rows(seed=2)
        tasks = build(tasks={"a": a, "b": b, "c": a}, validation=rows(seed=3), test=rows(seed=4))
        origins = {
            **tasks.provenance,
            "a": ms.Provenance("x.csv", np.arange(6), {"x": "0"}),
            "b": ms.Provenance("y.csv", np.arange(6), {"y": "1"}, "turned"),
            "c": ms.Provenance("x.csv", np.arange(6), {"x": "0"}),
        }
        for origin in replace(tasks, provenance=origins).by_class(pooled=True).provenance.values():
            if origin.source != "array":
                assert (origin.source, origin.files, origin.note) == ("x.csv + y.csv", {"x": "0", "y": "1"}, "turned")

    def test_labels_of_their_own_cannot_be_pooled(self):
        own = build(classes={"a": ["cat", "dog"], "b": ["p", "q"], "target": ["x", "y"]})
        assert [task.name for task in own.by_class().tasks] == ["a/cat", "b/p"]
        with pytest.raises(ConfigError, match="pooling classes over tasks needs shared labels"):
            own.by_class(pooled=True)

    def test_a_scheduler_runs_on_the_view(self):
        view = make_tasks(sizes=(40, 40)).by_class()
        run = ms.train(view, scheduler="ucb", learner=ms.Joint(batch_size=2, updates=2))
        assert len(run.records[-1]["drawn"]) == len(view.tasks)

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


class TestUseful:
    def test_tasks_that_a_variant_spoils_are_no_longer_known_to_be_useful(self):
        tasks = replace(make_tasks(), useful=("task-2", "task-0"))
        assert tasks.variant(noise={"task-0": 1.0}).useful == ("task-2",)
        assert tasks.variant(noise={"task-1": 1.0, "task-0": 0.0}).useful == tasks.useful
        assert tasks.with_irrelevant("task-2").useful == ("task-0",)
        assert tasks.with_wrong_labels("task-2").useful == ("task-0",)
        assert tasks.variant(target_labels=5, shuffle_order=True).useful == tasks.useful

    def test_nobody_knowing_stays_so(self):
        assert make_tasks().variant(noise={"task-0": 1.0}).with_irrelevant("task-1").by_class().useful is None

    def test_classes_of_a_useful_task_are_useful_until_they_are_pooled(self):
        tasks = replace(make_tasks(), useful=("task-1",))
        assert set(tasks.by_class().useful) == {"task-1/c0", "task-1/c1", "task-1/c2"}
        assert tasks.by_class(pooled=True).useful is None

    def test_it_is_no_part_of_the_fingerprint_but_of_the_summary(self):
        tasks = replace(make_tasks(), useful=("task-1",))
        assert tasks.fingerprint == make_tasks().fingerprint
        assert "known to be useful: task-1" in tasks.summary()
        assert "known to be useful: none" in replace(tasks, useful=()).summary()
        assert "useful" not in make_tasks().summary()


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


LABELS = np.repeat(np.arange(4, dtype=np.int32), 25)


def test_few_labels_are_stratified_and_the_rest_is_for_test():
    validation, test = few_labels(LABELS, 8, seed=0)
    assert np.bincount(LABELS[validation]).tolist() == [2] * 4
    assert sorted([*validation, *test]) == list(range(100))
    assert not np.array_equal(validation, few_labels(LABELS, 8, seed=1)[0])


@pytest.mark.parametrize(
    ("count", "seed", "message"), [(0, 0, "target_labels is 0"), (100, 0, "leave some"), (8, -1, "seed")]
)
def test_what_cannot_be_split_is_refused(count, seed, message):
    with pytest.raises(ConfigError, match=message):
        few_labels(LABELS, count, seed)
