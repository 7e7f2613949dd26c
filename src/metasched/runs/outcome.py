"""A finished run as one line of JSON: what it was, where it ran, and its results. Reports are made from such lines.

The folder of a run has one such line in ``outcome.jsonl``. A file of many runs has one line each. While a sweep runs,
lines are appended to a plain ``.jsonl`` file, so that a kill costs at most the last line. Final results are written at
once and compressed (``.jsonl.gz``), because the lines of a sweep repeat most of their text.
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
"""The endings of the names of files with outcomes."""
LARGEST = 512 * 1024**2
"""The largest size of a file of outcomes in bytes, after unpacking."""
Family = Literal["static", "active", "control", "ceiling"]
OURS = "ours"
"""The role of a method that is named before the runs."""
OWN_RUNS = "own runs"
"""The regime of runs that do not belong to an experiment."""


class Study(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The place of a run in an experiment. ``cell`` is unique among results, and its runs are compared.

    The results of an *exploratory* cell are reported, but were not planned.
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

    ``useful`` are the tasks known to help, if there are any. ``deviation`` is only for regression: the standard
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
    """When, by which command and on which device the run was executed."""

    created: str
    command: str
    device: str

    @property
    def typed(self) -> str:
        """The command without the path of the program."""
        program, _, words = self.command.partition(" ")
        return f"metasched {words}" if PurePath(program).name in ("metasched", "__main__.py") else self.command


class Final(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The last evaluation of a run, on all test rows. The last line of ``metrics.jsonl`` and the outcome both have it.

    Attributes:
        test_accuracy: of the final model. If the settings name another metric, this is its score: the log-loss and the
            mean absolute error have a minus sign, so that higher is better.
        initial_test_accuracy: of the model before it adapted to the target.
        balanced_test_accuracy: the mean over classes of the accuracy of each.
        test_accuracy_by_class: (C,); None for a class without test rows.
        validation_accuracy: on the target's labelled rows. Set in outcomes; in the metrics every line has it.
        test_rows: how many there are.
        drawn_by_label: source rows by task and label (N, C).
        outputs: the final model's predictions for the test rows, at most 5,000, in the order of
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
    """A finished run.

    Attributes:
        run: the name of its spec.
        method: its name in tables. Runs of a method differ only by seed.
        family: of its scheduler, or ``ceiling`` for a network trained on all rows at once.
        role: a few words on what the method stands for.
        study: the experiment that it belongs to; None for the user's own runs.
        updates: the updates (P,) after which the model was evaluated.
        samples: source rows drawn up to each of them (P,).
        test_accuracy: on a fixed subset of the test rows (P,), or the score of another metric.
        final: the last evaluation; None when the run diverged.
        drawn: source rows by task (N,).
        rewards: mean reward by task (N,) of the rows drawn from it, or of its batches if each comes from one source;
            None for a task that was never drawn. None altogether if the scheduler uses no rewards, and for runs that an
            earlier version started.
        abstained: batches without a source; rows, if batches are mixed.
        schedule: batches of each task, and of none, in each update (K, N + 1); rows, if batches are mixed.
        seconds: how long the run takes alone.
        scheduling_seconds: the time of one decision.
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
        """The metric of its scores."""
        settings = self.spec.settings
        balanced, regression = bool(settings.get("balanced_accuracy")), self.about.deviation is not None
        return metric_of(settings.get("metric"), balanced=balanced, regression=regression)


def outputs_of(outcome: Outcome) -> NDArray[np.float32]:
    """The final model's predictions for the test rows (n, C), or (n, d) in regression. Row k is number k of
    ``judged_rows``.

    If sources with more classes than the target share its head, columns for the extra classes follow.
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
    # In regression the classes are those of the labels that schedulers see. They have nothing to do with the outputs.
    least = 1 if outcome.about.deviation is not None else max(1, len(outcome.about.classes))
    return width if not rest and width >= least else 0


def origin(command: str) -> Origin:
    """The time, the command and the device."""
    return Origin(created=datetime.now(UTC).isoformat(timespec="seconds"), command=command, device=device())


def device() -> str:
    """The first device, in words."""
    first = jax.devices()[0]
    return f"{first.platform}: {first.device_kind}"


def versions() -> dict[str, str]:
    """The versions of all packages that compute."""
    packages = ("metasched", "jax", "numpy", "optax")
    return {"python": platform.python_version(), **{package: version_of(package) for package in packages}}


def encode(outcome: Outcome) -> bytes:
    """An outcome as one line. Fields with their default value are left out."""
    return msgspec.json.encode({"format": FORMAT, **msgspec.to_builtins(outcome)}) + b"\n"


def content(path: Path) -> bytes:
    """All lines of a file of outcomes, unpacked if it is compressed."""
    read_bytes = untrusted.read_gzip if path.suffix == ".gz" else untrusted.read_bytes
    return read_bytes(path, LARGEST, "give a file of results", DataError)


def read(path: Path) -> Iterator[Outcome]:
    """The outcomes of a file. An error names the file, the line and the problem.

    An incomplete last line is left out, because a kill cut it short while it was appended.
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
    """Write all outcomes as one file, completely or not at all, compressed if its name ends in ``.gz``.

    The compressed file does not contain the time, so that the same outcomes make the same bytes.
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
    """Outcomes that are compared with each other: those of one cell of an experiment, or the user's own runs on the
    same rows.
    """
    groups: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        own = f"{outcome.about.name} {outcome.spec.data.fingerprint} {outcome.metric.name}"
        # Scores of different metrics are never compared, even if somebody ran the same comparison with both.
        metric = outcome.spec.settings.get("metric") or ""
        groups.setdefault(f"{outcome.study.cell} {metric}".strip() if outcome.study else own, []).append(outcome)
    return groups
