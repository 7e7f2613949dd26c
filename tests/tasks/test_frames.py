from importlib import import_module

import numpy as np
import pytest

import metasched as ms
from metasched.errors import ConfigError, DataError

pytest.importorskip("pyarrow")
ROWS = 60


def cells():
    random = np.random.default_rng(0)
    return {
        "age": random.normal(40, 9, ROWS).tolist(),
        "city": random.choice(["Bern", "Köln"], ROWS).tolist(),
        "count": [None if row % 25 == 3 else row for row in range(ROWS)],
        "shop": ["a"] * 20 + ["b"] * 20 + ["c"] * 20,
        "bought": random.choice(["no", "yes"], ROWS).tolist(),
    }


OPTIONS = {"target": "c", "source": "shop", "label": "bought", "target_labels": 8, "missing": "mean"}


def pandas_frame():
    pandas = pytest.importorskip("pandas")
    return pandas.DataFrame(cells(), index=np.arange(ROWS) + 100)


def polars_frame():
    return pytest.importorskip("polars").DataFrame(cells())


def csv_file(path):
    columns = cells()
    lines = [",".join(columns)] + [
        ",".join("" if cell is None else str(cell) for cell in row) for row in zip(*columns.values(), strict=True)
    ]
    path.write_text("\n".join(lines))
    return path


class TestFrame:
    @pytest.mark.parametrize("make", [pandas_frame, polars_frame])
    def test_gives_what_the_same_rows_in_a_file_give(self, make, tmp_path):
        tasks = ms.TaskSet.from_frame(make(), **OPTIONS)
        again = ms.datasets.load(csv_file(tmp_path / "all.csv"), **OPTIONS)
        assert tasks.fingerprint == again.fingerprint
        assert tasks.preparation == again.preparation

    def test_may_be_one_for_each_source(self):
        frame = pandas_frame()
        parts = {name: frame[frame["shop"] == name].drop(columns="shop") for name in "abc"}
        options = {key: value for key, value in OPTIONS.items() if key != "source"}
        whole = ms.TaskSet.from_frame(frame, **OPTIONS)
        assert ms.TaskSet.from_frame(parts, **options).fingerprint == whole.fingerprint

    @pytest.mark.parametrize("gap", [None, float("nan"), ""])
    def test_rows_of_the_target_may_have_no_label(self, gap):
        numbers = gap is not None and gap != ""
        labels = [float(row % 2) if numbers else "ny"[row % 2] for row in range(45)] + [gap] * 15
        frame = import_module("pyarrow").table({**cells(), "bought": labels})
        tasks = ms.TaskSet.from_frame(frame, **{**OPTIONS, "target_labels": None})
        assert tasks.classes == (("0", "1") if numbers else ("n", "y"))
        assert (len(tasks.validation.labels), len(tasks.test.labels), len(tasks.unlabelled)) == (5, 0, 15)
        assert tasks.unlabelled.names[0] == "row 46 of 'frame'"

    def test_names_the_row_of_an_empty_cell(self):
        with pytest.raises(DataError, match="row 4 of 'frame': column 'count' is empty"):
            ms.TaskSet.from_frame(pandas_frame(), **{**OPTIONS, "missing": None})

    def test_of_mixed_cells_is_refused_in_one_line(self):
        frame = pandas_frame()
        frame["mixed"] = [1, "a"] * (ROWS // 2)
        with pytest.raises(DataError, match=r"frame: not a data frame of numbers and text .*column mixed"):
            ms.TaskSet.from_frame(frame, **OPTIONS)

    def test_is_no_array(self):
        with pytest.raises(DataError, match="not a data frame"):
            ms.TaskSet.from_frame(np.zeros((3, 3)), **OPTIONS)


class TestHuggingFace:
    @pytest.fixture
    def hf(self):
        pytest.importorskip("datasets.arrow_dataset")  # the folder of tests of that name has no such module
        return import_module("datasets")

    def rows(self, hf, seed, labels=None):
        random = np.random.default_rng(seed)
        features = {"x": hf.Value("float32"), "city": hf.Value("string"), "label": hf.ClassLabel(names=["zero", "one"])}
        columns = {"x": random.normal(size=20), "city": random.choice(["p", "q"], 20), "label": labels or [0, 1] * 10}
        return hf.Dataset.from_dict(columns, features=hf.Features(features))

    def test_columns_become_inputs_and_classes_keep_their_names_and_order(self, hf):
        tasks = ms.TaskSet.from_huggingface({"s": self.rows(hf, 0), "t": self.rows(hf, 1)}, target="t")
        assert tasks.classes == ("zero", "one")
        assert tasks.tasks[0].labels.tolist() == [0, 1] * 10
        assert tasks.shape == (3,)

    def test_a_row_without_label_is_named(self, hf):
        unlabelled = hf.Dataset.from_dict({"x": [1.0, 2.0], "city": ["p", "q"], "label": [0, -1]})
        unlabelled = unlabelled.cast_column("label", hf.ClassLabel(names=["zero", "one"]))
        with pytest.raises(DataError, match="row 2 of 's': has label -1"):
            ms.TaskSet.from_huggingface({"s": unlabelled, "t": self.rows(hf, 1)}, target="t")

    def test_images_are_learnt_from_alone(self, hf):
        def images(seed):
            random = np.random.default_rng(seed)
            features = hf.Features({"image": hf.Image(), "label": hf.ClassLabel(names=["cat", "ant"])})
            pixels = [random.integers(0, 256, (4, 5, 3), dtype=np.uint8) for _ in range(8)]
            return pixels, hf.Dataset.from_dict({"image": pixels, "label": [0, 1] * 4}, features=features)

        (pixels, source), (_, target) = images(0), images(1)
        tasks = ms.TaskSet.from_huggingface({"s": source, "t": target}, target="t", inputs="image")
        np.testing.assert_allclose(tasks.tasks[0].inputs[3], pixels[3] / 255, rtol=1e-6)
        assert tasks.classes == ("cat", "ant")
        with pytest.raises(DataError, match=r"column 'image' contains .* give inputs="):
            ms.TaskSet.from_huggingface({"s": source, "t": target}, target="t")

    def test_a_missing_column_is_named(self, hf):
        with pytest.raises(DataError, match="'s' has no column 'bought', only x, city, label"):
            ms.TaskSet.from_huggingface({"s": self.rows(hf, 0), "t": self.rows(hf, 1)}, target="t", label="bought")


class TestTorch:
    @pytest.fixture
    def rows(self):
        torch = pytest.importorskip("torch")

        def make(seed, shape=(4,), labels=None):
            inputs = torch.randn(12, *shape, generator=torch.Generator().manual_seed(seed))
            return torch.utils.data.TensorDataset(inputs, torch.arange(12) % 3 if labels is None else labels)

        return make

    def test_items_become_rows_in_their_order(self, rows):
        source = rows(0)
        tasks = ms.TaskSet.from_torch({"s": source, "t": rows(1)}, target="t", classes=["r", "g", "b"])
        np.testing.assert_array_equal(tasks.tasks[0].inputs, source.tensors[0].numpy())
        assert tasks.tasks[0].labels.tolist() == [0, 1, 2] * 4
        assert tasks.classes == ("r", "g", "b")

    def test_channels_of_images_become_last_and_that_is_said(self, rows):
        source = rows(0, (3, 6, 5))
        tasks = ms.TaskSet.from_torch({"s": source, "validation": rows(1, (3, 6, 5)), "test": rows(2, (3, 6, 5))})
        assert tasks.shape == (6, 5, 3)
        np.testing.assert_array_equal(tasks.tasks[0].inputs[2, :, :, 1], source.tensors[0][2, 1].numpy())
        assert "channels of images are last" in tasks.summary()

    def test_fractions_are_predicted_as_numbers(self, rows):
        torch = pytest.importorskip("torch")
        numbers = torch.linspace(0, 1, 12)
        tasks = ms.TaskSet.from_torch({"s": rows(0, labels=numbers), "t": rows(1, labels=numbers)}, target="t", bins=3)
        np.testing.assert_allclose(tasks.tasks[0].targets[:, 0], numbers.numpy())


@pytest.mark.parametrize(
    ("items", "message"),
    [
        ([(np.zeros(2), 0), np.zeros(2)], r"row 2 of 's': is not a pair \(input, label\)"),
        ([(np.zeros(2), 0), (np.zeros(3), 0)], r"row 2 of 's': has shape \(3,\), but others have \(2,\)"),
        ([(np.zeros(2), [0, 1])], r"row 1 of 's': its label has shape \(2,\)"),
        ([], "s: has no rows"),
    ],
)
def test_items_that_are_no_rows_are_named(items, message):
    with pytest.raises(DataError, match=message):
        ms.TaskSet.from_torch({"s": items, "t": [(np.ones(2), 0)] * 4}, target="t")


def test_a_stream_is_refused():
    with pytest.raises(ConfigError, match="'s' has no length; give map-style"):
        ms.TaskSet.from_torch({"s": iter([])}, target="s")
