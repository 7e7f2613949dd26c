"""The sentence, case by case, from finals paired by seed."""

import re

import numpy as np
import pytest

from metasched.report.statistics import Bounded
from metasched.report.verdict import MARGIN, decide


def finals(mean, spread=0.01, seeds=10, seed=0):
    noise = np.random.default_rng(seed).normal(size=seeds)
    return mean + spread * (noise - noise.mean())


def test_choosing_that_ends_above_uniform_helps_and_the_interval_is_told():
    found = decide(finals(0.77), finals(0.70, seed=1), finals(0.60, seed=2), fewer=Bounded(3.1, 2, 5, 3.1))
    assert found.case == "helps"
    assert found.sentence == (
        "Choosing helps here: +.07 [.06, .08] over uniform, 3.1 × fewer rows; +.17 [.16, .18] over target-only"
    )


@pytest.mark.parametrize(
    ("gain", "words"),
    [
        (Bounded(np.inf, 2, np.inf, 7.5), ", more than 7.5 × fewer rows"),
        (Bounded(0.0, 0, 1, 0.7), ""),
        (Bounded(np.nan, 0, np.inf, 1.0), ""),
        (None, ""),
    ],
)
def test_rows_that_were_not_saved_are_not_claimed(gain, words):
    sentence = decide(finals(0.77), finals(0.70, seed=1), fewer=gain).sentence
    assert sentence.partition(" over uniform")[2] == words


def test_choosing_that_ends_below_uniform_hurts():
    found = decide(finals(0.70), finals(0.75, seed=1), finals(0.60, seed=2))
    assert found.case == "hurts"
    assert found.sentence == (
        "Choosing hurts here: -.05 [-.06, -.04] against uniform; +.10 [.09, .11] over target-only; use uniform"
    )


def test_a_narrow_interval_around_nothing_is_called_no_difference():
    found = decide(finals(0.7, 0.005), finals(0.7, 0.005, seed=1), finals(0.6, seed=2))
    assert found.case == "as good"
    assert found.sentence == (
        "Choosing does not help here: uniform is as good (+.000 [-.003, .003]); +.10 [.09, .11] over target-only"
    )


def test_all_seeds_alike_are_a_difference_of_zero_not_an_error():
    same = np.full(10, 0.7)
    assert decide(same, same, same - 0.1).sentence == (
        "Choosing does not help here: uniform is as good (+.00 [.00, .00]); +.10 [.10, .10] over target-only"
    )


def test_the_same_gain_at_every_seed_helps():
    assert decide(np.full(8, 0.8), np.full(8, 0.7)).case == "helps"


def test_target_only_as_good_as_both_leaves_no_use_for_sources():
    found = decide(finals(0.7), finals(0.69, seed=1), finals(0.72, seed=2))
    assert found.case == "no use for sources"
    assert found.sentence.startswith("Sources do not help here: use target-only (ours is -.02 [")
    assert "against it); ours is +.01 [" in found.sentence
    assert found.sentence.endswith("] over uniform")


def test_sources_are_of_use_when_uniform_alone_beats_target_only():
    assert decide(finals(0.60), finals(0.75, seed=1), finals(0.65, seed=2)).case == "hurts"


@pytest.mark.parametrize("seeds", [1, 2, 5])
def test_seeds_that_cannot_show_anything_are_too_few_even_where_all_agree(seeds):
    found = decide(np.full(seeds, 0.9), np.full(seeds, 0.1), np.full(seeds, 0.1))
    assert found.sentence == (
        "Too few seeds to tell whether choosing is better than uniform or target-only: give at least 7"
    )


def test_a_difference_that_is_neither_shown_nor_small_needs_more_seeds_and_says_how_many():
    noise = finals(0.0, 0.08)
    found = decide(0.7 + 0.03 + noise, np.full(10, 0.7), np.full(10, 0.4))
    assert found.case == "too few seeds"
    known, needed, control = re.fullmatch(
        r"Too few seeds to tell whether choosing is better than uniform \((.*)\): about (\d+) might do; (.*)",
        found.sentence,
    ).groups()
    assert known.startswith("+.03 [")
    assert control.endswith("over target-only")
    needed = int(needed)
    assert 1.96 * noise.std(ddof=1) / np.sqrt(needed) <= 0.03 < 1.96 * noise.std(ddof=1) / np.sqrt(needed - 1)


def test_sources_whose_gain_is_uncertain_need_more_seeds_too():
    noise = finals(0.0, 0.1)
    found = decide(0.7 + noise, 0.69 + noise, np.full(10, 0.68))
    assert found.case == "too few seeds"
    assert found.sentence.startswith(
        "Choosing is better than uniform (+.01 [.01, .01]); too few seeds to tell whether "
    )
    assert re.search(r"whether it is better than target-only \(\+\.02 .*\): about \d+ might do$", found.sentence)


def test_where_uniform_is_the_better_of_both_it_is_uniform_that_is_held_against_target_only():
    noise = finals(0.0, 0.1)
    sentence = decide(0.66 + noise, 0.69 + noise, np.full(10, 0.68)).sentence
    assert sentence.startswith("Choosing is worse than uniform (-.03 ")
    assert "; too few seeds to tell whether uniform is better than target-only (+.01" in sentence


def test_what_is_open_against_both_is_said_of_both():
    first, second = finals(0.72, 0.1), finals(0.70, 0.1, seed=1)
    sentence = decide(first, second, np.full(10, 0.69), subject="KenyaFirst").sentence
    assert sentence.startswith("Too few seeds to tell whether kenyaFirst is better than uniform (+.02 ")
    assert "; too few seeds to tell whether it is better than target-only (+.03 " in sentence


def test_a_static_method_is_called_by_its_name():
    assert decide(finals(0.8), finals(0.7, seed=1), subject="Cyclic").sentence.startswith("Cyclic helps here")


def test_differences_below_a_hundredth_are_told_with_three_digits():
    sentence = decide(np.full(10, 0.704), np.full(10, 0.7)).sentence
    assert "+.004 [.004, .004]" in sentence
    assert MARGIN > 0.004
