"""Kill real commands, at every file operation and at random moments, and see whether they go on to the same bytes."""

import json
import math
import os
import random
import shutil
import signal
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import cycle, islice
from pathlib import Path
from typing import NamedTuple

from campaign.crashes import TEARS
from campaign.table import Effort, Result, Verdict
from campaign.victims import (
    COUNTERS,
    LOG,
    LOOPS,
    OUT,
    SECONDS,
    VICTIMS,
    WORKERS,
    Ended,
    Victim,
    essence,
    prepare,
    start,
)
from campaign.worker import CLAIM, PLANNED

MOST_IN_A_ROW = 3
"""Kills of one run, at most."""
_SECONDS_BETWEEN_LOOKS = 0.01
_NOT_BEGUN = ("run the same command again", "give the command that began the others again")
"""What ``resume`` says of a run that was killed before it had begun: there is nothing to go on with."""


_ALL: dict[str, Victim] = {**VICTIMS, **COUNTERS, **WORKERS, **LOOPS}


class Whole(NamedTuple):
    """A command that nobody disturbed: what it left, how many file operations and how many seconds it took."""

    essence: dict[str, object]
    operations: int
    seconds: float


class Kill(NamedTuple):
    """At a file operation, with a share of what was not flushed, or after a share of the time that the work takes."""

    operation: int | None
    share: float

    def __str__(self) -> str:
        if self.operation is None:
            return f"at {self.share:.3f} of its time"
        return f"at operation {self.operation}, {self.share:g} of what was not flushed"


class Chain(NamedTuple):
    """Kills of one run, one after another."""

    number: int
    victim: str
    kills: tuple[Kill, ...]

    def __str__(self) -> str:
        return f"{self.victim} killed {', then '.join(map(str, self.kills))}"


def kills(effort: Effort, victims: Sequence[str] = tuple(VICTIMS)) -> Iterator[Result]:
    """So many kills of each victim in turn; a result for each that came in time."""
    prepare(effort.place)
    with ThreadPoolExecutor(effort.workers) as pool:
        wholes = dict(zip(victims, pool.map(lambda name: _undisturbed(effort.place, name), victims), strict=True))
        chains = _chains(random.Random(effort.seed), wholes)
        killed = 0
        while killed < effort.attempts:
            batch = list(islice(chains, min(4 * effort.workers, 1 + (effort.attempts - killed) // MOST_IN_A_ROW)))
            for results in pool.map(lambda chain: _suffer(effort.place, chain, wholes[chain.victim]), batch):
                killed += len(results)
                yield from results


def counters(effort: Effort) -> Iterator[Result]:
    """The same with victims that compile nothing."""
    yield from kills(effort, tuple(COUNTERS))


def workers(effort: Effort) -> Iterator[Result]:
    """The same with an executor whose workers compile nothing; it is killed, or they are."""
    yield from kills(effort, tuple(WORKERS))


def loops(effort: Effort) -> Iterator[Result]:
    """The same with training loops that have draws under way."""
    yield from kills(effort, tuple(LOOPS))


def _undisturbed(place: Path, name: str) -> Whole:
    words = _ALL[name].whole or _ALL[name].begin
    ended = start(place / f"first-{name}", words).end()  # it compiles what all others read
    where = place / f"whole-{name}"
    if ended.code == 0:
        ended = start(where, words).end()
    if ended.code != 0:
        raise RuntimeError(f"{name} does not work undisturbed: {ended}")
    events = sorted(where.glob("events-*.json")) if _ALL[name].workers else [where / "events.json"]
    operations = max(len(json.loads(path.read_text())) for path in events)
    return Whole(essence(where / OUT), operations, ended.seconds)


def _chains(chance: random.Random, wholes: dict[str, Whole]) -> Iterator[Chain]:
    """Every operation of every victim once, in random order, in turn with random moments; without end."""
    untried = {name: list(range(1, whole.operations + 1)) for name, whole in wholes.items()}
    for operations in untried.values():
        chance.shuffle(operations)
    for number, name in enumerate(cycle(wholes)):
        planned = [_random_kill(chance, wholes[name]) for _ in range(chance.randint(1, MOST_IN_A_ROW))]
        if untried[name] and chance.random() < 0.7:
            planned[0] = Kill(untried[name].pop(), chance.choice(TEARS))
        yield Chain(number, name, tuple(planned))


def _random_kill(chance: random.Random, whole: Whole) -> Kill:
    """The earlier, the likelier: a run that goes on has less before it."""
    if chance.random() < 0.5:
        return Kill(1 + int(chance.random() ** 2 * whole.operations), chance.choice(TEARS))
    return Kill(None, chance.random())


def _suffer(place: Path, chain: Chain, whole: Whole) -> list[Result]:
    """Kill one run again and again, then let it end; a result for each kill that came before the end."""
    where = place / f"chain-{chain.number}"
    suffer = _lose_workers if _ALL[chain.victim].workers else _lose_commands
    killed, ended = suffer(where, chain, whole)
    if (fault := _fault(ended, allowed=(0,))) is not None:
        return [Result(str(chain), *fault)] * max(1, killed)
    found = essence(where / OUT)
    if found != whole.essence:
        names = sorted(name for name in {*found, *whole.essence} if found.get(name, 0) != whole.essence.get(name, 0))
        return [Result(str(chain), Verdict.LOST, f"other content: {', '.join(names)}")] * max(1, killed)
    shutil.rmtree(where)
    return [Result(str(chain))] * killed


def _lose_commands(where: Path, chain: Chain, whole: Whole) -> tuple[int, Ended]:
    """Kill a command, and every one that goes on with its work; how many were killed, and how the last ended."""
    killed, victim = 0, _ALL[chain.victim]
    for number, kill in enumerate(chain.kills):
        running = start(where, victim.go_on if number else victim.begin, kill.operation, kill.share)
        if kill.operation is None:
            running.wait(kill.share * whole.seconds)
            running.kill()
        ended = running.end()
        killed += ended.code == -signal.SIGKILL
        if _fault(ended, allowed=(0, 2, -signal.SIGKILL)) is not None:
            return killed, ended
    ended = start(where, victim.go_on).end()
    if ended.code == 2 and (not (where / OUT).exists() or any(told in ended.said for told in _NOT_BEGUN)):
        ended = start(where, victim.begin).end()
    return killed, ended


def _lose_workers(where: Path, chain: Chain, whole: Whole) -> tuple[int, Ended]:
    """Kill workers of one command, which goes on with others; how many were killed, and how the command ended."""
    where.mkdir(parents=True)
    (where / PLANNED).write_text(json.dumps([(kill.operation, kill.share) for kill in chain.kills]))
    running = start(where, _ALL[chain.victim].begin)
    until: dict[int, float] = {}
    spared = {number: kill for number, kill in enumerate(chain.kills) if kill.operation is None}
    while spared and running.wait(_SECONDS_BETWEEN_LOOKS) is None:
        for number, kill in list(spared.items()):
            claim = where / CLAIM.format(number)
            if number not in until and claim.exists():
                until[number] = time.monotonic() + kill.share * whole.seconds
            elif time.monotonic() > until.get(number, math.inf):
                del spared[number]
                _kill_worker(int(claim.read_text()))
    ended = running.end()
    begun = [number for number in range(len(chain.kills)) if (where / CLAIM.format(number)).exists()]
    return sum(not (where / f"events-{number}.json").exists() for number in begun), ended


def _kill_worker(process: int) -> None:
    """SIGKILL, unless it has gone and its number is somebody else's by now."""
    with suppress(OSError):
        if b"campaign.worker" in Path(f"/proc/{process}/cmdline").read_bytes():
            os.kill(process, signal.SIGKILL)


def _fault(ended: Ended, allowed: tuple[int, ...]) -> tuple[Verdict, str] | None:
    last = ended.said.strip().splitlines()[-1:] or [f"nothing in {LOG}"]
    if ended.code is None:
        return Verdict.HANG, f"no end after {SECONDS:g} s: {last[0]}"
    if "Traceback" in ended.said:
        return Verdict.TRACEBACK, last[0]
    return None if ended.code in allowed else (Verdict.LOST, f"exit code {ended.code}: {last[0]}")
