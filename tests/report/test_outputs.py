"""The registry of figures and tables."""

import pytest

from metasched.report import outputs, page


@pytest.fixture(autouse=True)
def _gone_after_the_test(monkeypatch):
    outputs.outputs()
    monkeypatch.setattr(outputs, "_OUTPUTS", dict(outputs._OUTPUTS))


def test_to_add_one_is_one_function(everything):
    @outputs.makes("table9", "Table 9", "The paper's tables and figures")
    def table9(output, results):
        raise outputs.UnavailableError(f"{output.title} needs more than {len(results.cells)} cells")

    assert page.build(everything, ["table9"]).missing == (("table9", "Table 9 needs more than 21 cells"),)
    assert list(outputs.outputs())[-1] == "table9"


def test_one_stands_where_it_says_on_the_page():
    outputs.makes("second", "Second", outputs.FIRST, after="contrasts")(lambda output, results: [])
    outputs.makes("third", "Third", outputs.FIRST)(lambda output, results: [])
    names = list(outputs.outputs())
    assert names[:2] == ["contrasts", "second"]
    assert names.index("third") == names.index("planned") - 1


def test_the_page_keeps_its_order():
    names = list(outputs.outputs())
    assert names[:7] == ["contrasts", "sources", "methods", "sources-worth", "runs", "schedules", "planned"]
    assert names[7:14] == ["useful-draws", "summary", "leaderboard", "time", "cost", "few-label", "robust"]
