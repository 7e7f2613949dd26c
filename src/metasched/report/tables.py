"""Tables for a terminal."""

from collections.abc import Collection, Iterable, Sequence

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from metasched.tasks import TaskSet


def terminal(
    headings: Sequence[str], rows: Iterable[Sequence[str]], words: Collection[int] = (0,), title: str = ""
) -> Table:
    """A table; columns of ``words`` are aligned left, those of numbers right. Nothing in it is markup."""
    table = Table(
        title=title or None, title_justify="left", box=SIMPLE_HEAD, padding=0, show_edge=False, header_style="bold"
    )
    for place, heading in enumerate(headings):
        word = place in words
        table.add_column(
            Text(heading),
            justify="left" if word else "right",
            min_width=None if word else 5,
            overflow="fold",
            vertical="bottom",
        )
    for row in rows:
        table.add_row(*map(Text, row))
    return table


def drawn_by_label(counts: Sequence[Sequence[int]], tasks: TaskSet) -> Table:
    """Rows drawn by task and label (N, C), the shape of the paper's appendix table; labels are named when shared."""
    names = tasks.classes if tasks.shared_labels else [f"label {label}" for label in range(len(counts[0]))]
    rows = [[task.name, *map(str, row), str(sum(row))] for task, row in zip(tasks.tasks, counts, strict=True)]
    return terminal(["rows drawn", *names, "all"], rows)
