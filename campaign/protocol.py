"""The run folder's protocol as a finite model: its states are what a folder can hold, its steps the file operations.

The operations are those of the package itself, of :mod:`metasched.runs`; what is made small is what a run computes:
counters. From every state that crashes can leave, every further crash is tried, and what was not flushed is lost in
part, wholly or not at all; each state must lead to the bytes of a run that was never stopped. One run from a state
shows both where it leads and, looked at before each operation, what a crash there would leave.
"""

import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, cast
from unittest import mock

import jax.numpy as jnp
import numpy as np

import metasched as ms
from campaign.crashes import TEARS, watched
from campaign.table import Effort, Result, Verdict
from metasched.errors import MetaschedError
from metasched.files import PART
from metasched.learners import model_file
from metasched.learners.engine import Chunk, Models
from metasched.learners.model import Model
from metasched.learners.networks import Mlp, mlp
from metasched.learners.stream import Stream
from metasched.runs import runner
from metasched.runs.executors.local import Local
from metasched.runs.jobs import Job, claim_folders, make_jobs
from metasched.runs.lease import LEASE
from metasched.runs.runner import Computation

CRASHES = 3
UPDATES = 2
"""Each with a checkpoint: the first, and one that has one before it."""
Content = tuple[tuple[str, bytes | None], ...]
"""What a folder holds: paths in order, each with its bytes, None for a folder."""


class Counters(NamedTuple):
    """The state of a run that computes nothing."""

    update: Any
    stream: Stream
    parameters: Any


class Counting(Computation):
    """Counters in place of a compiled program; everything else about a run is the package's own."""

    def __init__(self, jobs: Sequence[Job], together: int | None) -> None:
        del together
        super().__init__(jobs)

    def first_state(self, index: int) -> Counters:
        """Counters at zero."""
        seed = self.jobs[index].description.spec.seed
        stream = Stream((), jnp.zeros(2, jnp.int32), jnp.zeros((2, 2), jnp.int32))
        return Counters(np.int32(0), stream, np.full(3, seed, np.float32))

    def alone(self, index: int, state: Counters) -> Counters:
        """Nothing is shared with others."""
        del index
        return state

    def among_others(self, index: int, alone: Counters, fresh: Counters) -> Counters:
        """Nothing is shared with others."""
        del index, fresh
        return alone

    def run(self, states: Mapping[int, Counters], ended: Collection[int]) -> Iterator[Chunk[int]]:
        """One update after another, run after run."""
        assert not ended  # counters do not diverge
        for index, first in states.items():
            state = first
            while int(state.update) < UPDATES:
                update = np.int32(state.update + 1)
                stream = state.stream._replace(drawn=state.stream.drawn + np.int32(1))
                state = Counters(update, stream, state.parameters * 2)
                models = Models(initial=first.parameters, weights={"w": state.parameters})
                yield (lambda index=index, moved=(state, models): {index: moved}), [(index, _line(state, UPDATES))]  # type: ignore[misc]

    def unit(self, index: int) -> None:
        """The target's labels are classes."""
        del index

    def model(self, index: int, models: Models) -> Model:
        """A model of the counters, which nobody asks anything."""
        del index
        about = model_file.About(
            data="small",
            network=Mlp(hidden=(), outputs=2),
            shape=(2,),
            classes=("a", "b"),
            heads=(2,),
            width=2,
            variance=None,
            precision="float32",
            balanced_accuracy=False,
        )
        return Model(about, mlp(2), models.weights)

    def predictions(self, index: int, model: Model) -> bytes:
        """These jobs do not ask for any."""
        raise NotImplementedError


def _line(state: Counters, total: int) -> dict[str, Any]:
    update, drawn = int(state.update), np.asarray(state.stream.drawn)
    numbers = {"update": update, "samples": int(drawn.sum()), "drawn": drawn.sum(axis=1).tolist(), "abstained": 0}
    line: dict[str, Any] = {
        **numbers,
        "loss": 1 / update,
        "validation_accuracy": 0.5,
        "learning_rate": 0.1,
    }
    if update == total:
        scores: dict[str, Any] = {
            "test_accuracy": 0.5,
            "initial_test_accuracy": 0.5,
            "test_accuracy_by_class": [0.5, None],
            "test_rows": 4,
        }
        final = {**scores, "balanced_test_accuracy": 0.5, "drawn_by_label": drawn.tolist()}
        line |= {**scores, "final": final}
    return line


@cache
def _jobs(seeds: tuple[int, ...], out: Path) -> list[Job]:
    rows = np.arange(8, dtype=np.float32).reshape(4, 2)
    labels = np.array([0, 1, 0, 1])
    sources = {"a": (rows, labels), "b": (rows + 30, labels)}
    validation, test = (rows + 10, labels), (rows + 20, labels)
    tasks = ms.TaskSet.from_arrays(sources, validation=validation, test=test, classes=["a", "b"])
    config = ms.Joint(batch_size=2, updates=UPDATES)
    return make_jobs(tasks, "uniform", network="mlp", learner=config, seeds=seeds, out=out)


@contextmanager
def small() -> Iterator[None]:
    """Runs compute nothing but counters meanwhile."""
    counting: type[Computation] = Counting  # so mypy says what it lacks
    with mock.patch.object(runner, "Compiled", counting):
        yield


def go_on(out: Path, seeds: tuple[int, ...]) -> None:
    """Begin the runs in ``out``, or go on with those that are there, to their end."""
    runner.run(claim_folders(_jobs(seeds, out), out), checkpoint_seconds=0)


def run(out: Path, seeds: tuple[int, ...]) -> None:
    """The same with small runs."""
    with small():
        go_on(out, seeds)


def run_local(out: Path, seeds: tuple[int, ...]) -> None:
    """The same in two workers of the executor ``local``, which are small themselves."""
    workers = Local(out.parent / "local", 2)
    try:
        workers.run(claim_folders(_jobs(seeds, out), out), lambda *_: None)
    finally:
        workers.close()


def content(folder: Path) -> Content:
    """All that a folder holds."""
    paths = sorted(folder.rglob("*"))
    return tuple((str(path.relative_to(folder)), path.read_bytes() if path.is_file() else None) for path in paths)


def restore(folder: Path, held: Content) -> None:
    """Make a folder hold that and nothing else; an empty content is no folder."""
    shutil.rmtree(folder, ignore_errors=True)
    for name, bytes_ in held:
        path = folder / name
        (path if bytes_ is None else path.parent).mkdir(parents=True, exist_ok=True)
        if bytes_ is not None:
            path.write_bytes(bytes_)


class Followed(NamedTuple):
    """Where a folder's content led: what was there at the end, or the error, and what a crash at any step leaves.

    ``left`` has a step, the share kept of what was not flushed, and what counts of the content.
    """

    end: Content | Exception
    left: list[tuple[int, float, Content]]


def explore(place: Path, seeds: tuple[int, ...], crashes: int = CRASHES) -> Iterator[Result]:
    """Every crash, ``crashes`` deep, of runs of these seeds in ``place / "runs"``: a result for each way to crash.

    Where two ways lead to the same content, what comes after is tried once; what is left of a file that was not written
    whole is never read, and a lease of this machine is taken over whatever it says, so of them only their being there
    counts.
    """
    contents: dict[Content, Content] = {(): ()}
    first = _followed(place, (), seeds, contents)
    reached: dict[Content, Followed] = {(): first}
    frontier: dict[Content, str] = {(): "begun"}
    for depth in range(1, crashes + 1):
        following: dict[Content, str] = {}
        for state, way in frontier.items():
            for step, share, left in reached[state].left:
                case = f"{way}; {step} operations, {share:g} of what was not flushed"
                if left not in reached:
                    reached[left] = _followed(place, contents[left], seeds, contents if depth < crashes else None)
                    following[left] = case
                yield _judged(reached[left].end, first.end, case)
        frontier = following


def _followed(place: Path, held: Content, seeds: tuple[int, ...], contents: dict[Content, Content] | None) -> Followed:
    """Begin or go on with the runs in a folder that holds that; before every operation look at what would be left.

    ``contents`` is given, for all that counts, one content that has it; without it nobody looks.
    """
    folder, left = place.absolute() / "runs", list[tuple[int, float, Content]]()
    restore(folder, held)

    def look(_: str) -> None:
        assert contents is not None
        here = content(folder)
        for share in TEARS:
            kept = disk.kept(share)
            torn = tuple((name, bytes_ and bytes_[: kept.get(str(folder / name))]) for name, bytes_ in here)
            counts = _what_counts(torn)
            contents.setdefault(counts, torn)
            left.append((len(disk.events), share, counts))

    with watched(place, 1 if contents is not None else None, look) as disk:
        try:
            run(folder, seeds)
        except Exception as error:
            return Followed(error, left)
    return Followed(content(folder), left)


def _what_counts(held: Content) -> Content:
    return tuple((name, b"" if name.endswith((PART, LEASE)) else bytes_) for name, bytes_ in held)


def _judged(end: Content | Exception, whole: Content | Exception, case: str) -> Result:
    """Whether the end is that of runs that were never stopped."""
    if isinstance(end, Exception):
        known = isinstance(end, MetaschedError)
        return Result(case, Verdict.LOST if known else Verdict.TRACEBACK, str(end) if known else repr(end))
    if end == whole:
        return Result(case)
    names = sorted({name for name, _ in set(end) ^ set(cast(Content, whole))})
    return Result(case, Verdict.LOST, f"other bytes in {', '.join(names)}")


def protocol(effort: Effort) -> Iterator[Result]:
    """The model of one run and of two seeds, whole: the number of attempts is what it is."""
    for seeds in ((0,), (0, 1)):
        yield from explore(effort.place / f"{len(seeds)}", seeds)
