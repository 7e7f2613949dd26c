import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metasched.datasets.pixels import centre, resize, resize_matrix


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
