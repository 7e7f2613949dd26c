"""The progress line: one in a notebook, kept up to date; nothing anywhere else."""

import sys
from types import SimpleNamespace

import pytest

from metasched.notebook.progress import progress


@pytest.fixture
def notebook(monkeypatch):
    """Stands for IPython in a notebook, which tests are not run by; examples/notebooks run in a real one."""
    shown = []
    handle = SimpleNamespace(update=lambda content, raw: shown.append(content))

    def display(content, raw, display_id):
        shown.append(content)
        return handle

    shell = SimpleNamespace(kernel=object())
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    monkeypatch.setitem(sys.modules, "IPython.display", SimpleNamespace(display=display))
    return SimpleNamespace(shown=shown, shell=shell)


def plain(notebook):
    return [content["text/plain"] for content in notebook.shown]


def test_a_script_shows_nothing(monkeypatch):
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    with progress("compare", "fits") as step:
        assert step is None


def test_a_terminal_with_ipython_shows_nothing(notebook):
    del notebook.shell.kernel
    with progress("compare", "fits") as step:
        assert step is None
    assert notebook.shown == []


def test_one_line_is_kept_up_to_date(notebook):
    times = iter([0.0, 10.0, 10.0, 10.0, 40.0, 40.0, 40.0, 40.0])
    with progress("compare", "fits", clock=lambda: next(times)) as step:
        step(1, 4, "networks")
        step(4, 4, "models")
    assert plain(notebook) == [
        "compare: getting ready",
        "compare: 1 of 4 fits, about 0:00:30 left, networks",
        "compare: 4 of 4 fits, models",
        "compare: 4 of 4 fits, finished in 0:00:40",
    ]
    assert notebook.shown[1]["text/html"].startswith('<progress max="4" value="1">')


def test_steps_that_follow_each_other_quickly_are_not_all_shown(notebook):
    with progress("train", "updates", clock=lambda: 0.0) as step:
        for done in range(1, 100):
            step(done, 100)
    assert plain(notebook) == ["train: getting ready", "train: 99 of 100 updates, finished in 0:00:00"]


def test_an_error_is_not_swallowed_and_the_line_says_how_far_it_was(notebook):
    def broken():
        with progress("train", "updates") as step:
            step(3, 10)
            raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        broken()
    assert plain(notebook)[-1] == "train: 3 of 10 updates, stopped after 0:00:00"


def test_words_are_not_markup(notebook):
    times = iter(range(100))
    with progress("a", "b", clock=lambda: next(times)) as step:
        step(1, 2, "<i>x</i>")
    assert "&lt;i&gt;x" in notebook.shown[1]["text/html"]
