import io
import re
import threading
import time
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from metasched.cli import progress


def terminal():
    return Console(file=io.StringIO(), force_terminal=True, width=100)


def pipe():
    return Console(file=io.StringIO(), force_terminal=False, width=20)


class Hands:
    """A clock that is moved by hand."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


def record(update, drawn, seed=0, **more):
    return {"seed": seed, "update": update, "drawn": drawn, "loss": 2.0, **more}


def last_frame(console):
    """What stands on the terminal at the end, without colours and movements of the cursor."""
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", console.file.getvalue())
    return [line for line in plain.splitlines() if line.strip()][-1]


class TestBars:
    def test_show_updates_samples_accuracy_and_rows_by_task(self):
        console = terminal()
        with progress.training(console) as track:
            on_record = track("ucb", 2)
            on_record(record(1, [40, 0], test_accuracy=0.25))
            on_record(record(2, [60, 20], final={"test_accuracy": 0.5}))
        shown = last_frame(console)
        for fact in ("ucb", "2/2", "accuracy 0.500", "80 rows drawn", "█▃"):
            assert fact in shown

    def test_tell_the_time_left_without_the_updates_that_were_only_replayed(self):
        console, clock = terminal(), Hands()
        with progress.training(console, clock=clock) as track:
            on_record = track("ucb", 12, kept=6)
            for update in range(1, 7):
                on_record(record(update, [update]))
            for update in range(7, 10):
                clock.now += 40
                on_record(record(update, [update]))
        assert "9/12" in last_frame(console)
        assert "02:00" in last_frame(console)  # three more of 40 s

    def test_sum_samples_over_seeds(self):
        console = terminal()
        with progress.training(console) as track:
            on_record = track("ucb", 2)
            on_record(record(1, [40, 0], seed=3))
            on_record(record(1, [0, 40], seed=4))
        assert "80 rows drawn" in last_frame(console)

    def test_show_the_loss_of_what_has_no_accuracy(self):
        console = terminal()
        with progress.training(console) as track:
            track("ucb", 1)(record(1, [40]))
        assert "loss 2" in last_frame(console)


class TestLines:
    def test_come_once_a_minute_and_at_the_end_with_the_same_facts(self):
        console, clock = pipe(), Hands()
        with progress.training(console, clock=clock) as track:
            on_record = track("ucb", 10)
            for update in range(1, 11):
                clock.now += 25
                on_record(record(update, [30 * update, 10 * update], test_accuracy=update / 10))
        assert console.file.getvalue().splitlines() == [
            "ucb: 3 of 10 updates, 120 rows drawn, accuracy 0.300, by source 90 30, 0:02:55 left",
            "ucb: 6 of 10 updates, 240 rows drawn, accuracy 0.600, by source 180 60, 0:01:40 left",
            "ucb: 9 of 10 updates, 360 rows drawn, accuracy 0.900, by source 270 90, 0:00:25 left",
            "ucb: 10 of 10 updates, 400 rows drawn, accuracy 1.000, by source 300 100, 0:04:10 in total",
        ]

    def test_do_not_take_replayed_updates_for_the_pace(self):
        console, clock = pipe(), Hands()
        with progress.training(console, clock=clock) as track:
            on_record = track("ucb", 100, kept=50)
            for update in range(1, 51):
                on_record(record(update, [update]))
            for update in (51, 52):
                clock.now += 30
                on_record(record(update, [update]))
            said = console.file.getvalue()
        assert said.splitlines()[0].endswith("0:24:00 left")  # 48 more of 30 s

    def test_end_with_how_far_an_interrupted_run_came(self):
        console = pipe()
        with suppress(KeyboardInterrupt), progress.training(console, clock=Hands()) as track:
            track("ucb", 9)(record(1, [5]))
            raise KeyboardInterrupt
        assert console.file.getvalue() == "ucb: 1 of 9 updates, 5 rows drawn, loss 2, by source 5\n"


class TestSeveral:
    def test_quiet_is_nothing_to_call(self):
        with progress.several(pipe(), quiet=True) as show:
            assert show is None

    def test_without_a_terminal_there_is_a_line_a_minute_and_one_at_the_end(self):
        console, clock = pipe(), Hands()
        with progress.several(console, clock=clock) as show:
            for seconds, done in ((0, 0), (30, 1), (29, 2), (1, 3), (59, 4), (1, 5), (1, 6)):
                clock.now += seconds
                show("digits/few-label-30", done, 6)
        assert console.file.getvalue().splitlines() == [
            "digits/few-label-30: 3 of 6 runs, 0:00:45 left",
            "digits/few-label-30: 5 of 6 runs, 0:00:23 left",
            "digits/few-label-30: 6 of 6 runs, 0:02:01 in total",
        ]

    def test_a_name_longer_than_the_window_stays_on_its_line(self):
        console = pipe()
        with progress.several(console) as show:
            show("a-comparison-with-a-very-long-name/robust-irrelevant", 2, 2)
        assert console.file.getvalue().count("\n") == 1

    def test_on_a_terminal_every_name_has_a_bar(self):
        console = terminal()
        with progress.several(console) as show:
            show("digits/tuning", 3, 4)
            show("digits/paper-B1", 1, 2)
            show("digits/tuning", 4, 4)
        written = console.file.getvalue()
        assert all(fact in written for fact in ("digits/tuning", "digits/paper-B1", "4/4", "1/2"))

    def test_a_name_is_no_markup(self):
        console = terminal()
        with progress.several(console) as show:
            show("[red]mine", 1, 2)
        assert "[red]mine" in console.file.getvalue()


class TestChart:
    @given(st.lists(st.integers(0, 10**9), max_size=24))
    def test_has_one_character_a_task_higher_for_more_rows(self, rows):
        shown = progress.chart(rows)
        assert len(shown) == len(rows)
        heights = [" ▁▂▃▄▅▆▇█".index(block) for block in shown]
        assert [height == 0 for height in heights] == [count == 0 for count in rows]
        assert all(
            a <= b for a, m in zip(heights, rows, strict=True) for b, n in zip(heights, rows, strict=True) if m <= n
        )
        assert not any(rows) or max(heights) == 8

    def test_is_cut_when_there_are_many_tasks(self):
        assert progress.chart([1] * 50) == "█" * 24 + "…"


@pytest.mark.parametrize(("in_bytes", "expected"), [(False, "3/4"), (True, "3/4 bytes")])
def test_counting_shows_how_far_it_is(in_bytes, expected):
    console = terminal()
    with progress.counting(console, "images", in_bytes=in_bytes) as on_count:
        on_count(3, 4)
    assert expected in console.file.getvalue()


@pytest.mark.parametrize("in_terminal", [True, False])
def test_nothing_at_all_is_shown_when_quiet(in_terminal):
    console = Console(file=io.StringIO(), force_terminal=in_terminal)
    with progress.counting(console, "images", quiet=True) as on_count, progress.training(console, quiet=True) as track:
        on_count(1, 2)
        track("ucb", 1)(record(1, [1]))
    assert console.file.getvalue() == ""


def test_counting_is_silent_where_there_is_no_terminal():
    console = pipe()
    with progress.counting(console, "images") as on_count:
        on_count(1, 2)
    assert console.file.getvalue() == ""


@pytest.mark.parametrize("console", [terminal(), pipe()], ids=["terminal", "pipe"])
def test_a_seed_that_diverged_has_no_rows_to_show(console):
    with progress.training(console) as track:
        show = track("ucb", 4)
        show(record(1, [10, 20]))
        show({"seed": 1, "update": 1, "diverged": "the loss is no longer finite"})
        show(record(2, [15, 25], final={"test_accuracy": 0.5}))
    assert "40 rows drawn" in console.file.getvalue()


class TestWaiting:
    def test_what_is_quick_shows_nothing(self, monkeypatch):
        monkeypatch.setattr(progress, "PATIENCE_SECONDS", 600.0)  # on a busy machine nothing is quick
        for console in (terminal(), pipe()):
            with progress.waiting(console, "diagnose") as on_step:
                on_step(0, 3, "order of a")
            assert console.file.getvalue() == ""

    def test_what_takes_long_says_where_it_is(self, monkeypatch):
        monkeypatch.setattr(progress, "PATIENCE_SECONDS", 0.01)
        for console, wanted in ((terminal(), "1/3"), (pipe(), "diagnose: 1 of 3 steps, now order of b\n")):
            with progress.waiting(console, "diagnose") as on_step:
                on_step(1, 3, "order of b")
                deadline = time.monotonic() + 600
                while wanted not in console.file.getvalue() and time.monotonic() < deadline:
                    time.sleep(0.01)
            assert wanted in console.file.getvalue()

    def test_what_takes_long_before_its_first_step_says_where_it_is_from_then_on(self, monkeypatch):
        class AtOnce(threading.Timer):
            """It is due before the work says where it is."""

            def start(self):
                super().start()
                self.join()

        monkeypatch.setattr(progress, "PATIENCE_SECONDS", 0.0)
        monkeypatch.setattr(progress, "Timer", AtOnce)
        console = pipe()
        with progress.waiting(console, "diagnose") as on_step:
            on_step(0, 3, "order of a")
            on_step(1, 3, "order of b")
        assert console.file.getvalue() == "diagnose: 0 of 3 steps, now order of a\n"

    def test_quiet_shows_nothing(self, monkeypatch):
        monkeypatch.setattr(progress, "PATIENCE_SECONDS", 0.0)
        console = pipe()
        with progress.waiting(console, "diagnose", quiet=True) as on_step:
            on_step(0, 3, "order of a")
            time.sleep(0.05)
        assert console.file.getvalue() == ""
