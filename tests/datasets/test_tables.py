import numpy as np
import pytest

import metasched as ms
from metasched import untrusted
from metasched.datasets.tables import read_columns, row_name_in
from metasched.errors import ConfigError, DataError

pytest.importorskip("pyarrow")


class TestColumns:
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
        with pytest.raises(ConfigError, match=r"decimal is '!' and separator is ','; give --data decimal=\. "):
            read_columns(path, decimal="!")

    def test_a_file_that_is_not_separated_as_you_said_is_to_be_saved_so(self, tmp_path):
        with pytest.raises(DataError, match=r"if its cells are separated by ',', save it with ';' like the others"):
            read_columns(self.write(tmp_path, "a,b\n1,2\n"), separator=";")

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            ("a,b\n1,2\n\n3\n4,5,6\n", r"t\.csv line 4: has 1 cell, the first line names 2 \(2 such rows\)"),
            ('a,b\n"1\n0",2\n3,4,5\n', r"t\.csv line 4: has 3 cells"),
            ("a;b\n1;2\n", r"t\.csv: has one column, 'a;b'; .* give --data separator=';'"),
            ("a;b\n1,5;2,5\n", r"t\.csv: has one column, 'a;b'; .* give --data separator=';'"),
            ("1,2\n3,4\n", r"t\.csv: the first line contains numbers; put a line with the names"),
            (",a,\n0,1,2\n", r"t\.csv: columns 1, 3 have no name; name them in the first line"),
            ("a,a\n0,1\n", r"t\.csv: two columns are named 'a'"),
            ("", r"t\.csv: cannot be read as a CSV file"),
            ("a,b\n", r"t\.csv: has no rows"),
            ("a,b\nx,1\nMüll,2\n".encode("latin-1"), r"t\.csv line 3: is not UTF-8 text; save the file as UTF-8"),
            ("a,b\n1,2\n".encode("utf-16"), r"t\.csv line 1: is not UTF-8"),
            ('a,b\n1,x\n2,"y\n3,z\n', r"t\.csv line 2: a quote after this line is never closed"),
            ("when,b\n2020-01-31,1\n", r"t\.csv: column 'when' contains dates or times;.* --drop when "),
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
        message = (
            r"big\.csv: 2,000,000,000 bytes .* limit of 1,073,741,824; .* raise the limit with --data limit=2000000000"
        )
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
        with pytest.raises(DataError, match=r"t\.parquet: cannot be read as a Parquet file"):
            read_columns(tmp_path / "t.parquet")

    def test_a_file_that_is_not_there_is_said(self, tmp_path):
        with pytest.raises(DataError, match=r"none\.csv: no such file"):
            read_columns(tmp_path / "none.csv")


HEAD = "age,city,bought"


def lines(seed, count=20):
    random = np.random.default_rng(seed)
    return [
        f"{age:.3f},{city},{'yes' if age > 40 else 'no'}"
        for age, city in zip(random.normal(40, 9, count), random.choice(["Bern", "Köln"], count), strict=True)
    ]


@pytest.fixture
def shops(tmp_path):
    folder = tmp_path / "shops"
    folder.mkdir()
    for number in range(1, 4):
        (folder / f"shop{number}.csv").write_text("\n".join([HEAD, *lines(number)]))
    return folder


def load(path, **options):
    return ms.datasets.load(path, **{"target": "shop3", "label": "bought", **options})


def test_a_folder_has_one_source_a_file(shops):
    tasks = load(shops, target_labels=8)
    assert tasks.name == "shops"
    assert [task.name for task in tasks.tasks] == ["shop1", "shop2"]
    assert tasks.classes == ("no", "yes")
    assert (len(tasks.validation.labels), len(tasks.test.labels)) == (8, 12)
    said = [line.split(",")[2] for line in lines(1)]
    assert [tasks.classes[label] for label in tasks.tasks[0].labels] == said


@pytest.mark.parametrize("name", ["shop1.xlsx", "shop1.CSV.gz"])
def test_a_table_in_the_folder_that_is_not_read_is_refused_instead_of_left_out(shops, name):
    (shops / "~$shop3.xlsx").write_text("a lock of a spreadsheet program")
    assert len(load(shops).tasks) == 2
    (shops / "shop1.csv").rename(shops / name)
    for folder in (shops, shops.parent / "alone"):
        with pytest.raises(DataError, match=rf"{folder.name}.{name}: this kind of file is not read; save it as CSV, "):
            load(folder)
        (shops.parent / "alone").mkdir(exist_ok=True)
        (shops.parent / "alone" / name).write_text("")


def test_one_file_with_a_source_column_is_the_same(shops, tmp_path):
    rows = [f"{line},shop{number}" for number in range(1, 4) for line in lines(number)]
    (tmp_path / "all.csv").write_text("\n".join([f"{HEAD},domain", *rows]))
    assert load(tmp_path / "all.csv", source="domain").fingerprint == load(shops).fingerprint


def test_sources_named_by_numbers_are_named_by_text(shops, tmp_path):
    rows = [f"{line},{number}" for number in range(1, 4) for line in lines(number)]
    (tmp_path / "all.csv").write_text("\n".join([f"{HEAD},source", *rows]))
    assert load(tmp_path / "all.csv", target=3).fingerprint != load(shops).fingerprint
    assert [task.name for task in load(tmp_path / "all.csv", target=3).tasks] == ["1", "2"]


def test_parquet_files_are_the_same(shops):
    csv, parquet = pytest.importorskip("pyarrow.csv"), pytest.importorskip("pyarrow.parquet")
    before = load(shops).fingerprint
    parquet.write_table(csv.read_csv(shops / "shop2.csv"), shops / "shop2.parquet")
    (shops / "shop2.csv").unlink()
    assert load(shops).fingerprint == before


def test_files_named_validation_and_test_are_the_target(shops):
    (shops / "shop3.csv").rename(shops / "test.csv")
    (shops / "validation.csv").write_text("\n".join([HEAD, *lines(9)]))
    tasks = load(shops, target=None)
    assert (len(tasks.validation.labels), len(tasks.test.labels)) == (20, 20)


def test_the_recipe_finds_the_same_rows_and_the_fingerprint_a_changed_file(shops):
    tasks = load(shops, target_labels=8, seed=4, categorical=["city"])
    again = ms.datasets.load(tasks.recipe["set"], **tasks.recipe["options"])
    assert again.fingerprint == tasks.fingerprint
    assert again.preparation == tasks.preparation
    assert set(tasks.provenance["test"].files) == {"shop3.csv"}
    text = (shops / "shop1.csv").read_text()
    (shops / "shop1.csv").write_text(text.replace("Bern", "Köln", 1))
    assert load(shops, target_labels=8, seed=4).fingerprint != tasks.fingerprint


def test_label_and_columns_are_chosen_by_name(shops):
    tasks = load(shops, label="city", drop="bought")
    assert tasks.classes == ("Bern", "Köln")
    assert tasks.shape == (1,)


def test_fractions_to_predict_make_a_regression(shops):
    tasks = load(shops, label="age", bins=4)
    assert tasks.target_size == 1
    assert len(tasks.classes) == 4
    assert "so numbers are predicted" in tasks.summary()
    np.testing.assert_allclose(tasks.tasks[0].targets[0, 0], float(lines(1)[0].split(",")[0]), rtol=1e-6)


def test_labels_with_decimal_commas_are_numbers(tmp_path):
    for name in ("a", "b"):
        rows = [f"{number},25;{number},5" for number in range(20)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["size;label", *rows]))
    tasks = ms.datasets.load(tmp_path, target="b", separator=";", decimal=",")
    np.testing.assert_array_equal(tasks.tasks[0].targets[:, 0], np.arange(20) + 0.5)


@pytest.mark.parametrize("word", ["NA", "NaN", "null"])
def test_a_word_for_nothing_is_an_empty_label_among_numbers_and_a_class_among_texts(tmp_path, word):
    (tmp_path / "t.csv").write_text(f"a,label\n1,3.5\n2,{word}\n3,\n")
    assert read_columns(tmp_path / "t.csv", label="label")["label"].tolist() == ["3.5", None, ""]
    for only in ("x", word):
        (tmp_path / "t.csv").write_text(f"a,label\n1,{only}\n2,{word}\n")
        assert read_columns(tmp_path / "t.csv", label="label")["label"].tolist() == [only, word]


def test_a_decimal_comma_changes_no_label_that_is_a_name(tmp_path):
    (tmp_path / "t.csv").write_text("a;label\n1;3,5\n2;left, up\n3;007\n4;\n")
    got = read_columns(tmp_path / "t.csv", label="label", separator=";", decimal=",")
    assert got["label"].tolist() == ["3.5", "left, up", "007", ""]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("shop2.csv", f"{HEAD}\n40,Bern,no\n41,Bern\n", r"shop2\.csv line 3: has 2 cells, the first line names 3"),
        (
            "shop2.csv",
            "age,town,bought\n40,Bern,no\n",
            r"shop2\.csv: lacks 'city' and has 'town', unlike .*shop1",
        ),
        ("shop2.csv", f"{HEAD}\n40,Bern,no\n,Bern,yes\n", r"shop2\.csv line 3: column 'age' is empty"),
        ("shop3.csv", f"{HEAD}\n40,Bern,no\n41,,yes\n", r"shop3\.csv line 3: column 'city' is empty"),
        ("shop2.csv", f"{HEAD}\n40,Bern,no\n41,Bern,\n", r"shop2\.csv line 3: 'bought' is empty"),
        ("shop2.csv", f"{HEAD};\n", r"shop2\.csv: has no rows"),
        ("shop1.tsv", "a\tb\n1\t2\n", r"shop1\.tsv: 'shop1' occurs twice"),
    ],
)
def test_a_fault_is_named_by_file_and_line(shops, name, content, message):
    (shops / name).write_text(content)
    with pytest.raises(DataError, match=message):
        load(shops)


def test_a_label_that_only_test_rows_have_is_named_by_file_and_line(shops):
    (shops / "shop3.csv").rename(shops / "test.csv")
    (shops / "test.csv").write_text(f"{HEAD}\n40,Bern,no\n41,Bern,perhaps\n")
    (shops / "validation.csv").write_text("\n".join([HEAD, *lines(9)]))
    with pytest.raises(DataError, match=r"test\.csv line 3: bought 'perhaps' occurs only in test rows"):
        load(shops, target=None)


def test_files_larger_than_the_limit_together_are_refused_unread(shops):
    with (shops / "big.csv").open("wb") as stream:
        stream.truncate(2_000_000_000)
    with pytest.raises(
        DataError, match=r"big\.csv: 2,000,\d{3},\d{3} bytes to read, more than the limit of 1,073,741,824"
    ):
        load(shops)


def test_a_text_file_that_does_not_fit_into_memory_is_refused_unread(shops, monkeypatch):
    monkeypatch.setattr(untrusted, "free_memory", lambda: 16_000_000_000)
    with (shops / "big.csv").open("wb") as stream:
        stream.truncate(20_000_000_000)  # it takes no space on the disk
    with pytest.raises(DataError, match=r"big\.csv: needs at least 20\.0 GB of memory, and 16\.0 GB are free"):
        load(shops, limit=10**11)


def test_a_parquet_file_that_does_not_fit_into_memory_is_refused_by_what_it_declares(shops, monkeypatch):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    monkeypatch.setattr(untrusted, "free_memory", lambda: 100_000_000)
    cells = np.zeros(5_000_000, np.int8)
    parquet.write_table(arrow.table(dict.fromkeys("abcde", cells)), shops / "big.parquet")
    assert (shops / "big.parquet").stat().st_size < 1_000_000
    with pytest.raises(DataError, match=r"big\.parquet: needs at least 0\.2 GB of memory, and 0\.1 GB are free"):
        load(shops)
    monkeypatch.setattr(untrusted, "free_memory", lambda: None)  # a system that does not say
    with pytest.raises(DataError, match="column"):
        load(shops)


def test_a_column_that_only_some_files_have_may_be_dropped(shops):
    before = load(shops).fingerprint
    rows = (shops / "shop2.csv").read_text().splitlines()
    (shops / "shop2.csv").write_text("\n".join(f"{row},{number or 'id'}" for number, row in enumerate(rows)))
    assert load(shops, drop="id").fingerprint == before


@pytest.fixture
def numbered(shops):
    """The shops as pandas writes them, with the row numbers in a first column that has no name."""
    for path in shops.iterdir():
        head, *rows = path.read_text().splitlines()
        path.write_text("\n".join([f",{head}", *(f"{row},{text}" for row, text in enumerate(rows))]))
    return shops


def test_row_numbers_without_a_name_are_left_out_and_that_is_said(shops, request):
    before = load(shops).fingerprint
    tasks = load(request.getfixturevalue("numbered"))
    assert tasks.fingerprint == before
    note = "the column without a name only identifies rows (no value occurs twice in a file), so it is left out"
    assert note in tasks.notes


def test_a_column_without_a_name_that_is_no_row_number_is_refused(numbered):
    path = numbered / "shop2.csv"
    path.write_text(path.read_text().replace("\n1,", "\n0,"))
    with pytest.raises(DataError, match=r"shop1\.csv: the first column has no name; name it, or write the table"):
        load(numbered)


def test_a_column_that_identifies_rows_is_left_out_unless_it_is_to_be_kept(shops, tmp_path):
    before = load(shops).fingerprint
    for path in shops.iterdir():
        head, *rows = path.read_text().splitlines()
        numbered = [f"{text},{path.stem[-1]}{row}" for row, text in enumerate(rows)]
        path.write_text("\n".join([f"{head},Visit_ID", *numbered]))
    tasks = load(shops)
    assert tasks.fingerprint == before
    (line,) = [note for note in tasks.notes if "Visit_ID" in note]
    assert line.endswith("left out; to learn from it: --keep Visit_ID (keep=['Visit_ID'])")
    kept = load(shops, keep="Visit_ID")
    assert kept.shape == (tasks.shape[0] + 1,)
    assert not any("Visit_ID" in note for note in kept.notes)
    with pytest.raises(ConfigError, match="unknown column to keep 'Visit'; did you mean 'Visit_ID'"):
        load(shops, keep=["Visit"])
    with pytest.raises(ConfigError, match="'Visit_ID' is in both drop and keep; remove it from one"):
        load(shops, keep=["Visit_ID"], drop=["Visit_ID"])


def test_options_that_do_not_fit_are_refused(shops):
    with pytest.raises(ConfigError, match="'bought' is the column to predict"):
        load(shops, drop="bought,city")
    with pytest.raises(ConfigError, match=r"unknown option 'lable' of data set .*; did you mean 'label'"):
        load(shops, lable="bought")
    with pytest.raises(ConfigError, match="unknown column to drop 'citty'; did you mean 'city'"):
        load(shops, drop=["citty"])
    with pytest.raises(ConfigError, match="unknown target 'shop4'; did you mean"):
        load(shops, target="shop4")


class TestUnlabelled:
    """A target of which only some rows have a label."""

    def half(self, shops, every=2):
        """Leave the label only in every second row of the target, and say what it was."""
        rows = lines(3)
        kept = [row if place % every == 0 else row.rpartition(",")[0] + "," for place, row in enumerate(rows)]
        (shops / "shop3.csv").write_text("\n".join([HEAD, *kept]))
        return [row.split(",") for row in rows]

    def test_rows_without_a_label_are_kept_and_named_and_all_others_are_for_validation(self, shops):
        whole = load(shops, target_labels=10)
        was = self.half(shops)
        tasks = load(shops)
        assert (len(tasks.validation.labels), len(tasks.test.labels), len(tasks.unlabelled)) == (10, 0, 10)
        assert [tasks.classes[label] for label in tasks.validation.labels] == [row[2] for row in was[::2]]
        columns = {"age": [float(row[0]) for row in was[1::2]], "city": [row[1] for row in was[1::2]]}
        np.testing.assert_array_equal(tasks.unlabelled.inputs, tasks.preparation.inputs(columns))
        assert tasks.unlabelled.names[0] == f"{shops / 'shop3.csv'} line 3"
        assert tasks.unlabelled.names[-1] == f"{shops / 'shop3.csv'} line 21"
        assert tasks.unlabelled.provenance.rows.tolist() == list(range(1, 20, 2))
        assert tasks.unlabelled.provenance.files == tasks.provenance["validation"].files
        assert tasks.tasks[0].inputs.tobytes() == whole.tasks[0].inputs.tobytes()
        assert whole.unlabelled is None
        assert "its 10 labelled rows are for validation, none for testing; --target-labels" in tasks.notes[0]

    def test_a_count_of_labels_leaves_the_other_labelled_rows_for_test(self, shops):
        self.half(shops)
        tasks = load(shops, target_labels=6)
        assert (len(tasks.validation.labels), len(tasks.test.labels), len(tasks.unlabelled)) == (6, 4, 10)
        assert not set(tasks.provenance["test"].rows) & set(range(1, 20, 2))

    def test_one_file_with_a_source_column_gives_the_same(self, shops, tmp_path):
        self.half(shops)
        rows = [f"{row},{path.stem}" for path in sorted(shops.iterdir()) for row in path.read_text().splitlines()[1:]]
        (tmp_path / "all.csv").write_text("\n".join([f"{HEAD},source", *rows]))
        tasks, alone = load(shops), load(tmp_path / "all.csv")
        assert alone.fingerprint == tasks.fingerprint
        np.testing.assert_array_equal(alone.unlabelled.inputs, tasks.unlabelled.inputs)
        assert alone.unlabelled.names[0] == f"{tmp_path / 'all.csv'} line 43"

    def test_the_fingerprint_leaves_them_out_and_the_summary_counts_them(self, shops):
        self.half(shops)
        tasks = load(shops)
        assert "  unlabelled       10" in tasks.summary()
        text = (shops / "shop3.csv").read_text().splitlines()
        (shops / "shop3.csv").write_text("\n".join(text[:-1]))
        fewer = load(shops)
        assert len(fewer.unlabelled) == 9
        assert fewer.fingerprint == tasks.fingerprint

    def test_numbers_may_be_known_for_some_rows_only(self, shops):
        random = np.random.default_rng(0)
        for number in range(1, 4):
            labels = [f"{value:.2f}" for value in random.normal(size=20)]
            said = [label if number < 3 or row % 4 == 0 else "" for row, label in enumerate(labels)]
            rows = [f"{row},{label}" for row, label in enumerate(said)]
            (shops / f"shop{number}.csv").write_text("\n".join(["size,label", *rows]))
        tasks = load(shops, label="label")
        assert tasks.target_size == 1
        assert (len(tasks.validation.labels), len(tasks.test.labels), len(tasks.unlabelled)) == (5, 0, 15)

    def test_a_target_divided_by_the_user_may_have_test_rows_without_labels(self, shops):
        (shops / "validation.csv").write_text("\n".join([HEAD, *lines(9)]))
        self.half(shops, every=100)
        (shops / "shop3.csv").rename(shops / "test.csv")
        tasks = load(shops, target=None)
        assert (len(tasks.validation.labels), len(tasks.test.labels), len(tasks.unlabelled)) == (20, 1, 19)

    def test_a_second_file_has_more_of_them(self, shops, tmp_path):
        before = load(shops, target_labels=8)
        (tmp_path / "new.csv").write_text("city,age\nBern,30\n\nKöln,40\n")
        tasks = load(shops, unlabelled=tmp_path / "new.csv")
        assert (len(tasks.validation.labels), len(tasks.test.labels), len(tasks.unlabelled)) == (20, 0, 2)
        assert tasks.unlabelled.names == tuple(f"{tmp_path / 'new.csv'} line {line}" for line in (2, 4))
        inputs = tasks.preparation.inputs({"age": [30, 40], "city": ["Bern", "Köln"]})
        np.testing.assert_array_equal(tasks.unlabelled.inputs, inputs)
        assert set(tasks.unlabelled.provenance.files) == {"new.csv"}
        asked = load(shops, unlabelled=tmp_path / "new.csv", target_labels=8)
        assert asked.fingerprint == before.fingerprint
        self.half(shops)
        both = load(shops, unlabelled=str(tmp_path / "new.csv"))
        assert len(both.unlabelled) == 12
        assert both.unlabelled.provenance.source == "shop3.csv + new.csv"

    def test_a_second_file_may_lie_in_the_folder_and_the_recipe_finds_it(self, shops, monkeypatch):
        (shops / "new.csv").write_text(f"{HEAD}\n30,Bern,\n")
        monkeypatch.chdir(shops)
        tasks = load(shops, unlabelled="new.csv")
        assert [task.name for task in tasks.tasks] == ["shop1", "shop2"]
        monkeypatch.chdir(shops.parent)
        assert len(ms.datasets.load(tasks.recipe["set"], **tasks.recipe["options"]).unlabelled) == 1

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            ("age\n30\n", r"new\.csv: lacks 'city', unlike .*shop1\.csv; give all the same columns"),
            (f"{HEAD}\n30,Bern,\n31,Bern,yes\n", r"new\.csv line 3: has a 'bought' \(1 such row\), but this file"),
            (f"{HEAD}\n,Bern,\n", r"new\.csv line 2: column 'age' is empty"),
            (None, r"new\.csv: no such file"),
        ],
    )
    def test_a_second_file_that_does_not_fit_is_refused(self, shops, tmp_path, content, message):
        if content is not None:
            (tmp_path / "new.csv").write_text(content)
        with pytest.raises(DataError, match=message):
            load(shops, unlabelled=tmp_path / "new.csv")

    def test_a_source_without_labels_is_refused_with_their_number(self, shops):
        rows = [*lines(2)[:5], "40,Bern,", "41,Köln,"]
        (shops / "shop2.csv").write_text("\n".join([HEAD, *rows]))
        with pytest.raises(
            DataError, match=r"shop2\.csv line 7: 'bought' is empty \(2 such rows\); only rows of the target may"
        ):
            load(shops)

    def test_a_target_without_any_label_is_refused(self, shops):
        rows = [row.rpartition(",")[0] + "," for row in lines(3)]
        (shops / "shop3.csv").write_text("\n".join([HEAD, *rows]))
        with pytest.raises(DataError, match=r"shop3\.csv line 2: 'bought' is empty here and in all 20 rows of 'shop3'"):
            load(shops)

    def test_other_divisions_and_variants_of_the_set_keep_them(self, shops):
        self.half(shops)
        tasks = load(shops, target_labels=6)
        others = [
            *(tasks.redrawn(1), tasks.all_labelled(), tasks.held_out(np.arange(2))),
            *(tasks.variant(target_labels=4, noise={"shop1": 0.5}, shuffle_order=True), tasks.by_class()),
            *(tasks.with_irrelevant("shop1"), tasks.with_wrong_labels("shop2")),
        ]
        assert all(other.unlabelled is tasks.unlabelled for other in others)
        every = load(shops)
        assert every.all_labelled().fingerprint == every.fingerprint == tasks.all_labelled().fingerprint
        assert len(every.held_out(np.arange(3)).test.labels) == 3
        with pytest.raises(ConfigError, match="has no test rows, so no other labelled rows can be drawn"):
            every.redrawn(0)

    def test_a_run_needs_rows_to_score(self, shops):
        self.half(shops)
        with pytest.raises(
            ConfigError, match=r"^shops: has no test rows to score a run on, because all 10 labelled rows"
        ):
            ms.train(load(shops), learner=ms.Joint(batch_size=4, updates=1))
