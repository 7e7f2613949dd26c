"""Every public name says what it takes, what it gives, and shows it in an example that runs."""

import ast
import doctest
import inspect
import re
import subprocess
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import metasched as ms

ROOT = Path(__file__).parent.parent
PAGES = ROOT / "docs" / "reference"
EXTRAS = {
    "metasched.torch": "torch",
    "metasched.torch.lightning": "lightning",
    "metasched.transformers": "transformers",
    "metasched.rl.trl": "trl",
}
NEEDS = {
    "metasched.Comparison": "altair",
    "metasched.Model.save_onnx": "jax2onnx",
    "metasched.TaskSet.from_frame": "pyarrow",
    "metasched.TaskSet.from_huggingface": "datasets",
    "metasched.TaskSet.from_torch": "torch",
    "metasched.datasets.from_columns": "pyarrow",
    "metasched.datasets.from_images": "PIL",
}
"""Examples with a package that need not be there."""


def installed(package):
    return find_spec(package) is not None


def rooms():
    """The public modules under their public names; of the adapters those whose package is there."""
    inside = {f"metasched.{name}": getattr(ms, name) for name in ms.__all__ if inspect.ismodule(getattr(ms, name))}
    adapters = {name: import_module(name) for name, package in EXTRAS.items() if installed(package)}
    return {"metasched": ms, **inside, **adapters}


def named():
    """Every public object once, under its shortest public name."""
    found = {}
    for room, module in rooms().items():
        for name in module.__all__:
            thing = getattr(module, name)
            if not inspect.ismodule(thing) and not any(thing is other for other in found.values()):
                found[f"{room}.{name}"] = thing
    return found


def documented():
    """Functions and classes, and the public methods of the latter."""
    found = {path: thing for path, thing in named().items() if inspect.isclass(thing) or inspect.isfunction(thing)}
    found = {path: thing for path, thing in found.items() if ours(thing)}
    for path, thing in list(found.items()):
        for name in dir(thing) if inspect.isclass(thing) else ():
            method = inspect.getattr_static(thing, name)
            function = getattr(method, "__func__", method)
            if not name.startswith("_") and inspect.isfunction(function) and ours(function):
                found[f"{path}.{name}"] = function
    return found


def ours(thing):
    return thing.__module__.startswith("metasched.")


DOCUMENTED = documented()
FUNCTIONS = {path: thing for path, thing in DOCUMENTED.items() if inspect.isfunction(thing)}
CLASSES = {path: thing for path, thing in DOCUMENTED.items() if inspect.isclass(thing)}
WITH_EXAMPLES = {path: thing for path, thing in DOCUMENTED.items() if ">>>" in (thing.__doc__ or "")}


def entries(thing, section):
    """The names that a section of a docstring lists."""
    body = re.search(rf"^{section}:\n((?:    .*\n|\n)+)", inspect.getdoc(thing) + "\n", re.MULTILINE)
    return re.findall(r"^    ([*\w]+): ", body[1], re.MULTILINE) if body else []


def parameters(function):
    marks = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    given = inspect.signature(function).parameters.values()
    return [marks.get(one.kind, "") + one.name for one in given if one.name not in ("self", "cls")]


@pytest.mark.parametrize("path", FUNCTIONS)
def test_a_function_says_what_it_takes_and_gives(path):
    function = FUNCTIONS[path]
    assert entries(function, "Args") == parameters(function)
    if inspect.signature(function).return_annotation not in (None, "None"):
        assert re.search(r"^(Returns|Yields):\n    \S", inspect.getdoc(function), re.MULTILINE)


@pytest.mark.parametrize("path", CLASSES)
def test_a_class_says_what_it_is_made_of(path):
    """The arguments of a class that is called, the fields of a value; those of settings have a docstring each."""
    thing = CLASSES[path]
    fields = getattr(thing, "__dataclass_fields__", getattr(thing, "_fields", None))
    if fields is not None:
        kinds = [kind for kind in thing.__mro__ if "__dataclass_fields__" in vars(kind)] or [thing]
        source = "".join(map(inspect.getsource, kinds))
        told = entries(thing, "Attributes") + re.findall(r'^    (\w+): .+\n    """', source, re.M)
        assert [name for name in fields if name not in told and not name.startswith("_")] == []
    elif "__init__" in vars(thing) and not getattr(thing, "_is_protocol", False):
        assert entries(thing, "Args") == parameters(thing.__init__)


@pytest.mark.parametrize("path", DOCUMENTED)
def test_an_example_shows_it(path):
    owner, _, name = path.rpartition(".")
    shown = inspect.getdoc(DOCUMENTED[path])
    if owner in CLASSES:
        siblings = [thing for other, thing in DOCUMENTED.items() if other.startswith(f"{owner}.")]
        shown += "".join(inspect.getdoc(thing) for thing in (CLASSES[owner], *siblings))
        called_by_trainer = owner.startswith(
            ("metasched.transformers.", "metasched.torch.lightning.", "metasched.rl.trl.")
        )
        assert called_by_trainer or re.search(rf">>> .*\.{name}\(|\.\.\. .*(\.|def ){name}\(", shown)
    else:
        assert ">>>" in shown


@pytest.fixture(scope="module")
def names():
    """What the page says that examples begin with."""
    (setup,) = re.findall(r"```python\n(.*?)```", (PAGES / "index.md").read_text(), re.DOTALL)
    found = {}
    exec(setup, found)
    return found


@pytest.mark.parametrize("path", WITH_EXAMPLES)
def test_its_example_runs(path, names, tmp_path, monkeypatch):
    if path in NEEDS:
        pytest.importorskip(NEEDS[path])
    monkeypatch.chdir(tmp_path)
    ms.datasets.names()  # the built-in sets are registered once; what an example registers goes with it
    monkeypatch.setattr(ms.datasets, "_SETS", dict(ms.datasets._SETS))
    monkeypatch.setattr(ms.datasets, "_FILES", list(ms.datasets._FILES))
    given = {**names, "random": np.random.default_rng(0)}
    example = doctest.DocTestParser().get_doctest(inspect.getdoc(WITH_EXAMPLES[path]), given, path, None, 0)
    told = []
    doctest.DocTestRunner().run(example, out=told.append)
    assert "".join(told) == ""


def listed(room):
    """``__all__`` of a room, whether or not what it needs is there."""
    path = ROOT / "src" / Path(*room.split("."))
    tree = ast.parse((path / "__init__.py" if path.is_dir() else path.with_suffix(".py")).read_text())
    (names,) = (node.value for node in tree.body if isinstance(node, ast.Assign) and node.targets[0].id == "__all__")
    return [f"{room}.{name}" for name in ast.literal_eval(names)]


def test_the_reference_has_every_public_name_once_and_nothing_else():
    """A page shows of a class what does not begin with an underscore, and no name that no page asks for."""
    shown = sorted(re.findall(r"^::: (\S+)$", "".join(page.read_text() for page in PAGES.glob("*.md")), re.MULTILINE))
    inside = [path for path in named() if not path.startswith(tuple(EXTRAS)) and path != "metasched.__version__"]
    assert shown == sorted([*inside, *(path for room in EXTRAS for path in listed(room))])


def test_the_page_on_the_command_line_is_what_the_commands_say():
    done = subprocess.run([sys.executable, ROOT / "tools" / "commands.py", "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
