"""The result of every planner: which task to draw from in a joint state, and how much is known about that choice."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from metasched.errors import DataError
from metasched.planning.checks import Floats, Integers, first_true

Choose: TypeAlias = Callable[[Integers], int]

REMEMBERED = 100_000  # joint states whose choice is cached; a settled policy visits only a handful


@dataclass(frozen=True, eq=False)
class Policy:
    """A policy for N tasks with C labels each.

    Attributes:
        shape: (N, C).
        choose: the task for one joint state (N,), unchecked; :meth:`action` is the same with checks and a memory.
        value: expected discounted reward from each joint state, (C, …, C); ``None`` past tabular size.
        actions: the task chosen in each joint state, (C, …, C); ``None`` past tabular size.
        residual: max |TV − V| over all states, measured, not assumed; ``None`` past tabular size.
        error_bound: no value is further than this from the optimum: residual / (1 − discount).
        iterations: value tables swept.
        memory: bytes the solver set aside.
        method: how the policy was made, a name that ``solve_joint`` accepts.
        reason: why that method, in a sentence.

    Examples:
        >>> chains = [[[0.9, 0.1], [0.5, 0.5]], [[0.5, 0.5], [0.1, 0.9]]]
        >>> policy = ms.planning.solve_joint(chains, [[0.2, 0.6], [0.3, 0.4]], 0.9)
        >>> policy.actions.tolist()
        [[1, 1], [0, 0]]
    """

    shape: tuple[int, int]
    choose: Choose = field(repr=False)
    value: Floats | None = field(default=None, repr=False)
    actions: Any = field(default=None, repr=False)
    residual: float | None = None
    error_bound: float | None = None
    iterations: int = 0
    memory: int = 0
    method: str = ""
    reason: str = ""
    _seen: dict[bytes, int] = field(default_factory=dict, init=False, repr=False)

    def action(self, labels: ArrayLike) -> int:
        """Choose the task to draw from.

        Args:
            labels: (N,), at the tasks' cursors.

        Returns:
            The number of the task, from 0.

        Examples:
            >>> ms.planning.solve_joint([[[1.0]], [[1.0]]], [[0.2], [0.7]], 0.9).action([0, 0])
            1
        """
        state = np.asarray(labels)
        if state.dtype != np.int64 or not state.flags.c_contiguous:
            state = self._checked(state)
        key = state.tobytes()
        task = self._seen.get(key)
        if task is None:
            task = self.choose(self._checked(state))
            if len(self._seen) >= REMEMBERED:
                self._seen.clear()
            self._seen[key] = task
        return task

    def _checked(self, state: Any) -> Integers:
        tasks, classes = self.shape
        if state.shape != (tasks,) or state.dtype.kind not in "iu":
            raise DataError(f"labels have shape {state.shape} and dtype {state.dtype}; give one integer for each task")
        where = first_true((state < 0) | (state >= classes))
        if where is not None:
            raise DataError(f"labels[{where[0]}] is {state[where]}; give numbers from 0 to {classes - 1}")
        return np.ascontiguousarray(state, dtype=np.int64)


def joint_states(tasks: int, classes: int) -> Integers:
    """All joint states (Cᴺ, N), last task fastest."""
    return np.stack(np.unravel_index(np.arange(classes**tasks), (classes,) * tasks), axis=1).astype(np.int64)


def first_best(values: Floats, tie: float) -> int:
    """The lowest index whose value is within ``tie`` of the largest."""
    return int(np.argmax(values >= values.max() - tie))
