"""The program as an installed ``metasched`` starts it."""

import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[1] / "pyproject.toml"
MODULE, FUNCTION = tomllib.loads(PROJECT.read_text())["project"]["scripts"]["metasched"].split(":")
AT = """
import signal, sys

class Press:
    def find_spec(self, name, *_):
        if name == module:
            signal.raise_signal(signal.SIGINT)

handler, module = sys.argv.pop(1), sys.argv.pop(1)
signal.signal(signal.SIGINT, getattr(signal, handler))
sys.meta_path.insert(0, Press())
"""
"""Presses Ctrl-C when a module is first looked for; how it is handled before that is told, as if at a terminal."""


def started(handler, module):
    code = f"{AT}\nfrom {MODULE} import {FUNCTION}\nsys.exit({FUNCTION}())"
    command = [sys.executable, "-c", code, handler, module, "--version"]
    return subprocess.run(command, capture_output=True, text=True, timeout=600)


@pytest.mark.parametrize("module", ["metasched", "numpy", "jax.numpy", "metasched.cli.train"])
def test_ctrl_c_while_the_program_starts_ends_it_without_a_word(module):
    done = started("default_int_handler", module)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_ctrl_c_stays_ignored_where_it_was_ignored():
    done = started("SIG_IGN", "numpy")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"metasched {version('metasched')}\n", "")
