"""Data sets: ``load(name, **options)`` gives a :class:`~metasched.TaskSet`.

``load`` also takes the path of a table (``.csv``, ``.tsv``, ``.parquet``), of a folder of tables or of images, or of an
``.npz`` file. :func:`register` adds a data set by name.
"""

import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from importlib import import_module
from inspect import signature
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias

from metasched.datasets.images import SUFFIXES as IMAGES
from metasched.datasets.images import from_images
from metasched.datasets.npz import from_npz, save_npz
from metasched.datasets.store import DataFile
from metasched.datasets.tables import SUFFIXES, UNREAD, from_columns, table_files
from metasched.errors import ConfigError, DataError, MetaschedError, meant, nearest, unknown
from metasched.plugins import register_all
from metasched.tasks import TaskSet
from metasched.tasks.checks import check_options

__all__ = [
    "files",
    "from_columns",
    "from_images",
    "from_npz",
    "load",
    "names",
    "register",
    "register_files",
    "save_npz",
]

SetLike: TypeAlias = TaskSet | str | os.PathLike[str]
"""A task set, or the name or path of one."""

BUILT_IN = "builtin:"
"""Put before the name of a registered set if a folder has the same name."""
_KINDS = "a CSV, Parquet or .npz file, a folder of tables or of images"
_PATHS = ("path", "unlabelled")
"""Options that are paths. A recipe stores them as absolute paths, because it is read in another folder."""
MOST_BESIDE = 1000
"""How many names in a folder are compared with a path that does not exist."""
_VARIANT_OPTIONS = tuple(name for name in signature(TaskSet.variant).parameters if name != "self")

_SETS: dict[str, tuple[str, str]] = {}
"""For each name: one line on what the data set is, and its loader as ``module:function``."""
_FILES: list[str] = []


def register(name: str, about: str, loader: str) -> None:
    """Register a data set, so that :func:`load` knows its name.

    A package does this in the function ``data_sets`` of a module that it announces as an entry point in the group
    ``metasched.plugins``. The set then exists in every process: for the command line, for workers and for ``resume``.

    Args:
        name: its name.
        about: one line on what it is.
        loader: the function that makes the task set, as ``"package.module:function"``. It is imported when the set is
            loaded, and its keyword arguments are the options of the set.

    Examples:
        >>> ms.datasets.register("winds", "winds at three stations", "winds.reader:load")
    """
    _, known = _SETS.setdefault(name, (about, loader))
    if known != loader:
        raise ConfigError(f"data set '{name}' is already {known}; register {loader} under another name")


def register_files(listing: str) -> None:
    """Add the files behind data sets to those that ``metasched data list``, ``fetch`` and ``verify`` know.

    Args:
        listing: the function that lists them, as ``"package.module:function"``: it returns a mapping from names of
            collections to tuples of ``metasched.datasets.store.DataFile``.

    Examples:
        >>> ms.datasets.register_files("winds.reader:files")
    """
    if listing not in _FILES:
        _FILES.append(listing)


def _imported(path: str) -> Any:
    module, _, name = path.partition(":")
    try:
        return getattr(import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(f"{path}, which a plugin registered, cannot be imported ({error}); fix the plugin") from None


def _sets() -> Mapping[str, tuple[str, str]]:
    """All data sets by name, in alphabetical order."""
    register_all("data_sets")
    return dict(sorted(_SETS.items()))


def names() -> tuple[str, ...]:
    """List the names of the data sets that :func:`load` knows.

    Returns:
        Their names.

    Examples:
        >>> "digits" in ms.datasets.names()
        True
    """
    return tuple(_sets())


def describe(name: str) -> str:
    """One line on what a data set is."""
    return _sets()[name][0]


def load(name: str | os.PathLike[str], **options: Any) -> TaskSet:
    """Load a data set by name, or from the path of a table, a folder of tables or of images, or an ``.npz`` file.

    A name that is also a folder of tables or images here is refused: write ``builtin:gas`` for the set, and ``./gas``
    for the folder.

    Args:
        name: one of :func:`names`, with or without ``builtin:`` before it, or a path.
        **options: those of the data set itself (of :func:`from_columns`, :func:`from_images`, :func:`from_npz` for a
            path) and, for every set, those of :meth:`TaskSet.variant <metasched.TaskSet.variant>`: ``target_labels``,
            ``noise``, ``shuffle_order``, ``seed``.

    Returns:
        The task set; its ``recipe`` says how to load it again.

    Examples:
        >>> ms.datasets.save_npz(tasks, "winds.npz")
        >>> ms.datasets.load("winds.npz", target_labels=6)
        TaskSet('winds', tasks=['north', 'south'], sizes=[40, 60])
    """
    builder = _builder(name)
    own = {key: value for key, value in options.items() if key in signature(builder).parameters}
    rest = {
        key: value for key, value in options.items() if key in _VARIANT_OPTIONS and (key == "seed" or key not in own)
    }
    for key in options:
        if key not in own and key not in rest:
            raise unknown("option", key, [*signature(builder).parameters, *_VARIANT_OPTIONS], of=f"data set '{name}'")
    try:
        tasks = builder(**check_options(builder, own))
        if rest:
            tasks = tasks.variant(**rest)
    except TypeError as error:
        raise ConfigError(f"data set '{name}': an option has the wrong type ({error})") from error
    if tasks.split == "drawn" and options.get("target_labels") is not None:
        tasks = replace(tasks, split="asked")
    return replace(tasks, recipe=_recipe(name, options))


def load_stored(name: str, options: Mapping[str, Any]) -> TaskSet:
    """Load what a recipe says. A name always means the registered set, whatever folders exist now."""
    return load(f"{BUILT_IN}{name}" if name in _sets() else name, **options)


def as_tasks(given: SetLike) -> TaskSet:
    """Return a task set as it is, or load one without options, from a name or path as in :func:`load`."""
    if isinstance(given, TaskSet):
        return given
    if not isinstance(given, str | os.PathLike):
        raise ConfigError(f"tasks is a {type(given).__name__}; give a TaskSet, or the name or path of a data set")
    _builder(given)
    try:
        return load(given)
    except MetaschedError as error:
        name = os.fspath(given)
        raise type(error)(f"{error}; to give options of the data set, use ms.datasets.load({name!r}, …)") from None


def _recipe(name: str | os.PathLike[str], options: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """What a run folder stores to load the same set again. None for options that JSON cannot store."""
    whole = {
        key: str(Path(value).resolve()) if key in _PATHS and value is not None else value
        for key, value in options.items()
    }
    try:
        stored = json.loads(json.dumps(whole))
    except TypeError:
        return None
    return {"set": _registered(name) or str(Path(name).resolve()), "options": stored}


def _registered(given: str | os.PathLike[str]) -> str | None:
    """The name of the registered set that is meant, or None for a path. A name that could be either is refused."""
    name = os.fspath(given)
    if name.startswith(BUILT_IN):
        own = name.removeprefix(BUILT_IN)
        if own not in _sets():
            raise unknown("data set", own, _sets())
        return own
    if name not in _sets():
        return None
    if not _holds_rows(Path(name)):
        return name
    if isinstance(given, os.PathLike):
        return None
    raise ConfigError(
        f"'{name}' is both a data set of metasched and a folder here; give './{name}' for the folder, or "
        f"'{BUILT_IN}{name}' for the set"
    )


def _holds_rows(folder: Path) -> bool:
    """Whether this is a folder of tables or of images."""
    try:
        if not folder.is_dir():
            return False
        images = islice(folder.glob("*/*/*"), MOST_BESIDE)
        return bool(table_files(folder)) or any(path.suffix.lower() in IMAGES for path in images)
    except OSError:
        return False


def _builder(given: str | os.PathLike[str]) -> Callable[..., TaskSet]:
    name = _registered(given)
    if name is not None:
        return _imported(_sets()[name][1])  # type: ignore[no-any-return]
    path = Path(given)
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        raise _absent(path) from None
    except (OSError, ValueError) as error:  # ValueError: the name contains a zero byte
        raise DataError(f"{path}: cannot be read ({getattr(error, 'strerror', None) or error})") from None
    if path.suffix == ".npz":
        return partial(from_npz, path)
    if path.suffix.lower() in SUFFIXES or (path.is_dir() and table_files(path, SUFFIXES + UNREAD)):
        return partial(from_columns, path)
    if path.is_dir():
        return partial(from_images, path)
    raise DataError(f"{path}: is not a data set; give {_KINDS}, or one of {', '.join(_sets())}")


def _absent(path: Path) -> MetaschedError:
    """The error for a path that does not exist. It suggests the nearest name."""
    name = path.name
    beside = list(islice(_loadable(path.parent), MOST_BESIDE))
    if len(path.parts) > 1 or path.suffix:
        near = nearest(name, beside)
        hint = f"did you mean {path.with_name(near)}? " if near is not None else ""
        return DataError(f"{path}: no such file or folder; {hint}Give {_KINDS}")
    listed = ", ".join(_sets())
    return ConfigError(f"no data set, file or folder '{name}'; {meant(name, [*_sets(), *beside])}Data sets: {listed}")


def _loadable(folder: Path) -> Iterator[str]:
    """The names in a folder that may be data sets."""
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_dir() or Path(entry.name).suffix.lower() in (*SUFFIXES, ".npz"):
                    yield entry.name
    except OSError:
        return


def files() -> Mapping[str, tuple[DataFile, ...]]:
    """The public files behind the registered data sets: each has its size, its SHA-256 and where it can be downloaded.

    Returns:
        The files of each collection.

    Examples:
        >>> [file.path for file in ms.datasets.files()["semeion"]]
        ['semeion/semeion.data']
    """
    register_all("data_sets")
    return {name: listed for path in _FILES for name, listed in _imported(path)().items()}
