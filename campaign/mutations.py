"""Damaged files of every format: read in processes with bounded memory and time, from a seed.

What does not hold is made smaller, edit by edit, and kept in ``campaign/found``, where a test reads it ever after.
"""

import hashlib
import json
import os
import resource
import selectors
import shutil
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from random import Random

from campaign.formats import Format, formats, prepare
from campaign.mutate import Edit
from campaign.table import Effort, Result, Verdict, processor_seconds, told
from metasched.errors import MetaschedError

FOUND = Path(__file__).parent / "found"
BATCH = 5000
"""Attempts that one process makes before the next begins."""
SECONDS = 20.0
"""Without an answer for so much processor time an attempt hangs, and without any for ``MOST_SECONDS``."""
MOST_SECONDS = 900.0
START_SECONDS = 300.0
MOST_BYTES = 2**30


def mutations(effort: Effort) -> Iterator[Result]:
    """Attempt n damages a file of format n modulo the number of formats."""
    subprocess.run([sys.executable, "-m", "campaign.mutations", "prepare", str(effort.place)], check=True)
    waiting = [range(begin, min(begin + BATCH, effort.attempts)) for begin in range(0, effort.attempts, BATCH)][::-1]
    with selectors.DefaultSelector() as selector:
        running: list[_Worker] = []
        while waiting or running:
            while waiting and len(running) < effort.workers:
                running.append(_Worker(effort, waiting.pop(), selector))
            ready = {key.data for key, _ in selector.select(timeout=1.0)}
            for worker in [*running]:
                yield from worker.results(worker in ready)
                if worker.over:
                    running.remove(worker)
                    if worker.left:
                        waiting.append(worker.left)


class _Worker:
    """One process that makes the attempts of a range; when it dies or hangs, ``left`` is what is still to do."""

    def __init__(self, effort: Effort, numbers: range, selector: selectors.BaseSelector) -> None:
        self.left, self.over = numbers, False
        self._begun = b""
        self._seed, self._selector = effort.seed, selector
        words = [str(word) for word in (effort.place, effort.seed, numbers.start, numbers.stop)]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "campaign.mutations", "work", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        self._patience = START_SECONDS
        self._answered()
        selector.register(self._process.stdout, selectors.EVENT_READ, self)  # type: ignore[arg-type]

    def results(self, ready: bool) -> Iterator[Result]:
        """What it has to say now."""
        content = os.read(self._process.stdout.fileno(), 1 << 20) if ready else b""  # type: ignore[union-attr]
        if content:
            self._patience = SECONDS
            self._answered()
            *lines, self._begun = (self._begun + content).split(b"\n")
            for said in map(json.loads, lines):
                if "case" in said:
                    self.left = self.left[1:]
                    yield Result(said["case"], Verdict(said["verdict"]), said["detail"])
        elif ready:
            yield from self._ended(Verdict.TRACEBACK, f"the process died with {self._process.wait()}")
        elif self._hangs():
            self._process.kill()
            yield from self._ended(Verdict.HANG, f"no answer in {self._patience:g} s")

    def _answered(self) -> None:
        self._at, self._used = time.monotonic(), processor_seconds(self._process.pid)

    def _hangs(self) -> bool:
        silent = time.monotonic() - self._at
        if silent < self._patience:
            return False
        return silent > MOST_SECONDS or processor_seconds(self._process.pid) - self._used > self._patience

    def _ended(self, verdict: Verdict, detail: str) -> Iterator[Result]:
        self.over = True
        self._selector.unregister(self._process.stdout)  # type: ignore[arg-type]
        _, errors = self._process.communicate()
        if self.left:
            case = f"seed {self._seed} attempt {self.left[0]}"
            self.left = self.left[1:]
            yield Result(case, verdict, f"{detail} {errors.decode(errors='replace')[-300:]}".strip())


def work(place: Path, seed: int, begin: int, end: int) -> None:
    """Make the attempts ``begin`` … ``end`` − 1, with a line of JSON for each."""
    known = formats(place)
    at = place / f"{seed}-{begin}"
    for one in known.values():  # what is compiled or imported once is no attempt's memory
        outcome(one, one.good[0], at)
    _limit_memory()
    print("{}", flush=True)
    for result in attempts(known, seed, range(begin, end), at):
        print(json.dumps(asdict(result)), flush=True)
    shutil.rmtree(at, ignore_errors=True)


def attempts(known: Mapping[str, Format], seed: int, numbers: range, at: Path, found: Path = FOUND) -> Iterator[Result]:
    """Damage and read; what does not hold is made smaller and kept in ``found``."""
    names = list(known)
    for number in numbers:
        chance = Random(f"{seed}/{number}")
        name = names[number % len(names)]
        one = known[name]
        good, damage = chance.choice(one.good), one.damage(chance, one.good)
        verdict, detail = outcome(one, _damaged(good, damage), at)
        if verdict is not Verdict.HELD:
            smaller = list(damage)
            for edit in damage:
                fewer = [other for other in smaller if other is not edit]
                if outcome(one, _damaged(good, fewer), at)[0] is verdict:
                    smaller = fewer
            _keep(found, name, _damaged(good, smaller))
        yield Result(f"{name}: seed {seed} attempt {number}", verdict, detail)


def _damaged(content: bytes, damage: Sequence[Edit]) -> bytes:
    for edit in damage:
        try:
            content = edit(content)
        except Exception:  # an archive that an earlier edit broke cannot be packed again
            return content
    return content


def outcome(one: Format, content: bytes, at: Path) -> tuple[Verdict, str]:
    """How reading ``content`` ends, in the folder ``at``, which is emptied first."""
    shutil.rmtree(at, ignore_errors=True)
    at.mkdir(parents=True)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            one.read(content, at)
    except MetaschedError as error:
        if "\n" in str(error):
            return Verdict.LOST, f"more than one line: {error!r}"[:300]
    except MemoryError as error:
        return Verdict.LARGE, told(error)
    except Exception as error:
        return Verdict.TRACEBACK, told(error)
    taken = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    return (Verdict.LARGE, f"{taken:,} bytes") if taken > MOST_BYTES else (Verdict.HELD, "")


def _keep(found: Path, name: str, content: bytes) -> None:
    found.mkdir(exist_ok=True)
    (found / f"{name}.{hashlib.sha256(content).hexdigest()[:8]}").write_bytes(content)


def _limit_memory() -> None:
    """No more than 1 GB beyond what the process has already."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + MOST_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


if __name__ == "__main__":
    if sys.argv[1] == "prepare":
        prepare(Path(sys.argv[2]))
    else:
        work(Path(sys.argv[2]), *map(int, sys.argv[3:]))
