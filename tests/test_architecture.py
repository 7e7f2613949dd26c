"""The rooms of the package, in the order data walks through them; a room imports only from rooms above it."""

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import house
import metasched

ROOMS = [
    "errors",
    "seeds",
    "printing",
    "optional",
    "notebook",
    "files",
    "untrusted",
    "plugins",
    "tasks",
    "datasets",
    "dependence",
    "planning",
    "schedulers",
    "chooser",
    "learners",
    "references",
    "runs",
    "report",
    "comparison",
    "torch",
    "transformers",
    "rl",
    "cli",
    "experiments",
]
SOURCE = Path(metasched.__file__).parent


def imported_rooms(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("metasched"):
            names = [node.module] if node.module != "metasched" else [f"metasched.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names if alias.name.startswith("metasched.")]
        else:
            continue
        yield from (name.split(".")[1] for name in names)


def rooms_and_imports():
    """Every module of a room, and each room that it imports, also inside functions."""
    for path in SOURCE.rglob("*.py"):
        module = path.relative_to(SOURCE)
        room = module.parts[0].removesuffix(".py")
        if room not in ("__init__", "__main__"):
            yield from ((module.as_posix(), room, other) for other in imported_rooms(path))


def test_no_room_imports_from_a_room_below_it():
    wrong = [
        f"{module} imports {other}"
        for module, room, other in rooms_and_imports()
        if ROOMS.index(other) > ROOMS.index(room)
    ]
    assert wrong == []


def test_nothing_imports_the_experiments():
    """They are a plugin like any other: the library works without them."""
    assert ROOMS[-1] == "experiments"
    assert {module for module, room, other in rooms_and_imports() if other == "experiments" != room} == set()


def test_every_room_is_in_the_list():
    found = {path.name.removesuffix(".py") for path in SOURCE.iterdir() if path.suffix == ".py" or path.is_dir()}
    assert found - {"__init__", "__main__", "__pycache__", "py.typed"} <= set(ROOMS)


def test_the_picture_of_the_house_is_that_of_the_code():
    assert house.PICTURE.read_text() == house.draw(), "run 'python tools/house.py'"


def test_a_room_stands_below_what_it_imports_and_arrows_that_follow_are_left_out():
    rooms = {"cellar": set(), "hall": {"cellar"}, "attic": {"hall", "cellar"}}
    assert house.storeys(rooms) == [["cellar"], ["hall"], ["attic"]]
    assert house.reduced(rooms) == {"cellar": set(), "hall": {"cellar"}, "attic": {"hall"}}


def loaded_after(code):
    """The packages that a fresh process has loaded after ``code``."""
    shown = f"import sys\n{code}\nprint(*sorted(name for name in sys.modules if '.' not in name))"
    return set(subprocess.run([sys.executable, "-c", shown], capture_output=True, text=True, check=True).stdout.split())


ONLY_SOME_NEED = {"torch", "ray", "altair", "matplotlib", "pandas", "sklearn", "mlxtend", "h5py", "PIL", "tyro", "trl"}
ONLY_SOME_NEED |= {"tensorboard", "mlflow", "wandb", "pyarrow", "polars", "datasets", "transformers"}


def test_all_public_names_bring_in_nothing_that_only_some_users_need():
    loaded = loaded_after("import metasched\nfor name in metasched.__all__: getattr(metasched, name)")
    assert {"jax", "metasched"} <= loaded
    assert ONLY_SOME_NEED.isdisjoint(loaded)


def test_a_chooser_of_prompts_is_imported_without_jax():
    assert "jax" not in loaded_after("import metasched")
    loaded = loaded_after("from metasched import PromptChooser")
    assert "numpy" in loaded
    assert (ONLY_SOME_NEED | {"jax", "scipy", "optax", "rich"}).isdisjoint(loaded)
    assert ONLY_SOME_NEED.isdisjoint(
        loaded_after("import metasched\nmetasched.PromptChooser(['easy', 'hard']).next(2)")
    )


def test_every_public_name_is_imported_from_where_type_checkers_see_it():
    tree = ast.parse((SOURCE / "__init__.py").read_text())
    (seen,) = (node.body for node in tree.body if isinstance(node, ast.If))
    imports = [node for node in seen if isinstance(node, ast.ImportFrom)]
    assert sorted([*(alias.name for node in imports for alias in node.names), "__version__"]) == metasched.__all__
    for node in imports:
        module = import_module(node.module)
        for alias in node.names:
            assert getattr(metasched, alias.name) is getattr(module, alias.name)
    assert set(metasched.__all__) <= set(dir(metasched))
