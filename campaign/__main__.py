"""The campaign's command: ``python -m campaign [ATTACK …] [--attempts N] [--seed S] [--workers W] [--out FILE]``."""

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from campaign.attacks import ATTACKS, find
from campaign.table import Count, Effort, Result, Verdict, count, markdown

INTERRUPTED = 130
_SECONDS_BETWEEN_LINES = 10.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the attacks that were named, or all; exit code 1 if anything did not hold, 130 after Ctrl-C."""
    parser = argparse.ArgumentParser(prog="python -m campaign", description="Attack metasched, and count what held.")
    parser.add_argument("attacks", nargs="*", metavar="ATTACK", help=f"by default all: {', '.join(ATTACKS)}")
    parser.add_argument("--attempts", type=int, help="for each attack; by default the long form's")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="processes at once")
    parser.add_argument("--out", type=Path, help="JSON lines: what did not hold, and a count for each attack")
    given = parser.parse_args(arguments)
    if unknown := set(given.attacks) - set(ATTACKS):
        parser.error(f"unknown attack {', '.join(sorted(unknown))}; there are {', '.join(ATTACKS)}")
    counts = []
    for name in given.attacks or ATTACKS:
        with tempfile.TemporaryDirectory(prefix=f"campaign-{name}-") as place:
            attempts = given.attempts or ATTACKS[name].attempts
            counts.append(_run(name, Effort(given.seed, attempts, given.workers, Path(place))))
        if given.out:
            _write(given.out, counts[-1], given.seed)
        if not counts[-1].whole:
            break
    print(markdown(counts))
    return INTERRUPTED if not counts[-1].whole else 0 if all(each.clean for each in counts) else 1


def _run(name: str, effort: Effort) -> Count:
    started = said = time.monotonic()
    seen = 0

    def say(result: Result) -> None:
        nonlocal seen, said
        seen += 1
        if result.verdict is not Verdict.HELD:
            print(f"{name}: {result.verdict}: {result.case}: {result.detail}", file=sys.stderr, flush=True)
        if time.monotonic() - said > _SECONDS_BETWEEN_LINES:
            said = time.monotonic()
            print(f"{name}: {seen:,} attempts, {said - started:.0f} s", file=sys.stderr, flush=True)

    return count(name, find(name)(effort), say)


def _write(path: Path, counted: Count, seed: int) -> None:
    lines = [{"attack": counted.attack, "seed": seed, **asdict(each)} for each in counted.failures]
    total = {"attack": counted.attack, "seed": seed, "attempts": counted.attempts}
    with path.open("a") as stream:
        for line in [*lines, {**total, **{verdict.value: counted.verdicts[verdict] for verdict in Verdict}}]:
            stream.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    sys.exit(main())
