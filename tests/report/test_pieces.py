"""What makes which figure or table, and what is said of one that nothing makes."""

import pytest

from metasched.experiments import outputs
from metasched.report import page, pieces


def test_every_declared_output_has_a_function():
    assert set(pieces.MAKERS) == set(outputs.OUTPUTS)


def test_one_that_was_forgotten_is_one_clear_error(everything, monkeypatch):
    monkeypatch.setitem(outputs.OUTPUTS, "table9", outputs.TABLE1._replace(name="table9"))
    with pytest.raises(LookupError, match=r"table9 is declared in experiments/outputs\.py, but no function"):
        page.build(everything, ["table9"])


def test_to_add_one_is_one_line_and_one_function(everything, monkeypatch):
    new = outputs.TABLE1._replace(name="table9", title="Table 9")
    monkeypatch.setitem(outputs.OUTPUTS, new.name, new)
    monkeypatch.setitem(pieces.MAKERS, new.name, None)

    @pieces.makes(new)
    def table9(output, results):
        raise pieces.UnavailableError(f"{output.title} needs {len(results.behind(output))} cells more")

    assert page.build(everything, ["table9"]).missing == (("table9", "Table 9 needs 11 cells more"),)
