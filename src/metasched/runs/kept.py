"""Many runs kept as one file of outcomes: what is there is never run again."""

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from metasched.files import append, make_folder, write_whole
from metasched.runs import folder
from metasched.runs import outcome as outcomes
from metasched.runs.executors import Counts, Executor
from metasched.runs.jobs import Job
from metasched.runs.outcome import Outcome

OnFinished = Callable[[int, str], None]
"""Called with how many of the runs have finished, and where the others stand, in words."""


def finish(
    jobs: Sequence[Job], path: Path | None, executor: Executor, on_finished: OnFinished | None = None
) -> list[Outcome]:
    """The outcomes of ``jobs``, in that order; those in the file are taken from there, the others added to it.

    Without a file nothing is kept. Other processes work in folders beside the file, each gone when its line is there.
    """
    kept: dict[str, Outcome] = {}
    if path is not None:
        make_folder(path.parent)
        kept = {outcome.run: outcome for outcome in _whole_lines(path)}
    wanted = {job.description.spec.name: job for job in jobs}
    missing = [job for name, job in wanted.items() if name not in kept]
    if executor.needs_folders:
        missing = _placed(missing, path.with_suffix("") if path else executor.folder / "runs")
    finished, standing = len(jobs) - len(missing), ""

    def say() -> None:
        if on_finished:
            on_finished(finished, standing)

    def on_outcome(number: int, outcome: Outcome) -> None:
        nonlocal finished
        finished += 1
        kept[outcome.run] = outcome
        if path is not None:
            append(path, outcomes.encode(outcome), durable=True)
        where = missing[number].folder
        if where is not None:
            shutil.rmtree(where, ignore_errors=True)
        say()

    def on_counts(counts: Counts) -> None:
        nonlocal standing
        standing = str(counts)
        say()

    say()
    executor.run(missing, on_outcome, on_counts)
    return [kept[job.description.spec.name] for job in jobs]


def _placed(jobs: Sequence[Job], place: Path) -> list[Job]:
    """The jobs with a folder each, named for their specs; one that was begun before goes on."""
    folders = {place / job.description.spec.name: job.description for job in jobs}
    folder.create({each: told for each, told in folders.items() if not (each / folder.RUN).exists()})
    return [job._replace(folder=each) for job, each in zip(jobs, folders, strict=True)]


def _whole_lines(path: Path) -> list[Outcome]:
    """Finished runs of a file; a line that was cut short is cut off, for others to be added."""
    if not path.exists():
        return []
    content = outcomes.content(path)
    if not content.endswith(b"\n"):
        write_whole(path, content[: content.rfind(b"\n") + 1])
    return list(outcomes.read(path))
