"""What README and pages must mention, and the numbers in them."""

import subprocess
import sys
import tomllib
from dataclasses import fields
from importlib import import_module
from inspect import signature
from pathlib import Path

import pytest

import blocks
import metasched as ms
from metasched.runs import trackers

ROOT = Path(__file__).parent.parent


def test_the_first_screen_says_how_to_install_and_shows_what_it_does():
    lines = (ROOT / "README.md").read_text().splitlines()
    assert len(lines) <= 100
    assert any("pip install" in line for line in lines[:12])
    assert any("figures/sources-scripts.svg" in line for line in lines[:8])


def test_the_first_example_is_six_lines():
    example = blocks.blocks((ROOT / "README.md").read_text())[1]
    assert example.language == "python"
    assert len(example.text.strip().splitlines()) <= 6


def test_the_page_on_data_lists_every_option_of_a_data_set():
    lines = (ROOT / "docs" / "data.md").read_text().splitlines()
    for name in ms.datasets.names():
        (row,) = (line for line in lines if line.startswith(f"| `{name}` |"))
        load = import_module(f"metasched.experiments.datasets.{name.replace('-', '_')}").load
        assert [key for key in signature(load).parameters if f"`{key}" not in row] == [], name


def test_the_guide_to_the_schedulers_lists_every_one_with_its_options():
    lines = (ROOT / "docs" / "schedulers.md").read_text().splitlines()
    for name in ms.schedulers.names():
        (row,) = (line for line in lines if line.startswith(f"| `{name}` "))
        options = signature(getattr(ms.schedulers, name)).parameters
        assert [key for key in options if key not in ("num_tasks", "plan") and f"`{key}` (" not in row] == []


def test_every_argument_of_a_chooser_is_on_a_page():
    pages = "".join((ROOT / "docs" / name).read_text() for name in ("loops.md", "schedulers.md"))
    told_elsewhere = {"self", "scheduler", "sources", "seed", "cursor", "options"}
    arguments = set(signature(ms.Chooser.__init__).parameters) - told_elsewhere
    assert [name for name in sorted(arguments) if f"{name}" not in pages] == []


def test_every_setting_of_the_learner_is_on_its_page():
    page = (ROOT / "docs" / "training.md").read_text() + (ROOT / "docs" / "schedulers.md").read_text()
    names = {field.name for learner in (ms.Joint, ms.AlgorithmOne) for field in fields(learner)}
    missing = [name for name in sorted(names) if f"`{name}" not in page]
    assert missing == []


def test_no_number_of_the_results_stands_where_it_would_end_a_paragraph():
    lines = [(path.name, line) for path in blocks.pages() for line in path.read_text().splitlines()]
    assert [name for name, line in lines if line.lstrip().startswith("<!-- = ")] == []


@pytest.mark.slow
def test_the_table_of_results_is_that_of_the_result_files():
    done = subprocess.run([sys.executable, ROOT / "tools" / "readme.py", "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_every_tracker_has_an_extra_and_a_row_on_that_page():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    page = (ROOT / "docs" / "training.md").read_text()
    for name in trackers.names():
        assert name in extras
        assert f"| `{name}` |" in page


def test_every_key_of_a_record_is_on_that_page(tasks):
    run = ms.train(tasks, learner=ms.Joint(batch_size=4, updates=1))
    page = (ROOT / "docs" / "files.md").read_text()
    assert [key for key in run.records[-1] if f"`{key}`" not in page] == []


def test_every_option_of_a_table_is_on_that_page():
    page = (ROOT / "docs" / "data.md").read_text()
    assert [key for key in signature(ms.datasets.from_columns).parameters if f"`{key}`" not in page] == []
