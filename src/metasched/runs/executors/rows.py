"""Task sets as files that other processes read: every array once, by its checksum, and a list of them for each set.

Sets that share their sources, such as folds of one target, share the files.
"""

import hashlib
import io
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import msgspec
import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from metasched.datasets.npz import read_npy
from metasched.errors import DataError
from metasched.files import make_folder, write_whole
from metasched.runs.folder import refuse_linked
from metasched.tasks import TEST, VALIDATION, Preparation, Provenance, Split, Task, TaskSet

_ARRAYS: WeakValueDictionary[Path, NDArray[Any]] = WeakValueDictionary()
"""Arrays that some task set has; those that share sources have the same ones."""


class _Part(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Rows of a source or of the target: the names of the files with its arrays."""

    name: str
    classes: tuple[str, ...]
    inputs: str
    labels: str
    targets: str | None = None


class _Set(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A task set but for its arrays and where its rows came from."""

    name: str
    parts: tuple[_Part, ...]
    simulated: bool
    notes: tuple[str, ...]
    recipe: Mapping[str, Any] | None
    useful: tuple[str, ...] | None
    preparation: Preparation | None


class RowFiles:
    """A folder of task sets; each is written once, and all are gone at the end."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self._sets: dict[int, tuple[TaskSet, Path]] = {}
        self._arrays: dict[int, tuple[NDArray[Any], str]] = {}

    def add(self, tasks: TaskSet) -> Path:
        """The file that :func:`read` makes the same rows from."""
        if id(tasks) not in self._sets:
            self._sets[id(tasks)] = tasks, self._write(tasks)
        return self._sets[id(tasks)][1]

    def clear(self) -> None:
        """Nobody needs the rows any more."""
        self._sets.clear()
        self._arrays.clear()
        shutil.rmtree(self.place, ignore_errors=True)

    def _write(self, tasks: TaskSet) -> Path:
        refuse_linked(self.place, self.place.parent)
        make_folder(self.place)
        parts = [
            _Part(
                name=name,
                classes=classes,
                inputs=self._array(part.inputs),
                labels=self._array(part.labels),
                targets=None if part.targets is None else self._array(part.targets),
            )
            for name, part, classes in tasks.parts()
        ]
        content = _Set(
            name=tasks.name,
            parts=tuple(parts),
            simulated=tasks.simulated,
            notes=tasks.notes,
            recipe=tasks.recipe,
            useful=tasks.useful,
            preparation=tasks.preparation,
        )
        path = self.place / f"{tasks.fingerprint}.json"
        write_whole(path, msgspec.json.encode(content))
        return path

    def _array(self, array: NDArray[Any]) -> str:
        if id(array) not in self._arrays:
            whole = np.ascontiguousarray(array)
            digest = hashlib.sha256(repr((whole.shape, whole.dtype.str)).encode())
            digest.update(whole.view(np.uint8).data)
            name = f"{digest.hexdigest()}.npy"
            self._save(self.place / name, whole)
            self._arrays[id(array)] = array, name
        return self._arrays[id(array)][1]

    def _save(self, path: Path, array: NDArray[Any]) -> None:
        if not path.exists():
            content = io.BytesIO()
            np.save(content, array, allow_pickle=False)
            write_whole(path, content.getvalue())


def read(path: Path) -> TaskSet:
    """The task set that :meth:`RowFiles.add` wrote; an error if it is not, to the bit, the one that its name says."""
    try:
        content = msgspec.json.decode(path.read_bytes(), type=_Set)
    except (OSError, msgspec.MsgspecError) as error:
        raise DataError(f"{path}: cannot read the rows of a run ({error}); start the command again") from None
    *sources, validation, test = ((part, *_arrays(path.parent, part)) for part in content.parts)
    tasks = TaskSet(
        name=content.name,
        tasks=tuple(Task(part.name, inputs, labels, part.classes, wanted) for part, inputs, labels, wanted in sources),
        validation=Split(*validation[1:]),
        test=Split(*test[1:]),
        classes=test[0].classes,
        provenance={
            part.name: Provenance(f"{content.name}:{part.name}", np.arange(len(labels)))
            for part, _, labels, _ in (*sources, validation, test)
        },
        simulated=content.simulated,
        notes=content.notes,
        recipe=content.recipe,
        useful=content.useful,
        preparation=content.preparation,
    )
    if tasks.fingerprint != path.stem or [validation[0].name, test[0].name] != [VALIDATION, TEST]:
        raise DataError(f"{path}: the rows are not those that the run began with; start the command again")
    return tasks


def _arrays(place: Path, part: _Part) -> tuple[Any, Any, Any]:
    names = (part.inputs, part.labels, part.targets)
    inputs, labels, targets = (None if name is None else _array(place / Path(name).name) for name in names)
    return inputs, labels, targets


def _array(path: Path) -> NDArray[Any]:
    array = _ARRAYS.get(path)
    return _ARRAYS.setdefault(path, read_npy(path)) if array is None else array
