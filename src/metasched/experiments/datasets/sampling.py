"""Which rows are a source's."""

from zlib import crc32

import numpy as np

from metasched.errors import ConfigError
from metasched.tasks import Labels, RowNumbers, stratified_rows


def drawn_rows(labels: Labels, count: int, source: str, shuffled: bool) -> RowNumbers:
    """``count`` rows of a source, stratified by class: the same ones every time, in file order or a random one."""
    if not 1 <= count <= len(labels):
        raise ConfigError(f"rows is {count}; {source} has {len(labels)}: give 1 … {len(labels)}")
    random = np.random.default_rng(crc32(source.encode()))
    rows = stratified_rows(labels, count, random)
    return random.permutation(rows) if shuffled else rows
