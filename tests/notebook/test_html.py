"""Tables and drawings for notebooks: whole HTML in which names are only names."""

from xml.etree import ElementTree

import pytest

from metasched.notebook import html

NASTY = "<script>alert('x')</script> & \"quoted\" \x1b[31m"


def elements(page, tag):
    return list(ElementTree.fromstring(page).iter(tag))


def test_names_are_escaped_everywhere():
    page = html.page(html.line(NASTY), html.table([NASTY, "n"], [(NASTY, NASTY)], strong=[NASTY]))
    assert "<script" not in page
    assert "\x1b" not in page
    assert [cell.text for cell in elements(page, "td")] == [NASTY.replace("\x1b", "\\x1b")] * 2


def test_columns_of_numbers_are_right_and_strong_rows_are_bold():
    page = html.page(html.table(["name", "value", "word"], [("1st", "–", "x"), ("b", "-2", "y")], strong=["b"]))
    styles = [cell.get("style") for cell in elements(page, "td")]
    assert ["text-align:left" in style for style in styles] == [True, False, True] * 2
    assert ["font-weight:600" in style for style in styles] == [False] * 3 + [True] * 3


def test_a_table_needs_no_headings():
    page = html.page(html.table(["", ""], [("a", "b")]))
    assert elements(page, "th") == []
    assert [cell.text for cell in elements(page, "td")] == ["a", "b"]


def test_bars_are_as_high_as_their_counts():
    heights = [float(bar.get("height")) for bar in elements(html.bars([10, 0, 5]), "rect")]
    assert heights == pytest.approx([14, 0, 7])
    assert elements(html.bars([0, 0]), "rect")[0].get("height") == "0.0"


def test_intervals_share_an_axis_with_a_mark_at_zero():
    wide, none, near = html.intervals([(0.2, 0.1, 0.4), None, (-0.1, -0.2, 0.0)])
    assert none == ""
    assert [dot.get("cx") for dot in elements(wide, "circle") + elements(near, "circle")] == ["78.7", "22.7"]
    marks = [elements(each, "path")[0].get("d") for each in (wide, near)]
    assert marks == ["M41.3 0V14"] * 2


def test_a_number_without_an_interval_is_a_dot():
    (dot,) = html.intervals([(0.5, float("nan"), float("nan"))])
    assert elements(dot, "path")[1].get("d") == "M116.0 7H116.0"


def test_curves_go_down_as_numbers_do_and_leave_out_what_is_not_finite():
    (line,) = elements(html.curves([[3.0, float("nan"), 1.0]]), "polyline")
    assert line.get("points") == "0.0,2.0 240.0,58.0"
    assert html.curves([[1.0]]) == html.curves([]) == ""


def test_nothing_has_a_colour_of_its_own():
    drawn = html.bars([1, 2]) + html.interval(1, 0, 2, 0, 3) + html.curves([[1, 2]])
    assert {part.split('"')[0] for part in drawn.split('fill="')[1:]} <= {"currentColor", "none"}
