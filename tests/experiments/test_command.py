"""``metasched paper``: what it refuses before anything runs."""

import re
from pathlib import Path

import pytest

from metasched.cli import main
from metasched.experiments import command, evidence, paper
from metasched.experiments.catalogue import EXPERIMENTS, OURS, PAPER
from metasched.experiments.definition import REGIMES


def fails(capsys, *words):
    with pytest.raises(SystemExit) as stopped:
        main(["paper", *words])
    assert stopped.value.code == 2
    error = capsys.readouterr().err.strip()
    assert error.startswith("metasched: ")
    assert "\n" not in error
    return error


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_an_experiment_that_is_not_there_is_named_with_the_nearest(capsys, tmp_path):
    assert "unknown experiment 'digit'; did you mean 'digits'?" in fails(capsys, "--experiment", "digit,cifar")
    assert list(tmp_path.iterdir()) == []


def test_a_file_is_no_folder_for_results(capsys, tmp_path):
    (tmp_path / "notes").write_text("mine")
    assert "notes: is a file; give a folder for --out" in fails(capsys, "--out", "notes", "--experiment", "digits")
    assert (tmp_path / "notes").read_text() == "mine"


@pytest.mark.parametrize("count", ["0", "-3"])
def test_no_seeds_are_too_few(capsys, tmp_path, count):
    assert f"seeds is {count}; give a whole number ≥ 1" in fails(capsys, "--seeds", count, "--experiment", "digits")
    assert list(tmp_path.iterdir()) == []


def test_a_regime_that_is_not_there_is_a_wrong_flag(capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["paper", "--regime", "many-label"])
    assert stopped.value.code == 2


def test_every_regime_can_be_asked_for_and_is_explained(capsys):
    with pytest.raises(SystemExit):
        main(["paper", "--help"])
    shown = re.search(r"--regime \{([^}]*)\}", capsys.readouterr().out)[1]
    assert shown.split(",") == ["all", *REGIMES]
    page = (Path(__file__).parents[2] / "docs" / "experiments.md").read_text()
    assert [regime for regime in REGIMES if f"\n| `{regime}` |" not in page] == []


def test_a_page_that_somebody_else_wrote_is_refused_before_hours_of_runs(capsys):
    Path("p").mkdir()
    Path("p/page.html").write_text("mine")
    assert "p/page.html: already exists" in fails(capsys, "--quick", "--out", "p")
    assert [path.name for path in Path("p").iterdir()] == ["page.html"]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], list(PAPER)),
        (["--all"], list(EXPERIMENTS)),
        (["--only", "fig3"], ["digits"]),
        (["--only", "sources"], [name for name in OURS if name != "cifar-19"]),  # which has no quick cell
        (["--experiment", "scripts,digits"], ["scripts", "digits"]),
    ],
)
def test_the_papers_experiments_are_run_unless_others_are_asked_for(words, expected, monkeypatch):
    ran = []
    monkeypatch.setattr(paper, "run_experiment", lambda experiment, cells, request: ran.append(experiment.name))
    monkeypatch.setattr(evidence, "write_evidence", lambda *_, **__: None)
    monkeypatch.setattr(command, "report", lambda *_: None)
    main(["paper", "--quick", "--out", "p", "--quiet", *words])
    assert ran == expected
