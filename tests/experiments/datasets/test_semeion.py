import numpy as np
import pytest

from metasched.errors import DataError
from metasched.experiments.datasets import semeion


def write(path, label_columns):
    rows = [[0.0] * 256 + columns for columns in label_columns]
    path.write_text("".join(" ".join(f"{value:.4f}" for value in row) + " \n" for row in rows))
    return path


def test_the_label_is_the_marked_column(tmp_path):
    marks = np.eye(10)[[3, 9]].tolist()
    images, labels = semeion.parse(write(tmp_path / "s", marks))
    assert images.shape == (2, 16, 16)
    assert labels.tolist() == [3, 9]


@pytest.mark.parametrize("columns", [[0.0] * 10, [1.0, 1.0] + [0.0] * 8, [2.0, -1.0] + [0.0] * 8])
def test_a_row_without_exactly_one_mark_is_named(tmp_path, columns):
    with pytest.raises(DataError, match="row 1 does not mark exactly one"):
        semeion.parse(write(tmp_path / "s", [np.eye(10)[0].tolist(), columns]))


def test_the_real_file_has_the_published_class_counts(needs):
    needs(semeion.FILE.path)
    images, labels = semeion.read()
    assert images.shape == (1593, 16, 16)
    assert set(np.unique(images)) == {0.0, 1.0}
    assert np.bincount(labels).tolist() == [161, 162, 159, 159, 161, 159, 161, 158, 155, 158]
