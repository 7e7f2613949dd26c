"""Task sets in one ``.npz`` file: plain arrays, never pickles.

Keys: ``tasks/<name>/inputs`` and ``tasks/<name>/labels`` for each task, in the order of the file;
``validation/inputs``, ``validation/labels``, ``test/inputs``, ``test/labels``; and, for names, either one ``classes``
or ``tasks/<name>/classes`` for every task with ``target/classes``. A set of regression has ``…/targets`` wherever it
has ``…/inputs``; it may then leave out the labels, which become bins of the targets. A file without validation and test
is read with the name of the task that is the target, whose rows are then divided.
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
from metasched.errors import DataError, MetaschedError
from metasched.tasks import TEST, VALIDATION, RowNumbers, Split, Task, TaskSet, as_targets, refuse_overlap
from metasched.tasks.assemble import divide, target_parts

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
        if isinstance(error, MetaschedError):
            raise
        raise DataError(f"{path}: holds something other than plain arrays ({error})") from None


def read_npy(path: Path) -> NDArray[Any]:
    """The one array of a ``.npy`` file; damage and pickles become a :class:`DataError`."""
    try:
        array = np.load(path, allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        raise DataError(f"{path}: not a readable array ({error}); replace it with a good copy") from None
    if not isinstance(array, np.ndarray):
        raise DataError(f"{path}: holds several arrays, expected one; replace it with a good copy")
    return array


def from_npz(
    path: str | os.PathLike[str],
    *,
    target: str | None = None,
    target_labels: int | None = None,
    seed: int = 0,
    bins: int = 10,
    allow_overlap: bool = False,
    limit: int = LARGEST_BYTES,
) -> TaskSet:
    """Read a task set from one ``.npz`` file of plain arrays.

    Its keys are ``tasks/<name>/inputs`` and ``tasks/<name>/labels`` for each task, in order; ``validation/inputs``,
    ``validation/labels``, ``test/inputs``, ``test/labels``; and for names either one ``classes`` or
    ``tasks/<name>/classes`` for every task with ``target/classes``. Numbers to predict are ``…/targets``.

    Args:
        path: the file.
        target: in a file without validation and test, the task that is the target and is divided.
        target_labels: how many of its rows are for validation, in proportion to the labels; by default half, at most
            100.
        seed: decides which.
        bins: of targets without labels.
        allow_overlap: let a validation row be a test row too.
        limit: bytes that the file may unpack to.

    Returns:
        The task set.

    Raises:
        MetaschedError: for a file that is missing, damaged, too large or lacks a key; pickles are never read.

    Examples:
        >>> ms.datasets.save_npz(tasks, "winds.npz")
        >>> ms.datasets.from_npz("winds.npz").fingerprint == tasks.fingerprint
        True
    """
    path = Path(path)
    with open_npz(path, limit) as content:
        names = _task_names(content)
        if not names:
            raise DataError(f"{path}: has no tasks; expected keys like 'tasks/<name>/inputs'")
        divided = [part for part in (VALIDATION, TEST) if f"{part}/inputs" in content]
        target_parts([*names, *divided], target, str(path))
        notes: tuple[str, ...] = ()
        rows: dict[str, RowNumbers] = {}
        if target is not None:
            content, rows, note = _divided(content, target, target_labels, seed)
            names, notes = _task_names(content), (note,)
        wanted = "labels"
        if f"tasks/{names[0]}/labels" not in content and f"tasks/{names[0]}/targets" in content:
            wanted = "targets"
        tasks = {name: (content[f"tasks/{name}/inputs"], content[f"tasks/{name}/{wanted}"]) for name in names}
        validation, test = ((content[f"{part}/inputs"], content[f"{part}/{wanted}"]) for part in (VALIDATION, TEST))
        classes: Any = None
        if "classes" in content:
            classes = [str(name) for name in content["classes"]]
        elif "target/classes" in content:
            keys = {**{name: f"tasks/{name}/classes" for name in names}, "target": "target/classes"}
            classes = {name: [str(item) for item in content[key]] for name, key in keys.items()}
        arrays: dict[str, Any] = {"tasks": tasks, "validation": validation, "test": test, "name": path.stem}
        if wanted == "targets":
            result = TaskSet.regression(**arrays, bins=bins, allow_overlap=allow_overlap)
        elif f"tasks/{names[0]}/targets" in content:
            result = _with_targets(TaskSet.from_arrays(**arrays, classes=classes, allow_overlap=True), content)
            if not allow_overlap:
                refuse_overlap(result.validation, result.test)
        else:
            result = TaskSet.from_arrays(**arrays, classes=classes, allow_overlap=allow_overlap)
    files = {path.name: sha256(path)}
    provenance = {
        key: replace(
            item,
            source=f"{path.name}:{target if key in rows else key}",
            rows=rows.get(key, item.rows),
            files=files,
        )
        for key, item in result.provenance.items()
    }
    result = replace(result, provenance=provenance, notes=notes)
    if target is None and target_labels is not None:
        return result.variant(target_labels=target_labels, seed=seed)
    return result


def _task_names(content: Mapping[str, NDArray[Any]]) -> list[str]:
    return list(dict.fromkeys(key.split("/")[1] for key in content if key.startswith("tasks/")))


def _divided(
    content: Mapping[str, NDArray[Any]], target: str, count: int | None, seed: int
) -> tuple[dict[str, NDArray[Any]], dict[str, RowNumbers], str]:
    """The same arrays with one task as validation and test; which of its rows these are; and that in words."""
    folder = f"tasks/{target}/"
    arrays = {key: content[key] for key in content}
    own = {key.removeprefix(folder): arrays.pop(key) for key in list(arrays) if key.startswith(folder)}
    wanted = own["labels"] if "labels" in own else own["targets"]
    validation, test, note = divide(wanted, target, count, seed)
    rows = {VALIDATION: validation, TEST: test}
    for kind, values in own.items():
        if kind == "classes":
            arrays["target/classes"] = values
        else:
            arrays |= {f"{part}/{kind}": values[chosen] for part, chosen in rows.items()}
    return arrays, rows, note


def _with_targets(tasks: TaskSet, content: Mapping[str, NDArray[Any]]) -> TaskSet:
    """The same set with the targets that the file has beside the labels."""

    def targets(key: str) -> Any:
        return as_targets(key, content[f"{key}/targets"])

    return replace(
        tasks,
        tasks=tuple(replace(task, targets=targets(f"tasks/{task.name}")) for task in tasks.tasks),
        validation=Split(*tasks.validation, targets(VALIDATION)),
        test=Split(*tasks.test, targets(TEST)),
    )


def save_npz(tasks: TaskSet, path: str | os.PathLike[str]) -> None:
    """Write a task set so that :func:`from_npz` gives the same arrays back; renamed into place when complete.

    Args:
        tasks: the task set.
        path: the file.

    Raises:
        MetaschedError: if it cannot be written.

    Examples:
        >>> ms.datasets.save_npz(tasks, "winds.npz")
    """
    arrays: dict[str, Any] = {}
    named: list[tuple[str, Task | Split]] = [(f"tasks/{task.name}", task) for task in tasks.tasks]
    for key, rows in (*named, (VALIDATION, tasks.validation), (TEST, tasks.test)):
        arrays[f"{key}/inputs"], arrays[f"{key}/labels"] = rows.inputs, rows.labels
        if rows.targets is not None:
            arrays[f"{key}/targets"] = rows.targets
    if not tasks.shared_labels:
        arrays |= {f"tasks/{task.name}/classes": np.array(task.classes) for task in tasks.tasks}
    arrays["classes" if tasks.shared_labels else "target/classes"] = np.array(tasks.classes)
    path = Path(path)
    partial = path.with_name(path.name + ".part")
    with partial.open("wb") as stream:
        np.savez(stream, **arrays)
    partial.replace(path)
