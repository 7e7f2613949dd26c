"""Which methods are compared, and on which of them the verdict is."""

from pathlib import Path

import pytest

import metasched as ms
from metasched.comparison.methods import CONTROLS, DEFAULT, methods_of, plain, runs_of, subject
from metasched.errors import ConfigError


def test_controls_are_always_there():
    assert [method.name for method in methods_of(None)] == list(DEFAULT)
    assert [method.name for method in methods_of(["cyclic"])] == ["cyclic", *CONTROLS]
    assert [method.name for method in methods_of(["target-only", "ucb"])] == ["target-only", "ucb", "uniform"]


@pytest.mark.parametrize(
    ("words", "ours"),
    [
        (None, "thompson"),
        (["ucb", "thompson"], "thompson"),
        (["cyclic", "ucb"], "cyclic"),
        (["uniform", "cyclic"], "cyclic"),
        (["thompson", ms.Method("wide", "ucb", role="ours")], "wide"),
        (["uniform"], "uniform"),
    ],
)
def test_the_verdict_is_on_one_method(words, ours):
    found = methods_of(words)
    assert subject(found).name == ours
    assert [method.name for method in found if method.role == "ours"] == [ours] * (ours != "uniform")


def test_a_method_without_a_reward_has_that_of_the_comparison():
    given = ["thompson", ms.Method("own", "ucb", reward="gain"), ms.Method("plain", "ucb")]
    assert {method.name: method.reward for method in methods_of(given, "alignment")} == {
        "thompson": "alignment",
        "own": "gain",
        "plain": "alignment",
        "uniform": "alignment",
        "target-only": "alignment",
    }


def test_methods_given_as_words_may_abstain():
    found = methods_of(["ucb", ms.Method("own", "ucb")], abstain=True)
    assert {method.name: method.abstain for method in found[:2]} == {"ucb": True, "own": False}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "give at least one"),
        ("ucb", "give a list of names"),
        (3, "give a list of names"),
        ([("w", "ucb")], "a method is .*; give the name of a scheduler, or ms.Method"),
        (["uniform", "uniform"], "two methods are called 'uniform'"),
        ([ms.Method("wide", "ucb"), ms.Method("Wide", "cyclic")], "two methods are called 'Wide'"),
        ([ms.Method("a b", "ucb"), ms.Method("a-b", "cyclic")], "two methods are called 'a-b'"),
        ([ms.Method("../wide", "ucb")], "a method is called '../wide'; use letters"),
        ([ms.Method("uniform", "ucb")], "'uniform' is the name of a control"),
        ([ms.Method("a", "ucb", role="ours"), ms.Method("b", "ucb", role="ours")], "a and b both have the role"),
        ([ms.Method("a", "best-single"), "best-single"], "best-single is asked for twice"),
        ([ms.Method("a", 3)], "the scheduler of 'a' is 3; give a name or a Scheduler"),
        (["oracle-best-single"], "chosen by its test score; use best-single"),
        (["unifrom"], "did you mean 'uniform'"),
    ],
)
def test_what_cannot_be_compared_is_refused(words, message):
    with pytest.raises(ConfigError, match=message):
        methods_of(words)


def test_a_method_has_a_folder_and_is_written_down_without_its_role():
    method = ms.Method("best single: north", "ucb", {"upper": 2.0}, reward="gain", role="ours", batching="mixed")
    assert runs_of(Path("out"), method) == Path("out/runs/best-single--north")
    assert plain(method) == {
        "scheduler": "ucb",
        "options": {"upper": 2.0},
        "reward": "gain",
        "abstain": False,
        "batching": "mixed",
    }
    assert plain(ms.Method("mine", ms.schedulers.make("cyclic", num_tasks=3)))["scheduler"] == "own"
