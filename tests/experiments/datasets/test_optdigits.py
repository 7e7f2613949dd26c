import numpy as np
import pytest

from metasched.errors import DataError
from metasched.experiments.datasets import optdigits


def test_grey_levels_become_0_to_1(tmp_path):
    (tmp_path / "o").write_text(",".join(["16"] * 64) + ",7\n" + ",".join(["4"] * 64) + ",0\n")
    images, labels = optdigits.parse(tmp_path / "o")
    assert images.shape == (2, 8, 8)
    assert images[:, 0, 0].tolist() == [1, 0.25]
    assert labels.tolist() == [7, 0]


@pytest.mark.parametrize("row", [["17"] + ["0"] * 64, ["0"] * 64 + ["10"], ["-1"] + ["0"] * 64])
def test_a_value_out_of_range_is_named_by_row(tmp_path, row):
    (tmp_path / "o").write_text(",".join(["0"] * 65) + "\n" + ",".join(row) + "\n")
    with pytest.raises(DataError, match="row 1 has a grey level outside"):
        optdigits.parse(tmp_path / "o")


def test_the_second_file_is_scikit_learns_digits(needs):
    sklearn = pytest.importorskip("sklearn.datasets")
    needs(*(file.path for file in optdigits.FILES.values()))
    images, labels = optdigits.read()
    expected, expected_labels = sklearn.load_digits(return_X_y=True)
    assert len(labels) == 5620
    np.testing.assert_array_equal(images[3823:].reshape(-1, 64) * 16, expected)
    np.testing.assert_array_equal(labels[3823:], expected_labels)
