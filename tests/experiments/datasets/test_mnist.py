import gzip

import numpy as np
import pytest

from metasched.errors import DataError
from metasched.experiments.datasets import mnist

IMAGES = np.arange(2 * 3 * 4, dtype=np.uint8).reshape(2, 3, 4)


def idx(array, kind=8):
    header = bytes([0, 0, kind, array.ndim]) + np.array(array.shape, ">u4").tobytes()
    return header + array.tobytes()


def write(path, content):
    path.write_bytes(gzip.compress(content))
    return path


def test_reads_what_was_written(tmp_path):
    np.testing.assert_array_equal(mnist.read_idx(write(tmp_path / "a.gz", idx(IMAGES))), IMAGES)


@pytest.mark.parametrize("keep", [0.3, 0.6, 0.95])
def test_a_truncated_gzip_is_named(tmp_path, keep):
    path = write(tmp_path / "a.gz", idx(np.random.default_rng(0).integers(0, 255, (50, 28, 28)).astype(np.uint8)))
    path.write_bytes(path.read_bytes()[: int(keep * path.stat().st_size)])
    with pytest.raises(DataError, match=r"a\.gz: truncated or damaged gzip"):
        mnist.read_idx(path)


def test_a_flipped_byte_is_noticed(tmp_path):
    path = write(tmp_path / "a.gz", idx(np.random.default_rng(0).integers(0, 255, (50, 28, 28)).astype(np.uint8)))
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(bytes(content))
    with pytest.raises(DataError, match=r"a\.gz"):
        mnist.read_idx(path)


def test_a_file_that_is_no_gzip_is_named(tmp_path):
    path = tmp_path / "a.gz"
    path.write_bytes(idx(IMAGES))
    with pytest.raises(DataError, match=r"a\.gz: truncated or damaged gzip"):
        mnist.read_idx(path)


def test_another_type_of_number_is_refused(tmp_path):
    with pytest.raises(DataError, match="not an IDX file of bytes"):
        mnist.read_idx(write(tmp_path / "a.gz", idx(IMAGES, kind=13)))


@pytest.mark.parametrize("change", [-1, 1])
def test_a_body_that_does_not_fit_the_header_is_refused(tmp_path, change):
    content = idx(IMAGES)[:-1] if change < 0 else idx(IMAGES) + b"x"
    with pytest.raises(DataError, match="header declares 24 bytes"):
        mnist.read_idx(write(tmp_path / "a.gz", content))


def test_a_header_that_promises_gigabytes_is_refused_unread(tmp_path):
    content = bytes([0, 0, 8, 3]) + np.array([2**31, 1000, 1000], ">u4").tobytes()
    with pytest.raises(DataError, match="more than"):
        mnist.read_idx(write(tmp_path / "a.gz", content))


def test_the_real_files_hold_70000_digits(needs):
    needs(*(file.path for file in mnist.FILES.values()))
    images, labels = mnist.read("train")
    assert images.shape == (60000, 28, 28)
    # Class counts as published with the data.
    assert np.bincount(labels).tolist() == [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    images, labels = mnist.read("t10k")
    assert images.shape == (10000, 28, 28)
    assert labels[:10].tolist() == [7, 2, 1, 0, 4, 1, 4, 9, 5, 9]
