"""A run as a folder: ``run.json`` says what it is, ``metrics.jsonl`` what happened, checkpoints where it stands."""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from metasched.errors import RunError
from metasched.runs.files import write_error, write_json, write_whole

FORMAT = 1
METRICS = "metrics.jsonl"
RUN = "run.json"


def create(folder: Path, description: Mapping[str, Any]) -> None:
    """Make the folder of a new run; one that holds anything is left alone."""
    try:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            hint = f"go on with 'metasched resume {folder}', or " if (folder / RUN).exists() else ""
            raise RunError(f"{folder}: already exists; {hint}choose another --out")
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise write_error(folder, error) from None
    write_json(folder / RUN, {"format": FORMAT, **description})


def describe(folder: Path) -> dict[str, Any]:
    """The contents of ``run.json``, checked to be of a version we can read."""
    path = folder / RUN
    try:
        description = json.loads(path.read_text())
        version = int(description["format"])
    except OSError:
        raise RunError(f"{folder}: is not a run folder (it has no readable {RUN}); give the folder of a run") from None
    except (ValueError, KeyError, TypeError):
        raise RunError(f"{path}: is damaged; start the run again in another folder") from None
    if version > FORMAT:
        raise RunError(
            f"{folder}: was written by a newer metasched (format {version}, this one reads up to {FORMAT}); upgrade: "
            "pip install -U metasched"
        )
    return dict(description)


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


def keep_records(folder: Path, done: Mapping[int, int]) -> list[dict[str, Any]]:
    """Drop what was recorded after the checkpoint (``done``: updates by seed); it will be computed again."""
    records = read_records(folder)
    kept = [record for record in records if record["update"] <= done.get(record["seed"], 0)]
    ended = {record["seed"] for record in kept if "diverged" in record}
    for seed, updates in done.items():
        if seed not in ended and sum(record["seed"] == seed for record in kept) != updates:
            raise RunError(f"{folder / METRICS}: lines of seed {seed} are missing; start again in another folder")
    lines = [json.dumps(record, separators=(",", ":")) + "\n" for record in kept]
    write_whole(folder / METRICS, "".join(lines).encode())
    return kept
