import os
import socket

import numpy as np
import pytest

import metasched as ms
from metasched.errors import ConfigError, DataError

pillow = pytest.importorskip("PIL.Image")


def paint(path, shade, size=(8, 6)):
    path.parent.mkdir(parents=True, exist_ok=True)
    pillow.fromarray(np.full((size[1], size[0], 3), shade, np.uint8)).save(path)


@pytest.fixture
def tree(tmp_path):
    shade = iter(range(10, 250))
    for part in ("birds", "trains", "validation", "test"):
        for name in ("left", "right"):
            for number in (1, 2, 10):
                paint(tmp_path / part / name / f"frame{number}.png", next(shade))
    return tmp_path


def test_folders_become_tasks_and_target(tree):
    tasks = ms.datasets.from_images(tree, size=(5, 7))
    assert [task.name for task in tasks.tasks] == ["birds", "trains"]
    assert tasks.shape == (5, 7, 3)
    assert tasks.classes == ("left", "right")
    assert tasks.shared_labels
    assert ms.datasets.load(tree, size=(5, 7)).fingerprint == tasks.fingerprint


def test_rows_are_in_natural_order_of_names_across_classes(tree):
    tasks = ms.datasets.from_images(tree, size=(1, 1), colour=False)
    assert tasks.tasks[0].labels.tolist() == [0, 1, 0, 1, 0, 1]
    shades = np.round(tasks.tasks[0].inputs.ravel() * 255).astype(int).tolist()
    assert shades == [10, 13, 11, 14, 12, 15]  # frame1 left, frame1 right, frame2 …, frame10 …


def test_other_class_folders_make_label_sets_of_their_own(tree):
    paint(tree / "birds" / "owl" / "a.png", 5)
    tasks = ms.datasets.from_images(tree)
    assert not tasks.shared_labels
    assert tasks.tasks[0].classes == ("left", "owl", "right")


def test_a_damaged_image_is_named(tree):
    (tree / "birds" / "left" / "frame3.png").write_bytes(b"not a picture")
    with pytest.raises(DataError, match=r"frame3\.png: cannot be read as an image"):
        ms.datasets.from_images(tree)


def test_an_image_of_too_many_pixels_is_refused(tree, monkeypatch):
    monkeypatch.setattr(pillow, "MAX_IMAGE_PIXELS", 40)
    with pytest.raises(DataError, match="cannot be read as an image"):
        ms.datasets.from_images(tree)


def test_a_link_out_of_the_tree_is_refused(tree, tmp_path_factory):
    outside = tmp_path_factory.mktemp("outside") / "secret.png"
    paint(outside, 1)
    (tree / "birds" / "left" / "frame4.png").symlink_to(outside)
    with pytest.raises(DataError, match="leads out of"):
        ms.datasets.from_images(tree)


def test_half_a_target_is_named(tree):
    (tree / "test").rename(tree / "elsewhere")
    with pytest.raises(DataError, match="has 'validation' but not 'test'; give both"):
        ms.datasets.from_images(tree)


def test_a_tree_without_target_asks_which_it_is(tree):
    for part in ("validation", "test"):
        (tree / part).rename(tree / f"more-{part}")
    with pytest.raises(ConfigError, match=r"which is the target.* birds, more-test, more-validation, trains"):
        ms.datasets.load(tree)


def test_a_task_named_as_the_target_is_divided_by_class(tree):
    for part in ("validation", "test"):
        (tree / part).rename(tree / f"more-{part}")
    tasks = ms.datasets.load(tree, target="trains", target_labels=2, seed=1)
    assert [task.name for task in tasks.tasks] == ["birds", "more-test", "more-validation"]
    assert tasks.validation.labels.tolist() == [0, 1]
    assert sorted([*tasks.provenance["validation"].rows, *tasks.provenance["test"].rows]) == list(range(6))
    assert "2 of 6 rows are for validation, drawn at random (seed 1)" in tasks.summary()
    again = ms.datasets.load(tasks.recipe["set"], **tasks.recipe["options"])
    assert again.fingerprint == tasks.fingerprint


def test_images_keep_their_size(tree):
    assert ms.datasets.load(tree).shape == (6, 8, 3)


def test_an_image_of_another_size_is_named_with_the_fix(tree):
    paint(tree / "trains" / "left" / "wide.png", 3, size=(9, 6))
    with pytest.raises(
        DataError,
        match=r"wide\.png: is 6 × 9, others 6 × 8; to resize all of them, give --data size=6,8 \(size=\(6, 8\)\)",
    ):
        ms.datasets.load(tree)
    assert ms.datasets.load(tree, size=(6, 8)).shape == (6, 8, 3)


def test_images_that_would_not_fit_are_refused_before_they_are_read(tree):
    (tree / "trains" / "left" / "late.png").write_bytes(b"never opened")
    with pytest.raises(DataError, match=r"images of 6 × 8 take 14,400 bytes, more than the limit of 1,000"):
        ms.datasets.load(tree, limit=1000)


@pytest.mark.parametrize("size", [(3,), (0, 4), (4, 4, 3)])
def test_a_size_that_is_none_is_refused(tree, size):
    with pytest.raises(ConfigError, match=r"give \(height, width\)"):
        ms.datasets.from_images(tree, size=size)


def test_an_empty_task_is_named(tree):
    (tree / "empty").mkdir()
    with pytest.raises(DataError, match=r"empty: has no images"):
        ms.datasets.from_images(tree)


def test_no_such_folder_is_said(tmp_path):
    with pytest.raises(DataError, match="no such folder"):
        ms.datasets.from_images(tmp_path / "none")


class TestTreesFromElsewhere:
    """Whatever lies in the tree, nothing hangs, runs, or fills the memory."""

    def test_a_named_pipe_is_not_opened(self, tree):
        os.mkfifo(tree / "birds" / "left" / "frame4.png")
        with pytest.raises(DataError, match=r"frame4\.png: is a named pipe; give a regular file"):
            ms.datasets.load(tree)

    def test_a_socket_is_not_opened(self, tree, monkeypatch):
        monkeypatch.chdir(tree / "birds" / "left")
        with socket.socket(socket.AF_UNIX) as bound:
            bound.bind("frame4.png")
            with pytest.raises(DataError, match=r"frame4\.png: is a socket"):
                ms.datasets.load(tree)

    def test_postscript_under_the_name_of_an_image_reaches_no_interpreter(self, tree, tmp_path):
        ran = tmp_path / "ran"
        script = f"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 6\n({ran}) (w) file closefile\n%%EOF\n"
        (tree / "birds" / "left" / "frame4.png").write_text(script)
        with pytest.raises(DataError, match=r"frame4\.png: cannot be read as an image \(cannot identify image file"):
            ms.datasets.load(tree)
        assert not ran.exists()

    def test_a_sparse_giant_is_refused_by_its_size(self, tree):
        with (tree / "birds" / "left" / "frame1.png").open("r+b") as stream:
            stream.truncate(2**40)
        with pytest.raises(DataError, match=r"has 1,099,511,627,776 bytes, more than the limit"):
            ms.datasets.load(tree)

    def test_a_link_to_itself_is_one_line(self, tree):
        loop = tree / "birds" / "left" / "frame4.png"
        loop.symlink_to(loop)
        with pytest.raises(DataError, match=r"frame4\.png: cannot be read"):
            ms.datasets.load(tree)

    @pytest.mark.parametrize("name", ["\u00b2.png", "frame\u2460.png", "\u0663.png"])
    def test_digits_of_any_script_sort(self, tree, name):
        paint(tree / "birds" / "left" / name, 9)
        assert len(ms.datasets.load(tree).tasks[0]) == 7
