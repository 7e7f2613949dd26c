"""What a task set looks like in a notebook and as a data frame; its summary is tested with the task set."""

from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest

from helpers import make_tasks
from metasched.tasks import overview


def test_a_notebook_shows_every_part_with_its_labels():
    tasks = make_tasks()
    rows = [[*row] for row in ElementTree.fromstring(tasks._repr_html_()).iter("tr")][1:]
    assert [row[0].text for row in rows] == [name for name, _, _ in tasks.parts()]
    assert [len(list(row[2].iter("rect"))) for row in rows] == [len(tasks.classes)] * len(rows)


def test_names_of_files_are_not_markup():
    tasks = make_tasks()
    named = replace(tasks, name="<b>bold</b>", notes=("<script>",))
    assert "<b>" not in named._repr_html_()
    assert "<script>" not in named._repr_html_()
    assert "note: &lt;script&gt;" in named._repr_html_()


def test_simulated_rows_are_called_so():
    assert "SIMULATED" in replace(make_tasks(), simulated=True)._repr_html_()
    assert "SIMULATED" not in make_tasks()._repr_html_()


def test_records_count_the_labels_of_every_part():
    tasks = make_tasks()
    for record, (name, part, classes) in zip(overview.records(tasks), tasks.parts(), strict=True):
        assert record["part"] == name
        assert [record[label] for label in classes] == np.bincount(part.labels, minlength=len(classes)).tolist()


def test_a_frame_has_a_row_for_each_part():
    pytest.importorskip("pandas")
    tasks = make_tasks()
    assert tasks.to_frame()["rows"].tolist() == [len(part.labels) for _, part, _ in tasks.parts()]
