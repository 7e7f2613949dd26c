import numpy as np
import pytest

from metasched.errors import DataError
from metasched.experiments.datasets import uci


def write(path, label_columns):
    rows = [[0.0] * 256 + columns for columns in label_columns]
    path.write_text("".join(" ".join(f"{value:.4f}" for value in row) + " \n" for row in rows))
    return path


def test_the_label_is_the_marked_column(tmp_path):
    marks = np.eye(10)[[3, 9]].tolist()
    images, labels = uci.parse_semeion(write(tmp_path / "s", marks))
    assert images.shape == (2, 16, 16)
    assert labels.tolist() == [3, 9]


@pytest.mark.parametrize("columns", [[0.0] * 10, [1.0, 1.0] + [0.0] * 8, [2.0, -1.0] + [0.0] * 8])
def test_a_row_without_exactly_one_mark_is_named(tmp_path, columns):
    with pytest.raises(DataError, match="row 1 does not mark exactly one"):
        uci.parse_semeion(write(tmp_path / "s", [np.eye(10)[0].tolist(), columns]))


def test_the_real_file_has_the_published_class_counts(needs):
    needs(uci.SEMEION[0].path)
    images, labels = uci.read_semeion()
    assert images.shape == (1593, 16, 16)
    assert set(np.unique(images)) == {0.0, 1.0}
    assert np.bincount(labels).tolist() == [161, 162, 159, 159, 161, 159, 161, 158, 155, 158]


def test_grey_levels_become_0_to_1(tmp_path):
    (tmp_path / "o").write_text(",".join(["16"] * 64) + ",7\n" + ",".join(["4"] * 64) + ",0\n")
    images, labels = uci.parse_optdigits(tmp_path / "o")
    assert images.shape == (2, 8, 8)
    assert images[:, 0, 0].tolist() == [1, 0.25]
    assert labels.tolist() == [7, 0]


@pytest.mark.parametrize("row", [["17"] + ["0"] * 64, ["0"] * 64 + ["10"], ["-1"] + ["0"] * 64])
def test_a_value_out_of_range_is_named_by_row(tmp_path, row):
    (tmp_path / "o").write_text(",".join(["0"] * 65) + "\n" + ",".join(row) + "\n")
    with pytest.raises(DataError, match="row 1 has a grey level outside"):
        uci.parse_optdigits(tmp_path / "o")


def test_the_second_file_is_scikit_learns_digits(needs):
    sklearn = pytest.importorskip("sklearn.datasets")
    needs(*(file.path for file in uci.OPTDIGITS))
    images, labels = uci.read_optdigits()
    expected, expected_labels = sklearn.load_digits(return_X_y=True)
    assert len(labels) == 5620
    np.testing.assert_array_equal(images[3823:].reshape(-1, 64) * 16, expected)
    np.testing.assert_array_equal(labels[3823:], expected_labels)


def test_reads_numbers(tmp_path):
    (tmp_path / "t").write_text("1,2\n3,4.5\n")
    np.testing.assert_array_equal(uci.read_table(tmp_path / "t", columns=2, delimiter=","), [[1, 2], [3, 4.5]])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"1,2\n3,x\n", "not a table of numbers"),
        (b"1,2\n3\n", "not a table of numbers"),
        (b"1,2,3\n", "has 3 columns, expected 2"),
        (b"\xff\xfe\x00\x01\n", "not a table of numbers"),
    ],
)
def test_anything_else_is_named(tmp_path, content, message):
    (tmp_path / "t").write_bytes(content)
    with pytest.raises(DataError, match=f"t: {message}"):
        uci.read_table(tmp_path / "t", columns=2, delimiter=",")
