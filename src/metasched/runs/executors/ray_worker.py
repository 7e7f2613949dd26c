"""What a Ray worker does with an order; compiled programs and rows stay for the next one."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from metasched.optional import require
from metasched.runs.compiled import keep_compiled_programs
from metasched.runs.executors.remote import Message, work
from metasched.runs.executors.worker import Answer, refusal
from metasched.tasks import TaskSet

MOST_SETS = 8
"""Task sets that a worker keeps."""
_SETS: dict[str, TaskSet] = {}


def serve(
    wanted: Mapping[str, str],
    descriptions: Sequence[bytes],
    luggage: Sequence[Any],
    tasks: Sequence[Any],
    seconds: float,
) -> Iterator[Message | Answer]:
    """Make the runs of an order; what they bring and how far they have come, and their rows, are in Ray's store."""
    keep_compiled_programs()
    refused = refusal(wanted)
    if refused:
        yield Answer(ending="refused", error=refused)
        return
    ray = require("ray", "ray")
    own = [_fetched(ray, reference) for reference in tasks]
    yield from work(descriptions, ray.get(list(luggage)), own, seconds)


def _fetched(ray: Any, reference: Any) -> TaskSet:
    name = reference.hex()
    if name not in _SETS:
        if len(_SETS) >= MOST_SETS:
            del _SETS[next(iter(_SETS))]
        _SETS[name] = ray.get(reference)
    return _SETS[name]
