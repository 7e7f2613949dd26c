"""Rows of all sources and of the target, end to end as one data set, so that whatever prepares one prepares all."""

import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch.utils.data import ConcatDataset

from metasched.errors import ConfigError


def sizes_of(datasets: Mapping[str, Any]) -> dict[str, int]:
    """Rows of each data set, by name; one that cannot be indexed or is empty is refused."""
    sizes = {}
    for name, dataset in datasets.items():
        if not hasattr(dataset, "__len__") or not hasattr(dataset, "__getitem__"):
            raise ConfigError(f"'{name}' has no length or row numbers; give a data set that has, or use metasched.mix")
        if not len(dataset):
            raise ConfigError(f"'{name}' has no rows; leave it out")
        sizes[name] = len(dataset)
    return sizes


def joined(datasets: Sequence[Any]) -> Any:
    """All rows end to end: as one of Hugging Face's data sets where all are, which others can then map over."""
    if all(type(one).__module__.startswith("datasets.") for one in datasets):
        from datasets import concatenate_datasets

        return concatenate_datasets(list(datasets))
    return ConcatDataset(datasets)


def rows_of(dataset: Any, numbers: Sequence[int]) -> list[Any]:
    """The rows with these numbers."""
    if hasattr(dataset, "__getitems__"):
        return list(dataset.__getitems__(list(numbers)))
    return [dataset[number] for number in numbers]


@contextmanager
def own_random(*numbers: int) -> Iterator[None]:
    """Random numbers decided by ``numbers`` alone; the training's own go on afterwards as if nothing had been drawn.

    A collator that masks at random then makes the same batch of the same draw, whenever and however often it is made.
    """
    states = random.getstate(), np.random.get_state(), torch.get_rng_state()
    seed = int(np.random.SeedSequence(numbers).generate_state(1)[0])
    random.seed(seed)
    np.random.seed(seed)
    torch.default_generator.manual_seed(seed)
    try:
        yield
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])
        torch.set_rng_state(states[2])
