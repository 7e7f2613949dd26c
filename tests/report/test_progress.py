import io

import pytest
from rich.console import Console

from metasched.report import progress


def terminal():
    return Console(file=io.StringIO(), force_terminal=True, width=100)


def test_training_shows_updates_accuracy_and_samples():
    console = terminal()
    with progress.training(console) as track:
        on_record = track("ucb", 2)
        on_record({"samples": 40, "test_accuracy": 0.25})
        on_record({"samples": 80, "final": {"test_accuracy": 0.5}})
    shown = console.file.getvalue()
    assert "ucb" in shown
    assert "2/2" in shown
    assert "0.500" in shown
    assert "80 samples" in shown


@pytest.mark.parametrize(("in_bytes", "expected"), [(False, "3/4"), (True, "3/4 bytes")])
def test_counting_shows_how_far_it_is(in_bytes, expected):
    console = terminal()
    with progress.counting(console, "images", in_bytes=in_bytes) as on_count:
        on_count(3, 4)
    assert expected in console.file.getvalue()


@pytest.mark.parametrize("quiet", [True, False])
def test_nothing_is_shown_when_quiet_or_not_a_terminal(quiet):
    console = Console(file=io.StringIO(), force_terminal=quiet)
    with progress.counting(console, "images", quiet) as on_count, progress.training(console, quiet) as track:
        on_count(1, 2)
        track("ucb", 1)({"samples": 1})
    assert console.file.getvalue() == ""
