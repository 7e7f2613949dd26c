"""Packages that add data sets, report outputs or commands.

A plugin is a module with any of the functions ``data_sets``, ``outputs`` and ``commands``. Each of them registers what
the package has of that kind. They are called when such a name is first used, so ``import metasched`` stays fast. The
experiments of this project are a plugin, too: nothing else in the package imports them. Other packages can announce
theirs as an entry point in the group ``metasched.plugins``.
"""

from collections.abc import Iterator
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from types import ModuleType
from typing import Literal

from metasched.errors import ConfigError

BUILT_IN = "metasched.experiments.plugin"
GROUP = "metasched.plugins"
Kind = Literal["data_sets", "outputs", "commands"]


@cache
def register_all(kind: Kind) -> None:
    """Let every plugin register what it has of one kind. Later calls do nothing."""
    for module in _modules():
        register = getattr(module, kind, None)
        if register is not None:
            register()


def _modules() -> Iterator[ModuleType]:
    yield import_module(BUILT_IN)
    for entry in entry_points(group=GROUP):
        try:
            yield entry.load()
        except (ImportError, AttributeError) as error:
            raise ConfigError(f"plugin '{entry.name}' cannot be imported ({error}); fix or uninstall it") from None
