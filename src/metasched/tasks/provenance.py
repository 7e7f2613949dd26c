"""Where rows come from."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from metasched.tasks.arrays import RowNumbers


@dataclass(frozen=True, eq=False)
class Provenance:
    """Where rows come from: the source, the SHA-256 of each file read, and the row numbers in that source."""

    source: str
    rows: RowNumbers
    files: Mapping[str, str] = field(default_factory=dict)
    note: str = ""

    def take(self, index: RowNumbers, note: str = "") -> "Provenance":
        """The provenance of the rows at ``index``, with ``note`` added to what was noted before."""
        return replace(self, rows=self.rows[index], note="; ".join(part for part in (self.note, note) if part))

    def joined(self, other: "Provenance") -> "Provenance":
        """The provenance of these rows followed by those of ``other``."""
        known = other.source in self.source.split(" + ")
        return Provenance(
            self.source if known else f"{self.source} + {other.source}",
            np.concatenate([self.rows, other.rows]),
            {**self.files, **other.files},
            self.note or other.note,
        )

    def describe(self) -> str:
        """A few words for a person: ``Semeion, rows 0–1399``."""
        rows = self.rows
        if not len(rows):
            return f"{self.source}, no rows"
        if np.array_equal(rows, np.arange(rows[0], rows[0] + len(rows))):
            return f"{self.source}, rows {rows[0]}–{rows[-1]}"
        return f"{self.source}, {len(rows):,} rows of {rows.min()}–{rows.max()}"
