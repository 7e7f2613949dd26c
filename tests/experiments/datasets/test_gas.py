import numpy as np
import pytest

import metasched as ms
from metasched.errors import DataError
from metasched.experiments.datasets import gas


def line(kind="Ethanol", concentration=10.0, value=1.0, features=128):
    return ",".join([kind, str(concentration), *[str(value)] * features])


def write(path, *lines):
    path.write_text("".join(own + "\n" for own in lines))
    return path


def test_rows_keep_their_order_and_concentration_is_no_feature(tmp_path):
    values, labels = gas.parse(write(tmp_path / "a", line("Toluene", 500, 2), line("Acetone", 5, 3)))
    assert values.shape == (2, 128)
    assert values[:, 0].tolist() == values[:, -1].tolist() == [2, 3]
    assert labels.tolist() == [5, 1]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (line("Helium"), "line 2 is not one of"),
        (line(features=127), "line 2 is not one of"),
        ("", "line 2 is not one of"),
        (line(value="x"), "something other than numbers"),
        (line(value="nan"), "line 2 holds NaN"),
        (line(value="1e999"), "line 2 holds NaN or infinity"),
    ],
)
def test_a_line_that_is_no_measurement_is_named(tmp_path, wrong, message):
    with pytest.raises(DataError, match=message):
        gas.parse(write(tmp_path / "a", line(), wrong))


def test_an_empty_file_is_named(tmp_path):
    with pytest.raises(DataError, match="holds no rows"):
        gas.parse(write(tmp_path / "a"))


def test_seven_batches_in_time_teach_the_last(needs):
    needs(*(file.path for file in gas.FILES))
    tasks = ms.datasets.load("gas")
    assert [task.name for task in tasks.tasks] == [f"batch-{number}" for number in (1, 2, 3, 4, 5, 6, 8)]
    assert tasks.sizes == (445, 1244, 1586, 161, 197, 2300, 294)
    assert tasks.shape == (128,)
    assert np.bincount(tasks.tasks[0].labels).tolist() == [30, 70, 83, 90, 98, 74]
    assert np.bincount(tasks.validation.labels).tolist() == [1] * 6
    assert len(tasks.test.labels) == 464
    assert "Gas Sensor Array Drift batch 9, 464 rows of 0–469" in tasks.summary()
    sources = np.concatenate([task.inputs for task in tasks.tasks]).astype(np.float64)
    np.testing.assert_allclose(sources.mean(axis=0), 0, atol=1e-4)
    np.testing.assert_allclose(sources.std(axis=0), 1, atol=1e-4)
    assert len(ms.datasets.load("gas", target_labels=30, seed=2).validation.labels) == 30
