"""What auto and diagnose rest on: the numbers of the result files, and what follows from others."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from metasched import schedulers
from metasched.errors import ConfigError
from metasched.learners import reference_results
from metasched.learners.settings import LEARNERS

ROOT = Path(__file__).parents[2]


def test_both_learners_have_numbers_and_every_name_is_a_scheduler():
    assert set(reference_results.GAINS) == set(LEARNERS)
    assert {name for found in reference_results.GAINS.values() for name in found} <= set(schedulers.names())
    assert {name for found in reference_results.ORDER.values() for name in found} <= set(schedulers.names())


@pytest.mark.slow
def test_what_results_do_not_say_is_refused(tmp_path):
    """The numbers are written by the tool that writes the README's tables; one changed by hand is found out."""
    tool = (ROOT / "tools" / "readme.py").read_text()
    changed = (ROOT / "src/metasched/learners/reference_results.json").read_text().replace("0.1", "0.2", 1)
    (tmp_path / "reference_results.json").write_text(changed)
    path = 'ROOT / "src" / "metasched" / "learners" / "reference_results.json"'
    assert path in tool
    script = tool.replace(path, f"Path({str(tmp_path / 'reference_results.json')!r})").replace(
        "Path(__file__).parent.parent", f"Path({str(ROOT)!r})"
    )
    (tmp_path / "readme.py").write_text(script)
    found = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "tools"), *sys.path])}
    done = subprocess.run(
        [sys.executable, tmp_path / "readme.py", "--check"], capture_output=True, text=True, env=found
    )
    assert done.returncode == 1
    assert done.stderr.strip() == "reference_results.json: not that of results/; run 'make results'"


@pytest.fixture
def gains(monkeypatch):
    made_up = {
        "thompson": {"a": 0.2, "activity": 0.01},
        "ucb": {"a": 0.1, "activity": 0.02},
        "gittins": {"activity": 0.5},
    }
    monkeypatch.setattr(reference_results, "GAINS", {"joint": made_up})
    return made_up


def test_best_is_the_largest_mean_of_those_run_on_every_set(gains):
    assert reference_results.best("joint") == "thompson"
    assert reference_results.why("joint") == (
        "with the joint learner thompson ended 0.105 above uniform, the mean over 2 task sets "
        "(+0.010 on activity, +0.200 on a)"
    )
    gains["ucb"]["a"] = 0.3
    assert reference_results.best("joint") == "ucb"


@pytest.mark.usefixtures("gains")
def test_a_scheduler_that_knows_the_order_is_taken_only_where_that_is_shown_to_pay(monkeypatch):
    order = {"gittins": {"thompson": (0.02, 0.001, 0.04)}, "mdp": {"thompson": (0.01, -0.01, 0.03)}}
    monkeypatch.setattr(reference_results, "ORDER", {"joint": order})
    assert reference_results.with_order("joint") == (
        "gittins",
        "knowing the order has paid (on activity, gittins minus thompson, which ignores labels: "
        "+0.020 [+0.001, +0.040])",
    )
    order["gittins"]["thompson"] = (0.02, -0.001, 0.04)
    name, told = reference_results.with_order("joint")
    assert name == "thompson"
    assert told.startswith("knowing the order is not shown to pay (on activity, gittins minus thompson,")
    assert told.endswith(reference_results.why("joint"))


def test_where_the_best_of_all_knows_the_order_it_is_taken(gains):
    gains["gittins"]["a"] = 0.9
    assert reference_results.with_order("joint") == ("gittins", reference_results.why("joint"))


def test_a_learner_nobody_measured_is_named():
    with pytest.raises(ConfigError, match="unknown learner 'jont'; did you mean 'joint'"):
        reference_results.best("jont")
