"""Rewards r(s, i) of drawing on task i in joint state s = (s_1, …, s_N), in the three forms that planners accept.

Every form answers the same questions, so that no planner asks which one it has:

- ``at(labels)``: the reward of each task, (…, N) for labels (…, N) at the cursors;
- ``frozen(labels)``: the reward of each label of each task while the other tasks stay where they are, (…, N, C);
- ``table(tasks, labels)``: rewards (k, C, …, C) over the labels of k tasks while the others stay at ``labels``.
"""

from dataclasses import dataclass
from functools import cached_property
from types import ModuleType
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from metasched.errors import DataError
from metasched.planning.checks import Floats, Integers, as_floats, as_rewards

Tasks: TypeAlias = tuple[int, ...]


class Payoffs(Protocol):
    """Rewards of N tasks with C labels each."""

    @property
    def shape(self) -> tuple[int, int]:
        """(N, C)."""

    @property
    def scale(self) -> float:
        """The largest reward in absolute value, or a little more; 1 when all rewards are zero."""

    def at(self, labels: Integers) -> Floats:
        """Rewards (…, N) in joint states (…, N)."""

    def frozen(self, labels: Integers) -> Floats:
        """Rewards (…, N, C) of each label of each task, the other tasks at ``labels`` (…, N)."""

    def table(self, tasks: Tasks, labels: Integers, xp: ModuleType = np) -> Any:
        """Rewards (k, C, …, C) of ``tasks`` over their labels, the other tasks at ``labels`` (N,), made by ``xp``."""


@dataclass(frozen=True, eq=False)
class Separable:
    """r(s, i) = r[i, s_i], with r (N, C)."""

    r: Floats

    @property
    def shape(self) -> tuple[int, int]:
        """(N, C)."""
        return self.r.shape[0], self.r.shape[1]

    @cached_property
    def scale(self) -> float:
        """The largest |r|, or 1."""
        return _largest(self.r)

    def at(self, labels: Integers) -> Floats:
        """Rewards (…, N)."""
        return self.r[np.arange(len(self.r)), labels]

    def frozen(self, labels: Integers) -> Floats:
        """Rewards (…, N, C)."""
        return np.broadcast_to(self.r, (*labels.shape, self.r.shape[1]))

    def table(self, tasks: Tasks, labels: Integers, xp: ModuleType = np) -> Any:  # noqa: ARG002 the others do not matter
        """Rewards (k, C, …, C)."""
        shape = (self.r.shape[1],) * len(tasks)
        spread = (_spread(xp.asarray(self.r[task]), (axis,), len(tasks)) for axis, task in enumerate(tasks))
        return xp.stack([xp.broadcast_to(part, shape) for part in spread])


@dataclass(frozen=True, eq=False)
class Coupled:
    """r(s, i) = mean over j of A[i, s_i, s_j], with A (N, C, C)."""

    A: Floats

    @property
    def shape(self) -> tuple[int, int]:
        """(N, C)."""
        return self.A.shape[0], self.A.shape[1]

    @cached_property
    def scale(self) -> float:
        """The largest |A|, or 1."""
        return _largest(self.A)

    def at(self, labels: Integers) -> Floats:
        """Rewards (…, N)."""
        own = np.arange(len(self.A))[:, None]
        mean: Floats = self.A[own, labels[..., :, None], labels[..., None, :]].mean(axis=-1)
        return mean

    def frozen(self, labels: Integers) -> Floats:
        """Rewards (…, N, C): the sum over the labels of all tasks, with its own replaced by each label in turn."""
        tasks, classes, _ = self.A.shape
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
        tasks, classes, _ = self.A.shape
        first: Floats = np.ascontiguousarray(self.A.transpose(2, 0, 1)).reshape(classes, -1) / tasks
        return first

    @cached_property
    def _own(self) -> Floats:
        """(A[i, c, c] − A[i, c, b]) / N as (N, B, C): what changes when the task's own label b becomes c."""
        gain = np.diagonal(self.A, axis1=1, axis2=2)[:, :, None] - self.A
        own: Floats = np.ascontiguousarray(gain.transpose(0, 2, 1)) / len(self.A)
        return own

    def table(self, tasks: Tasks, labels: Integers, xp: ModuleType = np) -> Any:
        """Rewards (k, C, …, C)."""
        count, classes, _ = self.A.shape
        others = np.delete(labels, tasks)
        rows = []
        for axis, task in enumerate(tasks):
            A = self.A[task] / count
            row = _spread(xp.asarray(A[:, others].sum(axis=1) + np.diagonal(A)), (axis,), len(tasks))
            for other in range(len(tasks)):
                if other != axis:
                    row = row + _spread(xp.asarray(A), (axis, other), len(tasks))
            rows.append(xp.broadcast_to(row, (classes,) * len(tasks)))
        return xp.stack(rows)


@dataclass(frozen=True, eq=False)
class Tabular:
    """r(s, i) = R[i, s_1, …, s_N], with R (N, C, …, C)."""

    R: Floats

    @property
    def shape(self) -> tuple[int, int]:
        """(N, C)."""
        return self.R.shape[0], self.R.shape[1]

    @cached_property
    def scale(self) -> float:
        """The largest |R|, or 1."""
        return _largest(self.R)

    def at(self, labels: Integers) -> Floats:
        """Rewards (…, N)."""
        state = tuple(labels[..., None, task] for task in range(len(self.R)))
        rewards: Floats = self.R[(np.arange(len(self.R)), *state)]
        return rewards

    def frozen(self, labels: Integers) -> Floats:
        """Rewards (…, N, C)."""
        tasks, classes = self.shape
        rows = []
        for task in range(tasks):
            state = [labels[..., other, None] for other in range(tasks)]
            state[task] = np.arange(classes)
            rows.append(self.R[(task, *state)])
        return np.stack(rows, axis=-2)

    def table(self, tasks: Tasks, labels: Integers, xp: ModuleType = np) -> Any:
        """Rewards (k, C, …, C)."""
        state = tuple(slice(None) if task in tasks else int(label) for task, label in enumerate(labels))
        in_order = np.argsort(np.argsort(tasks))  # slices come out by rising task; axes follow ``tasks``
        return xp.asarray(np.stack([self.R[(task, *state)].transpose(in_order) for task in tasks]))


def coupled_rewards(A: ArrayLike) -> Coupled:
    """Rewards r(s, i) = mean over j of A[i, s_i, s_j], the tasks' labels s_j being what the model will meet.

    The mean runs over all tasks, i included. The form is kept, not expanded, so that hundreds of tasks fit in memory.

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
    if isinstance(rewards, (Separable, Coupled, Tabular)):
        if rewards.shape != shape:
            raise DataError(f"rewards are for {rewards.shape} tasks and labels, Ps for {shape}; give the same of both")
        return rewards
    array = as_floats(rewards, "rewards", copy=True)  # type: ignore[arg-type]
    full = (tasks,) + (classes,) * tasks
    if array.shape == shape:
        return Separable(array)
    if array.ndim == tasks + 1:
        return Tabular(as_rewards(array, full, "rewards"))
    raise DataError(
        f"rewards have shape {array.shape}; give {shape} for r[i, s_i], coupled_rewards(A) with A "
        f"{(tasks, classes, classes)}, or one axis for each task after the first: (N, C, …, C)"
    )


def _largest(values: Floats) -> float:
    return float(np.abs(values).max()) or 1.0


def _spread(values: Any, axes: tuple[int, ...], ndim: int) -> Any:
    """``values`` with its axes placed at ``axes`` of an ``ndim``-dimensional array, the other axes of length one."""
    if len(axes) == 2 and axes[0] > axes[1]:
        values, axes = values.T, (axes[1], axes[0])
    shape = [1] * ndim
    for axis, length in zip(axes, values.shape, strict=True):
        shape[axis] = length
    return values.reshape(shape)
