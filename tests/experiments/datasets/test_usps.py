import numpy as np
import pytest
from scipy.io import savemat

from metasched.errors import DataError
from metasched.experiments.datasets import usps


def test_a_column_is_an_image_and_the_tenth_digit_is_zero(tmp_path):
    data = np.zeros((256, 1100, 10), np.uint8)
    data[16 * 3 + 5, 7, 9] = 200  # column 3, row 5 of image 7 of the last digit
    savemat(tmp_path / "u.mat", {"data": data}, do_compression=True)
    images, labels = usps.parse(tmp_path / "u.mat")
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
        usps.parse(tmp_path / "u.mat")


@pytest.mark.parametrize("keep", [0, 60, 150, 400])
def test_a_file_cut_short_is_named(tmp_path, keep):
    data = np.random.default_rng(0).integers(0, 256, (256, 1100, 10), np.uint8)
    savemat(tmp_path / "u.mat", {"data": data}, do_compression=True)
    (tmp_path / "u.mat").write_bytes((tmp_path / "u.mat").read_bytes()[:keep])
    with pytest.raises(DataError, match=r"u\.mat"):
        usps.parse(tmp_path / "u.mat")


def test_the_real_file_has_1100_of_each_digit(needs):
    needs(usps.FILE.path)
    images, labels = usps.read()
    assert images.shape == (11000, 16, 16)
    assert np.bincount(labels).tolist() == [1100] * 10
    ones, zeros = images[labels == 1].mean(axis=0), images[labels == 0].mean(axis=0)
    assert ones[6:10, 6:10].mean() > 3 * ones[6:10, :3].mean()  # a stroke in the middle
    assert zeros[6:10, 7:9].mean() < zeros[6:10, 3:5].mean()  # a hole in it
