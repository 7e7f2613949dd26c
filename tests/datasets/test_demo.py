import numpy as np
import pytest

import metasched as ms
from metasched.errors import ConfigError

pytest.importorskip("sklearn")
pytest.importorskip("mlxtend")


@pytest.fixture(scope="module")
def demo():
    return ms.datasets.load("demo")


def test_five_tasks_three_real_one_shuffled_one_unrelated(demo):
    assert [task.name for task in demo.tasks] == ["digits-1", "digits-2", "digits-3", "shuffled", "photo"]
    assert demo.sizes == (440,) * 5
    assert demo.shape == (28, 28)


def test_thirty_target_labels_and_all_other_rows_for_test(demo):
    assert np.bincount(demo.validation.labels).tolist() == [3] * 10
    assert len(demo.test.labels) == 4970
    rows = np.concatenate([demo.provenance["validation"].rows, demo.provenance["test"].rows])
    np.testing.assert_array_equal(np.sort(rows), np.arange(5000))


def test_the_shuffled_task_has_lost_its_labels_and_the_others_have_not(demo):
    digits = pytest.importorskip("sklearn.datasets").load_digits().target
    np.testing.assert_array_equal(demo.tasks[0].labels, digits[:440])
    agreement = (demo.tasks[3].labels == digits[1320:1760]).mean()
    assert agreement < 0.2


def test_the_number_of_target_labels_is_an_option():
    assert len(ms.datasets.load("demo", target_labels=100).validation.labels) == 100
    with pytest.raises(ConfigError, match="leave some"):
        ms.datasets.load("demo", target_labels=5000)


def test_the_same_seed_gives_the_same_rows(demo):
    assert ms.datasets.load("demo").fingerprint == demo.fingerprint
    assert ms.datasets.load("demo", seed=1).fingerprint != demo.fingerprint
