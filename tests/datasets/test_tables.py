import numpy as np
import pytest

from metasched.datasets.tables import read_table
from metasched.errors import DataError


def test_reads_numbers(tmp_path):
    (tmp_path / "t").write_text("1,2\n3,4.5\n")
    np.testing.assert_array_equal(read_table(tmp_path / "t", columns=2, delimiter=","), [[1, 2], [3, 4.5]])


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
        read_table(tmp_path / "t", columns=2, delimiter=",")
