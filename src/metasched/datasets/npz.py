"""Task sets in one ``.npz`` file: plain arrays, never pickles.

Keys: ``tasks/<name>/inputs`` and ``tasks/<name>/labels`` for each task, in the order of the file;
``validation/inputs``, ``validation/labels``, ``test/inputs``, ``test/labels``; and, for names, either one ``classes``
or ``tasks/<name>/classes`` for every task with ``target/classes``.
"""

import os
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metasched.datasets.store import sha256
from metasched.errors import DataError
from metasched.tasks import TEST, VALIDATION, TaskSet

LARGEST_BYTES = 8 * 1024**3


@contextmanager
def open_npz(path: Path, largest: int = LARGEST_BYTES) -> Iterator[Mapping[str, NDArray[Any]]]:
    """The arrays of a ``.npz`` file, read when they are asked for; damage and pickles become a :class:`DataError`."""
    try:
        with zipfile.ZipFile(path) as archive:
            declared = sum(member.file_size for member in archive.infolist())
        if declared > largest:
            raise DataError(f"{path}: unpacks to {declared:,} bytes, more than the limit of {largest:,}; refused")
        with np.load(path, allow_pickle=False) as content:
            yield content
    except FileNotFoundError:
        raise DataError(f"{path}: no such file") from None
    except KeyError as error:
        raise DataError(f"{path}: {error.args[0]}; it does not hold what it should") from None
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError) as error:
        raise DataError(f"{path}: truncated or damaged ({error}); make or fetch it again") from None
    except ValueError as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{path}: holds something other than plain arrays ({error})") from None


def from_npz(path: str | os.PathLike[str], *, allow_overlap: bool = False, limit: int = LARGEST_BYTES) -> TaskSet:
    """Read a task set from one ``.npz`` file (keys above); ``limit`` bounds the bytes it may unpack to."""
    path = Path(path)
    with open_npz(path, limit) as content:
        names = list(dict.fromkeys(key.split("/")[1] for key in content if key.startswith("tasks/")))
        if not names:
            raise DataError(f"{path}: has no tasks; expected keys like 'tasks/<name>/inputs'")
        tasks = {name: (content[f"tasks/{name}/inputs"], content[f"tasks/{name}/labels"]) for name in names}
        validation, test = ((content[f"{part}/inputs"], content[f"{part}/labels"]) for part in (VALIDATION, TEST))
        classes: Any = None
        if "classes" in content:
            classes = [str(name) for name in content["classes"]]
        elif "target/classes" in content:
            keys = {**{name: f"tasks/{name}/classes" for name in names}, "target": "target/classes"}
            classes = {name: [str(item) for item in content[key]] for name, key in keys.items()}
        result = TaskSet.from_arrays(
            tasks, validation=validation, test=test, classes=classes, name=path.stem, allow_overlap=allow_overlap
        )
    files = {path.name: sha256(path)}
    provenance = {
        key: replace(item, source=f"{path.name}:{key}", files=files) for key, item in result.provenance.items()
    }
    return replace(result, provenance=provenance)


def save_npz(tasks: TaskSet, path: str | os.PathLike[str]) -> None:
    """Write a task set so that :func:`from_npz` gives the same arrays back; renamed into place when complete."""
    arrays: dict[str, Any] = {}
    for task in tasks.tasks:
        arrays[f"tasks/{task.name}/inputs"] = task.inputs
        arrays[f"tasks/{task.name}/labels"] = task.labels
        if not tasks.shared_labels:
            arrays[f"tasks/{task.name}/classes"] = np.array(task.classes)
    for part, split in ((VALIDATION, tasks.validation), (TEST, tasks.test)):
        arrays[f"{part}/inputs"], arrays[f"{part}/labels"] = split
    arrays["classes" if tasks.shared_labels else "target/classes"] = np.array(tasks.classes)
    path = Path(path)
    partial = path.with_name(path.name + ".part")
    with partial.open("wb") as stream:
        np.savez(stream, **arrays)
    partial.replace(path)
