"""What a comparison says beside its runs: the linear model that it must beat, and what is off; a file beside them."""

from collections.abc import Iterable
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from metasched import untrusted
from metasched.errors import DataError
from metasched.files import write_json

REMARKS = "remarks.json"


class Remarks(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """On the runs of one cell: which they are, a linear model's name and its score, and a line for each thing off."""

    format: Literal[1] = 1
    cell: str
    methods: tuple[str, ...]
    seeds: tuple[int, ...]
    measure: Literal["accuracy", "score"]
    linear: str
    score: float
    lines: tuple[str, ...]

    def fits(self, methods: Iterable[str], seeds: Iterable[int]) -> bool:
        """Whether they are on these runs, and not on some of them or on more."""
        return set(self.methods) == set(methods) and set(self.seeds) == set(seeds)


def read(path: Path) -> Remarks:
    """The remarks in a file."""
    return untrusted.read_json(path, Remarks, "give the command of the comparison again", DataError)


def write(path: Path, remarks: Remarks) -> None:
    """All of them, or none."""
    write_json(path, msgspec.to_builtins(remarks))
