"""Many runs kept as one file of outcomes: what is there is never run again."""

from collections.abc import Callable, Sequence
from pathlib import Path

from metasched.files import append, make_folder, write_whole
from metasched.runs import outcome as outcomes
from metasched.runs import run as engine
from metasched.runs.outcome import Outcome
from metasched.runs.run import Job, Programs

OnFinished = Callable[[int], None]
"""Called with how many of the runs have finished."""


def finish(
    jobs: Sequence[Job], path: Path | None, programs: Programs, on_finished: OnFinished | None = None
) -> list[Outcome]:
    """The outcomes of ``jobs``, in that order; those in the file are taken from there, the others added to it.

    Without a file nothing is kept.
    """
    kept: dict[str, Outcome] = {}
    if path is not None:
        make_folder(path.parent)
        kept = {outcome.run: outcome for outcome in _whole_lines(path)}
    missing = [job for job in jobs if job.description.spec.name not in kept]

    def say() -> None:
        if on_finished:
            on_finished(sum(job.description.spec.name in kept for job in jobs))

    def on_outcome(_: int, outcome: Outcome) -> None:
        kept[outcome.run] = outcome
        if path is not None:
            append(path, outcomes.encode(outcome), durable=True)
        say()

    say()
    engine.run(missing, on_outcome=on_outcome, programs=programs)
    return [kept[job.description.spec.name] for job in jobs]


def _whole_lines(path: Path) -> list[Outcome]:
    """Finished runs of a file; a line that was cut short is cut off, for others to be added."""
    if not path.exists():
        return []
    content = outcomes.content(path)
    if not content.endswith(b"\n"):
        write_whole(path, content[: content.rfind(b"\n") + 1])
    return list(outcomes.read(path))
