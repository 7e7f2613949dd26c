"""The chooser itself: open draws, rewards, and the lock around both.

>>> chooser = Chooser("thompson", {"web": 10_000, "books": 500}, batch_size=32)
>>> draw = chooser.ask()              # row draw.rows[b] of source draw.sources[b], for b = 0 … 31: train, measure
>>> chooser.tell(draw, rewards)       # one number for each row, larger if the row helped more

Loaders prefetch, so several draws may be open at once, and rewards may arrive in any order. The scheduler's state is
updated with the rewards in the order in which they arrive, each with the labels at the cursors when its draw was made.
To choose, a copy of this state is also updated with the open draws, in the order of asking, each as if it had already
brought the mean reward of its source. So a cyclic scheduler moves on, a random one draws again, and UCB counts the open
draws. Without the copy, all prefetched batches would come from the same source. If no draw is open, the choice is the
one that a compiled loop would make. When sources come or go, a new scheduler is made. It gets the stored rewards of the
sources that are still there.

``tell`` only takes a note. The next ``ask`` hands all notes to one compiled step that updates and selects.
"""

import secrets
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import jax
import numpy as np
from numpy.typing import ArrayLike, NDArray

from metasched.chooser.draws import LOSS, MISSING, Draw, Open, credited
from metasched.chooser.history import History, no_record
from metasched.chooser.mixture import named, on_host, with_other_keys
from metasched.chooser.setup import MIXED, Setup, set_up
from metasched.chooser.sources import Given, warn_of_small
from metasched.chooser.stages import Weights, stages_of
from metasched.chooser.state import FORMAT, Waiting, arrays_of, checked, fitting, weights_of
from metasched.errors import ConfigError, number, whole_number
from metasched.optional import version_of
from metasched.schedulers.base import Scheduler, State

Numbers: TypeAlias = float | ArrayLike | Mapping[str, float]
"""One number for each row, one for each source by name, or one for all rows."""
_MOST_NOTES = 64
"""The most rewards that wait for the next ask. More are applied at once, so that the compiled step stays small."""


class Chooser:
    """Decides, draw by draw, which rows the next batch holds.

    Every method may be called from any thread.

    Args:
        scheduler: a name of ``ms.schedulers.names()``, ``"auto"``, ``"target-only"`` or ``"single:<source>"``, or a
            :class:`Scheduler`.
        sources: the number of rows of each source, by name or in a list, None for a stream of unknown size; a
            :class:`TaskSet`; or the number of streams.
        batch_size: rows of one draw.
        batching: ``"mixed"``: the source of every row is chosen separately, and every row has a reward.
            ``"per_source"``: all rows of a draw come from one source, and the draw has one reward. For draws of one row
            the two are the same.
        seed: decides all random numbers.
        shuffle: whether each pass through a source has a fresh random order; by default it has, except where the
            scheduler looks at the label that comes next, as ``gittins`` and ``mdp`` do.
        min_share: the smallest probability of every source in every choice, whatever its rewards. A choice is a draw
            of one source, or a row of a mixed draw.
        weights: how much each source should be drawn. With ``"uniform"`` these are the proportions of the draws. With
            a scheduler that learns they are a prior, which fades (see ``prior``), and ``min_share`` follows them.
            Pairs of a draw and weights are stages: ``[(0, {"web": 9, "books": 1}), (10_000, {"web": 1, "books": 1})]``
            changes them at draw 10,000.
        ramp: whether the weights move in a straight line from one stage to the next.
        temperature: T, which makes the proportions weight^(1/T). If you give no ``weights``, these are the sizes. 1 is
            proportional to the weights, and larger is more even. For ``"softmax"`` this is its own temperature.
        prior: how many choices the prior counts for: after so many choices, half of them are the scheduler's own. By
            default 10 per source.
        loss_weights: the mixture w whose loss you want to minimise; ``draw.weights`` are then w / q.
        cursor: ``"rested"``: a source's cursor moves when it is drawn; ``"global"``: all cursors move with every draw,
            and in a mixed draw with every row.
        labels: one array of labels for each source, for schedulers that look at them; a :class:`TaskSet` has its own.
        abstain: whether the scheduler has one more arm, "no source this time". A mixed draw then has fewer rows than
            ``batch_size``. A row that was left out gets the reward 0 if you tell one reward per row, so use rewards for
            which 0 means no help; one number for the whole draw counts for such rows as well.
        **options: options of the scheduler, if you give its name.

    Examples:
        >>> chooser = ms.Chooser("thompson", {"web": 10_000, "books": 500}, batch_size=32)
        >>> for _ in range(100):
        ...     draw = chooser.ask()  # train on row draw.rows[b] of source draw.sources[b], b = 0 … 31
        ...     chooser.tell(draw, draw.sources == "books")  # and say how much each row helped
        >>> chooser.shares()["books"] > 0.8
        True
    """

    def __init__(
        self,
        scheduler: Scheduler | str,
        sources: Given,
        batch_size: int = 1,
        *,
        batching: str = MIXED,
        seed: int = 0,
        shuffle: bool | None = None,
        min_share: float = 0.0,
        weights: Weights | None = None,
        ramp: bool = False,
        temperature: float | None = None,
        prior: int | None = None,
        loss_weights: Mapping[str, float] | Sequence[float] | None = None,
        cursor: str = "rested",
        labels: Sequence[ArrayLike] | None = None,
        abstain: bool = False,
        **options: Any,
    ) -> None:
        self._setup = set_up(
            scheduler,
            sources,
            batch_size,
            options,
            batching=batching,
            seed=seed,
            shuffle=shuffle,
            min_share=min_share,
            weights=weights,
            ramp=ramp,
            temperature=temperature,
            prior=prior,
            loss_weights=loss_weights,
            cursor=cursor,
            labels=labels,
            abstain=abstain,
        )
        self._lock = threading.Lock()
        self._name = secrets.token_hex(8)  # Draws carry it, so that no other chooser accepts their rewards.
        self._state: State = self._setup.first_state()
        self._history = History(no_record(len(self._setup.sources.all), self._setup.choices))
        self._notes: list[tuple[Open, NDArray[Any]]] = []  # draws and rewards since the state was last updated
        self._open: dict[int, Open] = {}  # open draws by id, in the order of asking
        warn_of_small(self._setup.sources.all, self._setup.usual_rows)

    def __repr__(self) -> str:
        rows = "row" if self.batch_size == 1 else f"rows, {self.batching}"
        return (
            f"Chooser('{self.scheduler}', {len(self.sources)} sources, batches of {self.batch_size} {rows}; "
            f"{self._history.draws} draws so far)"
        )

    @property
    def sizes(self) -> tuple[int | None, ...]:
        """Rows of each source, by number; None for streams."""
        return tuple(one.size for one in self._setup.sources.all)

    @property
    def sources(self) -> dict[str, int | None]:
        """The sources that can be drawn, with their sizes."""
        return {one.name: one.size for one in self._setup.sources.all if not one.removed}

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all sources by number, including those that were removed."""
        return tuple(self._setup.sources.names)

    @property
    def scheduler(self) -> str:
        """The scheduler's name, or ``"own"`` for a scheduler object."""
        return self._setup.name

    @property
    def batch_size(self) -> int:
        """Rows of one draw."""
        return self._setup.batch_size

    @property
    def batching(self) -> str:
        """``"mixed"`` or ``"per_source"``. With draws of one row it is always ``"per_source"``."""
        return self._setup.batching

    def ask(self) -> Draw:
        """Choose the next batch. Its cursors move at once.

        Returns:
            The draw: the source of each row, and which of its rows.

        Examples:
            >>> sizes = {"web": 10_000, "books": 500}
            >>> draw = ms.Chooser("cyclic", sizes, batch_size=4, shuffle=False).ask()
            >>> draw.sources.tolist(), draw.rows.tolist()
            (['web', 'books', 'web', 'books'], [0, 0, 1, 1])
            >>> draw = ms.Chooser("cyclic", sizes, batch_size=4, batching="per_source", shuffle=False).ask()
            >>> draw.source, draw.rows.tolist()
            ('web', [0, 1, 2, 3])
        """
        with self._lock:
            positions = self._setup.positions(self._history.drawn)
            opened = self._setup.opened(positions, *self._choose(positions))
            number = self._history.ask(opened.tasks)
            self._open[number] = opened
            return self._setup.draw(number, opened, self._name)

    def tell(self, draw: Draw, reward: Numbers, loss: Numbers | None = None) -> None:
        """Give a draw its reward.

        A reward far outside the recent ones, by more than ten times their range, is clipped.

        Args:
            draw: a draw of this chooser that has no reward yet.
            reward: larger if the rows helped more. One finite number for each row of the draw, one for each of its
                sources by name, or one for all rows. If the draw has one source, the mean over its rows counts.
            loss: the training loss, in the same forms, for :meth:`log` and :meth:`history`. The scheduler does not read
                it. NaN stands for a row without a loss, and sources may be left out.

        Examples:
            >>> chooser = ms.Chooser("cyclic", {"web": None, "books": None}, batch_size=3)
            >>> first, second, third = chooser.ask(), chooser.ask(), chooser.ask()
            >>> chooser.tell(second, [0.4, 0.1, 0.3])  # in any order
            >>> chooser.tell(first, {"web": 0.2, "books": 0.1})
            >>> chooser.tell(third, 0.5, loss={"web": 2.0, "books": 4.0})
            >>> chooser.log()["loss/books"]
            4.0
        """
        with self._lock:
            self._refuse_unless_open(draw)
            opened = self._open[draw.id]
            rewards = _by_choice(credited(reward, draw), draw, opened, 0.0)
            losses = np.array(np.nan) if loss is None else credited(loss, draw, LOSS)
            losses = _by_choice(losses, draw, opened, np.nan)
            del self._open[draw.id]
            clipped, changed = self._history.tell(draw.id, opened.tasks, rewards, losses)
            self._notes.append((opened, clipped))
            if changed:  # The scheduler already has some rewards that changed, so it gets all of them again.
                self._state = self._setup.state_after(self._history)
                self._notes.clear()
            elif len(self._notes) == _MOST_NOTES:
                self._choose(self._setup.positions(self._history.drawn))

    def forget(self, draw: Draw) -> None:
        """Give up a draw that will never get a reward.

        A scheduler that learns ignores the draw, and draws the next batch with other random numbers. A static scheduler
        continues as after any other draw.

        Args:
            draw: a draw that waits for a reward.

        Examples:
            >>> chooser = ms.Chooser("ucb", {"web": None, "books": None})
            >>> chooser.forget(chooser.ask())
            >>> chooser.open()
            ()
        """
        with self._lock:
            self._refuse_unless_open(draw)
            opened = self._open.pop(draw.id)
            if self._setup.mixture.scheduler.family == "active":
                self._state = with_other_keys(self._state, draw.id)
            else:  # A static scheduler reads no rewards. Without this it would choose the same again.
                self._notes.append((opened, np.zeros(len(opened.tasks))))

    def keep(self, draw: Draw, positions: ArrayLike) -> Draw:
        """Leave rows out of a mixed draw because they could not be read. The scheduler ignores them.

        Args:
            draw: a draw that waits for a reward.
            positions: the positions of the rows to keep.

        Returns:
            The draw with only these rows.

        Examples:
            >>> chooser = ms.Chooser("cyclic", {"web": None, "books": None}, batch_size=3)
            >>> chooser.keep(chooser.ask(), [0, 2])
            Draw(id=0, rows={'web': 2})
        """
        with self._lock:
            self._refuse_unless_open(draw)
            if not self._setup.mixed:
                raise ConfigError("rows can only be left out of mixed draws; forget this draw")
            opened = self._open[draw.id]
            lost = np.delete(np.flatnonzero(opened.tasks >= 0), np.asarray(positions, np.int64))
            tasks = opened.tasks.copy()
            tasks[lost] = MISSING
            self._history.lose(draw.id, opened.tasks, lost)
            self._open[draw.id] = opened._replace(tasks=tasks)
            return self._setup.draw(draw.id, self._open[draw.id], self._name)

    def add_source(self, name: str, size: int | None, weight: float = 1.0) -> None:
        """Add a source, or bring back a removed one.

        A new scheduler is made and gets the stored rewards again. The numbers of the other sources do not change.

        Args:
            name: the name of the source.
            size: its number of rows; None for a stream.
            weight: the weight of the source, if the sources have weights.

        Examples:
            >>> chooser = ms.Chooser("thompson", {"web": 10_000, "books": 500})
            >>> chooser.add_source("code", 2_000)
            >>> chooser.remove_source("web")
            >>> chooser.sources
            {'books': 500, 'code': 2000}
        """
        with self._lock:
            sources = self._setup.sources.having(name, size)
            setup = self._setup.with_weight(name, number("weight", weight, least=0))
            self._change(setup.with_sources(sources))
        warn_of_small([sources.all[sources.number_of(name)]], self._setup.usual_rows)

    def remove_source(self, name: str) -> None:
        """Stop drawing from a source. You can still give its open draws their rewards, and no other source gets its
        number.

        Args:
            name: the name of the source.

        Examples:
            >>> chooser = ms.Chooser("uniform", {"web": 10_000, "books": 500})
            >>> chooser.remove_source("web")
            >>> chooser.ask().source
            'books'
        """
        with self._lock:
            self._change(self._setup.with_sources(self._setup.sources.lacking(name)))

    def set_weights(self, weights: Weights, ramp: bool = False) -> None:
        """Change the fixed proportions from the next draw on. Open draws stay as they are.

        The new weights are part of the state. A chooser that loads the state uses them, whatever weights it was made
        with.

        Args:
            weights: as in :class:`Chooser`. Stages count draws from the beginning of the run.
            ramp: as in :class:`Chooser`.

        Examples:
            >>> chooser = ms.Chooser("uniform", {"web": 10_000, "books": 500}, weights={"web": 9, "books": 1})
            >>> chooser.set_weights({"web": 0, "books": 1})
            >>> chooser.ask().source
            'books'
        """
        with self._lock:
            sources = self._setup.sources
            there = sources._replace(all=tuple(sources.all[number] for number in sources.active))
            setup = self._setup.with_weights(stages_of(weights, ramp, there))
            if setup.mixture is self._setup.mixture:
                self._setup = setup
            else:
                self._change(setup)

    def open(self) -> tuple[Draw, ...]:
        """List the draws that wait for a reward.

        Returns:
            The draws in the order of asking.

        Examples:
            >>> chooser = ms.Chooser("cyclic", {"web": None, "books": None})
            >>> draws = chooser.ask(), chooser.ask()
            >>> [draw.source for draw in chooser.open()]
            ['web', 'books']
        """
        with self._lock:
            return tuple(self._setup.draw(number, draw, self._name) for number, draw in self._open.items())

    def history(self) -> dict[str, NDArray[Any]]:
        """List the draws so far, with one entry per draw or, if draws are mixed, per row.

        In a long run these are about the last million entries; ``shares`` and ``log`` count all.

        Returns:
            Columns: ``id`` of the draw, ``task``, ``reward`` (NaN if none), ``told`` (rank of the draw among those that
            were told, or −1), and ``loss`` where any was told. ``chooser.names[task]`` is the source. A task equal to
            the number of sources means that none was drawn.

        Examples:
            >>> chooser = ms.Chooser("cyclic", {"web": None, "books": None})
            >>> chooser.tell(chooser.ask(), 0.5)
            >>> {name: column.tolist() for name, column in chooser.history().items()}
            {'id': [0], 'task': [0], 'reward': [0.5], 'told': [0]}
        """
        with self._lock:
            return self._history.columns()

    def shares(self, last: int | None = None) -> dict[str, float]:
        """Compute the share of each source in the draws, counted in rows if draws are mixed.

        Args:
            last: count only this many of the latest draws; by default all.

        Returns:
            Shares by source. If they sum to less than 1, the scheduler abstained from the rest.

        Examples:
            >>> chooser = ms.Chooser("cyclic", {"web": None, "books": None})
            >>> draws = [chooser.ask() for _ in range(3)]
            >>> chooser.shares(last=2)
            {'web': 0.5, 'books': 0.5}
        """
        if last is not None:
            whole_number("last", last, least=1)
        with self._lock:
            shares = self._history.shares(last)
            return {name: float(shares[number]) for name, number in self._numbers().items()}

    def log(self, last: int = 100) -> dict[str, float]:
        """Numbers for a tracker.

        Args:
            last: how many of the latest draws and rewards count.

        Returns:
            ``share/<source>`` in the last draws, the mean ``reward/<source>`` and ``loss/<source>``, and
            ``draws/<source>``, how often the source was drawn in all. In mixed draws every row counts. Rewards count as
            clipped. A source without recent rewards has no ``reward``, and a source without recent losses has no
            ``loss``.

        Examples:
            >>> chooser = ms.Chooser("cyclic", {"web": None, "books": None})
            >>> chooser.tell(chooser.ask(), 0.5)
            >>> chooser.log()["reward/web"], chooser.log()["draws/web"]
            (0.5, 1.0)
        """
        whole_number("last", last, least=1)
        with self._lock:
            return self._history.log(self._numbers(), last)

    def state_dict(self) -> dict[str, Any]:
        """Everything needed to continue elsewhere.

        Returns:
            ``facts``, which JSON can hold, and ``arrays`` by name.

        Examples:
            >>> chooser = ms.Chooser("thompson", {"web": 10_000, "books": 500}, batch_size=8)
            >>> state = chooser.state_dict()
            >>> again = ms.Chooser("thompson", {"web": 10_000, "books": 500}, batch_size=8)
            >>> again.load_state_dict(state)
            >>> again.ask().rows.tolist() == chooser.ask().rows.tolist()
            True
        """
        with self._lock:
            self._choose(self._setup.positions(self._history.drawn))
            return {
                "facts": {
                    "format": FORMAT,
                    **self._setup.facts(),
                    "version": version_of("metasched"),
                    "chooser": self._name,
                    "seed": self._setup.seed,
                    "changes": self._setup.changes,
                    **weights_of(self._setup),
                    "sources": [list(one) for one in self._setup.sources.all],
                    "first": self._history.first,
                    "told": self._history.tellings,
                    "open": list(self._open),
                },
                "arrays": {**named(self._state), **arrays_of(self._history, self._waiting())},
            }

    def load_state_dict(self, stored: Mapping[str, Any]) -> None:
        """Continue from a state that :meth:`state_dict` returned, including its open draws.

        Sources are matched by name. If this chooser has other sources than the state, it keeps its own. New sources
        have not been tried yet, sources that only the state has count as removed, and removed sources stay removed.

        Args:
            stored: the result of ``state_dict`` of a chooser with the same scheduler and settings.
        """
        with self._lock:
            given = checked(stored, self._setup.facts())
            sources = self._setup.sources.after(given.sources)
            weights = given.weights
            setup = self._setup if weights is None else self._setup.with_weights(weights)
            setup = replace(setup, seed=given.facts.seed, changes=given.facts.changes)
            history, waiting = given.numbered(sources)
            if sources.all == given.sources.all:
                changed = any(one.removed for one in sources.all)
                setup = replace(setup, sources=sources, labels=None if changed else setup.labels)
            else:
                setup = setup.with_sources(sources)
            if sources.all == given.sources.all and setup.moves == given.moves:
                fresh = setup.first_state()
                leaves = on_host(fitting(given, named(fresh)))
                state = jax.tree.unflatten(jax.tree.structure(fresh), leaves)
            else:
                state = setup.state_after(history)
            opened = {number: setup.opened(*one) for number, *one in zip(given.facts.open, *waiting, strict=True)}
            # Nothing above has changed this chooser, so a state is accepted or refused as a whole.
            self._setup, self._history, self._state, self._open = setup, history, state, opened
            self._name = given.facts.chooser
            self._notes.clear()

    def _numbers(self) -> dict[str, int]:
        """The sources that can be drawn, with their numbers."""
        return {self._setup.sources.names[number]: number for number in self._setup.sources.active}

    def _waiting(self) -> Waiting:
        """The open draws as they are stored."""
        opened, sources = list(self._open.values()), len(self._setup.sources.all)
        positions = np.zeros(
            (len(opened), sources), np.int64
        )  # a source that was added later was at its beginning then
        for one, place in zip(opened, positions, strict=True):
            place[: len(one.positions)] = one.positions
        shape = len(opened), self._setup.choices
        tasks = np.array([one.tasks for one in opened], np.int64).reshape(shape)
        return Waiting(positions, tasks, np.array([one.weights for one in opened], np.float64).reshape(shape))

    def _change(self, setup: Setup) -> None:
        """Switch to other sources."""
        setup.mixture  # noqa: B018 refused now, before anything has changed
        self._history.grow(len(setup.sources.all))
        self._setup, self._state = setup, setup.state_after(self._history)
        self._notes.clear()

    def _choose(self, positions: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Update the state with the notes, and choose with the open draws counted as told. Returns the sources and loss
        weights.

        ``positions`` are the positions of the cursors.
        """
        supposed = []
        if self._open:
            means = self._history.means()
            supposed = [(draw, means[draw.tasks]) for draw in self._open.values()]
        draws = self._history.draws
        self._state, tasks, weights = self._setup.choose(self._state, self._notes, supposed, positions, draws)
        self._notes.clear()
        return tasks, weights

    def _refuse_unless_open(self, draw: Draw) -> None:
        if not isinstance(draw, Draw):
            raise ConfigError(f"tell takes a draw from ask(), not {type(draw).__name__}")
        if draw.chooser != self._name:
            raise ConfigError(f"draw {draw.id} belongs to another chooser; tell its reward to the chooser that made it")
        if draw.id not in self._open:
            raise ConfigError(f"draw {draw.id} is not open; tell the reward of each draw once")


def _by_choice(given: NDArray[np.float64], draw: Draw, opened: Open, elsewhere: float) -> NDArray[np.float64]:
    """What a draw was told, for each of its choices (choices,), and ``elsewhere`` for rows that were left out."""
    drawn = opened.tasks >= 0
    if given.ndim and len(given) != drawn.sum():
        raise ConfigError(f"draw {draw.id} now has {drawn.sum()} rows; pass the draw from open()")
    values = np.full(len(drawn), elsewhere)
    values[drawn if given.ndim else slice(None)] = given
    return values
