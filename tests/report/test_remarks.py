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


def test_the_page_says_what_was_stored_and_computes_no_verdict(tmp_path):
    said = opening(made.compared(tmp_path))
    stored = made.told()
    assert said.lines == [
        stored.first,
        stored.verdict,
        f"{stored.final}.",
        f"Judged by {stored.judged}.",
        f"! {LINE}",
    ]
    assert (said.title, said.first, said.answers) == (stored.verdict, stored.first, ())


def test_of_several_comparisons_the_title_counts_and_each_line_says_whose_it_is(tmp_path):
    made.compared(tmp_path / "a", case="no use for sources")
    other = made.plain_cell({"uniform": [(0.1, 0.5)] * 8, "ucb": [(0.1, 0.6)] * 8}, samples=(100, 200))
    made.write(tmp_path / "b", other)
    said = opening(load([tmp_path]))
    assert said.title == "Choosing helps in 1 of 2 comparisons, hurts in none, target-only is better in 1"
    assert said.lines[1].startswith("coffee, joint learner: Boosting, pooled is best here (0.700)")
    assert said.sentences[0].tone == "bad"
    assert f"! coffee, joint learner: {LINE}" in said.lines


@pytest.mark.parametrize(("seeds", "changes"), [((0, 1, 2), {}), ((0, 1), {"methods": ("uniform",)})])
def test_remarks_on_other_runs_than_are_there_are_left_out_and_a_note_says_so(tmp_path, seeds, changes):
    results = made.compared(tmp_path, seeds, **changes)
    assert results.cells[0].remarks is None
    assert "does not belong to these runs; run the comparison again" in results.notes[-1]


def test_damaged_remarks_spoil_only_themselves(tmp_path):
    made.compared(tmp_path)
    content = json.loads((tmp_path / REMARKS).read_text())
    (tmp_path / REMARKS).write_text(json.dumps({**content, "lines": "none"}))
    results = load([tmp_path])
    assert results.cells[0].remarks is None
    (fault,) = results.faults
    assert f"{REMARKS}: is damaged (Expected `array`, got `str` - at `$.lines`)" in fault
    with pytest.raises(DataError, match="give the command of the comparison again"):
        remarks.read(tmp_path / REMARKS)


def test_those_of_an_earlier_version_are_left_out_with_a_note_and_the_runs_are_reported(tmp_path):
    made.write(tmp_path, made.plain_cell({"uniform": [(0.1, 0.5)] * 8, "ucb": [(0.1, 0.6)] * 8}, samples=(100, 200)))
    (tmp_path / REMARKS).write_text('{"format": 1, "cell": "digits"}')
    results = load([tmp_path])
    assert results.faults == ()
    assert "remarks.json: was written by an earlier metasched" in results.notes[-1]
    assert opening(results).title.startswith("Choosing helps here")
