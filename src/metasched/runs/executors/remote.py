"""A run that is made where its folder is not: what a worker is given, what it sends back, and how that is kept.

The worker makes the run in a folder of its own and sends every checkpoint with the metrics that led to it, and at the
end the model and the outcome. Only the one who gave the order writes to the real folder.
"""

import queue
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from threading import Thread
from typing import NamedTuple

import msgspec

from metasched import untrusted
from metasched.files import write_whole
from metasched.learners.engine import Record
from metasched.learners.model_file import ABOUT, WEIGHTS
from metasched.runs import folder
from metasched.runs import runner as engine
from metasched.runs.checkpoint import NEWEST, PREVIOUS
from metasched.runs.executors.base import place_of
from metasched.runs.executors.worker import Answer, failed, job_of
from metasched.runs.folder import METRICS, OUTCOME, Description
from metasched.runs.runner import Job
from metasched.tasks import TaskSet

FILES = (METRICS, PREVIOUS, NEWEST, WEIGHTS, ABOUT, OUTCOME)
"""What a run is beside its description, in the order of writing: no checkpoint before its metrics, the outcome last."""
LARGEST_FILE = 4 * 1024**3

Luggage = Mapping[str, bytes]
"""A run as it stands: the content of each of its files."""


class Message(NamedTuple):
    """How far run ``number`` of an order is."""

    number: int
    luggage: Luggage


def pack(place: Path) -> Luggage:
    """A run as its folder has it."""
    fix = "start the run again in another folder"
    return {name: untrusted.read_bytes(place / name, LARGEST_FILE, fix) for name in FILES if (place / name).exists()}


def unpack(luggage: Luggage, place: Path) -> None:
    """Make it so in another folder; each file is replaced whole."""
    for name in FILES:
        if name in luggage:
            write_whole(place / name, luggage[name])


def work(
    descriptions: Sequence[bytes], luggage: Sequence[Luggage], tasks: Sequence[TaskSet], seconds: float
) -> Iterator[Message | Answer]:
    """Make runs from where they stand: a message for every checkpoint and every end, and an answer at last."""
    with tempfile.TemporaryDirectory(prefix="metasched-run-") as scratch:
        jobs = []
        for number, described in enumerate(descriptions):
            place = Path(scratch) / str(number)
            folder.create({place: msgspec.json.decode(described, type=Description)})
            unpack(luggage[number], place)
            jobs.append(job_of(place, tasks[number]))
        yield from _made(jobs, seconds)


def _made(jobs: Sequence[Job], seconds: float) -> Iterator[Message | Answer]:
    """The engine runs in a thread of its own and waits whenever somebody fetches a message."""
    out: queue.Queue[Message | Answer] = queue.Queue(maxsize=1)
    seen: dict[int, int] = {}

    def send(number: int, record: Record) -> None:
        place = place_of(jobs[number])
        stamp = (place / NEWEST).stat().st_mtime_ns if (place / NEWEST).exists() else 0
        if stamp != seen.get(number, 0) or "final" in record or "diverged" in record:
            seen[number] = stamp
            out.put(Message(number, pack(place)))

    def make() -> None:
        try:
            engine.run(jobs, on_record=send, checkpoint_seconds=seconds)
            out.put(Answer(ending="done"))
        except Exception as error:
            out.put(failed(error))

    Thread(target=make, name="runs", daemon=True).start()
    while True:
        item = out.get()
        yield item
        if isinstance(item, Answer):
            return
