"""Operations of a chooser in random order, held against a plain model of what it promises.

A session is one chooser and some thousand operations on it. The model knows nothing of schedulers: it knows which draws
are open, where every source stands, what was told, and that whatever is refused changes nothing.
"""

import json
import multiprocessing
import warnings
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import chain
from random import Random
from typing import Any

import numpy as np

from campaign.table import Effort, Result, Verdict, told

SESSION = 20_000
MOST_OPEN = 6
"""Draws open at once: more only make the compiled step larger."""
SECONDS = 900.0
SCHEDULERS = ("thompson", "ucb", "uniform", "cyclic", "exp3", "softmax", "epsilon_greedy", "target-only")
BAD_REWARDS = (float("nan"), float("inf"), -float("inf"), "1", None, [1] * 40, {"nobody": 1.0}, 1e300)


def chooser(effort: Effort) -> Iterator[Result]:
    """Every operation is an attempt."""
    lengths = [min(SESSION, effort.attempts - begin) for begin in range(0, effort.attempts, SESSION)]
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(effort.workers, mp_context=context) as pool:
        sessions = [pool.submit(session, effort.seed, number, length) for number, length in enumerate(lengths)]
        for number, waiting in enumerate(sessions):
            try:
                done, verdict, detail = waiting.result(SECONDS)
            except TimeoutError:
                done, verdict, detail = 0, Verdict.HANG, f"no end in {SECONDS:g} s"
            yield from (Result("an operation") for _ in range(done))
            if verdict is not Verdict.HELD:
                yield Result(f"session {number} of seed {effort.seed}, operation {done}", verdict, detail)


def session(seed: int, number: int, length: int) -> tuple[int, Verdict, str]:
    """How many operations held, and how the next ended if one did not."""
    warnings.simplefilter("ignore")
    chance = Random(f"{seed}/{number}")
    done = 0
    try:
        model = Model(chance)
        while done < length:
            model.operate()
            done += 1
    except AssertionError as error:
        return done, Verdict.LOST, told(error)
    except Exception as error:
        return done, Verdict.TRACEBACK, told(error)
    return length, Verdict.HELD, ""


def shown(draw: Any) -> tuple[int, list[str], list[int]]:
    """A draw as values that compare."""
    return draw.id, draw.sources.tolist(), draw.rows.tolist()


class Model:
    """A chooser beside what it should be: open draws, positions, tells, sources."""

    def __init__(self, chance: Random) -> None:
        import metasched as ms

        self.chance, self.error, self.make = chance, ms.errors.MetaschedError, ms.Chooser
        self.name = chance.choice(SCHEDULERS)
        self.sizes = {f"s{n}": chance.choice((None, 1, 3, 7, 40, 1000)) for n in range(chance.randint(1, 4))}
        self.batch = chance.choice((1, 2, 5, 16))
        learns = self.name not in ("cyclic", "target-only")
        self.least = chance.choice((0.0, 0.1)) if learns and self.name != "uniform" else 0.0
        self.settings: dict[str, Any] = {
            "seed": chance.randrange(2**32),
            "shuffle": chance.choice((None, True, False)),
            "min_share": self.least,
            "abstain": learns and self.name not in ("uniform",) and chance.random() < 0.3,
            "batching": chance.choice(("mixed", "per_source")),
        }
        self.mixed = self.settings["batching"] == "mixed" and self.batch > 1
        self.chooser = self.new()
        self.removed: set[str] = set()
        self.open: dict[int, Any] = {}
        self.ended: list[Any] = []
        self.asked: list[list[str | None]] = []  # the source of every choice
        self.told: dict[int, list[float]] = {}
        self.drawn = dict.fromkeys(self.sizes, 0)
        self.passes: dict[str, list[int]] = {name: [] for name in self.sizes}

    def new(self) -> Any:
        """A chooser with these settings and sources."""
        return self.make(self.name, dict(self.sizes), self.batch, **self.settings)

    def operate(self) -> None:
        """One operation, as likely as a training loop would have it."""
        kinds = (
            self.ask,
            self.tell,
            self.bad_tell,
            self.forget,
            self.look,
            self.round_trip,
            self.bad_state,
            self.change,
        )
        self.chance.choices(kinds, (40, 40, 6, 3, 8, 0.02, 1, 0.01))[0]()

    def ask(self) -> None:
        """The next draw has the next number, an active source, and that source's next rows."""
        if len(self.open) >= MOST_OPEN:
            self.tell()
            return
        draw = self.chooser.ask()
        assert draw.id == len(self.asked), f"draw {draw.id} after {len(self.asked)}"
        self.open[draw.id] = draw
        self.take(draw)

    def take(self, draw: Any) -> None:
        """The choices of a draw, and its rows by source."""
        lacking = self.batch - len(draw.rows)
        assert lacking == 0 or self.settings["abstain"] or self.name == "target-only", "abstained unasked"
        assert self.mixed or lacking in (0, self.batch), f"{len(draw.rows)} rows of one source"
        assert draw.weights.tolist() == [1.0] * len(draw.rows)
        self.asked.append([*draw.sources, *[None] * lacking] if self.mixed else [draw.source])
        for name, part in draw.by_source.items():
            assert name not in self.removed, f"drawn from '{name}', which was removed"
            assert part.positions.tolist() == [b for b, source in enumerate(draw.sources) if source == name]
            self.take_rows(name, part.rows.tolist())

    def take_rows(self, name: str, rows: list[int]) -> None:
        """Rows follow on those before; with shuffling every pass has each row once."""
        begin, size = self.drawn[name], self.sizes[name]
        self.drawn[name] = end = begin + len(rows)
        if size is None:
            assert rows == list(range(begin, end)), f"'{name}' is at {begin}, its rows are {rows}"
        elif self.settings["shuffle"] is False:
            assert rows == [row % size for row in range(begin, end)], f"'{name}' at {begin}: {rows}"
        else:
            going = self.passes[name]
            for row in rows:
                assert row in range(size), f"'{name}' has no row {row}"
                assert row not in going, f"row {row} of '{name}' comes twice in a pass"
                going.append(row)
                if len(going) == size:
                    going.clear()

    def tell(self) -> None:
        """An open draw, any of them, gets its reward."""
        if not self.open:
            self.ask()
            return
        number = self.chance.choice(list(self.open))
        draw = self.open.pop(number)
        rewards = self.rewards(draw)
        kind = self.chance.choice(("number", "rows", "sources")) if len(draw.rows) else "number"
        if kind == "number":
            rewards = [rewards[0]] * self.batch
            self.chooser.tell(draw, rewards[0])
        elif kind == "sources":
            by_source = {name: rewards[part.positions[0]] for name, part in draw.by_source.items()}
            rewards = [by_source[name] for name in draw.sources]
            self.chooser.tell(draw, by_source)
        else:
            self.chooser.tell(draw, np.array(rewards))
        every = sorted([*rewards, *[0.0] * (self.batch - len(rewards))])  # rows that were left out count as told 0
        self.told[number] = every if self.mixed else [float(np.mean(rewards))]
        self.ended.append(draw)

    def rewards(self, draw: Any) -> list[float]:
        """One for each row of a draw, and one where there is none; numbers that float32 holds exactly."""
        values = (self.chance.gauss(0, 1), self.chance.gauss(0, 1), 0.0, 1e20, -1e20, 1e-30)
        return [float(np.float32(self.chance.choice(values))) for _ in draw.rows] or [0.5]

    def refused(self, act: Any, *words: Any) -> None:
        """What is refused is one line and changes nothing."""
        before = self.seen()
        try:
            act(*words)
        except self.error as error:
            if "\n" in str(error):
                raise AssertionError(f"more than one line: {error}") from None
        else:
            raise AssertionError(f"{act.__name__} took {words!r}")
        assert self.seen() == before, f"{act.__name__} was refused and changed something"

    def seen(self) -> tuple[Any, Any, Any]:
        """What can be seen of the chooser from outside."""
        return [draw.id for draw in self.chooser.open()], self.chooser.shares(50), self.chooser.sources

    def bad_tell(self) -> None:
        """Rewards that are none, draws that were told, draws of others."""
        if self.open and self.chance.random() < 0.6:
            self.refused(
                self.chooser.tell, self.chance.choice(list(self.open.values())), self.chance.choice(BAD_REWARDS)
            )
        elif self.ended and self.chance.random() < 0.8:
            act = self.chance.choice((self.chooser.forget, lambda draw: self.chooser.tell(draw, 1.0)))
            self.refused(act, self.chance.choice(self.ended))
        else:
            self.refused(self.chooser.forget, self.chance.choice((None, 3, "draw")))

    def forget(self) -> None:
        """An open draw is given up."""
        if self.open:
            number = self.chance.choice(list(self.open))
            draw = self.open.pop(number)
            self.chooser.forget(draw)
            self.ended.append(draw)

    def look(self) -> None:
        """History, shares, log and open draws agree with what happened."""
        assert [draw.id for draw in self.chooser.open()] == sorted(self.open)
        assert self.chooser.sources == {name: size for name, size in self.sizes.items() if name not in self.removed}
        last = self.chance.choice((1, 10, 100))
        recent = list(chain(*self.asked[-last:]))
        for name, share in self.chooser.shares(last).items():
            assert abs(share - recent.count(name) / max(len(recent), 1)) < 1e-12, f"share of '{name}' is {share}"
        if self.chance.random() < 0.1:
            history = self.chooser.history()
            rewards: dict[int, list[float]] = {}
            for number, reward in zip(history["id"].tolist(), history["reward"].tolist(), strict=True):
                if not np.isnan(reward):
                    rewards.setdefault(number, []).append(reward)
            assert set(rewards) == set(self.told), "the history has rewards of other draws"
            for number, mine in rewards.items():
                assert np.allclose(sorted(mine), self.told[number], rtol=1e-12), f"draw {number} has rewards {mine}"
            draws, asked = self.chooser.log(last), list(chain(*self.asked))
            for name in self.chooser.sources:
                assert draws[f"draws/{name}"] == asked.count(name)

    def round_trip(self) -> None:
        """Through JSON into a new chooser: the same open draws and, from there on, the same choices."""
        stored = self.chooser.state_dict()
        plain = {"facts": json.loads(json.dumps(stored["facts"])), "arrays": stored["arrays"]}
        other = self.new()
        other.load_state_dict(plain)
        mine, its = self.chooser.open(), other.open()
        assert list(map(shown, mine)) == list(map(shown, its))
        if not self.removed:
            again = other.state_dict()
            assert all(stored["arrays"][key].tobytes() == again["arrays"][key].tobytes() for key in again["arrays"])
        first, second = self.chooser.ask(), other.ask()
        if not self.removed:
            assert shown(first) == shown(second), "other choices"
            self.chooser = other
            self.open = {draw.id: draw for draw in other.open()}
            self.open.pop(second.id, None)
            first = second
        self.open[first.id] = first
        self.take(first)

    def bad_state(self) -> None:
        """A state with something wrong in it is refused whole."""
        stored = self.chooser.state_dict()
        facts, arrays = dict(stored["facts"]), dict(stored["arrays"])
        spoil = self.chance.randrange(8)
        if spoil < 4:
            key = self.chance.choice(
                ("batch_size", "scheduler", "seed", "sources", "open", "cursor", "format", "chooser")
            )
            facts[key] = self.chance.choice((None, -1, [], {}, [[1]], 2**70, float("nan"), b"x"))
            facts["sources"] = facts["sources"] or None
            facts["open"] = "none" if facts["open"] == [] else facts["open"]
        elif spoil < 6:
            del arrays[self.chance.choice(sorted(arrays))]
        else:
            key = self.chance.choice(("asked", "told", "rewards", "heard"))
            arrays[key] = np.append(arrays[key], [-7]).astype(arrays[key].dtype)
        self.refused(self.chooser.load_state_dict, {"facts": facts, "arrays": arrays})

    def change(self) -> None:
        """Sources come and go."""
        active = [name for name in self.sizes if name not in self.removed]
        if len(active) > 1 and self.chance.random() < 0.5:
            name = self.chance.choice(active)
            self.chooser.remove_source(name)
            self.removed.add(name)
        elif len(active) < 6 and self.least * (len(active) + 1) <= 1:
            name = f"s{len(self.sizes)}"
            size = self.chance.choice((None, 3, 40))
            self.chooser.add_source(name, size)
            self.sizes[name], self.drawn[name], self.passes[name] = size, 0, []
