"""Ask/tell: any scheduler, in any training loop.

>>> chooser = Chooser("ucb", sizes, batch_size=32)
>>> draw = chooser.ask()              # from task draw.task take the rows draw.rows, train, measure
>>> chooser.tell(draw, reward)        # any number that is larger when the model is better

Several draws may be open at once, and tells may come in any order. There is one rule for both: *the scheduler's state
is what the tells made it, in the order they came, each with the labels at the cursors when its draw was made; to
choose, the open draws are added to a copy, in the order they were asked, each as if it had already brought the mean
reward of its task.* So a cyclic scheduler moves on, a random one draws anew and UCB counts what is under way; with no
draw open the choice is the one a compiled loop would make.

A tell only takes a note; the next ask hands all notes to one compiled step that updates and selects.
"""

import math
import secrets
import threading
from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import numpy as np
from numpy.typing import ArrayLike, NDArray

from metasched import schedulers
from metasched.cursors import CURSORS, advance, batch_rows, labels_at, starts_of
from metasched.errors import ConfigError
from metasched.schedulers import options as check
from metasched.schedulers.base import Scheduler, State
from metasched.tasks import TaskSet

FORMAT = 2


@dataclass(frozen=True, eq=False, slots=True)
class Draw:
    """One batch to train on.

    Attributes:
        id: 0, 1, … in the order of asking.
        task: the source; the number of tasks, N, stands for "no source this time" where abstaining is allowed.
        rows: int64 (batch_size,), row numbers of that task; empty when abstaining and for sources without rows.
        chooser: whose draw it is.
    """

    id: int
    task: int
    rows: NDArray[np.int64]
    chooser: str = field(repr=False)


class _Open(NamedTuple):
    """What a draw that waits for its reward remembers: task, first row, and the labels (N,) at all cursors."""

    task: int
    begin: int
    labels: NDArray[np.int32]


class Chooser:
    """Decides, draw by draw, which task the next batch comes from.

    Args:
        scheduler: a :class:`Scheduler` or a name of ``ms.schedulers.names()``.
        tasks: a :class:`TaskSet`, the number of rows of each task, or the number of sources when they are streams
            that have no row numbers.
        batch_size: rows of one draw.
        seed: decides the scheduler's chance.
        cursor: ``"rested"``: a task's cursor moves when it is drawn; ``"global"``: all cursors move with every draw.
            Cursors wrap round.
        labels: one array of labels for each task, for schedulers that look at the label at the cursor; those of a
            :class:`TaskSet` are known, without any they are zeros.
        abstain: whether the scheduler has one more arm, "no source this time".
        **options: options of a scheduler given by name.

    Every method may be called from any thread.
    """

    def __init__(
        self,
        scheduler: Scheduler | str,
        tasks: TaskSet | Sequence[int] | int,
        batch_size: int = 1,
        *,
        seed: int = 0,
        cursor: str = "rested",
        labels: Sequence[ArrayLike] | None = None,
        abstain: bool = False,
        **options: Any,
    ) -> None:
        self._sizes = _sizes(tasks)
        self._has_rows = not isinstance(tasks, int)
        self._batch_size = check.whole("batch_size", batch_size, least=1)
        self._cursor = check.choice("cursor", cursor, CURSORS)
        every_label = [task.labels for task in tasks.tasks] if isinstance(tasks, TaskSet) else labels
        self._every_label = _labels(every_label, self._sizes)
        arms = len(self._sizes) + check.flag("abstain", abstain)
        if isinstance(scheduler, str):
            options = {"passes": np.maximum(self._sizes // self._batch_size, 1), **options}
            scheduler = schedulers.make(scheduler, num_tasks=len(self._sizes), abstain=abstain, **options)
        elif options:
            raise ConfigError(f"options {sorted(options)} need a scheduler given by name")
        self._step = _compiled(scheduler)
        key = jax.random.key(check.whole("seed", seed, least=0, most=2**32 - 1))
        self._state: State = jax.device_put(scheduler.init(key), jax.local_devices(backend="cpu")[0])

        self._name = secrets.token_hex(8)
        self._lock = threading.Lock()
        self._starts = starts_of(self._sizes)
        self._cursors = np.zeros_like(self._sizes)
        self._labels = self._read_labels()
        self._notes: list[tuple[_Open, float]] = []  # draws and rewards told since the state was last up to date
        self._open: dict[int, _Open] = {}  # by id, in the order of asking
        self._asked = array("q")  # task of draw 0, 1, …
        self._told = array("q")  # ids in the order of telling
        self._rewards = array("d")  # and their rewards
        self._totals = np.zeros(arms)  # sum of rewards by task
        self._tells = np.zeros(arms, np.int64)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Rows of each task; zeros when they have none."""
        return tuple(self._sizes.tolist()) if self._has_rows else (0,) * len(self._sizes)

    @property
    def batch_size(self) -> int:
        """Rows of one draw."""
        return self._batch_size

    def ask(self) -> Draw:
        """The next batch; its cursor moves at once."""
        with self._lock:
            task = self._choose()
            begin = int(self._cursors[task]) if task < len(self._sizes) else 0
            number = len(self._asked)
            self._asked.append(task)
            self._open[number] = _Open(task, begin, self._labels)
            self._cursors = advance(self._cursors, self._sizes, task, self._batch_size, self._cursor)
            self._labels = self._read_labels()
        return self._draw(number, task, begin)

    def tell(self, draw: Draw, reward: float) -> None:
        """What ``draw`` brought; a wrong draw or a reward that is no finite number is refused and changes nothing."""
        value = _finite(reward)
        with self._lock:
            self._refuse_unless_open(draw)
            self._notes.append((self._open.pop(draw.id), value))
            self._told.append(draw.id)
            self._rewards.append(value)
            self._totals[draw.task] += value
            self._tells[draw.task] += 1
            if len(self._notes) == _MOST_NOTES:
                self._choose()

    def forget(self, draw: Draw) -> None:
        """Give up a draw that will never have a reward; the scheduler never hears of it."""
        with self._lock:
            self._refuse_unless_open(draw)
            del self._open[draw.id]

    def open(self) -> tuple[Draw, ...]:
        """The draws that wait for a reward, in the order of asking."""
        with self._lock:
            waiting = list(self._open.items())
        return tuple(self._draw(number, draw.task, draw.begin) for number, draw in waiting)

    def history(self) -> dict[str, NDArray[Any]]:
        """All draws as columns: ``id``, ``task``, ``reward`` (NaN if none), ``told`` (rank among the tells, or −1)."""
        with self._lock:
            tasks, told = np.array(self._asked, np.int64), np.array(self._told, np.int64)
            rewards = np.array(self._rewards, np.float64)
        reward = np.full(len(tasks), np.nan)
        order = np.full(len(tasks), -1, np.int64)
        reward[told], order[told] = rewards, np.arange(len(told))
        return {"id": np.arange(len(tasks)), "task": tasks, "reward": reward, "told": order}

    def state_dict(self) -> dict[str, Any]:
        """Everything needed to go on elsewhere: ``facts``, which JSON can hold, and ``arrays`` by name."""
        with self._lock:
            self._choose()
            return {
                "facts": {
                    **self._identity(),
                    "chooser": self._name,
                    "open": [[number, draw.task, draw.begin] for number, draw in self._open.items()],
                },
                "arrays": {
                    **_named(self._state),
                    "cursors": self._cursors.copy(),
                    "open_labels": self._open_labels(),
                    "asked": np.array(self._asked, np.int64),
                    "told": np.array(self._told, np.int64),
                    "rewards": np.array(self._rewards, np.float64),
                    "totals": self._totals.copy(),
                    "tells": self._tells.copy(),
                },
            }

    def load_state_dict(self, stored: Mapping[str, Any]) -> None:
        """Become the chooser whose :meth:`state_dict` this is, open draws included; it must fit, or nothing changes."""
        with self._lock:
            facts, arrays = _parts(stored)
            if facts.get("format") != FORMAT:
                raise ConfigError(
                    f"the state has format {facts.get('format')}, this metasched reads {FORMAT}; start a new chooser"
                )
            for name, value in self._identity().items():
                if facts.get(name) != value:
                    raise ConfigError(f"the state has {name} {facts.get(name)!r}, this chooser {value!r}")
            asked, told = len(arrays["asked"]), len(arrays["told"])
            mine = {
                **_named(self._state),
                "cursors": self._cursors,
                "open_labels": np.zeros((len(facts["open"]), len(self._sizes)), np.int32),
                "totals": self._totals,
                "tells": self._tells,
                "asked": np.zeros(asked, np.int64),
                "told": np.zeros(told, np.int64),
                "rewards": np.zeros(told, np.float64),
            }
            for name, like in mine.items():
                given = arrays.get(name)
                if given is None or given.shape != like.shape or given.dtype != like.dtype:
                    raise ConfigError(f"the state has no '{name}' of {like.dtype} {like.shape}: another scheduler's?")
            leaves, structure = jax.tree.flatten(self._state)
            stored_leaves = [arrays[name].copy() for name in _named(self._state)]
            self._state = jax.tree.unflatten(structure, jax.device_put(stored_leaves, leaves[0].device))
            self._name = str(facts["chooser"])
            self._open = {
                int(number): _Open(int(task), int(begin), labels.copy())
                for (number, task, begin), labels in zip(facts["open"], arrays["open_labels"], strict=True)
            }
            self._asked = array("q", arrays["asked"].tobytes())
            self._told = array("q", arrays["told"].tobytes())
            self._rewards = array("d", arrays["rewards"].tobytes())
            self._cursors, self._totals, self._tells = (arrays[name].copy() for name in ("cursors", "totals", "tells"))
            self._labels = self._read_labels()
            self._notes = []

    def _identity(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "sizes": list(self.sizes),
            "batch_size": self._batch_size,
            "cursor": self._cursor,
            "arms": len(self._totals),
        }

    def _draw(self, number: int, task: int, begin: int) -> Draw:
        if task == len(self._sizes) or not self._has_rows:
            return Draw(number, task, np.empty(0, np.int64), self._name)
        return Draw(number, task, batch_rows(begin, self._sizes[task], self._batch_size), self._name)

    def _read_labels(self) -> NDArray[np.int32]:
        """Labels (N,) at the cursors."""
        if self._every_label is None:
            return np.zeros(len(self._sizes), np.int32)
        labels: NDArray[np.int32] = labels_at(self._every_label, self._starts, self._cursors)
        return labels

    def _open_labels(self) -> NDArray[np.int32]:
        """The labels (open, N) of the open draws."""
        return np.array([draw.labels for draw in self._open.values()], np.int32).reshape(-1, len(self._sizes))

    def _choose(self) -> int:
        """Bring the state up to date with the notes, and select as if the open draws had been told."""
        told, total = len(self._notes), len(self._notes) + len(self._open)
        draws = np.zeros((_room_for(total) + 1, 1 + len(self._sizes)), np.int32)
        rewards = np.zeros(len(draws), np.float32)
        for place, (draw, reward) in enumerate(self._notes):
            draws[place, 0], draws[place, 1:], rewards[place] = draw.task, draw.labels, reward
        if self._open:
            overall = self._totals.sum() / max(self._tells.sum(), 1)
            means = np.where(self._tells > 0, self._totals / np.maximum(self._tells, 1), overall)
            draws[told:total, 0] = [draw.task for draw in self._open.values()]
            draws[told:total, 1:] = self._open_labels()
            rewards[told:total] = means[draws[told:total, 0]]
        draws[-1, 1:] = self._labels
        self._state, choice = self._step(self._state, draws, rewards, told, total)
        self._notes.clear()
        return int(choice)

    def _refuse_unless_open(self, draw: Draw) -> None:
        if not isinstance(draw, Draw):
            raise ConfigError(f"tell takes a draw from ask(), not {type(draw).__name__}")
        if draw.chooser != self._name:
            raise ConfigError(f"draw {draw.id} is of another chooser; tell it to the one that was asked")
        if self._open.get(draw.id, (None,))[0] != draw.task:
            raise ConfigError(f"draw {draw.id} is not open; each draw is told once")


_MOST_NOTES = 64


def _room_for(number: int) -> int:
    """A power of two, at least 8: few sizes, so that few programs are compiled."""
    return 1 << max(number - 1, 7).bit_length()


@lru_cache(maxsize=64)
def _compiled(scheduler: Scheduler) -> Callable[..., tuple[State, jax.Array]]:
    """One dispatch: ``told`` real updates, then up to ``total`` supposed ones on a copy, and the choice made there.

    A row of ``draws`` is a task and the labels of its draw, the last row the labels now: one array, because each costs.
    """

    @jax.jit
    def step(state: State, draws: jax.Array, rewards: jax.Array, told: int, total: int) -> tuple[State, jax.Array]:
        def add(place: int, state: State) -> State:
            return scheduler.update(state, draws[place, 1:], draws[place, 0], rewards[place])

        state = jax.lax.fori_loop(0, told, add, state)
        return state, scheduler.select(jax.lax.fori_loop(told, total, add, state), draws[-1, 1:])

    return step


def _sizes(tasks: TaskSet | Sequence[int] | int) -> NDArray[np.int64]:
    if isinstance(tasks, TaskSet):
        return np.array(tasks.sizes, np.int64)
    if isinstance(tasks, int):
        return np.ones(check.whole("the number of sources", tasks, least=1), np.int64)
    sizes = list(tasks)
    if not sizes:
        raise ConfigError("sizes are empty; give the number of rows of each task")
    return np.array(
        [check.whole(f"size of task {i}", _plain(size), least=1) for i, size in enumerate(sizes, 1)], np.int64
    )


def _plain(value: Any) -> Any:
    """NumPy's whole numbers as Python's."""
    return int(value) if isinstance(value, np.integer) else value


def _labels(labels: Sequence[ArrayLike] | None, sizes: NDArray[np.int64]) -> NDArray[np.int32] | None:
    """All labels end to end, or None."""
    if labels is None:
        return None
    each = [np.asarray(one) for one in labels]
    if [one.shape for one in each] != [(size,) for size in sizes] or any(one.dtype.kind not in "iu" for one in each):
        raise ConfigError(f"labels do not fit; give one array of integers for each task, of lengths {sizes.tolist()}")
    return np.concatenate(each).astype(np.int32)


def _finite(reward: Any) -> float:
    try:
        value = math.nan if isinstance(reward, str) else float(reward)
    except (TypeError, ValueError, OverflowError):
        value = math.nan
    if not abs(value) <= float(np.finfo(np.float32).max):
        raise ConfigError(f"the reward is {reward!r}; give a finite number")
    return value


def _named(state: State) -> dict[str, NDArray[Any]]:
    leaves, _ = jax.tree_util.tree_flatten_with_path(state)
    return {"scheduler" + jax.tree_util.keystr(path): np.asarray(leaf) for path, leaf in leaves}


def _parts(stored: Mapping[str, Any]) -> tuple[Mapping[str, Any], dict[str, NDArray[Any]]]:
    try:
        facts = stored["facts"]
        arrays = {name: np.asarray(value) for name, value in stored["arrays"].items()}
        if arrays["asked"].ndim != 1 or arrays["told"].ndim != 1 or not isinstance(facts["chooser"], str):
            raise ValueError
        for number, task, begin in facts["open"]:
            if not 0 <= number < len(arrays["asked"]) or arrays["asked"][number] != task or begin < 0:
                raise ValueError
    except (TypeError, KeyError, ValueError, AttributeError):
        raise ConfigError("this is not what state_dict() of a chooser returns") from None
    return facts, arrays
