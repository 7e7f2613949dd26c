"""Data sets: ``load(name, **options)`` gives a :class:`~metasched.TaskSet`.

``load`` also takes the path of a table (``.csv``, ``.tsv``, ``.parquet``), of a folder of tables or of images, or of an
``.npz`` file. A new data set is one file with a function
``load`` and one line in ``_SETS``.
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

from metasched.datasets.columns import from_columns, table_files
from metasched.datasets.folder import from_images
from metasched.datasets.npz import from_npz, save_npz
from metasched.datasets.store import DataFile
from metasched.datasets.tables import SUFFIXES
from metasched.errors import ConfigError, DataError, MetaschedError, meant, nearest, unknown
from metasched.tasks import TaskSet
from metasched.tasks.options import check

__all__ = ["files", "from_columns", "from_images", "from_npz", "load", "names", "save_npz"]

SetLike: TypeAlias = TaskSet | str | os.PathLike[str]
"""A task set, or the name or path of one."""

_SETS = {
    "activity": "WISDM: phone sensors of 24 users in recorded order, target another user",
    "cifar": "Meta-CIFAR-100: four superclasses of animals, or all 19, target large carnivores",
    "demo": "MNIST at six angles, one source with wrong labels, one photo; target another angle; needs no files",
    "digits": "Semeion and Optical Recognition windows, target MNIST",
    "gas": "Gas Sensor Array Drift: batches of ageing sensors, target the last",
    "many": "digits four times: as they are, with shuffled labels, wrong labels, odd inputs; target MNIST",
    "reviews": "FDU-MTL: reviews of 15 kinds as bags of words, target books or another",
    "rotated": "MNIST at twelve angles, target an angle between two of them",
    "scripts": "digits of eight scripts, and letters; target USPS",
    "weather": "ExtremeWeather boxes by slot, five of 16 variables each",
    "weather-points": "ClimateNet points by region, five of 16 variables each",
}

_KINDS = "a CSV, Parquet or .npz file, a folder of tables or of images"
MOST_BESIDE = 1000
"""Names beside a path that is not there which are compared with it."""
_VARIANT_OPTIONS = tuple(name for name in signature(TaskSet.variant).parameters if name != "self")


def names() -> tuple[str, ...]:
    """The data sets that :func:`load` knows.

    Returns:
        Their names.

    Examples:
        >>> "digits" in ms.datasets.names()
        True
    """
    return tuple(_SETS)


def describe(name: str) -> str:
    """One line on what a data set is."""
    return _SETS[name]


def load(name: str | os.PathLike[str], **options: Any) -> TaskSet:
    """Load a data set by name, or from the path of a table, a folder of tables or of images, or an ``.npz`` file.

    Args:
        name: one of :func:`names`, or a path.
        **options: those of the data set itself (of :func:`from_columns`, :func:`from_images`, :func:`from_npz` for a
            path) and, for every set, those of :meth:`TaskSet.variant <metasched.TaskSet.variant>`: ``target_labels``,
            ``noise``, ``shuffle_order``, ``seed``.

    Returns:
        The task set; its ``recipe`` says how to load it again.

    Raises:
        MetaschedError: for a name or option that is none, a file that is missing or damaged, rows that do not fit.

    Examples:
        >>> ms.datasets.save_npz(tasks, "winds.npz")
        >>> ms.datasets.load("winds.npz", target_labels=6)
        TaskSet('winds', tasks=['north', 'south'], sizes=[40, 60])
    """
    builder = _builder(os.fspath(name))
    own = {key: value for key, value in options.items() if key in signature(builder).parameters}
    rest = {
        key: value for key, value in options.items() if key in _VARIANT_OPTIONS and (key == "seed" or key not in own)
    }
    for key in options:
        if key not in own and key not in rest:
            raise unknown("option", key, [*signature(builder).parameters, *_VARIANT_OPTIONS], of=f"data set '{name}'")
    try:
        tasks = builder(**check(builder, own))
        if rest:
            tasks = tasks.variant(**rest)
    except TypeError as error:
        raise ConfigError(f"data set '{name}': an option has the wrong type ({error})") from error
    return replace(tasks, recipe=_recipe(os.fspath(name), options))


def as_tasks(given: SetLike) -> TaskSet:
    """A task set as it is, or loaded, without options, from the name or path that :func:`load` takes."""
    if isinstance(given, TaskSet):
        return given
    if not isinstance(given, str | os.PathLike):
        raise ConfigError(f"tasks is a {type(given).__name__}; give a TaskSet, or the name or path of a data set")
    name = os.fspath(given)
    _builder(name)
    try:
        return load(name)
    except MetaschedError as error:
        raise type(error)(f"{error}; options of the data set go to ms.datasets.load({name!r}, …)") from None


def _recipe(name: str, options: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """What a run folder stores to load the same set again; None for options that JSON cannot hold."""
    whole = {key: str(Path(value).resolve()) if key == "path" else value for key, value in options.items()}
    try:
        stored = json.loads(json.dumps(whole))
    except TypeError:
        return None
    return {"set": name if name in _SETS else str(Path(name).resolve()), "options": stored}


def _builder(name: str) -> Callable[..., TaskSet]:
    if name in _SETS:
        module = import_module(f"metasched.datasets.{name.replace('-', '_')}")
        return module.load  # type: ignore[no-any-return]
    path = Path(name)
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        raise _absent(path) from None
    except (OSError, ValueError) as error:  # ValueError: a name with a zero byte
        raise DataError(f"{path}: cannot be read ({getattr(error, 'strerror', None) or error})") from None
    if path.suffix == ".npz":
        return partial(from_npz, path)
    if path.suffix.lower() in SUFFIXES or (path.is_dir() and table_files(path)):
        return partial(from_columns, path)
    if path.is_dir():
        return partial(from_images, path)
    raise DataError(f"{path}: is no data set; give {_KINDS}, or one of {', '.join(_SETS)}")


def _absent(path: Path) -> MetaschedError:
    """The error for a path that is not there, with the nearest name beside it, or of a set where it may be one."""
    name = path.name
    beside = list(islice(_loadable(path.parent), MOST_BESIDE))
    if len(path.parts) > 1 or path.suffix:
        near = nearest(name, beside)
        hint = f"did you mean {path.with_name(near)}? " if near is not None else ""
        return DataError(f"{path}: no such file or folder; {hint}Give {_KINDS}")
    listed = ", ".join(_SETS)
    return ConfigError(f"no data set, file or folder '{name}'; {meant(name, [*_SETS, *beside])}Data sets: {listed}")


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
    """The files we can vouch for: each has its size, its SHA-256 and where it can be had.

    Returns:
        Files by collection.

    Examples:
        >>> [file.path for file in ms.datasets.files()["semeion"]]
        ['semeion/semeion.data']
    """
    from metasched.datasets import (
        activity,
        cifar100,
        climatenet,
        gas,
        glyphs,
        hoda,
        mnist,
        optdigits,
        reviews,
        semeion,
        usps,
    )

    return {
        "activity": (activity.FILE,),
        "cifar100": tuple(cifar100.FILES.values()),
        "cifar100-more": tuple(cifar100.SAMPLE_FILES.values()),
        "climatenet": tuple(climatenet.FILES.values()),
        "gas": gas.FILES,
        "mnist": tuple(mnist.FILES.values()),
        "optdigits": tuple(optdigits.FILES.values()),
        "reviews": reviews.FILES,
        "scripts": (usps.FILE, hoda.FILE, *(file for own in glyphs.FILES.values() for file in own)),
        "semeion": (semeion.FILE,),
    }
