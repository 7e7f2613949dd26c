import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metasched.experiments.datasets.pixels import centre, fit_ink, resize, resize_matrix


@pytest.mark.parametrize(("old", "new"), [(8, 20), (16, 20), (8, 28), (45, 32), (300, 32), (32, 32)])
def test_resizing_is_what_pillow_does(old, new):
    pillow = pytest.importorskip("PIL.Image")
    image = np.random.default_rng(0).random((old, old + 3)).astype(np.float32)
    expected = np.asarray(pillow.fromarray(image).resize((new, new), pillow.Resampling.BILINEAR))
    np.testing.assert_allclose(resize(image[None], new, new)[0], expected, atol=2e-6)


@given(st.integers(1, 80), st.integers(1, 80))
def test_every_row_of_the_matrix_is_a_weighted_mean(old, new):
    matrix = resize_matrix(old, new)
    assert matrix.shape == (new, old)
    assert matrix.min() >= 0
    np.testing.assert_allclose(matrix.sum(axis=1), 1, atol=1e-6)


def test_the_same_size_changes_nothing():
    images = np.random.default_rng(0).random((3, 9, 7, 2)).astype(np.float32)
    np.testing.assert_array_equal(resize(images, 9, 7), images)


def test_channels_are_resized_alike():
    images = np.random.default_rng(0).random((2, 10, 12, 3)).astype(np.float32)
    together = resize(images, 5, 7)
    for channel in range(3):
        np.testing.assert_allclose(together[..., channel], resize(images[..., channel], 5, 7), atol=1e-6)


def test_centring_leaves_equal_margins():
    canvas = centre(np.ones((2, 20, 20), np.float32), 28, 28)
    assert canvas.sum() == 2 * 400
    assert canvas[:, 4:24, 4:24].sum() == 2 * 400


class TestInk:
    def test_a_small_figure_is_cropped_enlarged_and_centred(self):
        image = np.zeros((30, 40), np.uint8)
        image[3:13, 25:30] = 255
        (placed,) = fit_ink([image])
        assert placed.shape == (28, 28)
        np.testing.assert_array_equal(placed, np.pad(np.ones((20, 10), np.float32), ((4, 4), (9, 9))))

    def test_images_of_any_size_and_kind_come_out_alike(self):
        small, large = np.zeros((9, 7), np.float32), np.zeros((90, 70), np.uint8)
        small[2:6, 1:5], large[20:60, 10:50] = 1, 255
        np.testing.assert_allclose(*fit_ink([small, large]), atol=1e-6)

    @given(st.integers(1, 60), st.integers(1, 60), st.integers(0, 2**16))
    def test_ink_fills_twenty_pixels_one_way_and_no_more_the_other(self, height, width, seed):
        image = np.random.default_rng(seed).random((height, width)).astype(np.float32)
        image[0, 0] = image[-1, -1] = 1
        (placed,) = fit_ink([image])
        assert placed[4:24, 4:24].sum() == pytest.approx(placed.sum())
        assert 0 <= placed.min() <= placed.max() <= 1
        extent = [np.flatnonzero(placed.any(axis=axis)) for axis in (0, 1)]
        assert max(own[-1] - own[0] + 1 for own in extent) >= 18

    def test_faint_paper_is_no_ink(self):
        image = np.full((10, 10), 20, np.uint8)
        image[4:6, 4:6] = 255
        np.testing.assert_array_equal(fit_ink([image])[0], np.pad(np.ones((20, 20), np.float32), 4))
