"""What a comparison found off, on the page that is made from its folder later."""

import json

import pytest

import made_up_results as made
from metasched.errors import DataError
from metasched.report import remarks
from metasched.report.remarks import REMARKS
from metasched.report.results import load
from metasched.report.verdict import opening

LINE = made.OFF


def test_lines_stand_under_the_verdict(tmp_path):
    assert f"! {LINE}" in map(str, opening(made.compared(tmp_path)).sentences)


def test_of_several_comparisons_each_line_says_whose_it_is(tmp_path):
    made.compared(tmp_path / "a")
    other = made.plain_cell({"uniform": [(0.1, 0.5)] * 2, "ucb": [(0.1, 0.6)] * 2}, samples=(100, 200))
    made.write(tmp_path / "b", other)
    lines = [str(line) for line in opening(load([tmp_path])).sentences]
    assert f"! coffee, joint learner: {LINE}" in lines


@pytest.mark.parametrize(("seeds", "changes"), [((0, 1, 2), {}), ((0, 1), {"methods": ("uniform",)})])
def test_remarks_on_other_runs_than_are_there_are_left_out_and_a_note_says_so(tmp_path, seeds, changes):
    results = made.compared(tmp_path, seeds, **changes)
    assert results.cells[0].remarks is None
    assert "is about other runs than those here; run the comparison again" in results.notes[-1]


def test_damaged_remarks_spoil_only_themselves(tmp_path):
    made.compared(tmp_path)
    content = json.loads((tmp_path / REMARKS).read_text())
    (tmp_path / REMARKS).write_text(json.dumps({**content, "score": "high"}))
    results = load([tmp_path])
    assert results.cells[0].remarks is None
    (fault,) = results.faults
    assert f"{REMARKS}: is damaged (Expected `float`, got `str` - at `$.score`)" in fault
    with pytest.raises(DataError, match="give the command of the comparison again"):
        remarks.read(tmp_path / REMARKS)
