"""Task sets in one ``.npz`` file: plain arrays, never pickles. :func:`from_npz` lists the keys."""

import math
import os
import sys
import warnings
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from metasched.datasets.store import sha256
from metasched.errors import DataError, given
from metasched.tasks import (
    TEST,
    VALIDATION,
    Inputs,
    Provenance,
    RowNumbers,
    Split,
    Targets,
    TaskSet,
    Unlabelled,
    as_inputs,
    as_targets,
    refuse_overlap,
)
from metasched.tasks.assemble import all_parts, classification, divide, regression, split_of, target_parts
from metasched.untrusted import file_size, refuse_beyond_memory

LARGEST_BYTES = 8 * 1024**3
MOST_PACKED = 1100
"""How many bytes one packed byte can stand for. Deflate reaches 1032, and in a stored file it is 1."""
UNLABELLED = "unlabelled/inputs"
LONGEST_HEADER = 10_000
MOST_AXES = 32
PLAIN = "biufUS"
"""The kinds of arrays that are read: truth values, numbers, texts."""


@contextmanager
def open_npz(path: Path, largest: int = LARGEST_BYTES) -> Iterator[Mapping[str, NDArray[Any]]]:
    """Open a ``.npz`` file. Its arrays are read when they are asked for. Damage and pickles become a
    :class:`DataError`.
    """
    size = file_size(path)
    with path.open("rb") as stream:
        try:
            archive = zipfile.ZipFile(stream)
        except Exception as error:  # a damaged directory fails in many ways
            raise DataError(f"{path}: truncated or damaged ({error}); make or fetch it again") from None
        members = {member.filename.removesuffix(".npy"): member for member in archive.infolist()}
        declared = sum(member.file_size for member in members.values())
        if declared > min(largest, MOST_PACKED * size):
            raise DataError(
                f"{path}: unpacks to {declared:,} bytes, more than the limit of {largest:,} or than {size:,} packed "
                f"bytes can hold; make it again, or raise the limit with {given('limit', declared)}"
            )
        refuse_beyond_memory(path, declared, "give fewer rows, or numbers of fewer bytes")
        yield _Arrays(path, archive, members)


class _Arrays(Mapping[str, NDArray[Any]]):
    """The arrays of an archive by name, each read when it is asked for, in the order of the file."""

    def __init__(self, path: Path, archive: zipfile.ZipFile, members: Mapping[str, zipfile.ZipInfo]) -> None:
        self._path, self._archive, self._members = path, archive, members

    def __getitem__(self, name: str) -> NDArray[Any]:
        if name not in self._members:
            raise DataError(f"{self._path}: has no array '{name}'; it is not the expected file")
        member, where = self._members[name], f"{self._path}: array '{name}'"
        try:
            with self._archive.open(member) as stream:
                return _read_array(stream, member.file_size, where)
        except DataError:
            raise
        except Exception as error:  # encrypted, packed by an unknown method, a wrong checksum, …
            raise DataError(f"{where} is truncated or damaged ({error}); make or fetch it again") from None

    def __contains__(self, name: object) -> bool:
        return name in self._members

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    def __len__(self) -> int:
        return len(self._members)


def _read_array(stream: IO[bytes], size: int, where: str) -> NDArray[Any]:
    """Read the array of an ``.npy`` stream of this many bytes. It is only allocated if its header promises no more."""
    try:
        version = npy.read_magic(stream)
        read_header = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}[version]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the header may contain odd Python
            shape, fortran, dtype = read_header(stream, max_header_size=LONGEST_HEADER)
    except Exception as error:  # NumPy parses the header as Python, which fails in many ways
        raise DataError(f"{where} has no readable header ({error}); make or fetch it again") from None
    if dtype.hasobject or dtype.kind not in PLAIN:
        raise DataError(f"{where} holds {dtype}, which is not a plain array; store numbers or text")
    if len(shape) > MOST_AXES or any(type(length) is not int or length < 0 for length in shape):
        raise DataError(f"{where} has shape {shape}; make or fetch it again")
    count, wanted = math.prod(shape), math.prod(shape) * dtype.itemsize
    if max(count, wanted) > size:
        raise DataError(f"{where} says that it has {wanted:,} bytes, but it has {size:,}; make or fetch it again")
    content = stream.read(wanted)
    if len(content) != wanted:
        raise DataError(f"{where} is cut off; make or fetch it again")
    points = np.frombuffer(content, np.dtype("u4").newbyteorder(dtype.byteorder)) if dtype.kind == "U" else np.empty(0)
    # NumPy assumes that all characters are valid Unicode: none too large, no half of a pair.
    if np.any((points > sys.maxunicode) | ((points >= 0xD800) & (points <= 0xDFFF))):
        raise DataError(f"{where} holds numbers that are not characters where text should be; make or fetch it again")
    flat = np.frombuffer(content, dtype) if wanted else np.empty(count, dtype)
    return flat.reshape(shape[::-1]).transpose() if fortran else flat.reshape(shape)


def read_npy(path: Path) -> NDArray[Any]:
    """Read the single array of a ``.npy`` file. Damage and pickles become a :class:`DataError`."""
    size = file_size(path)
    with path.open("rb") as stream:
        return _read_array(stream, size, str(path))


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

    Its keys are ``tasks/<name>/inputs`` and ``tasks/<name>/labels`` for each task, in order, and ``validation/inputs``,
    ``validation/labels``, ``test/inputs`` and ``test/labels``. The names of the labels are in ``classes``, or in
    ``tasks/<name>/classes`` for every task and ``target/classes``. Numbers to predict are in ``…/targets``. You may
    then leave out the labels, which become bins of the targets. ``unlabelled/inputs`` has rows of the target without a
    label.

    Args:
        path: the file.
        target: the task that is the target and is divided, if the file has no validation and test rows.
        target_labels: how many of its rows are for validation, in proportion to the labels; by default half, but at
            most 100, or all if the file has unlabelled rows.
        seed: the seed that draws these rows.
        bins: the number of bins of targets without labels.
        allow_overlap: allow rows that are both validation and test rows.
        limit: the most bytes that the file may unpack to.

    Returns:
        The task set.

    Examples:
        >>> ms.datasets.save_npz(tasks, "winds.npz")
        >>> ms.datasets.from_npz("winds.npz").fingerprint == tasks.fingerprint
        True
    """
    path = Path(path)
    notes: tuple[str, ...] = ()
    rows: dict[str, RowNumbers] = {}
    with open_npz(path, limit) as archive:
        content: Mapping[str, NDArray[Any]] = archive
        names = _task_names(content)
        if not names:
            raise DataError(f"{path}: has no tasks; expected keys like 'tasks/<name>/inputs'")
        divided = [part for part in (VALIDATION, TEST) if f"{part}/inputs" in content]
        target_parts([*names, *divided], target, str(path))
        if target is not None:
            content, rows, note = _divided(content, target, target_labels, seed, len(_without_labels(path, content)))
            names, notes = _task_names(content), (note,)
        labelled, numeric = (f"tasks/{names[0]}/{kind}" in content for kind in ("labels", "targets"))
        answers = "labels" if labelled or not numeric else "targets"

        def pair(folder: str) -> tuple[NDArray[Any], NDArray[Any]]:
            return content[f"{folder}/inputs"], content[f"{folder}/{answers}"]

        parts = all_parts({name: pair(f"tasks/{name}") for name in names}, pair(VALIDATION), pair(TEST))
        if answers == "targets":
            result = regression(path.stem, parts, bins, allow_overlap)
        else:
            result = classification(path.stem, parts, _class_names(content, names), allow_overlap or numeric)
            if numeric:
                result = _with_targets(result, content)
                if not allow_overlap:
                    refuse_overlap(result.validation, result.test)
        blank = _without_labels(path, content)
    files = {path.name: sha256(path)}
    provenance = {
        key: Provenance(f"{path.name}:{target if key in rows else key}", rows.get(key, item.rows), files)
        for key, item in result.provenance.items()
    }
    result = replace(
        result,
        provenance=provenance,
        notes=notes,
        split=split_of(target, target_labels),
        unlabelled=_unlabelled(path, blank, files) if len(blank) else None,
    )
    if target is None and target_labels is not None:
        return result.variant(target_labels=target_labels, seed=seed)
    return result


def _without_labels(path: Path, content: Mapping[str, NDArray[Any]]) -> Inputs:
    """The inputs of the target's rows without a label, or None if the file has no such array."""
    if UNLABELLED not in content:
        return np.empty((0, 1), np.float32)
    inputs = as_inputs(f"{path}: {UNLABELLED}", content[UNLABELLED])
    if inputs.ndim < 2:
        raise DataError(f"{path}: {UNLABELLED} has shape {inputs.shape}; give inputs (rows, …)")
    return inputs


def _unlabelled(path: Path, inputs: Inputs, files: Mapping[str, str]) -> Unlabelled:
    rows = np.arange(len(inputs))
    names = tuple(f"{path} unlabelled row {row + 1}" for row in rows)
    return Unlabelled(inputs, Provenance(f"{path.name}:unlabelled", rows, files), names)


def _task_names(content: Mapping[str, NDArray[Any]]) -> list[str]:
    return list(dict.fromkeys(key.split("/")[1] for key in content if key.startswith("tasks/")))


def _class_names(content: Mapping[str, NDArray[Any]], names: list[str]) -> list[str] | dict[str, list[str]] | None:
    if "classes" in content:
        return [str(name) for name in content["classes"]]
    if "target/classes" not in content:
        return None
    keys = {**{name: f"tasks/{name}/classes" for name in names}, "target": "target/classes"}
    return {name: [str(item) for item in content[key]] for name, key in keys.items()}


def _divided(
    content: Mapping[str, NDArray[Any]], target: str, count: int | None, seed: int, unlabelled: int
) -> tuple[dict[str, NDArray[Any]], dict[str, RowNumbers], str]:
    """The same arrays with one task divided into validation and test, the numbers of its rows, and a description."""
    folder = f"tasks/{target}/"
    arrays = dict(content)
    own = {key.removeprefix(folder): arrays.pop(key) for key in content if key.startswith(folder)}
    answers = own["labels"] if "labels" in own else own["targets"]
    validation, test, note = divide(answers, target, count, seed, unlabelled)
    rows = {VALIDATION: validation, TEST: test}
    if "classes" in own:
        arrays["target/classes"] = own.pop("classes")
    for kind, values in own.items():
        arrays |= {f"{part}/{kind}": values[chosen] for part, chosen in rows.items()}
    return arrays, rows, note


def _with_targets(tasks: TaskSet, content: Mapping[str, NDArray[Any]]) -> TaskSet:
    """The same set with the targets that the file has in addition to the labels."""

    def targets(folder: str) -> Targets:
        return as_targets(folder, content[f"{folder}/targets"])

    return replace(
        tasks,
        tasks=tuple(replace(task, targets=targets(f"tasks/{task.name}")) for task in tasks.tasks),
        validation=Split(*tasks.validation, targets(VALIDATION)),
        test=Split(*tasks.test, targets(TEST)),
    )


def save_npz(tasks: TaskSet, path: str | os.PathLike[str]) -> None:
    """Write a task set so that :func:`from_npz` reads the same arrays. The file appears only when it is complete.

    Args:
        tasks: the task set.
        path: the file.

    Examples:
        >>> ms.datasets.save_npz(tasks, "winds.npz")
    """
    arrays: dict[str, Any] = {}
    for name, part, _ in tasks.parts():
        folder = name if name in (VALIDATION, TEST) else f"tasks/{name}"
        arrays[f"{folder}/inputs"], arrays[f"{folder}/labels"] = part.inputs, part.labels
        if part.targets is not None:
            arrays[f"{folder}/targets"] = part.targets
    if not tasks.shared_labels:
        arrays |= {f"tasks/{task.name}/classes": np.array(task.classes) for task in tasks.tasks}
    arrays["classes" if tasks.shared_labels else "target/classes"] = np.array(tasks.classes)
    if tasks.unlabelled is not None:
        arrays[UNLABELLED] = tasks.unlabelled.inputs
    path = Path(path)
    partial = path.with_name(path.name + ".part")
    with partial.open("wb") as stream:
        np.savez(stream, **arrays)
    partial.replace(path)
