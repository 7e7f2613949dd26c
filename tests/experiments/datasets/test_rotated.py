import numpy as np
import pytest

import metasched as ms
from helpers import nearest_mean
from metasched.errors import ConfigError
from metasched.experiments.datasets import mnist, rotated


@pytest.fixture
def needed(needs):
    needs(*(file.path for file in mnist.FILES.values()))


def test_turning_is_what_pillow_does():
    pillow = pytest.importorskip("PIL.Image")
    image = np.zeros((28, 28), np.uint8)
    image[6:22, 10:13] = 255
    for degrees in (15, 90, 200):
        expected = np.asarray(pillow.fromarray(image).rotate(degrees, pillow.Resampling.BILINEAR)) / 255
        np.testing.assert_allclose(rotated.turned(image[None], degrees)[0], expected, atol=0.01)
    np.testing.assert_array_equal(rotated.turned(image[None], 360)[0], image / np.float32(255))


def test_twelve_angles_of_1400_digits_no_digit_twice(needed):
    tasks = ms.datasets.load("rotated")
    assert tasks.sizes == (1400,) * 12
    assert tasks.useful == ("angle-0", "angle-30")
    rows = np.concatenate([tasks.provenance[task.name].rows for task in tasks.tasks])
    np.testing.assert_array_equal(rows, np.arange(16800))
    images, labels = mnist.read("train")
    np.testing.assert_array_equal(np.concatenate([task.labels for task in tasks.tasks]), labels[:16800])
    np.testing.assert_array_equal(tasks.tasks[0].inputs, images[:1400] / np.float32(255))
    assert len(tasks.validation.labels) == 30
    assert len(tasks.test.labels) == 9970
    assert all(0 <= part.inputs.min() <= part.inputs.max() <= 1 for _, part, _ in tasks.parts())
    right = {task.name: nearest_mean(task, tasks.test) for task in tasks.tasks}
    assert min(right[name] for name in tasks.useful) > 0.6
    assert max(own for name, own in right.items() if name not in tasks.useful) < 0.4


def test_the_nearest_angles_are_useful_round_the_circle(needed):
    tasks = ms.datasets.load("rotated", angles=(10, 100, -50), target_angle=-20, rows=50)
    assert [task.name for task in tasks.tasks] == ["angle-10", "angle-100", "angle--50"]
    assert tasks.useful == ("angle-10", "angle--50")
    assert ms.datasets.load("rotated", angles=(0, 90), target_angle=90, rows=50).useful == ("angle-90",)


def test_other_rows_or_angles_are_refused(needed):
    with pytest.raises(ConfigError, match="12 angles share 60,000 digits: give 1 … 5000"):
        ms.datasets.load("rotated", rows=5001)
    for angles in ((), (0, 30, 360)):
        with pytest.raises(ConfigError, match="each only once"):
            ms.datasets.load("rotated", angles=angles)
