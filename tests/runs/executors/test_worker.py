from dataclasses import replace

import numpy as np
import pytest

from helpers import make_own_label_tasks, make_regression, make_tasks
from metasched.comparison.splits import FOLDS, repeat_of
from metasched.errors import DataError
from metasched.runs.executors.worker import RowFiles, read_rows
from metasched.tasks import Preparation


@pytest.mark.parametrize("make", [make_tasks, make_regression, make_own_label_tasks])
def test_rows_come_back_to_the_bit(tmp_path, make):
    tasks = make()
    back = read_rows(RowFiles(tmp_path).add(tasks))
    assert back.fingerprint == tasks.fingerprint
    assert (back.name, back.classes, back.target_size) == (tasks.name, tasks.classes, tasks.target_size)


def test_what_a_model_needs_for_new_rows_comes_along(tmp_path):
    prepared = Preparation.fit({"a": [1.0, 2.0]}, label="ill")
    tasks = replace(make_tasks(), preparation=prepared, useful=("task-1",), simulated=True, notes=("odd",))
    back = read_rows(RowFiles(tmp_path).add(tasks))
    assert (back.preparation, back.useful, back.simulated, back.notes) == (prepared, ("task-1",), True, ("odd",))


def test_folds_of_one_target_share_the_files_of_the_sources(tmp_path):
    tasks = make_tasks(validation=16)
    files = RowFiles(tmp_path)
    paths = {files.add(fold.tasks) for fold in repeat_of(tasks, 0)}
    assert len(paths) == FOLDS
    assert len(list(tmp_path.glob("*.npy"))) <= 2 * len(tasks.tasks) + FOLDS * 4


def test_rows_that_changed_on_disk_are_refused(tmp_path):
    path = RowFiles(tmp_path).add(make_tasks())
    array = next(each for each in tmp_path.glob("*.npy") if np.load(each).ndim == 2)
    np.save(array, np.load(array) + 1)
    with pytest.raises(DataError, match="not those with which the run started"):
        read_rows(path)


def test_a_list_that_is_cut_short_is_refused_in_one_line(tmp_path):
    path = RowFiles(tmp_path).add(make_tasks())
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(DataError, match="cannot read the rows"):
        read_rows(path)
