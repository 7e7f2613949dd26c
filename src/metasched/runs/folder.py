"""A run as a folder: ``run.json`` describes it, ``metrics.jsonl`` has its records, and checkpoints have its state.

A finished run also has ``outcome.jsonl``, one line, and its model (:mod:`metasched.learners.model_file`). A run that
was killed at any moment can continue with the same numbers. This depends on the order in which files are written:

1. the folder, then ``run.json``: a run exists from the moment when its description is complete;
2. lines of ``metrics.jsonl`` (:mod:`metasched.runs.records`), appended;
3. a checkpoint (:mod:`metasched.runs.checkpoint`), but only after the metrics that led to it are on the disk;
4. at the end the model, the last checkpoint and ``outcome.jsonl``. The outcome comes last. If it exists, everything
   else is there.

A folder may come from anywhere. So everything that is read is checked, and nothing is written to a folder that contains
links: somebody could have placed a link there to make us overwrite another file of the user's.
"""

import os
import stat
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from metasched import untrusted
from metasched.errors import RunError
from metasched.files import PART, make_folder, write_error, write_whole
from metasched.learners.model_file import ABOUT as MODEL
from metasched.runs import records, upgrade
from metasched.runs.outcome import About, Family, Origin, Study
from metasched.runs.spec import RunSpec

FORMAT = 3
RUN = "run.json"
OUTCOME = "outcome.jsonl"
COMPARISON = "comparison.json"
"""In the folder of a comparison: what was asked for. Its runs are in subfolders."""
COMPARISON_FORMAT = 2
"""The format of that file. Earlier folders contain only runs. In this format the runs are those of the final models."""
FINAL = "model"
"""The folder of the final model of a comparison."""
LOCK = ".lock"
_AGAIN = "start the run again in another folder"


class BusyError(RunError):
    """Somebody else is working on the run. Nothing is wrong with it, and you can try again later."""


class Description(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The content of ``run.json``: the spec, the run's name in tables, its data and origin.

    ``reason`` says why this scheduler was chosen, if it was chosen automatically. With ``predictions`` the outcome has
    the final model's predictions for the test rows.
    """

    spec: RunSpec
    method: str
    family: Family
    about: About
    origin: Origin
    role: str = ""
    study: Study | None = None
    reason: str | None = None
    predictions: bool = False


def create(folders: Mapping[Path, Description]) -> None:
    """Make the folders of new runs. A folder with any content is left alone."""
    for folder in folders:
        refuse_content(folder)
    # All folders are made before the first run is described. So if a folder has no run.json but others have one, a kill
    # came in between, and some runs are missing (refuse_unbegun).
    for folder in folders:
        make_folder(folder)
    for folder, description in folders.items():
        with locked(folder):
            refuse_content(folder)  # again, now that nobody else can write to it
            content = {"format": FORMAT, **msgspec.to_builtins(description)}
            write_whole(folder / RUN, msgspec.json.format(msgspec.json.encode(content), indent=2) + b"\n")


def refuse_content(folder: Path, first: str = RUN) -> None:
    """Raise an error if there is anything but an empty folder.

    Empty subfolders and locks do not count, and neither do remains of the file that is written ``first``.
    """
    try:
        if (folder.exists() or folder.is_symlink()) and not (folder.is_dir() and _is_empty(folder, first)):
            raise RunError(f"{folder}: already exists and is not a run; choose another --out")
    except OSError as error:
        raise write_error(folder, error) from None


def _is_empty(folder: Path, first: str) -> bool:
    def counts(path: Path) -> bool:
        if path.is_symlink():
            return True
        return not _is_empty(path, first) if path.is_dir() else path.name not in (first + PART, LOCK)

    return not any(map(counts, folder.iterdir()))


def describe(folder: Path) -> Description:
    """Read ``run.json``, and check that its version can be read."""
    path = folder / RUN
    if not path.is_file():
        unbegun = folder.is_dir() and _is_empty(folder, RUN)
        fix = "if a run was to start there, run the same command again" if unbegun else "give the folder of a run"
        raise RunError(f"{folder}: is not a run folder (it has no readable {RUN}); {fix}")
    content = untrusted.read_json(path, dict[str, Any], _AGAIN)
    version = untrusted.checked(content.pop("format", None), int, path, _AGAIN)
    if version == upgrade.FORMAT:
        if not (folder / OUTCOME).exists():
            fix = f"finish it with metasched 0.1, or {_AGAIN}"
            raise RunError(f"{folder}: was started by metasched 0.1, and this version cannot continue it; {fix}")
        try:
            content["spec"] = upgrade.upgrade_spec(untrusted.checked(content.get("spec"), dict[str, Any], path, _AGAIN))
        except RunError as error:
            raise RunError(f"{path}: {error}") from None
        except msgspec.ValidationError as error:
            raise RunError(f"{path}: is damaged ({error}); {_AGAIN}") from None
    elif version != FORMAT:
        age, fix = ("a newer", "install a newer metasched") if version > FORMAT else ("an earlier", _AGAIN)
        raise RunError(f"{folder}: was written by {age} metasched (format {version}, this one reads {FORMAT}); {fix}")
    return untrusted.checked(content, Description, path, _AGAIN)


def runs_in(folder: Path, hidden: Collection[str] = ()) -> Iterator[Path]:
    """The run folders at or below a folder, in order.

    Links are not followed. Folders whose names begin with a dot are skipped, except those in ``hidden``.
    """
    if (folder / RUN).exists():
        yield folder
        return
    with suppress(OSError):  # not a folder, or one that we may not read
        for inside in sorted(folder.iterdir()):
            shown = not inside.name.startswith(".") or inside.name in hidden
            if shown and inside.is_dir() and not inside.is_symlink():
                yield from runs_in(inside, hidden)


def refuse_unbegun(runs: Sequence[Path]) -> None:
    """Raise an error if a kill came before all seeds of these runs were described. Resuming would miss some of them."""
    for parent in sorted({run.parent for run in runs if run.name.startswith("seed-")}):
        for beside in sorted(parent.glob("seed-*")):
            if beside.is_dir() and not (beside / RUN).exists():
                raise RunError(f"{beside}: this run had not started; run again the command that started the others")


def refuse_comparison(folder: Path) -> None:
    """Raise an error if a folder is, contains or belongs to a comparison, because resume is for one method."""
    runs = list(runs_in(folder))
    inside = [parent for run in runs for parent in run.parents if parent.is_relative_to(folder)]
    for each in dict.fromkeys((folder, folder.absolute().parent, *inside)):
        if (each / COMPARISON).is_file():
            own = [run for run in runs if run.is_relative_to(each)] or runs
            origins = [describe(run).origin for run in own]
            latest = max(origins, key=lambda origin: origin.created, default=None)
            again = f": {latest.typed}" if latest else ""
            raise RunError(f"{each}: is a comparison; to continue it, run its own command again{again}")


def model_folders(folder: Path, seed: int | None = None) -> list[Path]:
    """The folders of the models whose mean is meant: this folder, or the finished runs of one method below it.

    In the folder of a comparison it is the final model. With a ``seed`` only runs of that seed count.
    """
    if not folder.is_dir():
        raise RunError(f"{folder}: no such folder; give a comparison, a run that has ended, or a saved model")
    if seed is None and (folder / COMPARISON).is_file():
        if not (folder / FINAL / MODEL).exists():
            raise RunError(f"{folder}: the comparison has not ended; run its command again")
        return [folder / FINAL]
    if seed is None and (folder / MODEL).exists():
        return [folder]
    described = {run: describe(run) for run in runs_in(folder)}
    if not described:
        return [folder]
    if len({about.method for about in described.values()}) > 1:
        listed = ", ".join(str(run.relative_to(folder)) for run in list(described)[:5])
        more = ", …" if len(described) > 5 else ""
        raise RunError(
            f"{folder}: holds {len(described)} runs, of more than one method; name one of them ({listed}{more})"
        )
    seeds = sorted({about.spec.seed for about in described.values()})
    if seed is not None and seed not in seeds:
        raise RunError(f"{folder}: has no seed {seed}, only {' and '.join(map(str, seeds))}; give one of them")
    runs = [run for run, about in described.items() if seed in (None, about.spec.seed)]
    missing = {run: why for run in runs if (why := _why_no_model(run)) is not None}
    ended = [run for run in runs if run not in missing]
    if not ended or any((run / OUTCOME).exists() is False for run in missing):
        run, why = next(iter(missing.items()))
        raise RunError(f"{run}: has no model; {why}")
    return ended


def _why_no_model(run: Path) -> str | None:
    """Why a run has no model, or None if it has one."""
    if (run / MODEL).exists():
        return None
    if not (run / OUTCOME).exists():
        return f"the run has not ended: metasched resume {run}"
    if any("diverged" in record for record in records.read(run)[-1:]):
        return "the run diverged; choose another seed"
    return "the run was made by an earlier metasched; train again in another folder"


def refuse_links(folder: Path) -> None:
    """Raise an error if the folder contains links, through which we would write elsewhere."""
    try:
        for path in folder.iterdir():
            refuse_linked(path, folder)
    except OSError as error:
        raise write_error(folder, error) from None


def refuse_linked(path: Path, within: Path) -> None:
    """Raise an error if there is a link on the way from a folder to a path in it."""
    for step in (path, *path.parents):
        if step == within:
            return
        if step.is_symlink():
            raise RunError(
                f"{step}: is a link; remove it, or copy the folder together with the files that its links point to"
            )


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep a second process from writing to the same run. Refuse a folder with links."""
    refuse_links(folder)
    path = folder / LOCK
    # Not through a link, and without waiting in case somebody has put a named pipe there.
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    try:
        descriptor = os.open(path, flags, 0o666)
    except OSError as error:
        raise write_error(path, error) from None
    with os.fdopen(descriptor, "rb") as stream:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise RunError(f"{path}: is not a file; remove it")
        try:
            import fcntl

            # The lock belongs to the open file, and the operating system releases it when the process ends. The file
            # itself stays. If it were removed, two processes could each lock a file of that name, one of them unlinked.
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except ImportError:  # Windows has no flock, so users must make sure themselves that only one process writes
            pass
        except OSError:
            raise BusyError(f"{folder}: another process is working on this run; wait for it or stop it") from None
        yield
