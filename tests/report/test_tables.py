import io

from rich.console import Console

from helpers import make_tasks
from metasched.report.tables import drawn_by_label, terminal


def test_rows_by_label_are_named_and_added_up():
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(drawn_by_label([[1, 2, 3], [0, 0, 5], [7, 0, 0]], make_tasks()))
    lines = console.export_text().splitlines()
    assert lines[0].split() == ["rows", "drawn", "c0", "c1", "c2", "all"]
    assert lines[2].split() == ["task-0", "1", "2", "3", "6"]


def test_names_are_taken_literally():
    console = Console(width=60, record=True, file=io.StringIO())
    console.print(terminal(["[b]name", "rows"], [["[red]ucb[/red]", "3"]], title="A title"))
    text = console.export_text()
    assert all(word in text for word in ("[b]name", "[red]ucb[/red]", "A title"))
