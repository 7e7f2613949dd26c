"""What a task set looks like: as a few lines of text, as a table for a notebook, as records for a data frame."""

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from metasched.notebook import html as markup

if TYPE_CHECKING:
    from metasched.tasks.taskset import TaskSet

UNLABELLED = "unlabelled"
"""The name of the target's unlabelled rows in a summary."""


def summary(tasks: "TaskSet") -> str:
    """A few lines of text."""
    parts = tasks.parts()
    width = max(len(name) for name in (*(name for name, _, _ in parts), UNLABELLED))
    bars = max(6, *(len(classes) for _, _, classes in parts))
    lines = [f"  {'':{width}}  {'rows':>7}  {'labels':{bars}}  source"]
    for name, part, classes in parts:
        drawn, origin = _bars(_counts(part.labels, classes)), tasks.provenance[name].describe()
        lines.append(f"  {name:{width}}  {len(part.labels):7,}  {drawn:{bars}}  {origin}")
    if tasks.unlabelled is not None:
        origin = tasks.unlabelled.provenance.describe()
        lines.append(f"  {UNLABELLED:{width}}  {len(tasks.unlabelled):7,}  {'':{bars}}  {origin}")
    origins = [*tasks.provenance.values(), *([] if tasks.unlabelled is None else [tasks.unlabelled.provenance])]
    files = {file: digest for item in origins for file, digest in item.files.items()}
    lines += [f"  {line}" for line in _classes(tasks)]
    lines += [f"  sha256 {digest[:12]}…  {file}" for file, digest in files.items()]
    lines += [f"  {line}" for line in _remarks(tasks)]
    head = f"{_head(tasks)}\n  SIMULATED data: not observations" if tasks.simulated else _head(tasks)
    return "\n".join([head, *lines, *(f"  ! {line}" for line in tasks.warnings)])


def html(tasks: "TaskSet") -> str:
    """A table for a notebook, with the labels of each part as a histogram."""
    rows: list[tuple[object, ...]] = [
        (
            name,
            f"{len(part.labels):,}",
            markup.bars(_counts(part.labels, classes).tolist()),
            tasks.provenance[name].describe(),
        )
        for name, part, classes in tasks.parts()
    ]
    if tasks.unlabelled is not None:
        rows.append((UNLABELLED, f"{len(tasks.unlabelled):,}", "", tasks.unlabelled.provenance.describe()))
    said = [*_classes(tasks), *_remarks(tasks), *(f"! {line}" for line in tasks.warnings)]
    simulated = [markup.line("SIMULATED data: not observations", strong=True)] * tasks.simulated
    return markup.page(
        markup.line(_head(tasks), strong=True),
        *simulated,
        markup.table(["", "rows", "labels", "source"], rows),
        *map(markup.line, said),
    )


def records(tasks: "TaskSet") -> list[dict[str, Any]]:
    """A record for each part. Labels that all sources share are counted, each in its own column."""
    found = []
    for name, part, classes in tasks.parts():
        row: dict[str, Any] = {"part": name, "rows": len(part.labels), "source": tasks.provenance[name].describe()}
        if tasks.shared_labels:
            row |= dict(zip(classes, _counts(part.labels, classes).tolist(), strict=True))
        found.append(row)
    return found


def _head(tasks: "TaskSet") -> str:
    if tasks.target_size is None:
        meaning = f"{len(tasks.classes)} classes ({'shared' if tasks.shared_labels else 'its own in each task'})"
    else:
        count = "1 number" if tasks.target_size == 1 else f"{tasks.target_size} numbers"
        meaning = f"targets of {count}, seen by schedulers as {len(tasks.classes)} bins"
    shape = " × ".join(map(str, tasks.shape))
    return f"{tasks.name}: {len(tasks.tasks)} tasks, {sum(tasks.sizes):,} rows, inputs {shape}, {meaning}"


def _classes(tasks: "TaskSet") -> list[str]:
    """The names of the classes, and of the sources that are known to help."""
    if tasks.shared_labels:
        lines = [f"classes: {', '.join(tasks.classes)}"]
    else:
        named = [(task.name, task.classes) for task in tasks.tasks] + [("target", tasks.classes)]
        lines = [f"classes of {name}: {', '.join(classes)}" for name, classes in named]
    if tasks.useful is not None:
        lines.append(f"known to be useful: {', '.join(tasks.useful) or 'none'}")
    return lines


def _remarks(tasks: "TaskSet") -> list[str]:
    own = [f"{name}: {item.note}" for name, item in tasks.provenance.items() if item.note]
    return [*own, *(f"note: {note}" for note in tasks.notes)]


def _counts(labels: NDArray[np.int32], classes: tuple[str, ...]) -> NDArray[np.int64]:
    return np.bincount(labels, minlength=len(classes))


def _bars(counts: NDArray[np.int64]) -> str:
    """A histogram as a word: a blank for no rows, a full block for the most frequent label."""
    blocks = " ▁▂▃▄▅▆▇█"
    top = max(int(counts.max()), 1)
    return "".join(blocks[math.ceil(8 * int(count) / top)] for count in counts)
