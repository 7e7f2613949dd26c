from dataclasses import replace

import numpy as np
import pytest

import metasched as ms
from helpers import make_regression, make_tasks
from metasched.errors import ConfigError, DataError
from small_sets import build, build_regression, rows


class TestRows:
    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"tasks": {}}, "no tasks"),
            ({"tasks": {"a": rows(0)}}, r"task 'a' is empty"),
            ({"validation": rows(0)}, r"validation is empty"),
            ({"tasks": {"a": rows(label=2)}}, r"task 'a': row 0 has label 2, outside 0 … 1 \(6 such rows\)"),
            ({"validation": rows(label=-1, seed=3)}, r"validation: row 0 has label -1"),
            (
                {"tasks": {"a": rows(shape=(3,))}},
                r"task 'a': an input has shape \(3,\), but in the test rows it has \(2,\)",
            ),
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
        with pytest.raises(DataError, match=r"task 'a': row 4 contains NaN or infinity \(1 such row\)"):
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

    def test_a_useful_task_must_be_one_of_the_tasks(self):
        with pytest.raises(DataError, match="'c' in useful is not a task"):
            replace(build(), useful=("a", "c"))

    def test_classes_must_be_named_for_every_task(self):
        with pytest.raises(ConfigError, match="no labels for 'b'"):
            build(classes={"a": ["x"], "target": ["x"]})


class TestTargets:
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
                "task 'a': a target has 3 numbers, but in",
            ),
            ({"tasks": {"a": (rows()[0], ["x"] * 6)}}, DataError, "a: targets have dtype"),
            ({"tasks": {"a": (rows()[0][:, :1], [0.5] * 6)}}, DataError, "task 'a': an input has shape"),
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
        with pytest.raises(
            DataError, match="task 'a' and the test rows must either both have targets or both have none"
        ):
            replace(tasks, tasks=(replace(tasks.tasks[0], targets=None), tasks.tasks[1]))

    def test_the_same_input_with_another_target_is_no_leak(self):
        inputs = np.random.default_rng(4).normal(size=(6, 2))
        assert build_regression(validation=(inputs, np.arange(6)), test=(inputs, np.arange(6) + 0.5))
        with pytest.raises(DataError, match="test row 0 is also validation row 0"):
            build_regression(validation=(inputs, np.arange(6)), test=(inputs, np.arange(6)))


class TestFewRows:
    @pytest.mark.parametrize("make", [make_tasks, make_regression])
    def test_a_target_with_few_rows_of_either_kind_is_doubted(self, make):
        assert make(validation=8, test=8).warnings == ()
        assert "7 labelled rows and 8 test rows" in make(validation=7, test=8).warnings[0]
        assert "8 labelled rows and 1 test row:" in make(validation=8, test=1).warnings[0]


def test_two_classes_of_one_name_are_refused(tasks):
    with pytest.raises(DataError, match="2 classes are named 'a'; give each a different name"):
        ms.TaskSet.from_arrays(
            {"one": (tasks.tasks[0].inputs, tasks.tasks[0].labels)},
            validation=tasks.validation,
            test=tasks.test,
            classes=["a", "b", "a"],
        )


def test_a_label_that_is_no_class_number_makes_no_billion_names(tasks):
    labels = tasks.validation.labels.copy()
    labels[2] = 2**31 - 1
    with pytest.raises(DataError, match=r"validation: row 2 has label 2,147,483,647.*number the classes 0 … C−1"):
        ms.TaskSet.from_arrays(
            {"one": tasks.test}, validation=(tasks.validation.inputs, labels), test=tasks.test, allow_overlap=True
        )


def test_unlabelled_rows_fit_the_others(tasks):
    def with_unlabelled(inputs, count=2):
        rows = ms.Unlabelled(inputs, ms.Provenance("new", np.arange(count)), ("row 1", "row 2"))
        return replace(tasks, unlabelled=rows)

    assert len(with_unlabelled(np.zeros((2, 4), np.float32)).unlabelled) == 2
    with pytest.raises(
        DataError, match=r"unlabelled rows: an input has shape \(3,\), but in the test rows it has \(4,\)"
    ):
        with_unlabelled(np.zeros((2, 3), np.float32))
    with pytest.raises(DataError, match="unlabelled rows: there are 2, with 2 names and the origin of 3"):
        with_unlabelled(np.zeros((2, 4), np.float32), count=3)
    with pytest.raises(DataError, match=r"unlabelled rows: row 1 contains NaN or infinity \(1 such row\)"):
        with_unlabelled(np.array([[0] * 4, [np.nan] * 4], np.float32))
