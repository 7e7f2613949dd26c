"""Which rows are a source's, and which of the target's have labels."""

from zlib import crc32

import numpy as np

from metasched.errors import ConfigError
from metasched.tasks import Labels, RowNumbers, stratified_rows
from metasched.tasks.variants import check_seed


def few_labels(labels: Labels, count: int, seed: int) -> tuple[RowNumbers, RowNumbers]:
    """``count`` rows of the target, stratified by class and by ``seed``, for validation; all others for test."""
    check_seed(seed)
    validation = stratified_rows(labels, count, np.random.default_rng(seed))
    test = np.setdiff1d(np.arange(len(labels)), validation)
    if not len(test):
        raise ConfigError(f"target_labels is {count}; leave some of the {len(labels)} rows for test")
    return validation, test


def drawn_rows(labels: Labels, count: int, source: str, shuffled: bool) -> RowNumbers:
    """``count`` rows of a source, stratified by class: the same ones every time, in file order or a random one."""
    if not 1 <= count <= len(labels):
        raise ConfigError(f"rows is {count}; {source} has {len(labels)}: give 1 … {len(labels)}")
    random = np.random.default_rng(crc32(source.encode()))
    rows = stratified_rows(labels, count, random)
    return random.permutation(rows) if shuffled else rows
