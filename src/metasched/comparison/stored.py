"""What reference models predicted, kept in a file so that no model is fitted twice."""

from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from metasched import untrusted
from metasched.errors import RunError
from metasched.files import append, make_folder, without_cut_line

FIX = "remove it, and its models are fitted again"
LARGEST = 2**31
"""Bytes of such a file."""


class _Line(msgspec.Struct, frozen=True):
    """What one model predicts for the rows that judge a split, float32."""

    key: str
    outputs: bytes


class StoredOutputs:
    """The predictions in a file, by key. A new one is on the disk as soon as it is added."""

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
        """Keep what a model predicts."""
        line = _Line(key, np.ascontiguousarray(outputs, "<f4").tobytes())
        self._outputs[key] = line.outputs
        append(self.path, msgspec.json.encode(line) + b"\n", durable=True)

    def read(self, key: str, rows: int) -> NDArray[np.float32]:
        """What a model predicts for so many rows (rows, k)."""
        outputs = self._outputs[key]
        if not outputs or len(outputs) % (4 * rows):
            raise self._damaged()
        return np.frombuffer(outputs, "<f4").reshape(rows, -1)

    def _damaged(self) -> RunError:
        return RunError(f"{self.path}: is damaged; {FIX}")
