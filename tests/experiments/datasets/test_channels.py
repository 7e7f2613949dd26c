import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metasched.errors import ConfigError
from metasched.experiments.datasets.channels import View, numbers, sliding, standardise, task_channels

KNOWN = ("a", "b", "c", "d")


def part(random, rows, channels, *, offset=0.0, scale=1.0, dtype=np.float64):
    values = random.normal(offset, scale, (rows, 3, len(channels)))
    return View(values.astype(dtype), channels)


def test_the_five_windows_cover_all_sixteen_channels_and_no_two_are_alike():
    windows = sliding(16)
    assert windows[0] == (0, 1, 2, 3, 4)
    assert windows[1] == (3, 4, 5, 6, 7)
    assert windows[4] == (12, 13, 14, 15, 0)
    assert set().union(*windows) == set(range(16))
    assert len({frozenset(window) for window in windows}) == 5


def test_names_keep_their_order():
    assert numbers(["c", "a"], KNOWN) == (2, 0)


def test_a_misspelt_feature_is_named_with_the_nearest_known():
    with pytest.raises(ConfigError, match="unknown feature 'U580'; did you mean 'U850'"):
        numbers(["U580"], ["U850", "TMQ"])


@pytest.mark.parametrize("names", [[], ["a", "a"]])
def test_no_feature_or_the_same_twice_is_refused(names):
    with pytest.raises(ConfigError, match="at least one name, and each only once"):
        numbers(names, KNOWN)


def test_features_for_four_tasks_instead_of_five_are_refused():
    with pytest.raises(ConfigError, match="features has 4 entries; give 5"):
        task_channels([["a"]] * 4, KNOWN)
    assert task_channels([["a"], ["b"], ["c"], ["d"], ["d", "a"]], KNOWN)[4] == (3, 0)


def test_each_channel_is_standardised_on_the_training_rows_that_have_it():
    random = np.random.default_rng(0)
    training = [part(random, 7, (0, 1), offset=5, scale=2), part(random, 4, (1, 2), offset=-3)]
    validation, test = part(random, 5, (2, 0)), part(random, 6, (1,))
    first, second, valid, tested = standardise(training, validation, test, KNOWN)
    everything = np.concatenate([training[0].values[..., 1], training[1].values[..., 0]])
    mean, deviation = everything.mean(), everything.std()
    np.testing.assert_allclose(first[..., 1], (training[0].values[..., 1] - mean) / deviation, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(second[..., 1], (training[1].values[..., 0] - mean) / deviation, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(tested[..., 1], (test.values[..., 0] - mean) / deviation, rtol=1e-5, atol=1e-6)
    alone = training[0].values[..., 0]
    np.testing.assert_allclose(valid[..., 0], (validation.values[..., 1] - alone.mean()) / alone.std(), rtol=1e-5)
    assert first.shape == (7, 3, 4)
    assert first.dtype == np.float32


def test_an_absent_channel_is_zero():
    random = np.random.default_rng(1)
    training = [part(random, 7, (0, 1), offset=5)]
    first, valid, tested = standardise(training, part(random, 5, (0,)), part(random, 6, (1,)), KNOWN)
    assert not first[..., 2:].any()
    assert not valid[..., 1:].any()
    assert not tested[..., [0, 2, 3]].any()


def test_a_channel_of_no_task_is_standardised_on_validation():
    random = np.random.default_rng(2)
    training = [part(random, 7, (0,))]
    _, valid, _ = standardise(training, part(random, 50, (3,), offset=9, scale=4), part(random, 6, (3,)), KNOWN)
    assert abs(valid[..., 3].mean()) < 1e-6
    assert abs(valid[..., 3].std() - 1) < 1e-6


def test_a_channel_that_only_test_rows_have_is_refused():
    random = np.random.default_rng(3)
    with pytest.raises(ConfigError, match="feature 'd' is only in the test rows"):
        standardise([part(random, 7, (0,))], part(random, 5, (0,)), part(random, 6, (3,)), KNOWN)


def test_test_rows_do_not_change_the_scale():
    random = np.random.default_rng(4)
    training, validation = [part(random, 7, (0,))], part(random, 5, (0,))
    calm = standardise(training, validation, part(random, 6, (0,)), KNOWN)
    wild = standardise(training, validation, part(random, 6, (0,), offset=1e6), KNOWN)
    np.testing.assert_array_equal(calm[0], wild[0])
    np.testing.assert_array_equal(calm[1], wild[1])


@pytest.mark.parametrize("value", [0.0, 101325.3, -1e-9])
def test_a_constant_channel_becomes_zero_and_not_nan(value):
    flat = View(np.full((5, 3, 1), value, np.float32), (0,))
    for inputs in standardise([flat], flat, flat, KNOWN):
        np.testing.assert_allclose(inputs, 0, atol=1e-6)


def test_a_small_spread_on_a_large_offset_survives_float32():
    random = np.random.default_rng(5)
    pressure = part(random, 400, (0,), offset=101_000, scale=30, dtype=np.float32)
    inputs = standardise([pressure], pressure, pressure, KNOWN)[0][..., 0]
    assert abs(inputs.mean(dtype=np.float64)) < 1e-5
    assert abs(inputs.std(dtype=np.float64) - 1) < 1e-5


@settings(max_examples=30, deadline=None)
@given(st.floats(1e-9, 1e6), st.floats(-1e6, 1e6), st.integers(0, 100))
def test_units_do_not_matter(scale, offset, seed):
    random = np.random.default_rng(seed)
    plain = part(random, 20, (0, 2))
    offset *= scale  # an offset a million times the spread is what float64 still resolves
    other = View(plain.values * scale + offset, plain.channels)
    expected, found = (standardise([one], one, one, KNOWN)[0] for one in (plain, other))
    np.testing.assert_allclose(found, expected, atol=1e-4)
