import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.io import savemat

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


def test_a_column_is_an_image_and_the_tenth_digit_is_zero(tmp_path):
    data = np.zeros((256, 1100, 10), np.uint8)
    data[16 * 3 + 5, 7, 9] = 200  # column 3, row 5 of image 7 of the last digit
    savemat(tmp_path / "u.mat", {"data": data}, do_compression=True)
    images, labels = glyphs.usps(tmp_path / "u.mat")
    assert np.argwhere(images).tolist() == [[9907, 5, 3]]
    assert labels[[0, 1099, 1100, 9907]].tolist() == [1, 1, 2, 0]


@pytest.mark.parametrize(
    "content",
    [
        {"data": np.zeros((256, 1100, 9), np.uint8)},
        {"data": np.zeros((256, 1100, 10))},
        {"other": np.zeros((256, 1100, 10), np.uint8)},
        {"data": np.array([{}], object)},
    ],
)
def test_anything_else_is_refused_before_it_is_unpacked(tmp_path, content):
    savemat(tmp_path / "u.mat", content)
    with pytest.raises(DataError, match="expected bytes 'data'"):
        glyphs.usps(tmp_path / "u.mat")


@pytest.mark.parametrize("keep", [0, 60, 150, 400])
def test_a_file_cut_short_is_named(tmp_path, keep):
    data = np.random.default_rng(0).integers(0, 256, (256, 1100, 10), np.uint8)
    savemat(tmp_path / "u.mat", {"data": data}, do_compression=True)
    (tmp_path / "u.mat").write_bytes((tmp_path / "u.mat").read_bytes()[:keep])
    with pytest.raises(DataError, match=r"u\.mat"):
        glyphs.usps(tmp_path / "u.mat")


def test_the_real_file_has_1100_of_each_digit(needs):
    needs(glyphs.FILES["usps"][0].path)
    images, labels = glyphs.read("usps")
    assert images.shape == (11000, 16, 16)
    assert np.bincount(labels).tolist() == [1100] * 10
    ones, zeros = images[labels == 1].mean(axis=0), images[labels == 0].mean(axis=0)
    assert ones[6:10, 6:10].mean() > 3 * ones[6:10, :3].mean()  # a stroke in the middle
    assert zeros[6:10, 7:9].mean() < zeros[6:10, 3:5].mean()  # a hole in it


def runs(image):
    """Lengths of runs in every row, beginning with paper."""
    lengths = []
    for row in image:
        ends = np.flatnonzero(np.diff(row.astype(int))) + 1
        own = np.diff([0, *ends, len(row)]).tolist()
        lengths += [0, *own] if row[0] else own
    return bytes(lengths)


def record(image, label):
    body = runs(image)
    return struct.pack("<BBBBH", 255, label, image.shape[1], image.shape[0], len(body)) + body


def write(path, *records, count=None):
    header = bytes(6) + struct.pack("<I", len(records) if count is None else count)
    path.write_bytes(header.ljust(1024, b"\0") + b"".join(records))
    return path


IMAGE = np.array([[0, 1, 1, 0], [1, 1, 0, 0], [0, 0, 0, 0]], bool)


def test_records_come_in_order_each_in_its_size(tmp_path):
    images, labels = glyphs.hoda(write(tmp_path / "a.cdb", record(IMAGE, 3), record(IMAGE.T, 0)))
    assert labels.tolist() == [3, 0]
    np.testing.assert_array_equal(images[0], 255 * IMAGE.astype(np.uint8))
    np.testing.assert_array_equal(images[1], 255 * IMAGE.T.astype(np.uint8))


@given(st.integers(1, 20), st.integers(1, 20), st.integers(0, 2**16))
def test_runs_give_back_the_image(height, width, seed):
    image = np.random.default_rng(seed).random((height, width)) < 0.5
    np.testing.assert_array_equal(glyphs.unpack_runs(runs(image), width, height) > 0, image)


@pytest.mark.parametrize("body", [b"", b"\x04\x04", b"\x04\x04\x05", b"\x04\x04\x04\x04", b"\xff" * 9, b"\x05\x03\x04"])
def test_runs_that_do_not_fill_the_rows_are_refused(body):
    with pytest.raises(DataError, match="do not fill 3 rows of 4"):
        glyphs.unpack_runs(body, 4, 3, "x")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda content: content[:500], "has no header"),
        (lambda content: content[:-3], "record 1 is damaged or cut off"),
        (lambda content: content[:-1] + b"\x09", "record 1: its runs do not fill 3 rows of 4"),
        (lambda content: content + b"\xff", "record 2 is cut off"),
        (lambda content: content[:1025] + b"\x0a" + content[1026:], "record 0 is damaged"),
        (lambda content: content[:1024], "has 0 records, but its header says 2"),
    ],
)
def test_damage_is_named(tmp_path, change, message):
    path = write(tmp_path / "a.cdb", record(IMAGE, 3), record(IMAGE, 4))
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(DataError, match=message):
        glyphs.hoda(path)


def test_the_real_file_has_2000_of_each_digit(needs):
    needs(glyphs.FILES["farsi"][0].path)
    images, labels = glyphs.read("farsi")
    assert np.bincount(labels).tolist() == [2000] * 10
    assert max(image.shape for image in images) <= (64, 64)
    heights, widths = (np.array([image.shape[axis] for image in images]) for axis in (0, 1))
    assert np.median(heights[labels == 1] / widths[labels == 1]) > 2  # alef stands upright
