"""On the pages of the reference: roles of docstrings, such as ``:class:`Chooser```, as links; functions, not files.

``metasched.mix`` and ``metasched.schedulers.ucb`` are functions to whoever imports them, and files of that name to
whoever reads the folders, as griffe does.
"""

import ast
import re
from pathlib import Path
from typing import Any

from griffe import Alias, Extension, Module, Object

PACKAGE = Path(__file__).parent.parent / "src" / "metasched"
ROOMS = {
    "metasched": "",
    "metasched.datasets": "datasets",
    "metasched.dependence": "dependence.py",
    "metasched.networks": "learners/networks.py",
    "metasched.planning": "planning",
    "metasched.rewards": "learners/rewards.py",
    "metasched.schedulers": "schedulers",
    "metasched.torch": "torch",
    "metasched.transformers": "transformers",
}
"""Public modules, and where their ``__all__`` stands."""
ROLE = re.compile(r":(attr|class|func|meth|mod):`~?\.?([^`<]+?)(?: <([^`>]+)>)?`")


def public() -> dict[str, str]:
    """Every public name, with the module that it is public in: ``{"metasched.Chooser": "metasched", …}``."""
    found: dict[str, str] = {}
    for room, place in ROOMS.items():
        path = PACKAGE / place
        tree = ast.parse((path if path.suffix else path / "__init__.py").read_text())
        for node in tree.body:
            if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__":
                module = ".".join(["metasched", *Path(place.removesuffix(".py")).parts])
                found |= {f"{room}.{name}": module for name in ast.literal_eval(node.value)}
    return found


def linked(text: str, known: dict[str, str], place: str, kind: str) -> str:
    """The docstring of something in ``place``, of the class ``kind``, with links for roles whose name is public.

    The others become plain code.
    """
    near = sorted(known, key=lambda path: -len(known[path]) if place.startswith(known[path]) else 0)
    owner = next((path for path in near if path.rpartition(".")[2] == kind), "")

    def link(role: re.Match[str]) -> str:
        shown, target = role[2], role[3] or role[2]
        wanted = [target, f"metasched.{target}", *([f"{owner}.{target}"] if role[1] in ("attr", "meth") else [])]
        wanted += [path for path in near if path.rpartition(".")[2] == target]
        for path in wanted:
            if path in known or path.rpartition(".")[0] in known:
                return f"[`{shown.removeprefix('metasched.')}`][{path}]"
        return f"`{shown.rpartition('.')[2]}`"

    return ROLE.sub(link, text)


class Roles(Extension):
    """Rewrites every docstring as it is loaded, and puts public functions in the place of files of their name."""

    def __init__(self) -> None:
        self._known = public()

    def on_object(self, *, obj: Object, **_: Any) -> None:
        """Links in place of roles."""
        if obj.docstring is not None:
            kind = obj if obj.is_class else obj.parent
            name = kind.name if kind is not None and kind.is_class else ""
            obj.docstring.value = linked(obj.docstring.value, self._known, obj.module.path, name)

    def on_package(self, *, pkg: Module, **_: Any) -> None:
        """The function, where a file of the same name hides it."""
        for path in self._known:
            *room, name = path.split(".")[1:]
            parent = pkg[".".join(room)] if room else pkg
            hidden = parent.members.get(name)
            if isinstance(hidden, Module) and name in hidden.members:
                parent.members[name] = Alias(name, hidden[name], parent=parent)
