import io

from rich.console import Console

from helpers import make_tasks
from metasched.report.tables import (
    Reached,
    comparison,
    drawn_by_label,
    half_range,
    lower_median,
    reached,
    summarise,
    terminal,
)


def curve(*accuracies, seed=0):
    records = [
        {
            "seed": seed,
            "update": number,
            "samples": 10 * number,
            "test_accuracy": accuracy,
            "drawn": [number, 2],
            "abstained": 0,
        }
        for number, accuracy in enumerate(accuracies, 1)
    ]
    records[-1]["final"] = {
        "test_accuracy": accuracies[-1],
        "initial_test_accuracy": 0.1,
        "test_rows": 50,
        "drawn_by_label": [[1, 0], [0, 2]],
    }
    return records


class TestReached:
    def test_is_the_first_measurement_from_which_accuracy_stays(self):
        assert reached(curve(0.2, 0.7, 0.5, 0.6, 0.8), 0.6) == Reached(4, 40)

    def test_a_run_that_falls_back_never_reached_it(self):
        assert reached(curve(0.2, 0.7, 0.5), 0.6) is None

    def test_updates_without_a_measurement_say_nothing(self):
        records = curve(0.7, 0.7, 0.7)
        del records[1]["test_accuracy"]
        assert reached(records, 0.6) == Reached(1, 10)

    def test_no_measurement_is_never(self):
        assert reached([], 0.6) is None


def test_a_run_that_never_arrives_counts_as_the_largest():
    assert lower_median([100, None, 300]) == "300"
    assert lower_median([100, None, None]) == "never"
    assert lower_median([1200]) == "1,200"
    assert lower_median([0, None]) == "0"


def test_spread_is_half_the_range():
    assert half_range([0.5, 0.7]) == "0.600±0.100"
    assert half_range([0.5]) == "0.500"


def test_summaries_keep_every_seed():
    row = summarise([*curve(0.2, 0.7), *curve(0.1, 0.3, seed=1)], 0.6)
    assert row["seeds"] == [0, 1]
    assert row["test_accuracy"] == [0.7, 0.3]
    assert row["samples_to_threshold"] == [20, None]
    assert row["updates_to_threshold"] == [2, None]


def test_the_table_fits_a_terminal_of_80_columns():
    row = summarise([*curve(0.2, 0.7), *curve(0.1, 0.65, seed=1)], 0.6)
    tasks = ["digits-1", "digits-2", "digits-3", "shuffled", "photo"]
    row["drawn"] = [[2640] * 5] * 2
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(comparison({"learning_progress": row, "target-only": row}, tasks, 0.6))
    text = console.export_text()
    assert "0.675±0.025" in text
    assert "…" not in text
    assert all(name in text for name in tasks)


def test_rows_by_label_are_named_and_added_up():
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(drawn_by_label([[1, 2, 3], [0, 0, 5], [7, 0, 0]], make_tasks()))
    lines = console.export_text().splitlines()
    assert lines[0].split() == ["rows", "drawn", "c0", "c1", "c2", "all"]
    assert lines[2].split() == ["task-0", "1", "2", "3", "6"]


def test_a_seed_that_diverged_is_left_out_of_the_summary():
    diverged = {"seed": 1, "update": 2, "diverged": "the loss is no longer finite"}
    records = [*curve(0.5, 0.7), curve(0.4, 0.4, seed=1)[0], diverged]
    assert summarise(records, 0.6) == summarise(curve(0.5, 0.7), 0.6)


def test_names_are_taken_literally():
    console = Console(width=60, record=True, file=io.StringIO())
    console.print(terminal(["[b]name", "rows"], [["[red]ucb[/red]", "3"]], title="A title"))
    text = console.export_text()
    assert all(word in text for word in ("[b]name", "[red]ucb[/red]", "A title"))
