import shlex
from dataclasses import fields

import numpy as np
import pytest

from metasched.cli.common import Rows, pairs
from metasched.errors import (
    FLAGS,
    ConfigError,
    DataError,
    MetaschedError,
    given,
    nearest,
    number,
    unknown,
    whole_number,
)


def test_a_misspelt_name_is_answered_with_the_nearest():
    assert "did you mean 'digits'?" in str(unknown("data set", "digit", ["cifar", "digits"]))


def test_a_hopeless_name_is_answered_with_the_list_alone():
    message = str(unknown("data set", "qqqq", ["cifar", "digits"]))
    assert "did you mean" not in message
    assert "known: cifar, digits" in message


def test_a_long_list_is_cut():
    assert str(unknown("file", "x", [f"file-{number:03}" for number in range(50)])).endswith("file-019, …")


def test_a_name_that_is_known_twice_is_listed_once():
    assert str(unknown("option", "x", ["seed", "label", "seed"])).endswith("known: label, seed")


def test_whose_a_name_was_to_be_comes_after_it():
    message = str(unknown("option", "forgett", ["forget"], of="scheduler 'thompson'"))
    assert message.startswith("unknown option 'forgett' of scheduler 'thompson'; did you mean 'forget'?")


def test_case_keeps_no_name_from_being_near():
    assert nearest("DIGITS", ["cifar", "digits"]) == "digits"
    assert nearest("Good", ["fair", "good"]) == "good"
    assert nearest("qqqq", ["cifar", "digits"]) is None


class TestGiven:
    def test_options_with_a_flag_of_their_own_are_those_of_the_command_line(self):
        assert set(FLAGS) == {own.name for own in fields(Rows)} - {"data", "no_regression"}

    @pytest.mark.parametrize(
        ("option", "value"),
        [
            ("drop", ["the rain", "a,b"]),
            ("categorical", ["rain", "sun"]),
            ("categorical", ["2020"]),
            ("categorical", ["the rain", "a,b"]),
            ("categorical", ["$(reboot)", 'a "b"']),
            ("separator", ";"),
            ("separator", "\t"),
            ("decimal", ","),
            ("size", (28, 28)),
            ("standardise", True),
            ("limit", 2000),
        ],
    )
    def test_a_shell_hands_over_what_python_means(self, option, value):
        flag, word = shlex.split(given(option, value).partition(f" ({option}=")[0])
        assert flag == "--data"
        read = pairs(flag, [word])[option]
        assert (read.split(",") if isinstance(value, list) and isinstance(read, str) else read) == value

    @pytest.mark.parametrize("value", [["rain", "sun"], ["2020"], ["the rain"], ["$(reboot)", 'a "b"']])
    def test_columns_have_commas_between_them(self, value):
        flag, words = shlex.split(given("keep", value).partition(" (keep=")[0])
        assert flag == "--keep"
        assert words.split(",") == value

    def test_a_flag_that_is_on_or_off_has_no_value(self):
        assert given("regression", True) == "--regression (regression=True)"
        assert given("regression", False) == "--no-regression (regression=False)"

    def test_the_flag_and_the_keyword_are_both_named(self):
        assert given("target_labels", 8) == "--target-labels 8 (target_labels=8)"
        assert given("label") == "--label … (label=…)"


def test_bad_values_are_value_errors_for_python_users():
    assert issubclass(ConfigError, ValueError)
    assert issubclass(DataError, ValueError)
    assert issubclass(DataError, MetaschedError)


class TestNumbers:
    @pytest.mark.parametrize("value", [True, 1.0, "1", None, 0, np.float64(2), np.bool_(True)])
    def test_a_whole_number_is_an_integer_within_its_bounds_and_no_truth_value(self, value):
        with pytest.raises(ConfigError, match=r"^seeds is .*; give a whole number ≥ 1$"):
            whole_number("seeds", value, 1)

    def test_integers_of_numpy_are_whole_numbers(self):
        assert type(whole_number("seeds", np.int64(3), 1)) is int
        with pytest.raises(ConfigError, match=r"^seeds is 0; give a whole number from 1 to 9$"):
            whole_number("seeds", np.int64(0), 1, 9)

    @pytest.mark.parametrize("value", [True, "1", None, float("nan"), float("inf"), 10**400, 0, 2])
    def test_a_number_is_finite_and_within_its_bounds(self, value):
        with pytest.raises(ConfigError, match=r"^rate is .*; give a number > 0 and ≤ 1$"):
            number("rate", value, above=0, most=1)

    def test_a_number_comes_back_as_a_float(self):
        assert [type(number("rate", value)) for value in (1, np.float32(0.5), np.int32(2))] == [float] * 3
