import os
import zipfile

import numpy as np
import pytest

import metasched as ms
from helpers import make_regression, make_tasks
from metasched.datasets.npz import open_npz, read_npy
from metasched.errors import ConfigError, DataError


@pytest.fixture
def saved(tmp_path, tasks):
    ms.datasets.save_npz(tasks, tmp_path / "set.npz")
    return tmp_path / "set.npz"


def rewrite(path, change):
    with np.load(path) as content:
        arrays = dict(content)
    change(arrays)
    np.savez(path, **arrays)


def test_a_task_set_comes_back_the_same(saved, tasks):
    again = ms.datasets.from_npz(saved)
    assert again.fingerprint == tasks.fingerprint
    assert again.name == "set"
    assert "set.npz" in again.provenance["test"].files
    assert not list(saved.parent.glob("*.part"))


def test_classes_of_each_task_come_back_too(tmp_path):
    own = ms.TaskSet.from_arrays(
        {"a": (np.eye(2), [0, 1]), "b": (np.eye(2) * 2, [0, 0])},
        validation=(np.eye(2) * 3, [0, 1]),
        test=(np.eye(2) * 4, [1, 0]),
        classes={"a": ["cat", "dog"], "b": ["pen"], "target": ["x", "y"]},
    )
    ms.datasets.save_npz(own, tmp_path / "own.npz")
    again = ms.datasets.load(tmp_path / "own.npz")
    assert not again.shared_labels
    assert again.tasks[1].classes == ("pen",)
    assert again.classes == ("x", "y")


@pytest.fixture
def regression(tmp_path):
    tasks = make_regression()
    ms.datasets.save_npz(tasks, tmp_path / "regression.npz")
    return tasks, tmp_path / "regression.npz"


def test_targets_come_back_with_their_labels(regression):
    tasks, path = regression
    assert ms.datasets.load(path).fingerprint == tasks.fingerprint


def test_a_file_may_have_targets_in_place_of_labels(regression):
    tasks, path = regression
    rewrite(path, lambda arrays: [arrays.pop(key) for key in list(arrays) if key.endswith(("labels", "classes"))])
    assert ms.datasets.load(path).fingerprint == tasks.fingerprint
    assert len(ms.datasets.load(path, bins=3).classes) == 3


def test_targets_must_be_there_for_all_rows_or_for_none(regression):
    _, path = regression
    rewrite(path, lambda arrays: arrays.pop("test/targets"))
    with pytest.raises(DataError, match="test/targets"):
        ms.datasets.load(path)


def test_a_test_row_among_the_validation_rows_is_told_by_its_target(regression):
    _, path = regression

    def leak(arrays, shift):
        for part in ("inputs", "labels", "targets"):
            arrays[f"test/{part}"][2] = arrays[f"validation/{part}"][1]
        arrays["test/targets"][2] += shift

    rewrite(path, lambda arrays: leak(arrays, 0))
    with pytest.raises(DataError, match="test row 2 is also validation row 1"):
        ms.datasets.load(path)
    assert ms.datasets.load(path, allow_overlap=True)
    rewrite(path, lambda arrays: leak(arrays, 1))
    assert ms.datasets.load(path)


def test_load_takes_a_path_and_the_options_of_a_variant(saved):
    assert len(ms.datasets.load(str(saved), target_labels=4).validation.labels) == 4


def without_target(path):
    rewrite(path, lambda arrays: [arrays.pop(key) for key in list(arrays) if key.startswith(("validation/", "test/"))])


def test_a_task_named_as_the_target_is_divided_by_label(saved, tasks):
    without_target(saved)
    divided = ms.datasets.load(saved, target="task-1", target_labels=5, seed=2)
    assert [task.name for task in divided.tasks] == ["task-0", "task-2"]
    assert len(divided.validation.labels) == 5
    for part in ("validation", "test"):
        rows = divided.provenance[part].rows
        np.testing.assert_array_equal(getattr(divided, part).inputs, tasks.tasks[1].inputs[rows])
        assert np.all(np.diff(rows) > 0)
    assert "5 of 20 rows are for validation, drawn at random (seed 2)" in divided.summary()
    assert divided.fingerprint != ms.datasets.load(saved, target="task-1", target_labels=5, seed=3).fingerprint


def test_a_target_of_numbers_is_divided_too(regression):
    _, path = regression
    without_target(path)
    divided = ms.datasets.load(path, target="task-2")
    assert (len(divided.validation.targets), len(divided.test.targets)) == (20, 20)


def test_a_file_without_target_asks_which_it_is(saved):
    without_target(saved)
    with pytest.raises(ConfigError, match=r"which is the target.* task-0, task-1, task-2"):
        ms.datasets.load(saved)


def test_a_file_that_has_a_target_takes_no_other(saved):
    with pytest.raises(ConfigError, match="which are the target's rows; leave out target"):
        ms.datasets.load(saved, target="task-1")


def test_pickled_objects_are_refused_unopened(tmp_path, saved):
    class Bomb:
        def __reduce__(self):
            return (tmp_path.joinpath("ran").touch, ())

    rewrite(saved, lambda arrays: arrays.update({"test/labels": np.array([Bomb()], dtype=object)}))
    with pytest.raises(DataError, match=r"set\.npz: array 'test/labels' holds object, which is not a plain array"):
        ms.datasets.from_npz(saved)
    assert not (tmp_path / "ran").exists()


def test_a_truncated_file_is_named(saved):
    saved.write_bytes(saved.read_bytes()[:-200])
    with pytest.raises(DataError, match=r"set\.npz: truncated or damaged"):
        ms.datasets.from_npz(saved)


def test_a_damaged_member_is_named(saved):
    content = bytearray(saved.read_bytes())
    content[content.index(b"\x93NUMPY") + 150] ^= 0xFF  # inside the numbers, past the 128 bytes of their header
    saved.write_bytes(bytes(content))
    with pytest.raises(DataError, match=r"set\.npz: array 'tasks/task-0/inputs' .*Bad CRC"):
        ms.datasets.from_npz(saved)


def test_a_missing_array_is_named(saved):
    rewrite(saved, lambda arrays: arrays.pop("validation/labels"))
    with pytest.raises(DataError, match="validation/labels"):
        ms.datasets.from_npz(saved)


def test_a_file_without_tasks_says_what_was_expected(tmp_path):
    np.savez(tmp_path / "x.npz", a=np.zeros(3))
    with pytest.raises(DataError, match="expected keys like 'tasks/<name>/inputs'"):
        ms.datasets.from_npz(tmp_path / "x.npz")


def test_a_bomb_is_refused_by_what_it_declares(tmp_path):
    with zipfile.ZipFile(tmp_path / "x.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("tasks/a/inputs.npy", bytes(10_000_000))
    with pytest.raises(DataError, match="unpacks to 10,000,000 bytes"):
        ms.datasets.from_npz(tmp_path / "x.npz", limit=1_000_000)


def test_no_such_file_is_said(tmp_path):
    with pytest.raises(DataError, match=r"none\.npz: no such file"), open_npz(tmp_path / "none.npz"):
        pass


def test_garbage_inside_is_refused_like_any_other(saved):
    rewrite(saved, lambda arrays: arrays.update({"tasks/task-1/labels": arrays["tasks/task-1/labels"] + 7}))
    with pytest.raises(DataError, match="task 'task-1': row 0 has label"):
        ms.datasets.from_npz(saved)


def test_saving_and_loading_keeps_the_order_of_tasks(tmp_path):
    tasks = make_tasks(sizes=tuple(range(12, 24)))
    ms.datasets.save_npz(tasks, tmp_path / "many.npz")
    again = ms.datasets.from_npz(tmp_path / "many.npz")
    assert [task.name for task in again.tasks] == [task.name for task in tasks.tasks]


class TestNpy:
    def test_one_array_is_read(self, tmp_path):
        np.save(tmp_path / "a.npy", np.arange(5))
        assert read_npy(tmp_path / "a.npy").tolist() == [0, 1, 2, 3, 4]

    def test_a_pickle_is_refused(self, tmp_path):
        np.save(tmp_path / "a.npy", np.array([{}], object))
        with pytest.raises(DataError, match=r"a\.npy holds object, which is not a plain array"):
            read_npy(tmp_path / "a.npy")

    @pytest.mark.parametrize(
        ("keep", "said"), [(0, "no readable header"), (20, "no readable header"), (140, "400 bytes, but it has 140")]
    )
    def test_a_file_cut_short_is_refused(self, tmp_path, keep, said):
        np.save(tmp_path / "a.npy", np.arange(50))
        (tmp_path / "a.npy").write_bytes((tmp_path / "a.npy").read_bytes()[:keep])
        with pytest.raises(DataError, match=rf"a\.npy .*{said}"):
            read_npy(tmp_path / "a.npy")

    def test_an_archive_of_several_is_refused(self, tmp_path):
        np.savez(tmp_path / "a.npz", x=np.arange(2))
        (tmp_path / "a.npz").rename(tmp_path / "a.npy")
        with pytest.raises(DataError, match="no readable header"):
            read_npy(tmp_path / "a.npy")


def npy_header(text):
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text


@pytest.mark.parametrize("order", "<>")
@pytest.mark.parametrize("point", [0x110000, 2**32 - 1, 0xD800])
def test_text_with_numbers_that_are_no_characters_is_one_line(tmp_path, order, point):
    """NumPy reads such an array and fails with a SystemError when a value of it is looked at."""
    array = np.array(["good", "bad"], f"{order}U4")
    array.view(f"{order}u4")[5] = point
    np.save(tmp_path / "labels.npy", array)
    with pytest.raises(DataError, match=r"labels\.npy holds numbers that are not characters"):
        read_npy(tmp_path / "labels.npy")
    array.view(f"{order}u4")[5] = ord("𝔸")
    np.save(tmp_path / "labels.npy", array)
    assert read_npy(tmp_path / "labels.npy").tolist() == ["good", "b𝔸d"]


class TestDeclaredSizes:
    def member(self, tmp_path, content, compression=zipfile.ZIP_STORED):
        with zipfile.ZipFile(tmp_path / "x.npz", "w", compression) as archive:
            archive.writestr("tasks/a/inputs.npy", content)
        return tmp_path / "x.npz"

    @pytest.mark.parametrize("shape", [(2**43,), (2**20, 2**20), (1, 2**62, 2**62)])
    def test_an_array_that_claims_terabytes_is_refused_by_its_header(self, tmp_path, shape):
        path = self.member(
            tmp_path, npy_header(repr({"descr": "|u1", "fortran_order": False, "shape": shape}).encode())
        )
        with open_npz(path) as content, pytest.raises(DataError, match=r"array 'tasks/a/inputs' says that it has"):
            content["tasks/a/inputs"]

    def test_texts_without_any_letter_do_not_multiply(self, tmp_path):
        path = self.member(tmp_path, npy_header(b"{'descr': '<U0', 'fortran_order': False, 'shape': (99999999999,)}"))
        with open_npz(path) as content, pytest.raises(DataError, match="but it has"):
            content["tasks/a/inputs"]

    def test_a_directory_that_claims_more_than_its_bytes_can_hold_is_refused(self, tmp_path):
        path = self.member(tmp_path, bytes(1000))
        content = bytearray(path.read_bytes())
        directory = content.rindex(b"PK\x01\x02")
        content[directory + 24 : directory + 28] = (2**31).to_bytes(4, "little")  # the unpacked size
        path.write_bytes(bytes(content))
        with pytest.raises(DataError, match="unpacks to 2,147,483,648 bytes"), open_npz(path):
            pass

    @pytest.mark.parametrize("header", [b"{'descr': ((((", b"[]", b"{'descr': '|O', 'fortran_order': 0, 'shape': ()}"])
    def test_odd_headers_are_refused(self, tmp_path, header):
        with open_npz(self.member(tmp_path, npy_header(header))) as content, pytest.raises(DataError):
            content["tasks/a/inputs"]

    def test_an_unknown_way_of_packing_is_refused(self, tmp_path):
        path = self.member(tmp_path, bytes(1000))
        content = bytearray(path.read_bytes())
        content[content.rindex(b"PK\x01\x02") + 10] = 99
        path.write_bytes(bytes(content))
        with open_npz(path) as arrays, pytest.raises(DataError, match="is truncated or damaged"):
            arrays["tasks/a/inputs"]

    def test_one_label_beyond_all_classes_is_refused_with_its_row(self, saved):
        def spoil(arrays):
            del arrays["classes"]
            arrays["tasks/task-1/labels"] = arrays["tasks/task-1/labels"].astype("i8")
            arrays["tasks/task-1/labels"][4] = 2**31 - 1

        rewrite(saved, spoil)
        with pytest.raises(DataError, match="task-1: row 4 has label 2,147,483,647"):
            ms.datasets.from_npz(saved)


def test_a_named_pipe_is_not_opened(tmp_path):
    os.mkfifo(tmp_path / "x.npz")
    with pytest.raises(DataError, match=r"x\.npz: is a named pipe; give a regular file"):
        ms.datasets.load(tmp_path / "x.npz")


def test_rows_of_the_target_without_labels_come_back_with_their_names(tmp_path):
    arrays = {}
    for seed, name in enumerate("ab"):
        inputs = np.random.default_rng(seed).normal(size=(20, 2)).astype(np.float32)
        arrays |= {f"tasks/{name}/inputs": inputs, f"tasks/{name}/labels": np.arange(20) % 2}
    extra = np.ones((3, 2), np.float32)
    np.savez(tmp_path / "set.npz", **arrays, **{"unlabelled/inputs": extra})
    tasks = ms.datasets.load(tmp_path / "set.npz", target="b")
    assert (len(tasks.validation.labels), len(tasks.test.labels)) == (20, 0)
    np.testing.assert_array_equal(tasks.unlabelled.inputs, extra)
    assert tasks.unlabelled.names[2] == f"{tmp_path / 'set.npz'} unlabelled row 3"
    assert len(ms.datasets.load(tmp_path / "set.npz", target="b", target_labels=6).test.labels) == 14
    np.savez(tmp_path / "none.npz", **arrays, **{"unlabelled/inputs": np.ones((0, 2))})
    assert ms.datasets.load(tmp_path / "none.npz", target="b").unlabelled is None
    ms.datasets.save_npz(tasks, tmp_path / "again.npz")
    again = ms.datasets.load(tmp_path / "again.npz")
    assert again.fingerprint == tasks.fingerprint
    np.testing.assert_array_equal(again.unlabelled.inputs, extra)


@pytest.mark.parametrize(
    ("odd", "message"),
    [
        (np.float32(1), r"odd\.npz: unlabelled/inputs has shape \(1,\); give inputs \(rows, …\)"),
        (np.ones((3, 5)), r"unlabelled rows: an input has shape \(5,\), but in the test rows it has \(2,\)"),
        (np.array(["a"]), "unlabelled/inputs: inputs have dtype <U1; give numbers"),
    ],
)
def test_rows_without_labels_that_are_no_inputs_are_refused(tmp_path, odd, message):
    arrays = {f"tasks/{name}/inputs": np.eye(20, 2) + row for row, name in enumerate("ab")}
    arrays |= {f"tasks/{name}/labels": np.arange(20) % 2 for name in "ab"}
    np.savez(tmp_path / "odd.npz", **arrays, **{"unlabelled/inputs": odd})
    with pytest.raises(DataError, match=message):
        ms.datasets.load(tmp_path / "odd.npz", target="b", allow_overlap=True)
