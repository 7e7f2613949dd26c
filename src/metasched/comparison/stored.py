"""The predictions of reference models in a file, so that no model is fitted twice."""

from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from metasched import untrusted
from metasched.errors import RunError
from metasched.files import append, make_folder, without_cut_line

FIX = "remove it, and its models will be fitted again"
LARGEST = 2**31
"""The largest size of such a file in bytes."""


class _Line(msgspec.Struct, frozen=True):
    """The predictions of one model for the rows that judge a split, as float32."""

    key: str
    outputs: bytes


class StoredOutputs:
    """The predictions in a file, by key. A new prediction is written to the disk at once."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._outputs: dict[str, bytes] = {}
        make_folder(path.parent)
        if not path.exists():
            return
        content = untrusted.read_bytes(path, LARGEST, FIX)
        for line in without_cut_line(path, content).splitlines():
            try:
                known = msgspec.json.decode(line, type=_Line)
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
                raise self._damaged() from None
            self._outputs[known.key] = known.outputs

    def __contains__(self, key: str) -> bool:
        return key in self._outputs

    def add(self, key: str, outputs: NDArray[np.float32]) -> None:
        """Store the predictions of a model."""
        line = _Line(key, np.ascontiguousarray(outputs, "<f4").tobytes())
        self._outputs[key] = line.outputs
        append(self.path, msgspec.json.encode(line) + b"\n", durable=True)

    def read(self, key: str, rows: int) -> NDArray[np.float32]:
        """Read the predictions of a model for this many rows: (rows, k)."""
        outputs = self._outputs[key]
        if not outputs or len(outputs) % (4 * rows):
            raise self._damaged()
        return np.frombuffer(outputs, "<f4").reshape(rows, -1)

    def _damaged(self) -> RunError:
        return RunError(f"{self.path}: is damaged; {FIX}")
