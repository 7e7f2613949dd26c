"""A finished run as one line of JSON: what it was, where it was made, what came of it. Reports are made of them.

In a file of many runs a line ``{"shared": {…}}`` holds what all lines after it have in common, and ``{"method": {…}}``
what those up to the next such line have besides; a line is laid over both, object by object.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path, PurePath
from typing import Any, Literal

import msgspec
from msgspec import Struct

from metasched import untrusted
from metasched.errors import DataError
from metasched.files import write_whole
from metasched.runs.spec import Count, RunSpec

FORMAT = 2
LARGEST = 512 * 1024**2
"""Bytes beyond which a file of outcomes is none of ours."""
Family = Literal["static", "active", "control", "ceiling"]
OURS = "ours"
"""The role of a method that is named before the runs."""
OWN_RUNS = "own runs"
"""The regime of runs that belong to no experiment."""


class Study(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The place of a run in an experiment; ``cell`` is unique among results, and its runs are compared.

    What an *exploratory* cell shows is reported, and is no part of what was planned.
    """

    experiment: str
    regime: str
    variant: str
    cell: str
    title: str
    threshold: float | None = None
    tuning: dict[str, Any] | None = None
    exploratory: bool = False


class About(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The data in words and numbers, for tables and captions; ``useful`` are the tasks known to help, if any are."""

    name: str
    simulated: bool
    tasks: tuple[str, ...]
    useful: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    source_rows: Count
    target_rows: Count
    test_rows: Count


class Origin(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """When, by which command and on what the run was made."""

    created: str
    command: str
    device: str

    @property
    def typed(self) -> str:
        """The command without the place where the program lies."""
        program, _, words = self.command.partition(" ")
        return f"metasched {words}" if PurePath(program).name in ("metasched", "__main__.py") else self.command


class Final(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Measurements of the last model on all test rows; ``validation_accuracy`` is on the target's labelled rows."""

    test_accuracy: float
    initial_test_accuracy: float | None = None
    balanced_accuracy: float | None = None
    validation_accuracy: float | None = None
    target_adapted_test_accuracy: float | None = None


class Diverged(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """When the loss was no longer finite, and why."""

    update: Count
    cause: str


class Outcome(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One finished run.

    Attributes:
        run: the name of its spec.
        method: what the run is called in tables; runs of a method differ by seed alone.
        family: of its scheduler, or ``ceiling`` for a network trained on all rows at once.
        role: what the method stands for, in a few words.
        study: the experiment it belongs to; None for a run of one's own.
        updates: the updates (P,) at which test rows were measured.
        samples: source rows drawn up to each of them (P,).
        test_accuracy: on a fixed subset of the test rows (P,).
        final: on all test rows; None when the run diverged.
        by_class: final test accuracy (C,); None for a class without test rows.
        drawn: source rows by task (N,).
        drawn_by_label: source rows by task and label (N, C).
        abstained: batches for which no source was drawn.
        schedule: batches of each task, and of none, in each update (K, N + 1).
        seconds: how long the run takes alone.
        scheduling_seconds: of these, what one decision costs.
    """

    run: str
    spec: RunSpec
    method: str
    family: Family
    role: str = ""
    study: Study | None = None
    about: About
    origin: Origin
    updates: tuple[Count, ...] = ()
    samples: tuple[Count, ...] = ()
    test_accuracy: tuple[float, ...] = ()
    final: Final | None = None
    by_class: tuple[float | None, ...] | None = None
    drawn: tuple[Count, ...] | None = None
    drawn_by_label: tuple[tuple[float, ...], ...] | None = None
    abstained: Count = 0
    schedule: tuple[tuple[Count, ...], ...] | None = None
    seconds: float | None = None
    scheduling_seconds: float | None = None
    diverged: Diverged | None = None


def encode(outcome: Outcome) -> bytes:
    """One line; what has its default value is left out."""
    return msgspec.json.encode(_plain(outcome)) + b"\n"


def content(path: Path) -> bytes:
    """All bytes of a file of outcomes."""
    return untrusted.read_bytes(path, LARGEST, "give a file of results", DataError)


def read(path: Path) -> Iterator[Outcome]:
    """The outcomes of a file; an error names the file, the line and the fault. A last line cut short is left out."""
    layers: dict[str, Any] = {"shared": {}, "method": {}}
    for number, line in enumerate(content(path).splitlines(keepends=True), 1):
        try:
            fields = msgspec.json.decode(line, type=dict[str, Any])
            if len(fields) == 1 and fields.keys() <= layers.keys():
                layers |= {key: msgspec.convert(value, dict[str, Any]) for key, value in fields.items()}
                continue
            yield _checked(_laid_over(_laid_over(layers["shared"], layers["method"]), fields))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            if not line.endswith(b"\n"):
                return
            raise DataError(f"{path}, line {number}: is no outcome of format {FORMAT} ({error})") from None


def write(path: Path, outcomes: Sequence[Outcome]) -> None:
    """All outcomes as one file, whole or not at all; what they, or neighbours of one method, share is written once."""
    plain = [_plain(outcome) for outcome in outcomes]
    shared = _common(plain) if len(plain) > 1 else {}
    lines: list[dict[str, Any]] = [{"shared": shared}] if shared else []
    for _, neighbours in groupby(plain, key=lambda one: one["method"]):
        own = [_beyond(shared, one) for one in neighbours]
        alike = _common(own) if len(own) > 1 else {}
        lines += [{"method": alike}] if shared else []
        lines += [_beyond(alike, one) for one in own]
    write_whole(path, b"".join(msgspec.json.encode(line) + b"\n" for line in lines))


def _checked(content: Mapping[str, Any]) -> Outcome:
    known = dict(content)
    if known.pop("format", None) != FORMAT:
        raise msgspec.ValidationError(f"its format is {content.get('format')!r}")
    outcome = msgspec.convert(known, Outcome)
    points = len(outcome.updates)
    if not (points == len(outcome.samples) == len(outcome.test_accuracy)):
        raise msgspec.ValidationError("updates, samples and test_accuracy differ in length")
    if (outcome.final is None) == (outcome.diverged is None):
        raise msgspec.ValidationError("a run has either final or diverged")
    return outcome


def _plain(outcome: Outcome) -> dict[str, Any]:
    return {"format": FORMAT, **msgspec.to_builtins(outcome)}


def _laid_over(below: Any, above: Any) -> Any:
    if not (isinstance(below, dict) and isinstance(above, dict)):
        return above
    return {**below, **{key: _laid_over(below.get(key), value) for key, value in above.items()}}


def _common(objects: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What all have alike, object by object."""
    first = objects[0]
    alike: dict[str, Any] = {}
    for key in first:
        values = [each.get(key) for each in objects]
        if all(isinstance(value, dict) for value in values):
            within = _common(values)  # type: ignore[arg-type]
            alike |= {key: within} if within else {}
        elif all(value == values[0] for value in values):
            alike[key] = values[0]
    return alike


def _beyond(shared: Mapping[str, Any], content: Mapping[str, Any]) -> dict[str, Any]:
    """The rest of ``content`` once ``shared`` is known."""
    rest: dict[str, Any] = {}
    for key, value in content.items():
        if isinstance(value, dict) and isinstance(shared.get(key), dict):
            inside = _beyond(shared[key], value)
            rest |= {key: inside} if inside else {}
        elif key not in shared:
            rest[key] = value
    return rest


def by_cell(outcomes: Iterable[Outcome]) -> dict[str, list[Outcome]]:
    """Outcomes that are compared with each other: of one cell of an experiment, or own runs on the same rows."""
    groups: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        own = f"{outcome.about.name} {outcome.spec.data.fingerprint}"
        groups.setdefault(outcome.study.cell if outcome.study else own, []).append(outcome)
    return groups
