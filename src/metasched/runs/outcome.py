"""A finished run as one line of JSON: what it was, where it was made, what came of it. Reports are made of them.

The folder of a run has one such line in ``outcome.jsonl``. A file of many runs has one line each. While a sweep runs,
lines are appended to a plain ``.jsonl`` file, so that a kill costs at most the last line; results to keep are written
at once and compressed (``.jsonl.gz``), because lines of one sweep repeat most of their text.
"""

import gzip
import platform
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path, PurePath
from typing import Any, Literal

import jax
import msgspec
import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from metasched import untrusted
from metasched.errors import DataError, RunError
from metasched.files import write_whole
from metasched.learners.evaluation import MOST_JUDGED
from metasched.learners.metrics import NAMES, Metric, metric_of
from metasched.optional import version_of
from metasched.runs import upgrade
from metasched.runs.spec import Count, RunSpec

FORMAT = 3
LINES, PACKED = ".jsonl", ".jsonl.gz"
"""How the names of files of outcomes end."""
LARGEST = 512 * 1024**2
"""A file of outcomes has at most this many bytes, after unpacking."""
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
    """The data in words and numbers, for tables and captions.

    ``useful`` are the tasks known to help, if any are. ``deviation`` is there in regression alone: the standard
    deviation of the target's labelled numbers, in their own unit. Runs of earlier versions lack it.
    """

    name: str
    simulated: bool
    tasks: tuple[str, ...]
    useful: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    source_rows: Count
    target_rows: Count
    test_rows: Count
    deviation: float | None = None


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
    """The last evaluation of a run, on all test rows. The last line of ``metrics.jsonl`` and the outcome both have it.

    Attributes:
        test_accuracy: of the final model. Where the settings name another metric, its score: the log-loss and the mean
            absolute error have a minus sign, so that higher is better.
        initial_test_accuracy: of the model before it adapted to the target.
        balanced_test_accuracy: mean over classes of the accuracy of each.
        test_accuracy_by_class: (C,); None for a class without test rows.
        validation_accuracy: on the target's labelled rows. Set in outcomes; in the metrics every line has it.
        test_rows: how many there are.
        drawn_by_label: source rows by task and label (N, C).
        outputs: what the final model says of the test rows, of 5,000 at most, in the order of
            :func:`~metasched.learners.evaluation.judged_rows`: probabilities of the target's classes (n, C), or
            predicted numbers (n, d), as little-endian float32. Only where predictions were asked for;
            :func:`outputs_of` reads them.
    """

    test_accuracy: float
    initial_test_accuracy: float | None = None
    balanced_test_accuracy: float | None = None
    test_accuracy_by_class: tuple[float | None, ...] | None = None
    validation_accuracy: float | None = None
    test_rows: Count | None = None
    drawn_by_label: tuple[tuple[float, ...], ...] | None = None
    outputs: bytes | None = None


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
        updates: the updates (P,) after which the model was evaluated.
        samples: source rows drawn up to each of them (P,).
        test_accuracy: on a fixed subset of the test rows (P,), or the score of another metric.
        final: the last evaluation; None when the run diverged.
        drawn: source rows by task (N,).
        rewards: mean reward by task (N,) of the rows drawn from it, or of its batches where each is of one source;
            None for a task that was never drawn. None altogether where the scheduler reads no rewards, and for runs
            that an earlier version made or began.
        abstained: batches for which no source was drawn; rows, where batches are mixed.
        schedule: batches of each task, and of none, in each update (K, N + 1); rows, where batches are mixed.
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
    drawn: tuple[Count, ...] | None = None
    rewards: tuple[float | None, ...] | None = None
    abstained: Count = 0
    schedule: tuple[tuple[Count, ...], ...] | None = None
    seconds: float | None = None
    scheduling_seconds: float | None = None
    diverged: Diverged | None = None

    @property
    def metric(self) -> Metric:
        """What its scores are scores of."""
        settings = self.spec.settings
        balanced, regression = bool(settings.get("balanced_accuracy")), self.about.deviation is not None
        return metric_of(settings.get("metric"), balanced=balanced, regression=regression)


def outputs_of(outcome: Outcome) -> NDArray[np.float32]:
    """What the final model said of the test rows (n, C), or (n, d) in regression; row k is number k of ``judged_rows``.

    Where sources with more classes than the target share its head, columns for the surplus classes follow.
    """
    width = _width(outcome)
    if not width or outcome.final is None or outcome.final.outputs is None:
        fault = "has no predictions" if width is None else "has predictions that are not those of its test rows"
        raise DataError(f"{outcome.method}, seed {outcome.spec.seed}: {fault}; make the run again")
    return np.frombuffer(outcome.final.outputs, "<f4").reshape(-1, width).astype(np.float32)


def _width(outcome: Outcome) -> int | None:
    """How many numbers the outputs have for each row; 0 if their length does not fit, None if there are none."""
    if outcome.final is None or outcome.final.outputs is None:
        return None
    rows, size = min(MOST_JUDGED, outcome.about.test_rows), len(outcome.final.outputs)
    width, rest = divmod(size, 4 * rows) if rows else (0, size)
    # In regression the classes are those of the labels that schedulers see; outputs have nothing to do with them.
    least = 1 if outcome.about.deviation is not None else max(1, len(outcome.about.classes))
    return width if not rest and width >= least else 0


def origin(command: str) -> Origin:
    """The moment, the command and the device."""
    return Origin(created=datetime.now(UTC).isoformat(timespec="seconds"), command=command, device=device())


def device() -> str:
    """The first device, in words."""
    first = jax.devices()[0]
    return f"{first.platform}: {first.device_kind}"


def versions() -> dict[str, str]:
    """Of what computes."""
    packages = ("metasched", "jax", "numpy", "optax")
    return {"python": platform.python_version(), **{package: version_of(package) for package in packages}}


def encode(outcome: Outcome) -> bytes:
    """One line; fields that have their default value are left out."""
    return msgspec.json.encode({"format": FORMAT, **msgspec.to_builtins(outcome)}) + b"\n"


def content(path: Path) -> bytes:
    """All lines of a file of outcomes, unpacked if it is compressed."""
    read_bytes = untrusted.read_gzip if path.suffix == ".gz" else untrusted.read_bytes
    return read_bytes(path, LARGEST, "give a file of results", DataError)


def read(path: Path) -> Iterator[Outcome]:
    """The outcomes of a file; an error names the file, the line and the fault.

    A last line without its end is left out: a kill cut it short while it was appended.
    """
    layers = upgrade.Layers()
    for number, line in enumerate(content(path).splitlines(keepends=True), 1):
        try:
            fields = layers.complete(msgspec.json.decode(line, type=dict[str, Any]))
            if fields is not None:
                yield _checked(fields)
        except (RunError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            if not line.endswith(b"\n"):
                return
            raise DataError(f"{path}, line {number}: is not an outcome of format {FORMAT} ({error})") from None


def write(path: Path, outcomes: Sequence[Outcome]) -> None:
    """Write all outcomes as one file, whole or not at all, compressed if its name ends in ``.gz``.

    The time is left out of the compressed file, so that the same outcomes make the same bytes.
    """
    lines = b"".join(map(encode, outcomes))
    write_whole(path, gzip.compress(lines, mtime=0) if path.suffix == ".gz" else lines)


def _checked(fields: Mapping[str, Any]) -> Outcome:
    known = upgrade.outcome(fields) if fields.get("format") == 2 else dict(fields)
    if known.pop("format", None) != FORMAT:
        raise msgspec.ValidationError(f"its format is {fields.get('format')!r}")
    outcome = msgspec.convert(known, Outcome)
    if not (len(outcome.updates) == len(outcome.samples) == len(outcome.test_accuracy)):
        raise msgspec.ValidationError("updates, samples and test_accuracy differ in length")
    if (outcome.final is None) == (outcome.diverged is None):
        raise msgspec.ValidationError("a run has either final or diverged")
    if _width(outcome) == 0:
        raise msgspec.ValidationError("its outputs are not those of its test rows")
    if outcome.spec.settings.get("metric") not in (None, *NAMES):
        raise msgspec.ValidationError(f"its metric is {outcome.spec.settings['metric']!r}")
    return outcome


def by_cell(outcomes: Iterable[Outcome]) -> dict[str, list[Outcome]]:
    """Outcomes that are compared with each other: of one cell of an experiment, or own runs on the same rows."""
    groups: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        own = f"{outcome.about.name} {outcome.spec.data.fingerprint} {outcome.metric.name}"
        # Scores of different metrics are never compared, even if somebody ran the same comparison with both.
        metric = outcome.spec.settings.get("metric") or ""
        groups.setdefault(f"{outcome.study.cell} {metric}".strip() if outcome.study else own, []).append(outcome)
    return groups
