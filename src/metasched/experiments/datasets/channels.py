"""Tasks that see different channels of the same kind of input.

Every input has all channels, so that one network serves all tasks. A channel that a task lacks is zero *after*
standardising. This is the mean, which carries no information.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from metasched.errors import ConfigError, unknown
from metasched.tasks import Inputs

Floats: TypeAlias = NDArray[np.floating[Any]]
TASKS = 5


class View(NamedTuple):
    """Rows with some of the channels: ``values`` (n, …, k), whose last axis holds ``channels`` of the whole input."""

    values: Floats
    channels: tuple[int, ...]


def sliding(count: int, *, tasks: int = TASKS, each: int = 5, step: int = 3) -> tuple[tuple[int, ...], ...]:
    """Channels step·i … step·i + each − 1, modulo ``count``, for task i. Neighbours share some channels, but no two
    share all.

    >>> sliding(16)[4]
    (12, 13, 14, 15, 0)
    """
    return tuple(tuple((step * task + k) % count for k in range(each)) for task in range(tasks))


def numbers(names: Sequence[str], known: Sequence[str]) -> tuple[int, ...]:
    """The places of the named channels among the known ones, in the given order."""
    if not names or len(set(names)) < len(names):
        raise ConfigError(f"features {list(names)}: give at least one name, and each only once")
    for name in names:
        if name not in known:
            raise unknown("feature", name, known)
    return tuple(known.index(name) for name in names)


def task_channels(features: Sequence[Sequence[str]] | None, known: Sequence[str]) -> tuple[tuple[int, ...], ...]:
    """The channels of each of five tasks, from ``features`` or by default :func:`sliding`."""
    if features is None:
        return sliding(len(known))
    if len(features) != TASKS:
        raise ConfigError(f"features has {len(features)} entries; give {TASKS}, one tuple of names for each task")
    return tuple(numbers(names, known) for names in features)


def standardise(training: Sequence[View], validation: View, test: View, known: Sequence[str]) -> list[Inputs]:
    """Inputs (n, …, len(known)) of every training part, then of validation and of test.

    Each channel is shifted and scaled, in float64, to mean 0 and variance 1 over the training rows that have it, or
    over the validation rows if no training row has it. Test rows never count. A constant channel becomes zero.
    """
    parts = [*training, validation, test]
    full = [np.zeros((*part.values.shape[:-1], len(known)), np.float32) for part in parts]
    for channel in sorted({channel for part in parts for channel in part.channels}):
        fitted = [part for part in training if channel in part.channels]
        fitted = fitted or [part for part in (validation,) if channel in part.channels]
        if not fitted:
            raise ConfigError(
                f"feature '{known[channel]}' is only in the test rows, so its scale is unknown; "
                "add it to the features of a task or of the validation rows"
            )
        mean, deviation = _moments([_column(part, channel) for part in fitted])
        for part, inputs in zip(parts, full, strict=True):
            if channel in part.channels:
                inputs[..., channel] = (_column(part, channel) - mean) / deviation
    return full


def standardise_all(values: Sequence[Floats]) -> list[Inputs]:
    """Tables (n, k) with the same k channels, standardised over the rows of all but the last one, the target's."""
    channels = tuple(range(values[0].shape[1]))
    *sources, target = (View(table, channels) for table in values)
    return standardise(sources, target, View(target.values[:0], channels), [*map(str, channels)])[:-1]


def _column(part: View, channel: int) -> NDArray[np.float64]:
    return part.values[..., part.channels.index(channel)].astype(np.float64)


def _moments(columns: Sequence[NDArray[np.float64]]) -> tuple[float, float]:
    """Mean and standard deviation over all columns together; 1 for the deviation of a constant."""
    count = sum(column.size for column in columns)
    mean = sum(float(column.sum()) for column in columns) / count
    variance = sum(float(np.square(column - mean).sum()) for column in columns) / count
    deviation = variance**0.5
    return mean, deviation if deviation > 1e-12 * abs(mean) else 1.0
