import numpy as np
import pytest

from metasched.datasets.tables import read_columns, read_table, row_name_in
from metasched.errors import ConfigError, DataError


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


class TestColumns:
    @pytest.fixture(autouse=True)
    def _arrow(self):
        pytest.importorskip("pyarrow")

    def write(self, folder, content, name="t.csv"):
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
        return folder / name

    def test_numbers_texts_and_empty_cells(self, tmp_path):
        got = read_columns(self.write(tmp_path, 'n,x,t\n1,,"a, b"\n2,NA,\n3,0.5,NA\n'))
        assert got["n"].tolist() == [1, 2, 3]
        np.testing.assert_array_equal(got["x"], [np.nan, np.nan, 0.5])
        assert got["t"].tolist() == ["a, b", "", "NA"]

    def test_byte_order_mark_windows_lines_blank_lines_and_lines_in_quotes(self, tmp_path):
        path = self.write(tmp_path, b'\xef\xbb\xbfa,b\r\n1,"x\r\ny"\r\n\r\n2,z\r\n')
        got = read_columns(path)
        assert list(got) == ["a", "b"]
        assert got["b"].tolist() == ["x\r\ny", "z"]
        assert row_name_in(path)(1) == f"{path} line 5"

    def test_a_cell_too_long_to_count_lines_leaves_the_number_of_the_row(self, tmp_path):
        path = self.write(tmp_path, f"a,b\n{'x' * 200_000},1\n")
        assert row_name_in(path)(0) == f"{path} row 1"

    def test_a_late_text_makes_the_whole_column_text(self, tmp_path):
        rows = ["1" * 100] * 20_000  # past the first megabyte, from which types would be inferred
        assert read_columns(self.write(tmp_path, "\n".join(["a", *rows, "x"])))["a"][-1] == "x"

    def test_columns_may_be_text_though_they_look_like_numbers(self, tmp_path):
        got = read_columns(self.write(tmp_path, "zip,b\n01,2\n"), text=["zip", "absent"])
        assert got["zip"].tolist() == ["01"]

    def test_separators_and_decimal_commas(self, tmp_path):
        path = self.write(tmp_path, "a;b\n1,5;x\n")
        assert read_columns(path, separator=";", decimal=",")["a"].tolist() == [1.5]
        assert read_columns(self.write(tmp_path, "a\tb\n1\t2\n", "t.tsv"))["b"].tolist() == [2]
        with pytest.raises(ConfigError, match="separator is ';;'; give one character, such as --data separator=';'"):
            read_columns(path, separator=";;")
        with pytest.raises(ConfigError, match=r"decimal is '!' and the separator ','; give --data decimal=\. "):
            read_columns(path, decimal="!")

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            ("a,b\n1,2\n\n3\n4,5,6\n", r"t\.csv line 4: has 1 cells, the first line names 2 \(2 such rows\)"),
            ('a,b\n"1\n0",2\n3,4,5\n', r"t\.csv line 4: has 3 cells"),
            ("a;b\n1;2\n", r"t\.csv: has one column, 'a;b'; .* give --data separator=';'"),
            ("a;b\n1,5;2,5\n", r"t\.csv: has one column, 'a;b'; .* give --data separator=';'"),
            ("1,2\n3,4\n", r"t\.csv: the first line holds numbers; put a line with the names"),
            (",a\n0,1\n", r"t\.csv: column 1 has no name"),
            ("a,a\n0,1\n", r"t\.csv: two columns are named 'a'"),
            ("", r"t\.csv: not a readable CSV file"),
            ("a,b\n", r"t\.csv: has no rows"),
            ("a,b\nx,1\nMüll,2\n".encode("latin-1"), r"t\.csv line 3: is not UTF-8 text; save the file as UTF-8"),
            ("a,b\n1,2\n".encode("utf-16"), r"t\.csv line 1: is not UTF-8"),
            ('a,b\n1,x\n2,"y\n3,z\n', r"t\.csv line 2: a quote after this line is never closed"),
            ("when,b\n2020-01-31,1\n", r"t\.csv: column 'when' holds date.* drop=when"),
        ],
    )
    def test_what_is_no_table_is_named(self, tmp_path, content, message):
        with pytest.raises(DataError, match=message):
            read_columns(self.write(tmp_path, content))

    def test_a_quote_inside_a_cell_is_only_a_quote(self, tmp_path):
        assert read_columns(self.write(tmp_path, 'a,b\n1,5" pipe\n'))["b"].tolist() == ['5" pipe']

    def test_two_gigabytes_are_refused_unread(self, tmp_path):
        with (tmp_path / "big.csv").open("wb") as stream:
            stream.truncate(2_000_000_000)
        message = r"big\.csv: 2,000,000,000 bytes .* limit of 1,073,741,824; .* raise it with --data limit=2000000000"
        with pytest.raises(DataError, match=message):
            read_columns(tmp_path / "big.csv")

    def test_a_parquet_file_gives_what_the_csv_file_gives(self, tmp_path):
        arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        cells = {"a": [1.5, None], "b": ["x", "y"], "when": [[1], [2]]}
        parquet.write_table(arrow.table(cells), tmp_path / "t.parquet")
        got = read_columns(tmp_path / "t.parquet", drop=["when"])
        same = read_columns(self.write(tmp_path, "a,b\n1.5,x\n,y\n"))
        assert list(got) == list(same)
        np.testing.assert_array_equal(got["a"], same["a"])
        assert got["b"].tolist() == same["b"].tolist()
        assert row_name_in(tmp_path / "t.parquet")(0).endswith("t.parquet row 1")

    def test_a_small_parquet_file_of_many_rows_is_refused_by_what_it_declares(self, tmp_path):
        arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        parquet.write_table(arrow.table({"a": ["x" * 1000] * 100_000}), tmp_path / "t.parquet")
        assert (tmp_path / "t.parquet").stat().st_size < 20_000
        with pytest.raises(DataError, match=r"t\.parquet: 800,000 bytes to read, more than the limit of 20,000"):
            read_columns(tmp_path / "t.parquet", limit=20_000)
        assert read_columns(tmp_path / "t.parquet", limit=800_000)["a"][-1] == "x" * 1000

    @pytest.mark.parametrize("keep", [3, 60])
    def test_a_damaged_parquet_file_is_named(self, tmp_path, keep):
        arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        parquet.write_table(arrow.table({"a": [1, 2]}), tmp_path / "t.parquet")
        (tmp_path / "t.parquet").write_bytes((tmp_path / "t.parquet").read_bytes()[:keep])
        with pytest.raises(DataError, match=r"t\.parquet: not a readable Parquet file"):
            read_columns(tmp_path / "t.parquet")

    def test_a_file_that_is_not_there_is_said(self, tmp_path):
        with pytest.raises(DataError, match=r"none\.csv: no such file"):
            read_columns(tmp_path / "none.csv")
