"""A run as a folder: ``run.json`` says what it is, ``metrics.jsonl`` what happened, checkpoints where it stands.

A finished run has ``outcome.jsonl``, one line, and its model (:mod:`metasched.learners.model_file`).
"""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from metasched.errors import RunError
from metasched.files import write_error, write_whole
from metasched.learners.model_file import ABOUT as MODEL
from metasched.runs.outcome import About, Family, Origin, Study
from metasched.runs.spec import RunSpec

FORMAT = 2
METRICS = "metrics.jsonl"
RUN = "run.json"
OUTCOME = "outcome.jsonl"


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


def create(folder: Path, description: Description) -> None:
    """Make the folder of a new run; one that holds anything is left alone."""
    refuse_content(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise write_error(folder, error) from None
    content = {"format": FORMAT, **msgspec.to_builtins(description)}
    write_whole(folder / RUN, msgspec.json.format(msgspec.json.encode(content), indent=2) + b"\n")


def refuse_content(folder: Path) -> None:
    """An error if something is there that is not an empty folder."""
    try:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise RunError(f"{folder}: already exists and is no run; choose another --out")
    except OSError as error:
        raise write_error(folder, error) from None


def describe(folder: Path) -> Description:
    """The contents of ``run.json``, checked to be of a version we can read."""
    path = folder / RUN
    try:
        content = msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
        version = msgspec.convert(content.pop("format", None), int)
    except OSError:
        raise RunError(f"{folder}: is not a run folder (it has no readable {RUN}); give the folder of a run") from None
    except msgspec.MsgspecError:
        raise RunError(f"{path}: is damaged; start the run again in another folder") from None
    if version != FORMAT:
        age, fix = (
            ("a newer", "upgrade: pip install -U metasched")
            if version > FORMAT
            else ("an earlier", "start the run again in another folder")
        )
        raise RunError(f"{folder}: was written by {age} metasched (format {version}, this one reads {FORMAT}); {fix}")
    try:
        return msgspec.convert(content, Description)
    except msgspec.ValidationError as error:
        raise RunError(f"{path}: is damaged ({error}); start the run again in another folder") from None


def runs_in(place: Path) -> Iterator[Path]:
    """The run folders at or below a place, in order; what lies inside a run folder is its own affair."""
    if (place / RUN).exists():
        yield place
    elif place.is_dir():
        for inside in sorted(place.iterdir()):
            if inside.is_dir() and not inside.name.startswith("."):
                yield from runs_in(inside)


def model_folder(place: Path, seed: int | None = None) -> Path:
    """Where a model is: that folder, or the one of the run below it that has the seed, by default the first."""
    if not place.is_dir():
        raise RunError(f"{place}: no such folder; give a run that has ended, or a saved model")
    runs = list(runs_in(place))
    if not runs:
        return place
    seeds = [describe(each).spec.seed for each in runs]
    if len(set(seeds)) != len(seeds):
        listed = ", ".join(str(each.relative_to(place)) for each in runs[:5]) + (", …" if len(runs) > 5 else "")
        raise RunError(f"{place}: holds {len(runs)} runs, of more than one method; name one of them ({listed})")
    if seed is not None and seed not in seeds:
        raise RunError(f"{place}: has no seed {seed}; give --seed {' or '.join(map(str, sorted(seeds)))}")
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


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep a second process from writing to the same run."""
    with (folder / ".lock").open("w") as stream:
        try:
            import fcntl

            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except ImportError:  # Windows has no flock; there two writers are the user's affair
            pass
        except OSError:
            raise RunError(f"{folder}: another process is working on this run; wait for it or stop it") from None
        yield


def append_records(folder: Path, records: Sequence[Mapping[str, Any]]) -> None:
    """Add a line for each record to the metrics."""
    try:
        with (folder / METRICS).open("a") as stream:
            stream.writelines(json.dumps(record, separators=(",", ":")) + "\n" for record in records)
    except OSError as error:
        raise write_error(folder / METRICS, error) from None


def sync_metrics(folder: Path) -> None:
    """Flush the metrics to the disk, so that a checkpoint written next is never ahead of them."""
    with (folder / METRICS).open("a") as stream:
        os.fsync(stream.fileno())


def read_records(folder: Path) -> list[dict[str, Any]]:
    """All whole lines of the metrics; a line that a kill cut short ends the list."""
    path = folder / METRICS
    records: list[dict[str, Any]] = []
    if not path.exists():
        return records
    for line in path.read_text().splitlines():
        try:
            records.append(json.loads(line))
        except ValueError:
            break
    return records


def keep_records(folder: Path, updates: int) -> list[dict[str, Any]]:
    """Drop what was recorded after the checkpoint, which has so many updates; it will be computed again."""
    records = read_records(folder)
    kept = [record for record in records if record["update"] <= updates]
    if len(kept) != updates and not any("diverged" in record for record in kept):
        raise RunError(f"{folder / METRICS}: lines are missing; start again in another folder")
    lines = [json.dumps(record, separators=(",", ":")) + "\n" for record in kept]
    write_whole(folder / METRICS, "".join(lines).encode())
    return kept
