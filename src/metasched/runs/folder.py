"""A run as a folder: ``run.json`` says what it is, ``metrics.jsonl`` what happened, checkpoints where it stands.

A finished run has ``outcome.jsonl``, one line, and its model (:mod:`metasched.learners.model_file`). A folder may be
from anywhere: what is read is checked, and one that holds links is not written to.
"""

import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from metasched import untrusted
from metasched.errors import RunError
from metasched.files import PART, append, make_folder, write_error, write_whole
from metasched.learners.config import TrainConfig
from metasched.learners.model_file import ABOUT as MODEL
from metasched.runs.outcome import About, Family, Origin, Study
from metasched.runs.records import as_line, read_lines
from metasched.runs.spec import RunSpec

FORMAT = 2
METRICS = "metrics.jsonl"
RUN = "run.json"
OUTCOME = "outcome.jsonl"
COMPARISON = "comparison.json"
"""In the folder of a comparison: what was asked. Its runs are below."""
LOCK = ".lock"
_AGAIN = "start the run again in another folder"


class BusyError(RunError):
    """Somebody else is working on the run: no fault of it, to be tried again later."""


class Description(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What ``run.json`` says: the spec, how the run is called in tables, its data and origin.

    ``reason`` is why this scheduler was chosen, where the choice was left to us.
    """

    spec: RunSpec
    method: str
    family: Family
    about: About
    origin: Origin
    role: str = ""
    study: Study | None = None
    reason: str | None = None


def create(folders: Mapping[Path, Description]) -> None:
    """Make the folders of new runs; one that holds anything is left alone.

    All folders are there before the first run is described: whoever finds one without its description knows that the
    runs had not all begun.
    """
    for folder in folders:
        refuse_content(folder)
    for folder in folders:
        make_folder(folder)
    for folder, description in folders.items():
        with locked(folder):
            refuse_content(folder)
            content = {"format": FORMAT, **msgspec.to_builtins(description)}
            write_whole(folder / RUN, msgspec.json.format(msgspec.json.encode(content), indent=2) + b"\n")


def refuse_content(folder: Path, first: str = RUN) -> None:
    """An error if something is there that is not an empty folder.

    Empty folders inside, locks, and what a kill left of the file that is written ``first`` count for nothing.
    """
    try:
        if (folder.exists() or folder.is_symlink()) and not (folder.is_dir() and _nothing_in(folder, first)):
            raise RunError(f"{folder}: already exists and is no run; choose another --out")
    except OSError as error:
        raise write_error(folder, error) from None


def _nothing_in(folder: Path, first: str) -> bool:
    def is_nothing(inside: Path) -> bool:
        if inside.is_symlink():
            return False
        return _nothing_in(inside, first) if inside.is_dir() else inside.name in (first + PART, LOCK)

    return all(is_nothing(inside) for inside in folder.iterdir())


def describe(folder: Path) -> Description:
    """The contents of ``run.json``, checked to be of a version we can read."""
    path = folder / RUN
    if not path.is_file():
        raise RunError(f"{folder}: is not a run folder (it has no readable {RUN}); {_why_no_run(folder)}")
    content = untrusted.read_json(path, dict[str, Any], _AGAIN)
    version = untrusted.checked(content.pop("format", None), int, path, _AGAIN)
    if version != FORMAT:
        age, fix = ("a newer", "upgrade: pip install -U metasched") if version > FORMAT else ("an earlier", _AGAIN)
        raise RunError(f"{folder}: was written by {age} metasched (format {version}, this one reads {FORMAT}); {fix}")
    description = untrusted.checked(content, Description, path, _AGAIN)
    for setting in description.spec.config:
        if setting not in TrainConfig.__dataclass_fields__:
            raise RunError(f"{path}: has a setting '{setting}' that this metasched does not know; {_AGAIN}")
    return description


def _why_no_run(folder: Path) -> str:
    if folder.is_dir() and _nothing_in(folder, RUN):
        return "if a run was to begin there, give the same command again"
    return "give the folder of a run"


def runs_in(place: Path) -> Iterator[Path]:
    """The run folders at or below a place, in order; links are not followed."""
    if (place / RUN).exists():
        yield place
    elif place.is_dir():
        for inside in sorted(place.iterdir()):
            if inside.is_dir() and not inside.is_symlink() and not inside.name.startswith("."):
                yield from runs_in(inside)


def refuse_unbegun(runs: Sequence[Path]) -> None:
    """An error if beside these runs there are folders of seeds that were killed before their runs were described."""
    for parent in sorted({run.parent for run in runs if run.name.startswith("seed-")}):
        for beside in sorted(parent.glob("seed-*")):
            if beside.is_dir() and not (beside / RUN).exists():
                raise RunError(f"{beside}: its run had not begun; give the command that began the others again")


def refuse_comparison(place: Path) -> None:
    """An error if a folder is that of a comparison, of its runs, or one above: they are runs of several methods."""
    runs = list(runs_in(place))
    inside = [parent for run in runs for parent in run.parents if parent.is_relative_to(place)]
    for each in dict.fromkeys((place, place.absolute().parent, *inside)):
        if (each / COMPARISON).is_file():
            own = [run for run in runs if run.is_relative_to(each)] or runs
            origins = [describe(run).origin for run in own]
            latest = max(origins, key=lambda origin: origin.created, default=None)
            again = f": {latest.typed}" if latest else ""
            raise RunError(f"{each}: is a comparison; to go on with it give its own command again{again}")


def model_folder(place: Path, seed: int | None = None) -> Path:
    """Where a model is: that folder, or the one of the run below it that has the seed, by default the first."""
    if not place.is_dir():
        raise RunError(f"{place}: no such folder; give a run that has ended, or a saved model")
    if seed is None and (place / MODEL).exists():
        return place
    runs = list(runs_in(place))
    if not runs:
        return place
    seeds = [describe(each).spec.seed for each in runs]
    if len(set(seeds)) != len(seeds):
        listed = ", ".join(str(each.relative_to(place)) for each in runs[:5]) + (", …" if len(runs) > 5 else "")
        raise RunError(f"{place}: holds {len(runs)} runs, of more than one method; name one of them ({listed})")
    if seed is not None and seed not in seeds:
        raise RunError(f"{place}: has no seed {seed}, only {' and '.join(map(str, sorted(seeds)))}; give one of them")
    chosen = runs[seeds.index(min(seeds) if seed is None else seed)]
    if not (chosen / MODEL).exists():
        raise RunError(f"{chosen}: has no model; {_why_no_model(chosen)}")
    return chosen


def _why_no_model(folder: Path) -> str:
    if not (folder / OUTCOME).exists():
        return f"the run has not ended: metasched resume {folder}"
    if any("diverged" in record for record in read_records(folder)[-1:]):
        return "the run diverged; choose another seed"
    return "the run was made by an earlier metasched; train again in another folder"


def refuse_links(folder: Path) -> None:
    """An error if the folder holds links, which others may have made to have us write elsewhere."""
    try:
        for path in folder.iterdir():
            refuse_linked(path, folder)
    except OSError as error:
        raise write_error(folder, error) from None


def refuse_linked(path: Path, within: Path) -> None:
    """An error if on the way from a folder to a path in it there is a link."""
    for step in (path, *path.parents):
        if step == within:
            return
        if step.is_symlink():
            raise RunError(f"{step}: is a link; remove it, or copy the folder with what its links point to")


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep a second process from writing to the same run; a folder with links is refused."""
    refuse_links(folder)
    path = folder / LOCK
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    try:
        descriptor = os.open(path, flags, 0o666)
    except OSError as error:
        raise write_error(path, error) from None
    with os.fdopen(descriptor, "rb") as stream:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise RunError(f"{path}: is no file; remove it")
        try:
            import fcntl

            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except ImportError:  # Windows has no flock; there two writers are the user's affair
            pass
        except OSError:
            raise BusyError(f"{folder}: another process is working on this run; wait for it or stop it") from None
        yield


def append_records(folder: Path, records: Sequence[Mapping[str, Any]]) -> None:
    """Add a line for each record to the metrics."""
    append(folder / METRICS, b"".join(map(as_line, records)))


def sync_metrics(folder: Path) -> None:
    """Flush the metrics to the disk, so that a checkpoint written next is never ahead of them."""
    append(folder / METRICS, b"", durable=True)


def read_records(folder: Path, most: int | None = None) -> list[dict[str, Any]]:
    """The first ``most`` whole lines of the metrics, or all; a line that a kill cut short ends the list."""
    path = folder / METRICS
    return list(read_lines(path, most)) if path.exists() else []


def keep_records(folder: Path, records: Sequence[Mapping[str, Any]]) -> None:
    """Leave these records in the metrics, those up to a checkpoint; what came after will be computed again."""
    write_whole(folder / METRICS, b"".join(map(as_line, records)))
