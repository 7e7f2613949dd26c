import numpy as np
import pytest

from metasched.errors import DataError
from metasched.experiments.datasets import glyphs

COUNTS = {
    "kannada": 10000,
    "dig-mnist": 10240,
    "bangla": 6000,
    "devanagari": 3000,
    "telugu": 3000,
    "thai": 3882,
    "tibetan": 17767,
    "notmnist": 10000,
}


def test_photographs_become_bright_ink(tmp_path):
    images = np.full((2, 4, 4, 3), 255, np.uint8)
    images[1, 2, 3] = 0
    np.savez(tmp_path / "a.npz", images=images, labels=[4, 5])
    inked, labels = glyphs.photographs(tmp_path / "a.npz")
    assert np.argwhere(inked).tolist() == [[1, 2, 3]]
    assert labels.tolist() == [4, 5]


@pytest.mark.parametrize(("shape", "kind"), [((2, 4, 4), np.uint8), ((2, 4, 4, 3), float), ((2, 4, 4, 1), np.uint8)])
def test_photographs_of_another_kind_are_refused(tmp_path, shape, kind):
    np.savez(tmp_path / "a.npz", images=np.zeros(shape, kind), labels=[4, 5])
    with pytest.raises(DataError, match=r"a\.npz: images are"):
        glyphs.photographs(tmp_path / "a.npz")


def test_drawings_are_turned_to_bright_ink_where_they_are_dark(tmp_path):
    np.savez(tmp_path / "a.npz", x=np.array([[[255, 0]]], np.uint8), y=[1])
    assert glyphs.drawings(tmp_path / "a.npz", dark_ink=True)[0].tolist() == [[[0, 255]]]
    assert glyphs.drawings(tmp_path / "a.npz", dark_ink=False)[0].tolist() == [[[255, 0]]]


def test_a_file_that_lacks_an_array_is_named(tmp_path):
    np.savez(tmp_path / "a.npz", x=np.zeros((1, 2, 2), np.uint8))
    with pytest.raises(DataError, match=r"a\.npz"):
        glyphs.drawings(tmp_path / "a.npz", dark_ink=True)


IMAGES = np.zeros((2, 4, 4), np.uint8)


@pytest.mark.parametrize(
    ("images", "labels", "message"),
    [
        (IMAGES, [1], "do not belong together"),
        (IMAGES, [1.0, 2.0], "do not belong together"),
        (IMAGES[0], [1, 2, 3, 4], "do not belong together"),
        (IMAGES.astype(float), [1, 2], "do not belong together"),
        (IMAGES, [1, 10], "row 1 has label 10"),
        (IMAGES, [-1, 1], "row 0 has label -1"),
    ],
)
def test_what_does_not_fit_is_refused(images, labels, message):
    with pytest.raises(DataError, match=message):
        glyphs.checked("x", images, np.array(labels))


@pytest.mark.parametrize("name", COUNTS)
def test_the_real_files_hold_bright_ink_of_ten_kinds(needs, name):
    needs(*(file.path for file in glyphs.FILES[name]))
    images, labels = glyphs.read(name)
    assert len(labels) == len(images) == COUNTS[name]
    counts = np.bincount(labels)
    assert len(counts) == 10
    if name not in ("thai", "tibetan"):
        assert set(counts) == {COUNTS[name] // 10}
    if name != "notmnist":  # letters fill their image, digits do not
        assert images.mean() < 100
