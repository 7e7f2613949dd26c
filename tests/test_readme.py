"""What the README shows must run."""

import re
from inspect import signature
from pathlib import Path

import pytest

import metasched as ms

ROOT = Path(__file__).parent.parent


def blocks(name, language):
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / name).read_text(), re.DOTALL)


def test_the_example_with_ones_own_data_runs_and_is_short(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (example,) = blocks("README.md", "python")
    assert len(example.strip().splitlines()) <= 12
    exec(example, {})
    assert "sensor-b" in capsys.readouterr().out
    assert (tmp_path / "runs" / "mine" / "run.json").exists()


def test_every_scheduler_and_data_set_is_mentioned():
    text = (ROOT / "README.md").read_text() + (ROOT / "docs" / "data.md").read_text()
    for name in (*ms.schedulers.names(), *ms.datasets.names()):
        assert f"`{name}`" in text


def test_the_guide_to_the_schedulers_lists_every_one_with_its_options():
    lines = (ROOT / "docs" / "schedulers.md").read_text().splitlines()
    for name in ms.schedulers.names():
        (row,) = (line for line in lines if line.startswith(f"| `{name}` "))
        options = signature(getattr(ms.schedulers, name)).parameters
        assert [key for key in options if key not in ("num_tasks", "plan") and f"`{key}` (" not in row] == []


def test_the_loops_of_that_guide_run(capsys):
    ask_tell, pytorch = blocks("docs/schedulers.md", "python")
    exec(ask_tell, {})
    assert len(capsys.readouterr().out) > 100
    pytest.importorskip("torch")
    exec(pytorch, {})


def test_the_first_screen_has_the_two_commands():
    first_screen = (ROOT / "README.md").read_text().splitlines()[:25]
    assert any("make demo" in line for line in first_screen)
    assert any("make test" in line for line in first_screen)


def test_the_example_of_the_evidence_page_runs():
    (example,) = blocks("docs/evidence.md", "python")
    exec(example, {})
