import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metasched.errors import DataError
from metasched.experiments.datasets import hoda


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
    images, labels = hoda.parse(write(tmp_path / "a.cdb", record(IMAGE, 3), record(IMAGE.T, 0)))
    assert labels.tolist() == [3, 0]
    np.testing.assert_array_equal(images[0], 255 * IMAGE.astype(np.uint8))
    np.testing.assert_array_equal(images[1], 255 * IMAGE.T.astype(np.uint8))


@given(st.integers(1, 20), st.integers(1, 20), st.integers(0, 2**16))
def test_runs_give_back_the_image(height, width, seed):
    image = np.random.default_rng(seed).random((height, width)) < 0.5
    np.testing.assert_array_equal(hoda.unpack(runs(image), width, height) > 0, image)


@pytest.mark.parametrize("body", [b"", b"\x04\x04", b"\x04\x04\x05", b"\x04\x04\x04\x04", b"\xff" * 9, b"\x05\x03\x04"])
def test_runs_that_do_not_fill_the_rows_are_refused(body):
    with pytest.raises(DataError, match="do not fill 3 rows of 4"):
        hoda.unpack(body, 4, 3, "x")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda content: content[:500], "has no header"),
        (lambda content: content[:-3], "record 1 is damaged or cut off"),
        (lambda content: content[:-1] + b"\x09", "record 1: its runs do not fill 3 rows of 4"),
        (lambda content: content + b"\xff", "record 2 is cut off"),
        (lambda content: content[:1025] + b"\x0a" + content[1026:], "record 0 is damaged"),
        (lambda content: content[:1024], "holds 0 records, its header says 2"),
    ],
)
def test_damage_is_named(tmp_path, change, message):
    path = write(tmp_path / "a.cdb", record(IMAGE, 3), record(IMAGE, 4))
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(DataError, match=message):
        hoda.parse(path)


def test_the_real_file_has_2000_of_each_digit(needs):
    needs(hoda.FILE.path)
    images, labels = hoda.read()
    assert np.bincount(labels).tolist() == [2000] * 10
    assert max(image.shape for image in images) <= (64, 64)
    heights, widths = (np.array([image.shape[axis] for image in images]) for axis in (0, 1))
    assert np.median(heights[labels == 1] / widths[labels == 1]) > 2  # alef stands upright
