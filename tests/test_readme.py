"""What the README shows must run."""

import re
import subprocess
import sys
import tomllib
from importlib import import_module
from inspect import signature
from pathlib import Path

import pytest

import metasched as ms
from metasched.runs import trackers

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


def test_the_page_on_data_lists_every_option_of_a_data_set():
    lines = (ROOT / "docs" / "data.md").read_text().splitlines()
    for name in ms.datasets.names():
        _, row = (line for line in lines if line.startswith(f"| `{name}` |"))
        load = import_module(f"metasched.datasets.{name.replace('-', '_')}").load
        assert [key for key in signature(load).parameters if f"`{key}" not in row] == [], name


def test_the_guide_to_the_schedulers_lists_every_one_with_its_options():
    lines = (ROOT / "docs" / "schedulers.md").read_text().splitlines()
    for name in ms.schedulers.names():
        (row,) = (line for line in lines if line.startswith(f"| `{name}` "))
        options = signature(getattr(ms.schedulers, name)).parameters
        assert [key for key in options if key not in ("num_tasks", "plan") and f"`{key}` (" not in row] == []


def test_the_loops_of_that_guide_run(capsys):
    own, ask_tell, pytorch = blocks("docs/schedulers.md", "python")
    exec(own, {})
    assert capsys.readouterr().out.strip() == own.strip().splitlines()[-1].split("# ")[-1]
    exec(ask_tell, {})
    assert len(capsys.readouterr().out) > 100
    pytest.importorskip("torch")
    exec(pytorch, {})


def test_the_loops_of_the_page_on_loops_run(capsys):
    ask_tell, pytorch = blocks("docs/loops.md", "python")
    exec(ask_tell, {})
    assert "'share/books'" in capsys.readouterr().out
    pytest.importorskip("torch")
    exec(pytorch, {})


def test_the_example_of_the_page_on_streams_runs():
    (example,) = blocks("docs/streams.md", "python")
    names = {}
    exec(example, names)
    assert names["again"].chooser.shares() == names["stream"].chooser.shares()


def test_every_argument_of_a_chooser_is_on_a_page():
    pages = "".join((ROOT / "docs" / name).read_text() for name in ("loops.md", "schedulers.md"))
    told_elsewhere = {"self", "scheduler", "sources", "seed", "cursor", "options"}
    arguments = set(signature(ms.Chooser.__init__).parameters) - told_elsewhere
    assert [name for name in sorted(arguments) if f"{name}" not in pages] == []


def test_the_first_screen_has_the_two_commands():
    first_screen = (ROOT / "README.md").read_text().splitlines()[:25]
    assert any("make demo" in line for line in first_screen)
    assert any("make test" in line for line in first_screen)


def test_the_example_of_the_learner_page_runs(capsys):
    (example,) = blocks("docs/learner.md", "python")
    exec(example, {})
    assert capsys.readouterr().out.startswith("{0: 0.")


def test_every_setting_of_the_learner_is_on_its_page():
    page = (ROOT / "docs" / "learner.md").read_text() + (ROOT / "docs" / "schedulers.md").read_text()
    missing = [name for name in ms.TrainConfig.__dataclass_fields__ if f"`{name}" not in page]
    assert missing == []


def test_the_table_of_results_is_that_of_the_result_files():
    done = subprocess.run([sys.executable, ROOT / "tools" / "readme.py", "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_example_of_the_evidence_page_runs():
    (example,) = blocks("docs/evidence.md", "python")
    exec(example, {})


def test_the_model_of_the_training_page_scores_what_its_run_reported(tmp_path, monkeypatch, capsys):
    pytest.importorskip("mlxtend")
    monkeypatch.chdir(tmp_path)
    example, _ = blocks("docs/training.md", "python")
    exec(example, {})
    found, reported = capsys.readouterr().out.split()
    assert found == reported


def test_the_tracker_of_the_training_page_keeps_a_diary(tmp_path, monkeypatch):
    pytest.importorskip("mlxtend")
    monkeypatch.chdir(tmp_path)
    _, example = blocks("docs/training.md", "python")
    exec(example, {})
    lines = (tmp_path / "runs" / "diary" / "diary" / "diary.txt").read_text().splitlines()
    assert [line.split()[:2] for line in lines] == [["0", "1"], ["0", "2"]]


def test_every_tracker_has_an_extra_and_a_row_on_that_page():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    page = (ROOT / "docs" / "training.md").read_text()
    for name in trackers.names():
        assert name in extras
        assert f"| `{name}` |" in page


def test_every_key_of_a_record_is_on_that_page(tasks):
    run = ms.train(tasks, config=ms.TrainConfig(batch_size=4, meta_updates=1))
    page = (ROOT / "docs" / "training.md").read_text()
    assert [key for key in run.records[-1] if f"`{key}`" not in page] == []


def test_the_example_of_tables_prints_what_the_page_shows(tmp_path, monkeypatch, capsys):
    pytest.importorskip("pyarrow")
    monkeypatch.chdir(tmp_path)
    exec(blocks("docs/data.md", "python")[0], {})
    printed = [line for line in capsys.readouterr().out.splitlines() if "sha256" not in line]
    assert printed == blocks("docs/data.md", "text")[0].splitlines()


def test_every_option_of_a_table_is_on_that_page():
    page = (ROOT / "docs" / "data.md").read_text()
    assert [key for key in signature(ms.datasets.from_columns).parameters if f"`{key}`" not in page] == []


def test_the_example_of_regression_runs(capsys):
    exec(blocks("docs/data.md", "python")[1], {})
    assert "seen by schedulers as 5 bins" in capsys.readouterr().out
