"""Shuffled orders: one-to-one, even, different from pass to pass, and computed from nothing but their place."""

from collections import Counter
from itertools import permutations

import numpy as np
import pytest

from metasched.chooser.permutation import shuffled_rows


def orders(size, passes, seed=0, name="a"):
    return shuffled_rows(0, size * passes, size, seed, name).reshape(passes, size)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 16, 17, 100, 1000, 65_537])
def test_every_pass_has_every_row_once(size):
    passes = orders(size, 3)
    assert (np.sort(passes) == np.arange(size)).all()
    assert size < 7 or len({tuple(one) for one in passes.tolist()}) == 3


@pytest.mark.parametrize("size", [2, 3, 4, 5])
def test_all_orders_of_a_few_rows_are_about_equally_likely(size):
    number = 200 * len(list(permutations(range(size))))
    seen = Counter(tuple(one) for one in orders(size, number).tolist())
    assert set(seen) == set(permutations(range(size)))
    expected = number / len(seen)
    chi_square = sum((count - expected) ** 2 / expected for count in seen.values())
    assert chi_square < len(seen) - 1 + 5 * np.sqrt(2 * len(seen))


def test_rows_and_places_are_independent():
    """Where the rows of a hundred go, over 4,000 passes: chi-square of 100 × 100 cells within five deviations."""
    passes = orders(100, 4000)
    counts = np.zeros((100, 100))
    for place in range(100):
        counts[place] = np.bincount(passes[:, place], minlength=100)
    chi_square = ((counts - 40) ** 2 / 40).sum()
    assert abs(chi_square - 99 * 99) < 5 * np.sqrt(2 * 99 * 99)
    neighbours = np.mean(np.diff(passes, axis=1) == 1)
    assert neighbours == pytest.approx(0.01, abs=0.001)


def test_a_batch_is_cut_out_of_the_whole_wherever_it_lies():
    whole = shuffled_rows(1000, 60, 7, 3, "web")
    for begin in range(0, 50, 3):
        np.testing.assert_array_equal(shuffled_rows(1000 + begin, 10, 7, 3, "web"), whole[begin : begin + 10])


def test_seed_and_name_decide_and_giant_sources_cost_nothing():
    giant = shuffled_rows(500, 1000, 10**12, 0, "a")
    assert len(set(giant.tolist())) == 1000
    assert 0 <= giant.min() < 10**10 < 99 * 10**10 < giant.max() < 10**12
    for seed, name in ((1, "a"), (0, "b")):
        assert (shuffled_rows(500, 1000, 10**12, seed, name) == giant).mean() < 0.01
