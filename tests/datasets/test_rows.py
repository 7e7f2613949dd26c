"""Rows for a trained model: read as in training, or refused with the file and the row."""

import numpy as np
import pytest

from metasched.datasets.rows import Reading, read_rows
from metasched.errors import ConfigError, DataError
from metasched.tasks import Preparation

PREPARED = Preparation.fit(
    {"age": [20.0, 40.0], "sex": ["f", "m"], "code": ["01", "02"]}, label="ill", text_labels=True, categorical=["code"]
)
TABLE = Reading((5,), PREPARED, ("no", "yes"))
PLAIN = Reading((2,), None, ("no", "yes"))
NUMBERS = Reading((2,), None, ())


def write(path, text):
    path.write_text(text)
    return path


class TestTables:
    @pytest.fixture(autouse=True)
    def _arrow(self):
        pytest.importorskip("pyarrow")

    def test_columns_are_matched_by_name_and_labels_are_seen(self, tmp_path):
        rows = read_rows(write(tmp_path / "a.csv", "code,ill,extra,sex,age\n01,yes,9,m,30\n02,no,9,f,50\n"), TABLE)
        assert rows.inputs.tolist() == [[0, 0, 1, 1, 0], [2, 1, 0, 0, 1]]
        assert rows.answers.tolist() == ["yes", "no"]
        assert rows.names == ["1", "2"]
        assert rows.notes == ()

    def test_the_label_may_be_absent_or_known_for_some_rows_only(self, tmp_path):
        assert not read_rows(write(tmp_path / "a.csv", "age,sex,code\n30,m,01\n"), TABLE).labelled.size
        rows = read_rows(write(tmp_path / "b.csv", "age,sex,code,ill\n30,m,01,\n40,f,01,no\n"), TABLE)
        assert rows.labelled.tolist() == [1]
        assert rows.answers.tolist() == ["no"]

    def test_classes_that_are_numbers_are_known_however_they_are_written(self, tmp_path):
        prepared = Preparation.fit({"age": [20.0, 40.0]}, label="ill")
        path = write(tmp_path / "a.csv", "age,ill\n30,3.0\n40,1\n")
        assert read_rows(path, Reading((1,), prepared, ("1", "3"))).answers.tolist() == ["3", "1"]
        assert read_rows(path, Reading((1,), prepared, ())).answers.tolist() == [3.0, 1.0]

    def test_columns_that_training_left_out_are_not_looked_at(self, tmp_path):
        plain = read_rows(write(tmp_path / "a.csv", "age,sex,code\n30,m,01\n50,f,01\n"), TABLE)
        text = ",when,age,sex,code,id\n0,2020-01-31,30,m,01,7\n1,2020-02-01,50,f,01,7\n"
        rows = read_rows(write(tmp_path / "b.csv", text), TABLE)
        np.testing.assert_array_equal(rows.inputs, plain.inputs)
        again = read_rows(write(tmp_path / "c.csv", text), TABLE, drop="when")
        np.testing.assert_array_equal(again.inputs, plain.inputs)

    def test_labels_may_have_decimal_commas(self, tmp_path):
        prepared = Preparation.fit({"age": [20.0, 40.0]}, label="ill")
        path = write(tmp_path / "a.csv", "age;ill\n30,5;3,5\n40;1\n")
        rows = read_rows(path, Reading((1,), prepared, ()), separator=";", decimal=",")
        assert rows.answers.tolist() == [3.5, 1.0]

    def test_a_category_that_training_had_not_is_said(self, tmp_path):
        rows = read_rows(write(tmp_path / "a.csv", "age,sex,code\n30,x,01\n"), TABLE)
        assert rows.inputs.tolist() == [[0, 0, 0, 1, 0]]
        assert rows.notes == ("in 1 rows, column 'sex' has a category that no source row had; it is ignored",)

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("age,code\n30,01\n", "has no column 'sex', only age, code"),
            ("age,sex,code\n30,m,01\n40,f\n", "line 3: has 2 cells"),
            ("age,sex,code\n30,m,01\n,f,01\n", "line 3: column 'age' is empty"),
            ("age,sex,code\n30,m,01\nold,f,01\n", "line 3: column 'age' has 'old' where a number should be"),
            ("age,sex,code,ill\n30,m,01,\n40,f,01,perhaps\n", "line 3: is labelled 'perhaps', which is not a class"),
        ],
    )
    def test_rows_that_do_not_fit_are_named(self, tmp_path, text, message):
        with pytest.raises(DataError, match=message):
            read_rows(write(tmp_path / "a.csv", text), TABLE)

    def test_options_of_the_table_are_passed_on(self, tmp_path):
        path = write(tmp_path / "a.csv", "age;sex;code\n30,0;m;01\n")
        assert read_rows(path, TABLE, separator=";", decimal=",").inputs[0, 0] == 0
        with pytest.raises(ConfigError, match="option is unknown"):
            read_rows(path, TABLE, colour="red")


class TestNumbers:
    @pytest.mark.parametrize("header", ["", "a,b\n"])
    def test_a_first_line_of_names_may_be_there(self, tmp_path, header):
        rows = read_rows(write(tmp_path / "a.csv", header + "1,2\n\n3,-4e1\n"), PLAIN)
        assert rows.inputs.tolist() == [[1, 2], [3, -40]]
        assert rows.inputs.dtype == np.float32

    def test_flat_rows_become_inputs_of_the_models_shape(self, tmp_path):
        rows = read_rows(write(tmp_path / "a.csv", "1,2,3,4\n"), Reading((2, 2), None, ("x",)))
        assert rows.inputs.tolist() == [[[1, 2], [3, 4]]]

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("a,b\n1,2\n1,2,3\n", "line 3: has 3 cells, but the model needs 2 numbers"),
            ("1,2\n1,x\n", "line 2: has 'x' where a number should be"),
            ("1,2\n1,nan\n", "line 2: has 'nan' where a number should be"),
            ("1,2\n1,\n", "line 2: has '' where a number should be"),
            ("a,b\n", "has no rows"),
        ],
    )
    def test_what_is_no_row_of_numbers_is_named(self, tmp_path, text, message):
        with pytest.raises(DataError, match=message):
            read_rows(write(tmp_path / "a.csv", text), PLAIN)

    def test_two_gigabytes_are_refused_unread(self, tmp_path):
        path = write(tmp_path / "a.csv", "1,2\n")
        with path.open("r+b") as stream:
            stream.truncate(2 * 1024**3)
        with pytest.raises(DataError, match="more than the limit"):
            read_rows(path, PLAIN)


class TestNpz:
    def save(self, tmp_path, **arrays):
        np.savez(tmp_path / "a.npz", **{name.replace("__", "/"): np.array(values) for name, values in arrays.items()})
        return tmp_path / "a.npz"

    def test_inputs_and_numbers_of_classes(self, tmp_path):
        rows = read_rows(self.save(tmp_path, inputs=[[1.0, 2.0]], labels=[1]), PLAIN)
        assert (rows.inputs.tolist(), rows.answers.tolist()) == ([[1, 2]], [1])

    def test_names_of_classes_in_the_file_are_those_that_count(self, tmp_path):
        path = self.save(tmp_path, inputs=[[1.0, 2.0]], labels=[0], classes=["yes", "no"])
        assert read_rows(path, PLAIN).answers.tolist() == ["yes"]

    def test_of_a_task_set_the_test_rows_are_read_and_that_is_said(self, tmp_path):
        rows = read_rows(self.save(tmp_path, test__inputs=[[1.0, 2.0]], test__targets=[0.5]), NUMBERS)
        assert rows.answers.tolist() == [0.5]
        assert rows.notes == ("the file holds a task set; these are its test rows",)

    @pytest.mark.parametrize(
        ("arrays", "message"),
        [
            ({"x": [[1.0]]}, "has no array 'inputs'"),
            ({"inputs": [[1.0, 2.0]], "labels": [2]}, "row 1: is labelled '2', which is not a class"),
            ({"inputs": [[1.0, 2.0]], "labels": [2], "classes": ["a"]}, "outside 0 … 0"),
        ],
    )
    def test_what_is_missing_or_wrong_is_named(self, tmp_path, arrays, message):
        with pytest.raises(DataError, match=message):
            read_rows(self.save(tmp_path, **arrays), PLAIN)


class TestImages:
    @pytest.fixture
    def folder(self, tmp_path):
        pillow = pytest.importorskip("PIL.Image")

        def draw(name, level):
            path = tmp_path / "images" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            pillow.fromarray(np.full((8, 6, 3), level, np.uint8)).save(path)

        draw("b10.png", 255)
        draw("b9.png", 0)
        return tmp_path / "images", draw

    def test_pixels_are_read_at_the_size_of_training_in_natural_order(self, folder):
        rows = read_rows(folder[0], Reading((4, 5, 3), None, ("no", "yes")))
        assert rows.names == ["b9.png", "b10.png"]
        assert rows.inputs.shape == (2, 4, 5, 3)
        assert rows.inputs.mean(axis=(1, 2, 3)).tolist() == [0, 1]
        assert read_rows(folder[0], Reading((4, 5), None, ("no",))).inputs.shape == (2, 4, 5)

    def test_folders_named_by_classes_are_labels(self, folder):
        folder[1]("yes/b11.png", 0)
        folder[1]("new/b12.png", 0)
        rows = read_rows(folder[0], Reading((4, 5, 3), None, ("no", "yes")))
        assert rows.labelled.tolist() == [2]
        assert rows.answers.tolist() == ["yes"]

    def test_a_model_of_something_else_and_a_folder_without_images_are_refused(self, folder, tmp_path):
        with pytest.raises(DataError, match=r"inputs of shape \(2,\), and images do not fit"):
            read_rows(folder[0], PLAIN)
        (tmp_path / "empty").mkdir()
        with pytest.raises(DataError, match="holds no images"):
            read_rows(tmp_path / "empty", Reading((4, 5, 3), None, ()))

    def test_links_out_of_the_folder_are_refused(self, folder, tmp_path):
        (tmp_path / "secret.png").write_bytes(b"")
        (folder[0] / "a.png").symlink_to(tmp_path / "secret.png")
        with pytest.raises(DataError, match=r"a\.png: is a link that leads out"):
            read_rows(folder[0], Reading((4, 5, 3), None, ()))


def test_what_holds_no_rows_is_refused(tmp_path):
    with pytest.raises(DataError, match="no such file or folder"):
        read_rows(tmp_path / "none.csv", PLAIN)
    with pytest.raises(DataError, match=r"rows come as \.csv"):
        read_rows(write(tmp_path / "a.txt", ""), PLAIN)
    with pytest.raises(ConfigError, match=r"options .* are for tables"):
        read_rows(write(tmp_path / "a.npz", ""), PLAIN, separator=";")
