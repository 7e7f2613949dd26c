"""Progress of many runs, on a terminal and elsewhere."""

import io

from rich.console import Console

from metasched.report.counting import several


def plain():
    return Console(file=io.StringIO(), width=40)


def test_quiet_is_nothing_to_call():
    console = plain()
    with several(console, quiet=True) as on_lane:
        assert on_lane is None
    assert console.file.getvalue() == ""


def test_without_a_terminal_there_is_a_line_a_minute_and_one_at_the_end():
    now, console = [1000.0], plain()
    with several(console, clock=lambda: now[0]) as on_lane:
        for seconds, done in ((0, 0), (30, 1), (29, 2), (1, 3), (59, 4), (1, 5), (1, 6)):
            now[0] += seconds
            on_lane("digits/few-label-30", done, 6)
    assert console.file.getvalue().splitlines() == [
        "digits/few-label-30: 3 of 6 runs",
        "digits/few-label-30: 5 of 6 runs",
        "digits/few-label-30: 6 of 6 runs",
    ]


def test_a_name_longer_than_the_window_stays_on_its_line():
    console = plain()
    with several(console, clock=lambda: 0.0) as on_lane:
        on_lane("a-comparison-with-a-very-long-name/robust-irrelevant", 2, 2)
    assert console.file.getvalue().count("\n") == 1


def test_on_a_terminal_every_name_has_a_bar():
    console = Console(file=io.StringIO(), force_terminal=True, width=100)
    with several(console) as on_lane:
        on_lane("digits/tuning", 3, 4)
        on_lane("digits/paper-B1", 1, 2)
        on_lane("digits/tuning", 4, 4)
    written = console.file.getvalue()
    assert "digits/tuning" in written
    assert "digits/paper-B1" in written
    assert "4/4" in written
    assert "1/2" in written
