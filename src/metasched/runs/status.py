"""The state of runs, read from their folders alone: waiting, running, stale, failed or done."""

from contextlib import suppress
from pathlib import Path
from typing import Annotated, Literal, NamedTuple, get_args

from msgspec import Meta, Struct

from metasched import untrusted
from metasched.errors import RunError
from metasched.runs.folder import OUTCOME, RUN, runs_in
from metasched.runs.lease import STALE_SECONDS, seconds_since
from metasched.runs.outcome import LINES

FAILURE = "failure.json"
"""In the folder of a run that has failed. The next command removes it and tries the run again."""
WORK = ".work"
"""The folder of unfinished work next to results: files of finished runs, and folders of unfinished ones."""

State = Literal["waiting", "running", "stale", "failed", "done"]
STATES: tuple[State, ...] = get_args(State)


class Failure(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Why a run has failed: the error in one line and in full, and how often the run was tried."""

    error: str
    tries: Annotated[int, Meta(ge=1)]
    details: str = ""


def failure(folder: Path) -> Failure | None:
    """Why the run has failed. None if it has not failed, or the file cannot be read."""
    try:
        return untrusted.read_json(folder / FAILURE, Failure, "remove it")
    except RunError:
        return None


def state_of(folder: Path) -> State:
    """The state of the run in a folder.

    A run is *stale* if its worker has shown no sign of life for half a minute. Another worker, or the next command,
    then continues it.
    """
    if (folder / OUTCOME).exists():
        return "done"
    silent = seconds_since(folder)
    if silent is not None:
        return "running" if silent < STALE_SECONDS else "stale"
    return "failed" if (folder / FAILURE).exists() else "waiting"


class Group(NamedTuple):
    """Runs that belong together: how many are in each state, and the folders of stale and failed runs."""

    name: str
    counts: dict[State, int]
    stale: list[Path]
    failed: list[Path]


def survey(folder: Path) -> list[Group]:
    """All runs at or below a folder, by folder. Runs that are only a line in a file are done."""
    if not folder.is_dir():
        raise RunError(f"{folder}: no such folder; give that of a run, a comparison or the paper's results")
    groups: dict[str, Group] = {}

    def group(where: Path) -> Group:
        parts = [part for part in where.relative_to(folder).parts if part != WORK]
        name = "/".join(parts) or folder.resolve().name
        return groups.setdefault(name, Group(name, dict.fromkeys(STATES, 0), [], []))

    for run in runs_in(folder, hidden=(WORK,)):
        own, state = group(run.parent if run != folder else run), state_of(run)
        own.counts[state] += 1
        if state in ("stale", "failed"):
            (own.stale if state == "stale" else own.failed).append(run)
    for path in sorted((folder / WORK).glob(f"**/*{LINES}")):
        if not (path.parent / RUN).exists():  # a file of many runs
            group(path.with_suffix("")).counts["done"] += _whole_lines(path)
    if not groups:
        raise RunError(f"{folder}: holds no runs; give the folder of a run, a comparison or the paper's results")
    return list(groups.values())


def _whole_lines(path: Path) -> int:
    """The finished runs in a file. A line that a kill cut short does not count."""
    with suppress(OSError), path.open("rb") as stream:
        return sum(line.endswith(b"\n") for line in stream)
    return 0
