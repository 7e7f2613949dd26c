"""``metasched report`` as a user types it."""

import json
from pathlib import Path

import pytest

import made_up_results as made
from metasched.cli import main

for module in ("altair", "jinja2", "vl_convert"):
    pytest.importorskip(module)

FEW = ["cyclic", "uniform", "target-only", "ucb"]


@pytest.fixture
def results(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made.write(tmp_path / "results", made.cell(names=FEW))
    return "results"


def fails(capsys, *words):
    with pytest.raises(SystemExit) as stopped:
        main(["report", *words])
    assert stopped.value.code == 2
    error = capsys.readouterr().err.strip()
    assert error.startswith("metasched: ")
    assert "\n" not in error
    return error


def test_writes_the_page_and_prints_the_verdict(results, capsys):
    main(["report", results, "--out", "page.html", "--only", "few-label,summary", "--quiet"])
    printed = capsys.readouterr()
    assert printed.out.startswith("Choosing helps here: +.02")
    assert "Exploratory: ucb is the best of the methods that choose" in printed.out
    assert "Page: page.html" in printed.out
    assert printed.err == ""
    assert Path("page.html").read_text().startswith("<!doctype html>")
    assert Path("page_files/few-label.svg").exists()


def test_json_is_for_programs(results, capsys):
    main(["report", results, "--only", "table1,summary", "--json", "--quiet"])
    told = json.loads(capsys.readouterr().out)
    assert told["tables"] == ["summary"]
    assert list(told["missing"]) == ["table1"]
    assert told["verdict"].startswith("Choosing helps here")
    assert told["sentences"][0].startswith("Test accuracy: ucb 0.5")


def test_a_damaged_file_is_named_and_the_rest_reported(results, capsys):
    Path("results/digits/half.jsonl").write_text('{"format": 3, "met\n')
    main(["report", results, "--only", "summary", "--quiet"])
    printed = capsys.readouterr()
    assert "note: results/digits/half.jsonl, line 1: is not an outcome of format 3" in printed.err
    assert "half.jsonl" in Path("page.html").read_text()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["absent"], "absent: no results to report; absent: no such file or folder"),
        (["results", "--only", "fig9"], "unknown figure or table 'fig9'"),
        (["results", "--out", "page.pdf"], "end --out in .html"),
        ([], "nothing to report; give"),
    ],
)
def test_mistakes_are_one_line(results, capsys, words, message):
    assert message in fails(capsys, *words)
    assert not Path("page.html").exists()


def test_a_page_that_somebody_else_wrote_is_left_alone(results, capsys):
    Path("page.html").write_text("<!doctype html><title>My own page</title>")
    assert "page.html: already exists and was not written by metasched" in fails(capsys, results, "--only", "summary")
    assert Path("page.html").read_text() == "<!doctype html><title>My own page</title>"
    assert not Path("page_files").exists()


def test_a_page_of_ours_is_written_again_and_so_is_one_of_version_0_1(results, capsys):
    main(["report", results, "--only", "summary", "--quiet"])
    first = Path("page.html").read_text()
    generator = '<meta name="generator" content="metasched">\n'
    for earlier in (first, first.replace(generator, "")):
        Path("page.html").write_text(earlier.replace("<h1>", "<h1>Earlier: "))
        main(["report", results, "--only", "summary", "--quiet"])
        assert Path("page.html").read_text() == first


def test_an_unwritable_place_is_named(results, capsys):
    Path("file").write_text("")
    assert "cannot write" in fails(capsys, "results", "--out", "file/page.html", "--only", "table1")
