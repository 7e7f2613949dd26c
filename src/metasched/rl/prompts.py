"""Chooses the prompts of the next step of reinforcement learning.

>>> chooser = PromptChooser(dataset["level"])
>>> prompts = chooser.next(64)             # indices of rows; sample a group of completions for each
>>> chooser.observe(indices, advantages)   # one value for each completion, now, later, or never

A prompt that is always or never solved has advantages of 0 and teaches nothing. So the worth of a level is the mean
size of its advantages, and the engine of :class:`~metasched.Chooser` finds the levels that the model is learning at
present. Every prompt is a separate draw, whose reward may come at any time. JAX is imported only when a chooser is
made.
"""

import hashlib
import json
import threading
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metasched.errors import ConfigError, number, whole_number
from metasched.rl.levels import Values, checked_indices, checked_values, names_of, reward_of

if TYPE_CHECKING:
    from metasched.chooser import Draw
    from metasched.schedulers.base import Scheduler

FORMAT = 1
MEMORY = 200
"""After this many more groups, a group counts 1/e of the newest one."""
PATIENCE = 1024
"""The most prompts that may wait for values."""
_LARGEST = float(np.finfo(np.float32).max)
"""The largest reward. Schedulers store rewards as float32, so a larger one is refused before anything has changed."""
_THOMPSON = {"scale": "within", "width": 2.0, "explore": 0.1}
"""As for rows of mixed batches, because a prompt is such a row."""


@dataclass
class _Group:
    """A prompt that waits, and the values of its completions so far."""

    draw: "Draw"
    prompt: int
    values: list[float] = field(default_factory=list)


class PromptChooser:
    """Chooses prompts by how much their levels, or families, teach at present.

    Every method may be called from any thread.

    Args:
        prompts: the name of each prompt's source, such as its level or family: a list, an array, or a column of the
            data set. With ``by``, the data set itself.
        by: the column with these names, or a function of a row that returns one.
        values: the kind of values that :meth:`observe` gets. ``"advantages"``: the reward of a group is the mean of
            their absolute values. ``"successes"``, from 0 to 1: it is p(1 − p), where p is their mean. ``"numbers"``:
            it is their mean. Or a function that turns a group's values (an array) into a number; larger is better.
        group_size: the number of completions of a prompt. Their values may then arrive one by one. Without it, give all
            values of a prompt in one call, even if it was chosen twice.
        memory: how many groups are remembered. A group that is this many groups old counts 1/e of the newest. The
            groups of three to ten steps are a good choice. Only for ``"thompson"``.
        patience: how many prompts may wait for values. If there are more, the oldest ones are given up.
        scheduler: a name of ``ms.schedulers.names()``, or a :class:`Scheduler`.
        seed: decides all random numbers.
        **options: options of :class:`Chooser` and of the scheduler, such as ``min_share=0.02``.

    Examples:
        >>> chooser = ms.PromptChooser(["easy"] * 500 + ["hard"] * 500)
        >>> for _ in range(20):
        ...     prompts = chooser.next(8)
        ...     right = (prompts < 500).repeat(4)  # all four completions of an easy prompt, none of a hard one
        ...     chooser.observe(prompts.repeat(4), right - right.reshape(8, 4).mean(axis=1).repeat(4))
        >>> chooser.metrics()["no_signal"]
        1.0
    """

    def __init__(
        self,
        prompts: Any,
        by: str | Callable[[Any], Any] | None = None,
        *,
        values: Values = "advantages",
        group_size: int | None = None,
        memory: float = MEMORY,
        patience: int = PATIENCE,
        scheduler: "str | Scheduler" = "thompson",
        seed: int = 0,
        **options: Any,
    ) -> None:
        names = names_of(prompts, by)
        self._reward, self._values = reward_of(values), values if isinstance(values, str) else "own"
        self._group_size = None if group_size is None else whole_number("group_size", group_size, least=1)
        self._patience = whole_number("patience", patience, least=1)
        if refused := {"batch_size", "batching", "labels", "loss_weights", "abstain", "cursor"} & set(options):
            raise ConfigError(f"PromptChooser has no {min(refused)}; leave it out")
        faded = 1 - 1 / number("memory", memory, least=2)
        if scheduler == "thompson":
            options = {"forget": faded, **_THOMPSON, **options}
        elif memory != MEMORY:
            raise ConfigError("memory is only for 'thompson'; give options of your scheduler instead")
        self._number = len(names)
        members: dict[str, list[int]] = {}
        for index, name in enumerate(names):
            members.setdefault(name, []).append(index)
        self._members = {name: np.array(mine, np.int64) for name, mine in members.items()}
        self._data = hashlib.sha256("\0".join(names).encode()).hexdigest()
        from metasched.chooser import Chooser  # brings JAX

        sizes = {name: len(mine) for name, mine in members.items()}
        self._chooser = Chooser(scheduler, sizes, seed=seed, **options)
        self._lock = threading.RLock()
        self._clear()

    def _clear(self) -> None:
        self._waiting: dict[int, _Group] = {}  # by the draw's number, oldest first
        self._of_prompt: dict[int, deque[int]] = {}
        self._given_up: dict[int, int] = {}  # by prompt: completions, or groups, whose values may come too late
        self._counts = {"given_up": 0, "too_late": 0}

    def __repr__(self) -> str:
        return f"PromptChooser({self._number} prompts, {len(self._members)} sources; {len(self._waiting)} waiting)"

    @property
    def sources(self) -> dict[str, int]:
        """The number of prompts of each source."""
        return {name: len(mine) for name, mine in self._members.items()}

    def next(self, n: int) -> NDArray[np.int64]:
        """Choose prompts. The prompts of each source come in random order, again and again.

        Args:
            n: the number of prompts.

        Returns:
            The indices (n,) of the prompts. A prompt may come twice if its source has few.

        Examples:
            >>> ms.PromptChooser(["easy", "easy", "hard"]).next(2).shape
            (2,)
        """
        wanted = whole_number("n", n, least=1)
        with self._lock:
            return np.array([self._next() for _ in range(wanted)], np.int64)

    def observe(self, indices: ArrayLike, values: ArrayLike) -> None:
        """Report the values of completions, in any order. A call that is refused changes nothing.

        Args:
            indices: the prompt of each completion.
            values: a finite number for each; see ``values`` of the class.

        Examples:
            >>> chooser = ms.PromptChooser(["easy", "hard"], values="successes", group_size=2)
            >>> first, second = chooser.next(2)
            >>> chooser.observe([second, first, second], [1, 0, 0])  # the second group is complete
            >>> chooser.metrics()["waiting"]
            1.0
        """
        prompts = checked_indices(indices, self._number)
        numbers = checked_values(values, prompts)
        groups: dict[int, list[float]] = {}
        for prompt, value in zip(prompts.tolist(), numbers.tolist(), strict=True):
            groups.setdefault(prompt, []).append(value)
        with self._lock:
            for prompt, arrived in groups.items():
                self._refuse_unless_expected(prompt, len(arrived))
            complete = [one for prompt, arrived in groups.items() for one in self._complete(prompt, arrived)]
            rewards = [self._reward_of(one, arrived) for one, arrived in complete]
            for prompt, arrived in groups.items():
                self._take(prompt, arrived)
            for (group, _), reward in zip(complete, rewards, strict=True):
                self._end(group)
                self._chooser.tell(group.draw, reward)

    def forget(self, indices: ArrayLike) -> None:
        """Report that no more values will come for these prompts. Earlier values count.

        Args:
            indices: the prompts. To forget a prompt that waits more than once, list it more than once.

        Examples:
            >>> chooser = ms.PromptChooser(["easy", "hard"])
            >>> chooser.forget(chooser.next(4)[:1])
            >>> chooser.metrics()["waiting"]
            3.0
        """
        prompts = checked_indices(indices, self._number).tolist()
        with self._lock:
            groups: list[_Group] = []
            for prompt, times in Counter(prompts).items():
                mine = self._of_prompt.get(prompt, ())
                if times > len(mine):
                    raise ConfigError(f"prompt {prompt} is not waiting for values; forget each group once")
                groups.extend(self._waiting[number] for number in list(mine)[:times])
            rewards = [self._reward_of(one, one.values) if one.values else None for one in groups]
            for group, reward in zip(groups, rewards, strict=True):
                self._end(group)
                if reward is None:
                    self._chooser.forget(group.draw)
                else:
                    self._chooser.tell(group.draw, reward)

    def waiting(self) -> NDArray[np.int64]:
        """List the prompts that wait for values.

        Returns:
            Their indices, oldest first. A prompt that was chosen twice comes twice.

        Examples:
            >>> chooser = ms.PromptChooser(["easy", "hard"])
            >>> bool((chooser.next(4) == chooser.waiting()).all())
            True
            >>> chooser.forget(chooser.waiting())  # after a crash that lost their completions
        """
        with self._lock:
            return np.array([group.prompt for group in self._waiting.values()], np.int64)

    def history(self) -> dict[str, NDArray[Any]]:
        """List the prompts so far, in the order of choosing. In a long run these are about the last million.

        Returns:
            Columns: ``source``, the name; ``reward`` of the group (NaN if none); ``told``, the rank of the group among
                those with a reward, or −1.

        Examples:
            >>> chooser = ms.PromptChooser(["easy", "hard"], scheduler="cyclic")
            >>> chooser.observe(chooser.next(2)[:1].repeat(2), [-1, 1])
            >>> {name: column.tolist() for name, column in chooser.history().items()}
            {'source': ['easy', 'hard'], 'reward': [1.0, nan], 'told': [0, -1]}
        """
        columns = self._chooser.history()
        names = np.array(self._chooser.names, np.object_)
        return {"source": names[columns["task"]], "reward": columns["reward"], "told": columns["told"]}

    def metrics(self, last: int = 100) -> dict[str, float]:
        """Numbers for a tracker.

        Args:
            last: how many of the latest prompts and groups count.

        Returns:
            ``share/<source>`` of the last prompts; ``reward/<source>``, the mean of the last groups; ``draws/<source>``
            of all; ``no_signal``, the share of the last groups with a reward of 0; ``waiting``, prompts that have no
            values yet; ``given_up``, prompts that waited too long; and ``too_late``, values that came for those.

        Examples:
            >>> chooser = ms.PromptChooser(["easy", "hard"])
            >>> chooser.observe(chooser.next(1).repeat(2), [-1, 1])
            >>> chooser.metrics()["no_signal"]
            0.0
        """
        whole_number("last", last, least=1)
        with self._lock:
            history = self._chooser.history()
            lately = history["reward"][np.argsort(history["told"], kind="stable")][-last:]
            told = lately[~np.isnan(lately)]
            silent = {"no_signal": float((told == 0).mean())} if len(told) else {}
            counts = {"waiting": len(self._waiting), **self._counts}
            return {**self._chooser.log(last), **silent, **{name: float(count) for name, count in counts.items()}}

    def state_dict(self) -> dict[str, Any]:
        """Everything needed to continue elsewhere, including prompts that wait.

        Returns:
            ``facts``, which JSON can hold, and ``arrays`` by name.

        Examples:
            >>> chooser, again = (ms.PromptChooser(["easy", "hard"] * 50) for _ in range(2))
            >>> again.load_state_dict(chooser.state_dict())
            >>> again.next(8).tolist() == chooser.next(8).tolist()
            True
        """
        with self._lock:
            inner = self._chooser.state_dict()
            facts = {
                "prompts": {"format": FORMAT, **self._identity(), **self._counts},
                "values": {str(number): group.values for number, group in self._waiting.items() if group.values},
                "late": {str(prompt): count for prompt, count in self._given_up.items()},
                "chooser": inner["facts"],
            }
            return {"facts": facts, "arrays": inner["arrays"]}

    def load_state_dict(self, stored: Mapping[str, Any]) -> None:
        """Continue from a state that :meth:`state_dict` returned. A state that does not fit changes nothing.

        Args:
            stored: the result of ``state_dict`` of a chooser with the same prompts and settings.
        """
        try:
            facts, arrays = stored["facts"], stored["arrays"]
            own, inner = dict(facts["prompts"]), facts["chooser"]
            values = {int(one): [float(value) for value in each] for one, each in facts["values"].items()}
            late = {int(one): int(count) for one, count in facts["late"].items()}
            counts = {name: int(own[name]) for name in ("given_up", "too_late")}
        except (TypeError, KeyError, ValueError, AttributeError, OverflowError):
            raise ConfigError("this is not a state from state_dict() of a PromptChooser") from None
        for name, mine in {"format": FORMAT, **self._identity()}.items():
            if own.get(name) != mine:
                fault = (
                    "belongs to other prompts" if name == "data" else f"has {name} {own.get(name)!r}, this one {mine!r}"
                )
                raise ConfigError(f"the state {fault}; make the chooser as it was")
        numbers = inner.get("open") if isinstance(inner, Mapping) else None
        if not isinstance(numbers, list) or any(number not in numbers for number in values):
            raise ConfigError("the state is damaged: it has values for a prompt that does not wait; take an older one")
        mine = self._chooser.state_dict()["facts"]["sources"]
        if json.dumps(inner.get("sources"), default=str) != json.dumps(mine):
            raise ConfigError("the state is damaged: its sources do not fit its prompts; take an older one")
        if any(len(each) >= (self._group_size or 1) or not np.isfinite(each).all() for each in values.values()):
            raise ConfigError(
                "the state is damaged: a group that waits has too many or too few values; take an older one"
            )
        if any(not 0 <= prompt < self._number or count < 1 for prompt, count in late.items()):
            raise ConfigError("the state is damaged: a prompt waits that cannot wait; take an older one")
        with self._lock:
            self._chooser.load_state_dict({"facts": inner, "arrays": arrays})
            self._clear()
            self._given_up, self._counts = late, counts
            for draw in self._chooser.open():
                self._wait(draw).values.extend(values.get(draw.id, []))

    def _identity(self) -> dict[str, Any]:
        return {"data": self._data, "values": self._values, "group_size": self._group_size}

    # One prompt

    def _next(self) -> int:
        """Choose one prompt. If too many wait, give up the oldest."""
        while len(self._waiting) >= self._patience:
            self._give_up(next(iter(self._waiting.values())))
        return self._wait(self._chooser.ask()).prompt

    def _wait(self, draw: "Draw") -> _Group:
        group = _Group(draw, int(self._members[str(draw.source)][draw.rows[0]]))
        self._waiting[draw.id] = group
        self._of_prompt.setdefault(group.prompt, deque()).append(draw.id)
        return group

    def _end(self, group: _Group) -> None:
        """Stop waiting for a prompt."""
        del self._waiting[group.draw.id]
        mine = self._of_prompt[group.prompt]
        mine.remove(group.draw.id)
        if not mine:
            del self._of_prompt[group.prompt]

    def _give_up(self, group: _Group) -> None:
        self._end(group)
        self._chooser.forget(group.draw)
        missing = 1 if self._group_size is None else self._group_size - len(group.values)
        self._given_up[group.prompt] = self._given_up.get(group.prompt, 0) + missing
        self._counts["given_up"] += 1

    # Values

    def _places(self, prompt: int) -> list[tuple[_Group, int]]:
        """The groups of a prompt that wait, oldest first, each with the number of values that complete it."""
        groups = [self._waiting[number] for number in self._of_prompt.get(prompt, ())]
        return [(one, (self._group_size or 0) - len(one.values)) for one in groups]

    def _refuse_unless_expected(self, prompt: int, number: int) -> None:
        places, late = self._places(prompt), self._given_up.get(prompt, 0)
        if self._group_size is None:
            if not places and not late:
                raise ConfigError(
                    f"prompt {prompt} is not waiting for values; give those of a group in one call, or set group_size"
                )
        elif number > sum(missing for _, missing in places) + late:
            raise ConfigError(
                f"prompt {prompt} has {number} values, more than it waits for; is group_size {self._group_size} right?"
            )

    def _complete(self, prompt: int, arrived: list[float]) -> list[tuple[_Group, list[float]]]:
        """The groups that these values complete, with all their values."""
        if self._group_size is None:
            return [(group, arrived) for group, _ in self._places(prompt)]
        found, begin = [], 0
        for group, missing in self._places(prompt):
            if begin + missing <= len(arrived):
                found.append((group, [*group.values, *arrived[begin : begin + missing]]))
            begin += missing
        return found

    def _take(self, prompt: int, arrived: list[float]) -> None:
        """Store the values of groups, and count those that come too late."""
        rest, places = arrived, self._places(prompt)
        if self._group_size is None and places:
            rest = []
            if len(places) > 1:  # All end now, because nobody knows whether the values of the others are still to come.
                self._given_up[prompt] = self._given_up.get(prompt, 0) + len(places) - 1
        else:
            for group, missing in places:
                group.values.extend(rest[:missing])
                rest = rest[missing:]
        if rest:
            self._counts["too_late"] += len(rest)
            self._given_up[prompt] -= 1 if self._group_size is None else len(rest)
            if not self._given_up[prompt]:
                del self._given_up[prompt]

    def _reward_of(self, group: _Group, values: list[float]) -> float:
        reward = self._reward(np.array(values, np.float64))
        return number(f"the reward of prompt {group.prompt}", reward, least=-_LARGEST, most=_LARGEST)
