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


def started(handler, module, *words):
    code = f"{AT}\nfrom {MODULE} import {FUNCTION}\nsys.exit({FUNCTION}())"
    command = [sys.executable, "-c", code, handler, module, *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=600)


@pytest.mark.parametrize("module", ["metasched", "numpy", "jax.numpy", "metasched.cli.status"])
def test_ctrl_c_while_the_program_starts_ends_it_without_a_word(module):
    done = started("default_int_handler", module, "status", "nowhere")
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_ctrl_c_stays_ignored_where_it_was_ignored():
    done = started("SIG_IGN", "metasched.cli", "--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"metasched {version('metasched')}\n", "")


@pytest.mark.parametrize("words", [["--help"], [], ["--version"]], ids=str)
def test_what_the_program_says_of_itself_takes_no_numpy_and_no_jax(words):
    code = f"import sys; sys.argv[1:] = {words!r}\nfrom {MODULE} import {FUNCTION}\n"
    code += f"try: {FUNCTION}()\nexcept SystemExit: pass\n"
    code += "print([name for name in ('numpy', 'jax', 'metasched.experiments.command') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
    assert "metasched" in done.stdout
