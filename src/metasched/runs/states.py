"""Where runs stand, told from their folders alone: waiting, running, stale, failed or done."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Literal, NamedTuple, get_args

import msgspec
from msgspec import Meta, Struct

from metasched import untrusted
from metasched.errors import RunError
from metasched.files import write_json
from metasched.runs.folder import OUTCOME, RUN
from metasched.runs.lease import STALE_SECONDS, seconds_since

FAILURE = "failure.json"
WORK = ".work"
"""Folder of what is under way, beside results: files of finished runs, and folders of those that have not finished."""

State = Literal["waiting", "running", "stale", "failed", "done"]
STATES: tuple[State, ...] = get_args(State)


class Failure(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Why a run was given up: the error in a line, all of it, and how often the run was tried."""

    error: str
    tries: Annotated[int, Meta(ge=1)]
    details: str = ""


def record_failure(place: Path, failure: Failure) -> None:
    """Write down that a run has failed; the next command tries it again."""
    write_json(place / FAILURE, msgspec.to_builtins(failure))


def forget_failure(place: Path) -> None:
    """A run that failed is tried again."""
    (place / FAILURE).unlink(missing_ok=True)


def failure(place: Path) -> Failure | None:
    """Why the run has failed; None where it has not, or nobody can tell any more."""
    try:
        return untrusted.read_json(place / FAILURE, Failure, "remove it")
    except RunError:
        return None


def state_of(place: Path) -> State:
    """Where the run of a folder stands.

    *Stale* is one whose worker showed no life for half a minute; another worker, or the next command, goes on with it.
    """
    if (place / OUTCOME).exists():
        return "done"
    silent = seconds_since(place)
    if silent is not None:
        return "running" if silent < STALE_SECONDS else "stale"
    return "failed" if (place / FAILURE).exists() else "waiting"


class Group(NamedTuple):
    """Runs that belong together: how many are in each state, and the folders of those that are stale or failed."""

    name: str
    counts: dict[State, int]
    stale: list[Path]
    failed: list[Path]


def survey(place: Path) -> list[Group]:
    """All runs at or below a folder, by the folder they are in; those that left only a line in a file are done."""
    if not place.is_dir():
        raise RunError(f"{place}: no such folder; give that of a run, a comparison or the paper's results")
    groups: dict[str, Group] = {}

    def group(where: Path) -> Group:
        parts = [part for part in where.relative_to(place).parts if part != WORK]
        name = "/".join(parts) or place.resolve().name
        return groups.setdefault(name, Group(name, dict.fromkeys(STATES, 0), [], []))

    for each in _folders(place):
        own, state = group(each.parent if each != place else each), state_of(each)
        own.counts[state] += 1
        if state in ("stale", "failed"):
            (own.stale if state == "stale" else own.failed).append(each)
    for lines in sorted((place / WORK).glob("**/*.jsonl")):
        if not (lines.parent / RUN).exists():  # of many runs, not of one
            group(lines.with_suffix("")).counts["done"] += _lines(lines)
    if not groups:
        raise RunError(f"{place}: holds no runs; give the folder of a run, a comparison or the paper's results")
    return list(groups.values())


def _folders(place: Path) -> Iterator[Path]:
    """Run folders at or below a place, those under way among them."""
    if (place / RUN).exists():
        yield place
        return
    with suppress(OSError):
        for inside in sorted(place.iterdir()):
            if inside.is_dir() and not inside.is_symlink() and (not inside.name.startswith(".") or inside.name == WORK):
                yield from _folders(inside)


def _lines(path: Path) -> int:
    """Whole lines of a file of finished runs; a line that only says what others share is none of them."""
    with suppress(OSError), path.open("rb") as stream:
        return sum(line.endswith(b"\n") and not line.startswith((b'{"shared"', b'{"method"')) for line in stream)
    return 0
