"""The sources of prompts, and the worth of a group of completions: pure functions over what a user gives."""

from collections.abc import Callable, Iterable, Mapping
from numbers import Integral
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from metasched.errors import ConfigError, DataError, unknown

Values: TypeAlias = str | Callable[[NDArray[np.float64]], float]


def names_of(prompts: Any, by: str | Callable[[Any], Any] | None) -> list[str]:
    """The name of each prompt's source: the prompts themselves, a column, or a function of each row."""
    if isinstance(prompts, str | bytes) or not isinstance(prompts, Iterable):
        raise ConfigError(f"the prompts are {prompts!r}; give one name for each prompt, or a data set and by='column'")
    if by is None:
        given = list(prompts)
        if given and not isinstance(given[0], str | Integral):
            raise ConfigError(
                f"prompt 0 is a {type(given[0]).__name__} and not a name; say where its name is: by='column'"
            )
    elif isinstance(by, str):
        given = _column(prompts, by)
    elif callable(by):
        frame: Any = prompts if hasattr(prompts, "iloc") else None
        rows = prompts if frame is None else frame.to_dict("records")
        given = [by(row) for row in rows]
    else:
        raise ConfigError(f"by is {by!r}; give the name of a column, or a function of a row")
    if not given:
        raise DataError("there are no prompts; give at least one")
    for place, name in enumerate(given):
        if not isinstance(name, str | Integral) or name == "":
            raise DataError(f"prompt {place} has the name {name!r}; give a word or a whole number")
    return [str(name) for name in given]


def _column(prompts: Any, name: str) -> list[Any]:
    columns = getattr(prompts, "column_names", getattr(prompts, "columns", prompts))
    if columns is not prompts or isinstance(prompts, Mapping):
        if name not in columns:
            raise unknown("column", name, map(str, columns))
        return list(prompts[name])
    values = []
    for place, row in enumerate(prompts):
        try:
            values.append(row[name])
        except (KeyError, TypeError, IndexError):
            raise ConfigError(
                f"row {place} has no column '{name}'; give by= a column of all rows, or a function"
            ) from None
    return values


def mean_size(values: NDArray[np.float64]) -> float:
    """The mean absolute advantage of a group: 0 if all its completions were equally good."""
    return float(np.abs(values).mean())


def spread_of_successes(values: NDArray[np.float64]) -> float:
    """p(1 − p), the variance of a success, where p is the group's success rate."""
    if (values < 0).any() or (values > 1).any():
        wrong = values[(values < 0) | (values > 1)][0]
        raise ConfigError(f"a success is {wrong:g}; give numbers from 0 to 1, or values='advantages'")
    rate = float(values.mean())
    return rate * (1 - rate)


def mean(values: NDArray[np.float64]) -> float:
    """The mean of a group's numbers."""
    return float(values.mean())


_REWARDS: Mapping[str, Callable[[NDArray[np.float64]], float]] = {
    "advantages": mean_size,
    "successes": spread_of_successes,
    "numbers": mean,
}


def reward_of(values: Values) -> Callable[[NDArray[np.float64]], float]:
    """How the values of a group become its reward."""
    if callable(values):
        return values
    if values not in _REWARDS:
        raise unknown("values", values, _REWARDS)
    return _REWARDS[values]


def checked_indices(indices: Any, prompts: int) -> NDArray[np.int64]:
    """Check that these are numbers of existing prompts."""
    array = np.asarray(_plain(indices))
    if array.size == 0:
        return np.empty(0, np.int64)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise ConfigError(f"the indices are {_short(indices)}; give a list of whole numbers, as next() returned them")
    if array.min() < 0 or array.max() >= prompts:
        wrong = array[(array < 0) | (array >= prompts)][0]
        raise ConfigError(f"there is no prompt {wrong}; the {prompts} prompts are 0 … {prompts - 1}")
    return array.astype(np.int64)


def checked_values(values: Any, indices: NDArray[np.int64]) -> NDArray[np.float64]:
    """Check that there is one finite number for each index."""
    try:
        array = np.asarray(_plain(values), np.float64)
    except (TypeError, ValueError):
        raise ConfigError(f"the values are {_short(values)}; give one number for each completion") from None
    if array.shape != indices.shape:
        raise ConfigError(
            f"there are {len(indices)} indices and values of shape {array.shape}; give one number for each completion"
        )
    if not np.isfinite(array).all():
        place = int(np.flatnonzero(~np.isfinite(array))[0])
        raise ConfigError(
            f"value {place}, of prompt {indices[place]}, is {array[place]:g}; leave out completions without a value"
        )
    return array


def _plain(given: Any) -> Any:
    """Arrays of PyTorch and JAX, on any device, as lists."""
    return given.tolist() if hasattr(given, "tolist") and not isinstance(given, np.ndarray) else given


def _short(given: Any) -> str:
    text = repr(given)
    return text if len(text) <= 60 else text[:57] + "…"
