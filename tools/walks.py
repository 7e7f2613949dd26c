"""List the modules that a command visits, in the order of their first call: how long is the walk through the code?

python tools/walks.py train demo --updates 2 --out runs/walk
python tools/walks.py -c 'chooser = ms.Chooser("ucb", {"a": 100, "b": 50}, 4); chooser.tell(chooser.ask(), 0.5)'

Modules that are only imported do not count, nor do the small helpers that every room may use.
"""

import sys
from pathlib import Path
from types import FrameType
from typing import Any

import metasched
from metasched import cli
from metasched.cli.common import app
from metasched.plugins import register_all

SOURCE = Path(metasched.__file__).parent
HELPERS = ("errors", "files", "optional", "printing", "seeds", "untrusted", "plugins")


def walk(words: list[str]) -> list[str]:
    """Modules whose functions ``metasched WORDS``, or the Python code after ``-c``, calls; each once."""
    visited: dict[str, None] = {}
    register_all("commands")
    dict(app.members)  # imported now, so that what runs on import does not count

    def note(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(str(SOURCE)) and _is_work(code.co_name):
            visited[_module(code.co_filename)] = None

    sys.setprofile(note)
    try:
        if words[0] == "-c":
            exec(words[1], {"ms": metasched})
        else:
            cli.main(words)
    finally:
        sys.setprofile(None)
    return [name for name in visited if name not in HELPERS]


def _is_work(name: str) -> bool:
    # Module bodies, class bodies and what dataclasses generate run on import and say nothing about the walk.
    return not name.startswith("<") and name[:1].islower()


def _module(path: str) -> str:
    name = str(Path(path).relative_to(SOURCE).with_suffix("")).replace("/", ".")
    return name.removesuffix(".__init__")


if __name__ == "__main__":
    modules = walk(sys.argv[1:])
    print(f"\n{len(modules)} modules: " + " → ".join(modules), file=sys.stderr)
