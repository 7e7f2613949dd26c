import hashlib
import sys

import numpy as np
import pytest

from metasched.errors import ConfigError, DataError, StoreError
from metasched.experiments.datasets import extreme_weather
from metasched.experiments.datasets.extreme_weather import CHANNELS, EVENTS, is_simulated, read_boxes, read_windows
from metasched.experiments.datasets.pixels import resize

h5py = pytest.importorskip("h5py")

HEIGHT, WIDTH = 12, 20
PLAIN = (1, 3, 2, 2, 6, 7, 1)
"""Image, slot, ymin, xmin, ymax, xmax, class."""


def table(*rows, images=3, dtype=np.int32):
    boxes = np.full((images, 15, 5), -1, dtype)
    for image, slot, *values in rows:
        boxes[image, slot] = values
    return boxes


def write(path, boxes, images=None):
    if images is None:
        images = np.random.default_rng(0).normal(size=(len(boxes), 16, HEIGHT, WIDTH)).astype(np.float32)
    with h5py.File(path, "w") as file:
        file["boxes"] = boxes
        file["images"] = images
    return images


@pytest.fixture
def path(tmp_path):
    return tmp_path / "climo_2005.h5"


def test_the_channels_and_events_are_those_of_the_format():
    assert len(CHANNELS) == 16
    assert [CHANNELS.index(name) for name in ("PRECT", "TMQ", "U850", "Z100", "ZBOT")] == [0, 6, 9, 13, 15]
    assert EVENTS[1] == "tropical cyclone"


def test_boxes_come_in_file_order_and_unused_rows_do_not(path):
    write(path, table((2, 0, 0, 0, 3, 4, 3), (0, 4, 1, 1, 5, 6, 0), (0, 1, 2, 2, 6, 7, 2)))
    boxes = read_boxes(path)
    assert boxes.image.tolist() == [0, 0, 2]
    assert boxes.slot.tolist() == [1, 4, 0]
    assert boxes.labels.tolist() == [2, 0, 3]
    assert boxes.corners.tolist() == [[2, 2, 6, 7], [1, 1, 5, 6], [0, 0, 3, 4]]
    assert len(boxes.take(np.array([2, 0]))) == 2


@pytest.mark.parametrize("dtype", [np.int16, np.int64, np.float32, np.float64, ">i4"])
def test_boxes_of_any_number_type_read_the_same(path, dtype):
    write(path, table(PLAIN, dtype=dtype))
    assert read_boxes(path).corners.tolist() == [[2, 2, 6, 7]]


def test_a_fractional_box_grows_to_whole_pixels(path):
    write(path, table((1, 3, 2.6, 2.5, 6.1, 6.9, 1), dtype=np.float64))
    assert read_boxes(path).corners.tolist() == [[2, 2, 7, 7]]


@pytest.mark.parametrize(
    "corners",
    [(2, 2, 6, 7), (-3, 3, 4, 9), (9, 3, 15, 9), (0, 15, 12, 26), (4, -5, 8, 5), (4, 38, 8, 50), (0, 7, 12, 27)],
)
def test_a_box_past_the_grid_is_clipped_in_y_and_goes_on_round_in_x(path, corners):
    ymin, xmin, ymax, xmax = corners
    images = write(path, table((1, 0, *corners, 2)))
    channels = (9, 0, 15)
    found = read_windows(path, read_boxes(path), channels, size=5)
    rows = images[1, list(channels), max(ymin, 0) : ymax]
    expected = resize(np.take(rows, np.arange(xmin, xmax), axis=2, mode="wrap"), 5, 5)
    assert found.shape == (1, 5, 5, 3)
    np.testing.assert_allclose(found[0], np.moveaxis(expected, 0, -1), atol=1e-6)


@pytest.mark.parametrize("dtype", [np.float64, np.float16, np.int16, ">f4", np.uint8])
def test_images_of_any_number_type_become_float32(path, dtype):
    images = np.random.default_rng(1).integers(0, 200, (3, 16, HEIGHT, WIDTH)).astype(dtype)
    write(path, table((1, 0, 2, 3, 7, 8, 2)), images)
    found = read_windows(path, read_boxes(path), range(16), size=5)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found[0], np.moveaxis(images[1, :, 2:7, 3:8].astype(np.float32), 0, -1), rtol=1e-6)


def test_the_digest_takes_in_boxes_and_windows_before_resizing(path):
    images = write(path, table(PLAIN))
    digest = hashlib.sha256()
    read_windows(path, read_boxes(path), (4, 2), size=3, digest=digest)
    head = np.array([1, 3, 2, 2, 6, 7, 1], "<i8").tobytes()
    window = np.ascontiguousarray(images[1, [4, 2], 2:6, 2:7], "<f4").tobytes()
    assert digest.hexdigest() == hashlib.sha256(head + window).hexdigest()


@pytest.mark.parametrize(
    ("row", "fault"),
    [
        ((1, 3, 2, 2, 6, 7, 4), "class outside 0 … 3"),
        ((1, 3, 2, 2, 6, 7, -1), "class outside 0 … 3"),
        ((1, 3, 2, 2, 6, 7, 1.5), "class outside 0 … 3"),
        ((1, 3, 6, 2, 6, 7, 1), "covers no row of the grid, 0 … 11"),
        ((1, 3, 12, 2, 18, 7, 1), "covers no row"),
        ((1, 3, -9, 2, 0, 7, 1), "covers no row"),
        ((1, 3, 8, 2, 3, 7, 1), "covers no row"),
        ((1, 3, 2, 7, 6, 7, 1), "covers no column"),
        ((1, 3, 2, 17, 6, 3, 1), "covers no column"),
        ((1, 3, 2, 2, 6, 23, 1), "wider than the grid, 20 columns"),
        ((1, 3, 2, np.nan, 6, 7, 1), "not a grid position"),
        ((1, 3, 2, 2, 1e300, 7, 1), "not a grid position"),
    ],
)
def test_a_bad_box_is_refused_with_its_image_and_slot(path, row, fault):
    write(path, table((0, 0, 2, 2, 6, 7, 1), row, dtype=np.float64))
    with pytest.raises(DataError, match=fault) as caught:
        read_boxes(path)
    assert "climo_2005.h5: boxes[1, 3] = (" in str(caught.value)
    assert "mark it unused" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_without_any_box_is_refused(path):
    write(path, table())
    with pytest.raises(DataError, match=r"climo_2005\.h5: has no box"):
        read_boxes(path)


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e300])
def test_a_window_that_is_not_finite_is_refused_with_its_image_channel_and_box(path, value):
    images = np.zeros((3, 16, HEIGHT, WIDTH))
    images[1, 6, 5, 6] = value
    images[0, 0, 0, 0] = np.nan
    write(path, table((0, 0, 2, 2, 6, 7, 1), PLAIN), images)
    boxes = read_boxes(path)
    with pytest.raises(DataError, match=r"images\[1, 6\] \(TMQ\) holds NaN or infinity inside boxes\[1, 3\]"):
        read_windows(path, boxes, (2, 6))
    assert np.isfinite(read_windows(path, boxes, (2, 5))).all()


def test_a_missing_file_is_refused(path):
    with pytest.raises(StoreError, match=r"climo_2005\.h5: no such file"):
        read_boxes(path)


@pytest.mark.parametrize("content", [b"", b"not an HDF5 file, but a letter", b"\x89HDF\r\n\x1a\n" + bytes(90)])
def test_another_kind_of_file_is_refused(path, content):
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"climo_2005\.h5: cannot be opened as HDF5") as caught:
        read_boxes(path)
    assert "\n" not in str(caught.value)


def test_a_file_cut_off_is_refused(path):
    write(path, table(PLAIN))
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match=r"climo_2005\.h5: cannot be opened as HDF5 .*cut off"):
        read_boxes(path)


def test_a_damaged_chunk_is_refused_with_its_image_and_box(path):
    with h5py.File(path, "w") as file:
        file["boxes"] = table(PLAIN)
        images = np.ones((3, 16, HEIGHT, WIDTH), np.float32)
        made = file.create_dataset("images", data=images, chunks=(1, 16, HEIGHT, WIDTH), compression="gzip")
        offset = made.id.get_chunk_info(1).byte_offset
    with path.open("r+b") as stream:
        stream.seek(offset)
        stream.write(b"\xff" * 40)
    with pytest.raises(DataError, match=r"climo_2005\.h5: images\[1\] cannot be read inside boxes\[1, 3\]") as caught:
        read_windows(path, read_boxes(path), (0,))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["boxes", "images"])
def test_a_missing_data_set_is_named(path, name):
    write(path, table(PLAIN))
    with h5py.File(path, "r+") as file:
        del file[name]
    with pytest.raises(DataError, match=rf"climo_2005\.h5: has no data set '{name}'"):
        read_boxes(path)


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("boxes", (3, 15)),
        ("boxes", (3, 15, 4)),
        ("boxes", (3, 14, 5)),
        ("boxes", ()),
        ("images", (3, 15, HEIGHT, WIDTH)),
        ("images", (3, HEIGHT, WIDTH)),
        ("images", (3, 16, HEIGHT, WIDTH, 1)),
    ],
)
def test_a_wrong_shape_is_named_with_the_expected_one(path, name, shape):
    write(path, table(PLAIN))
    with h5py.File(path, "r+") as file:
        del file[name]
        file[name] = np.zeros(shape, np.float32)
    with pytest.raises(DataError, match=rf"'{name}' has shape .*, expected \(n, 1[56], "):
        read_boxes(path)


def test_boxes_and_images_of_different_years_are_refused(path):
    write(path, table(PLAIN), np.zeros((4, 16, HEIGHT, WIDTH), np.float32))
    with pytest.raises(DataError, match="boxes has 3 images, images has 4"):
        read_boxes(path)


def link_outside(file, name, other):
    file[name] = h5py.ExternalLink(str(other), name)


def link_softly(file, name, other):
    file["elsewhere"] = h5py.ExternalLink(str(other), "/")
    file[name] = h5py.SoftLink(f"/elsewhere/{name}")


def store_outside(file, name, other):
    shape = (3, 15, 5) if name == "boxes" else (3, 16, HEIGHT, WIDTH)
    file.create_dataset(name, shape, np.float32, external=[(str(other), 0, h5py.h5f.UNLIMITED)])


def map_outside(file, name, other):
    shape = (3, 15, 5) if name == "boxes" else (3, 16, HEIGHT, WIDTH)
    layout = h5py.VirtualLayout(shape, np.float32)
    layout[:] = h5py.VirtualSource(str(other), name, shape)
    file.create_virtual_dataset(name, layout)


@pytest.mark.parametrize("name", ["boxes", "images"])
@pytest.mark.parametrize(
    ("trick", "fault"),
    [
        (link_outside, "is a link"),
        (link_softly, "is a link"),
        (store_outside, "is stored in other files"),
        (map_outside, "is stored in other files"),
    ],
)
def test_a_file_that_points_at_other_files_is_refused(tmp_path, path, name, trick, fault):
    other = tmp_path / "private.h5"
    write(other, table(PLAIN))
    write(path, table(PLAIN))
    with h5py.File(path, "r+") as file:
        del file[name]
        trick(file, name, other)
    with pytest.raises(DataError, match=rf"climo_2005\.h5: '{name}' {fault}"):
        read_boxes(path)


@pytest.mark.parametrize("dtype", [h5py.string_dtype(), h5py.vlen_dtype(np.int32), h5py.ref_dtype, "S5", "c16", "?"])
def test_anything_but_plain_numbers_is_refused(path, dtype):
    write(path, table(PLAIN))
    with h5py.File(path, "r+") as file:
        del file["boxes"]
        file.create_dataset("boxes", (3, 15, 5), dtype)
    with pytest.raises(DataError, match=r"'boxes' has dtype .*; store plain numbers"):
        read_boxes(path)


def test_a_group_in_place_of_an_array_is_refused(path):
    write(path, table(PLAIN))
    with h5py.File(path, "r+") as file:
        del file["images"]
        file.create_group("images")
    with pytest.raises(DataError, match="'images' is not a data set"):
        read_boxes(path)


def test_a_header_that_claims_a_monstrous_grid_is_refused_before_anything_is_read(path):
    with h5py.File(path, "w") as file:
        file["boxes"] = table((0, 0, 0, 0, 10**6, 10**6, 1), images=1)
        file.create_dataset("images", (1, 16, 10**6, 10**6), np.float32, chunks=(1, 1, 64, 64))
    with pytest.raises(DataError, match="no year is that large"):
        read_boxes(path)


def test_chunks_too_large_for_memory_are_refused(path, monkeypatch):
    monkeypatch.setattr(extreme_weather, "MAX_CHUNK_BYTES", 1000)
    with h5py.File(path, "w") as file:
        file["boxes"] = table(PLAIN)
        file.create_dataset("images", (3, 16, HEIGHT, WIDTH), np.float32, chunks=(3, 16, HEIGHT, WIDTH))
    with pytest.raises(DataError, match=r"images has chunks of 46,080 bytes"):
        read_boxes(path)


@pytest.mark.parametrize(
    ("value", "expected"), [(None, False), (False, False), (0, False), (True, True), (np.True_, True), ("yes", True)]
)
def test_a_file_says_whether_it_is_simulated(path, value, expected):
    write(path, table(PLAIN))
    if value is not None:
        with h5py.File(path, "r+") as file:
            file.attrs["simulated"] = value
    assert is_simulated(path) is expected


def test_without_h5py_the_message_says_what_to_install(path, monkeypatch):
    write(path, table(PLAIN))
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(ConfigError, match=r"pip install 'metasched\[weather\]'"):
        read_boxes(path)
