"""Rewards r(s, i) of drawing from task i in joint state s = (s_1, …, s_N), in the three forms that planners accept."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from types import ModuleType
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from metasched.errors import DataError
from metasched.planning.checks import Floats, Integers, as_floats, as_rewards

Tasks: TypeAlias = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Payoffs(ABC):
    """Rewards of N tasks with C labels each, as an array of one of the three forms."""

    values: Floats

    @property
    def shape(self) -> tuple[int, int]:
        """(N, C)."""
        return self.values.shape[0], self.values.shape[1]

    @cached_property
    def scale(self) -> float:
        """The largest absolute value, or 1 if all are zero."""
        return float(np.abs(self.values).max()) or 1.0

    @abstractmethod
    def at(self, labels: Integers) -> Floats:
        """Rewards (…, N) in joint states (…, N)."""

    @abstractmethod
    def frozen(self, labels: Integers) -> Floats:
        """Rewards (…, N, C) of each label of each task, the other tasks at ``labels`` (…, N)."""

    @abstractmethod
    def table(self, tasks: Tasks, labels: Integers, xp: ModuleType = np) -> Any:
        """Rewards (k, C, …, C) of ``tasks`` over their labels, the other tasks at ``labels`` (N,), made by ``xp``."""


class Separable(Payoffs):
    """r(s, i) = r[i, s_i], with values r (N, C)."""

    def at(self, labels: Integers) -> Floats:
        """Rewards (…, N)."""
        return self.values[np.arange(len(self.values)), labels]

    def frozen(self, labels: Integers) -> Floats:
        """Rewards (…, N, C)."""
        return np.broadcast_to(self.values, (*labels.shape, self.values.shape[1]))

    def table(self, tasks: Tasks, labels: Integers, xp: ModuleType = np) -> Any:  # noqa: ARG002 the others do not matter
        """Rewards (k, C, …, C)."""
        shape = (self.values.shape[1],) * len(tasks)
        spread = (_spread(xp.asarray(self.values[task]), (axis,), len(tasks)) for axis, task in enumerate(tasks))
        return xp.stack([xp.broadcast_to(part, shape) for part in spread])


class Coupled(Payoffs):
    """r(s, i) = mean over j of A[i, s_i, s_j], with values A (N, C, C)."""

    def at(self, labels: Integers) -> Floats:
        """Rewards (…, N)."""
        own = np.arange(len(self.values))[:, None]
        return np.asarray(self.values[own, labels[..., :, None], labels[..., None, :]].mean(axis=-1))

    def frozen(self, labels: Integers) -> Floats:
        """Rewards (…, N, C): the sum over the labels of all tasks, with its own replaced by each label in turn."""
        tasks, classes, _ = self.values.shape
        if labels.ndim == 1:
            counts = np.bincount(labels, minlength=classes)
        else:
            counts = (labels[..., None] == np.arange(classes)).sum(axis=-2)
        pooled = counts.astype(np.float64) @ self._by_class
        total: Floats = pooled.reshape(*labels.shape, classes)
        total += self._own[np.arange(tasks), labels]
        return total

    @cached_property
    def _by_class(self) -> Floats:
        """A / N as (C', N·C): the class scored first."""
        tasks, classes, _ = self.values.shape
        return np.asarray(np.ascontiguousarray(self.values.transpose(2, 0, 1)).reshape(classes, -1) / tasks)

    @cached_property
    def _own(self) -> Floats:
        """(A[i, c, c] − A[i, c, b]) / N as (N, B, C): what changes when the task's own label b becomes c."""
        gain = np.diagonal(self.values, axis1=1, axis2=2)[:, :, None] - self.values
        return np.asarray(np.ascontiguousarray(gain.transpose(0, 2, 1)) / len(self.values))

    def table(self, tasks: Tasks, labels: Integers, xp: ModuleType = np) -> Any:
        """Rewards (k, C, …, C)."""
        count, classes, _ = self.values.shape
        others = np.delete(labels, tasks)
        rows = []
        for axis, task in enumerate(tasks):
            A = self.values[task] / count
            row = _spread(xp.asarray(A[:, others].sum(axis=1) + np.diagonal(A)), (axis,), len(tasks))
            for other in range(len(tasks)):
                if other != axis:
                    row = row + _spread(xp.asarray(A), (axis, other), len(tasks))
            rows.append(xp.broadcast_to(row, (classes,) * len(tasks)))
        return xp.stack(rows)


class Tabular(Payoffs):
    """r(s, i) = R[i, s_1, …, s_N], with values R (N, C, …, C)."""

    def at(self, labels: Integers) -> Floats:
        """Rewards (…, N)."""
        state = tuple(labels[..., None, task] for task in range(len(self.values)))
        return np.asarray(self.values[(np.arange(len(self.values)), *state)])

    def frozen(self, labels: Integers) -> Floats:
        """Rewards (…, N, C)."""
        tasks, classes = self.shape
        rows = []
        for task in range(tasks):
            state = [labels[..., other, None] for other in range(tasks)]
            state[task] = np.arange(classes)
            rows.append(self.values[(task, *state)])
        return np.stack(rows, axis=-2)

    def table(self, tasks: Tasks, labels: Integers, xp: ModuleType = np) -> Any:
        """Rewards (k, C, …, C)."""
        state = tuple(slice(None) if task in tasks else int(label) for task, label in enumerate(labels))
        in_order = np.argsort(np.argsort(tasks))  # slices come out by rising task; axes follow ``tasks``
        return xp.asarray(np.stack([self.values[(task, *state)].transpose(in_order) for task in tasks]))


def coupled_rewards(A: ArrayLike) -> Coupled:
    """Make rewards r(s, i) = mean over j of A[i, s_i, s_j], where the tasks' labels s_j are what the model will meet.

    The mean is over all tasks, including i. The array is stored in this form and not expanded, so hundreds of tasks fit
    into memory.

    Args:
        A: (N, C, C); A[i, c, c'] is the accuracy on class c' after fitting label c of task i.

    Returns:
        Rewards that :func:`solve_joint` takes.

    Examples:
        >>> rewards = ms.planning.coupled_rewards(random.random((3, 2, 2)))
        >>> ms.planning.solve_joint([[[0.5, 0.5], [0.5, 0.5]]] * 3, rewards, 0.9).value.shape
        (2, 2, 2)
    """
    array = as_floats(A, "A", copy=True)
    if array.ndim != 3 or array.shape[1] != array.shape[2] or array.size == 0:
        raise DataError(f"A has shape {array.shape}; give (N, C, C): task, label fitted, class scored")
    return Coupled(array)


def as_payoffs(rewards: ArrayLike | Payoffs, shape: tuple[int, int]) -> Payoffs:
    """``rewards`` as one of the forms: (N, C) is separable, (N, C, …, C) a table, a form is passed on."""
    tasks, classes = shape
    if isinstance(rewards, Payoffs):
        if rewards.shape != shape:
            raise DataError(f"rewards are for {rewards.shape} tasks and labels, Ps for {shape}; give the same of both")
        return rewards
    array = as_floats(rewards, "rewards", copy=True)
    full = (tasks,) + (classes,) * tasks
    if array.shape == shape:
        return Separable(array)
    if array.ndim == tasks + 1:
        return Tabular(as_rewards(array, full, "rewards"))
    raise DataError(
        f"rewards have shape {array.shape}; give {shape} for r[i, s_i], coupled_rewards(A) with A "
        f"{(tasks, classes, classes)}, or one axis for each task after the first: (N, C, …, C)"
    )


def _spread(values: Any, axes: tuple[int, ...], ndim: int) -> Any:
    """``values`` with its axes placed at ``axes`` of an ``ndim``-dimensional array, the other axes of length one."""
    if len(axes) == 2 and axes[0] > axes[1]:
        values, axes = values.T, (axes[1], axes[0])
    shape = [1] * ndim
    for axis, length in zip(axes, values.shape, strict=True):
        shape[axis] = length
    return values.reshape(shape)
