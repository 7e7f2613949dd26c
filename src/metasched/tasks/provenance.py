"""Where rows come from."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from metasched.tasks.arrays import RowNumbers


@dataclass(frozen=True, eq=False)
class Provenance:
    """Where rows come from.

    Attributes:
        source: in words.
        rows: the row numbers in that source.
        files: the SHA-256 of each file read.
        note: what was done to the rows since.

    Examples:
        >>> ms.Provenance("shops.csv", np.arange(200)).take(np.arange(10, 30)).describe()
        'shops.csv, rows 10–29'
    """

    source: str
    rows: RowNumbers
    files: Mapping[str, str] = field(default_factory=dict)
    note: str = ""

    def take(self, index: RowNumbers, note: str = "") -> "Provenance":
        """The provenance of some of the rows.

        Args:
            index: their places.
            note: added to what was noted before.

        Returns:
            A provenance of those rows, in that order.
        """
        return replace(self, rows=self.rows[index], note="; ".join(part for part in (self.note, note) if part))

    def joined(self, other: "Provenance") -> "Provenance":
        """The provenance of these rows followed by those of another.

        Args:
            other: theirs.

        Returns:
            A provenance that names both sources.

        Examples:
            >>> ms.Provenance("a.csv", np.arange(5)).joined(ms.Provenance("b.csv", np.arange(5))).source
            'a.csv + b.csv'
        """
        known = other.source in self.source.split(" + ")
        return Provenance(
            self.source if known else f"{self.source} + {other.source}",
            np.concatenate([self.rows, other.rows]),
            {**self.files, **other.files},
            self.note or other.note,
        )

    def describe(self) -> str:
        """A few words for a person.

        Returns:
            Such as ``Semeion, rows 0–1399``.
        """
        rows = self.rows
        if not len(rows):
            return f"{self.source}, no rows"
        if np.array_equal(rows, np.arange(rows[0], rows[0] + len(rows))):
            return f"{self.source}, rows {rows[0]}–{rows[-1]}"
        return f"{self.source}, {len(rows):,} rows of {rows.min()}–{rows.max()}"
