"""What an attack yields, and the table that counts it."""

import math
import os
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path


class Verdict(StrEnum):
    """How an attempt ended; the value is the heading of its column.

    ``HELD``: the promise was kept, be it by an error of one line with exit code 2. ``LOST``: other bytes, another
    answer, a file written outside, or an error where none was due. ``TRACEBACK``: an exception that is no
    ``MetaschedError``. ``HANG``: no end within the attempt's time. ``LARGE``: more than 1 GB of memory taken.
    """

    HELD = "held"
    LOST = "lost"
    TRACEBACK = "tracebacks"
    HANG = "hangs"
    LARGE = "over 1 GB"


@dataclass(frozen=True)
class Result:
    """One attempt: ``case`` says what was tried, well enough to try it again; ``detail`` what went wrong, if it did."""

    case: str
    verdict: Verdict = Verdict.HELD
    detail: str = ""


def processor_seconds(process: int) -> float:
    """What a process has used of the processor, its ended children included; infinite where the system does not say.

    What makes no progress because the machine has no time for it does not hang.
    """
    try:
        numbers = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return math.inf
    return sum(map(int, numbers[11:15])) / os.sysconf("SC_CLK_TCK")


def told(error: BaseException) -> str:
    """What was raised and where: the innermost lines of its traceback, and the beginning of what it says.

    >>> try: {}["key"]
    ... except KeyError as error: print(told(error).splitlines()[-1])
    KeyError: 'key'
    """
    where = "".join(traceback.format_tb(error.__traceback__))
    return where[-400:] + "".join(traceback.format_exception_only(error))[:300].rstrip()


@dataclass(frozen=True)
class Effort:
    """What an attack may spend: attempts, processes, and an empty folder; equal seeds make equal attempts."""

    seed: int
    attempts: int
    workers: int
    place: Path


Attack = Callable[[Effort], Iterator[Result]]


@dataclass
class Count:
    """Results of one attack, counted by verdict; those that did not hold are kept. ``whole``: nobody interrupted it."""

    attack: str
    verdicts: Counter[Verdict]
    failures: list[Result]
    whole: bool = False

    @property
    def attempts(self) -> int:
        """How many results there were."""
        return self.verdicts.total()

    @property
    def clean(self) -> bool:
        """Whether something was tried and all of it held."""
        return self.attempts > 0 and self.attempts == self.verdicts[Verdict.HELD]


def count(attack: str, results: Iterable[Result], on_result: Callable[[Result], None] | None = None) -> Count:
    """Count ``results``, telling ``on_result`` each as it comes; an interrupt (Ctrl-C) is the end of them.

    >>> count("kills", [Result("a"), Result("b", Verdict.LOST, "other bytes")]).verdicts[Verdict.LOST]
    1
    """
    counted = Count(attack, Counter(), [])
    with suppress(KeyboardInterrupt):
        for result in results:
            counted.verdicts[result.verdict] += 1
            if result.verdict is not Verdict.HELD:
                counted.failures.append(result)
            if on_result:
                on_result(result)
        counted.whole = True
    return counted


def markdown(counts: Iterable[Count]) -> str:
    """The table, as it stands in the documentation.

    >>> print(markdown([count("kills", [Result("a")])]))
    | attack | attempts | held | lost | tracebacks | hangs | over 1 GB |
    |---|---:|---:|---:|---:|---:|---:|
    | kills | 1 | 1 | 0 | 0 | 0 | 0 |
    """
    lines = [f"| attack | attempts | {' | '.join(Verdict)} |", "|---|" + "---:|" * (1 + len(Verdict))]
    for each in counts:
        cells = [each.attempts, *(each.verdicts[verdict] for verdict in Verdict)]
        lines.append(f"| {each.attack} | " + " | ".join(f"{cell:,}" for cell in cells) + " |")
    return "\n".join(lines)
