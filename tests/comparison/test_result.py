"""What a comparison gives: sentences, tables, a model, source weights, a page."""

import json
import re
from html import escape
from xml.etree import ElementTree

import numpy as np
import pytest

import metasched as ms
from metasched.cli import main
from metasched.comparison.result import PAGE, text
from metasched.errors import ConfigError
from metasched.report import tables
from metasched.report.remarks import REMARKS, read
from metasched.report.statistics import Interval
from tiny_comparison import divided


def test_the_verdict_is_one_sentence_about_ours(finished):
    found = finished.found
    assert found.verdict == found.decision.sentence == found.remarks.verdict
    assert found.decision.case == found.summary()["case"]
    assert found.ours == "thompson"
    assert "\n" not in found.verdict


def test_what_was_found_is_what_was_stored(finished):
    assert read(finished.out / REMARKS) == finished.found.remarks


def test_the_table_has_every_method_best_first_and_ends_with_how_they_were_judged(finished):
    lines = finished.found.table().splitlines()
    named = [line.name for line in finished.found.remarks.table]
    assert {"thompson", "uniform", "target-only", "logistic regression, pooled", "the final model"} <= set(named)
    shown = [line for line in lines if line.startswith(tuple(named))]
    assert [line.startswith(name) for line, name in zip(shown, named, strict=True)] == [True] * len(named)
    scores = [float(re.search(r"\d\.\d{3}", line)[0]) for line in shown]
    assert scores == sorted(scores, reverse=True)
    assert lines[-1] == finished.found.remarks.judged


def test_differences_are_from_uniform_in_the_units_that_both_have(finished):
    lines = {line.name: line for line in finished.found.remarks.table}
    assert lines["uniform"].over is None
    for name in ("thompson", "logistic regression, pooled"):
        gap = lines[name].score.value - lines["uniform"].score.value
        assert lines[name].over.value == pytest.approx(gap)
        assert lines[name].over.low <= lines[name].over.value <= lines[name].over.high


def test_sources_are_a_sequence_that_prints_as_a_table(finished):
    sources = finished.found.sources()
    assert len(sources) == len(list(sources)) == 3
    shares = [line.share for line in sources]
    assert shares == sorted(shares, reverse=True)
    assert sum(shares) == pytest.approx(1)
    assert sources[0] == sources[sources[0].name]
    for line in sources:
        assert re.search(rf"^{line.name} .*{line.word}$", repr(sources), re.MULTILINE)
    with pytest.raises(ConfigError, match="unknown source 'nowhere'; known: task-0, task-1, task-2"):
        sources["nowhere"]


def test_source_weights_are_draws_over_rows_with_a_mean_of_one(finished):
    found = finished.found.source_weights()
    assert np.average(list(found.values()), weights=divided().sizes) == pytest.approx(1)


def test_frames_have_a_row_for_each_method_and_source(finished):
    pytest.importorskip("pandas")
    methods, sources = finished.found.to_frame(), finished.found.sources().to_frame()
    assert methods["method"].tolist() == [line.name for line in finished.found.remarks.table]
    assert methods["score"].tolist() == [line.score.value for line in finished.found.remarks.table]
    assert sources["word"].tolist() == [line.word for line in finished.found.sources()]
    assert set(sources) > {"transfer_low", "lost_high", "share", "why"}


def test_the_summary_is_plain_json_with_everything_that_is_said(finished):
    found = finished.found
    summary = json.loads(json.dumps(found.summary()))
    assert set(summary["methods"]) == {line.name for line in found.remarks.table}
    finals = np.mean([run.final.test_accuracy for run in found.outcomes if run.method == "uniform"])
    assert summary["methods"]["uniform"]["score"]["value"] == pytest.approx(finals)
    assert summary["sources"]["task-0"]["word"] == found.sources()["task-0"].word
    assert summary["source_weights"] == pytest.approx(found.source_weights())


def test_everything_is_said_when_it_is_printed(finished):
    found, said = finished.found, repr(finished.found)
    for part in (found.verdict, found.table(), repr(found.sources()), found.remarks.final, found.remarks.first):
        assert part in said
    assert not said.startswith("\n")


def test_a_notebook_shows_everything_that_is_said(finished):
    page = finished.found._repr_html_()
    cells = [cell.text for cell in ElementTree.fromstring(page).iter("td")]
    for line in finished.found.remarks.table:
        assert line.name in cells
    for line in finished.found.sources():
        assert {line.name, line.word} <= set(cells)
    assert escape(finished.found.verdict) in page
    assert page.count("<circle") >= len(finished.found.remarks.table) - 1


class TestModel:
    inputs = divided().test.inputs

    def test_the_folder_is_a_model(self, finished):
        chances = finished.found.model.predict_proba(self.inputs)
        assert np.array_equal(ms.load_model(finished.out).predict_proba(self.inputs), chances)
        assert np.array_equal(ms.load_model(finished.out / "model").predict_proba(self.inputs), chances)

    def test_a_method_is_the_mean_of_its_final_networks(self, finished):
        place = finished.out / "runs" / "thompson"
        members = sorted(place.glob("rate-*-seed-*"))
        assert len(members) == 9
        chances = np.mean([ms.load_model(each).predict_proba(self.inputs) for each in members], axis=0)
        assert ms.load_model(place).predict_proba(self.inputs) == pytest.approx(chances, abs=1e-6)


def test_the_page_has_what_is_said_and_so_has_one_made_from_the_folder_later(finished, tmp_path, capsys):
    for module in ("altair", "jinja2", "vl_convert"):
        pytest.importorskip(module)
    first = finished.found.report(tmp_path / PAGE)
    main(["report", str(finished.out), "--out", str(tmp_path / "later.html"), "--quiet"])
    capsys.readouterr()
    for page in (first, tmp_path / "later.html"):
        written = page.read_text()
        for line in finished.found.remarks.table:
            assert line.name in written
        assert "task-2" in written


def test_a_table_is_text_in_a_notebook_too(monkeypatch):
    """Rich would show the table at once there, and leave the text empty."""
    shell = type("ZMQInteractiveShell", (), {})()
    monkeypatch.setattr("builtins.get_ipython", lambda: shell, raising=False)
    assert "ucb" in text(["method", "accuracy"], [["ucb", "0.5"]])


def test_numbers_in_text_have_the_minus_sign_of_sentences():
    gap = tables.signed(Interval(-0.039, -0.066, 0.013))
    assert text(["method", "gap"], [["target-only", gap]]).splitlines()[-1] == "target-only −0.039 [−0.066, +0.013]"
