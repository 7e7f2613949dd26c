"""A task set in a few lines of text."""

import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from metasched.tasks.taskset import TaskSet


def summary(tasks: "TaskSet") -> str:
    """Size, shape and classes; rows, labels and origin of every part; files, and whatever was noted."""
    shape = " × ".join(map(str, tasks.shape))
    head = f"{tasks.name}: {len(tasks.tasks)} tasks, {sum(tasks.sizes):,} rows, inputs {shape}, {_meaning(tasks)}"
    parts = tasks.parts()
    width = max(len(name) for name, _, _ in parts)
    bars = max(6, *(len(classes) for _, _, classes in parts))
    lines = [f"  {'':{width}}  {'rows':>7}  {'labels':{bars}}  source"]
    for name, part, classes in parts:
        counts = np.bincount(part.labels, minlength=len(classes))
        lines.append(
            f"  {name:{width}}  {len(part.labels):7,}  {_bars(counts):{bars}}  {tasks.provenance[name].describe()}"
        )
    if tasks.shared_labels:
        lines.append(f"  classes: {', '.join(tasks.classes)}")
    else:
        named = [(task.name, task.classes) for task in tasks.tasks] + [("target", tasks.classes)]
        lines += [f"  classes of {name}: {', '.join(classes)}" for name, classes in named]
    if tasks.useful is not None:
        lines.append(f"  known to be useful: {', '.join(tasks.useful) or 'none'}")
    files = {file: digest for item in tasks.provenance.values() for file, digest in item.files.items()}
    lines += [f"  sha256 {digest[:12]}…  {file}" for file, digest in files.items()]
    lines += [f"  {name}: {item.note}" for name, item in tasks.provenance.items() if item.note]
    if tasks.simulated:
        head = f"{head}\n  SIMULATED data: not observations"
    lines += [f"  note: {note}" for note in tasks.notes]
    return "\n".join([head, *lines, *(f"  ! {line}" for line in tasks.warnings)])


def _meaning(tasks: "TaskSet") -> str:
    if tasks.target_size is None:
        return f"{len(tasks.classes)} classes ({'shared' if tasks.shared_labels else 'its own in each task'})"
    count = "1 number" if tasks.target_size == 1 else f"{tasks.target_size} numbers"
    return f"targets of {count}, seen by schedulers as {len(tasks.classes)} bins"


def _bars(counts: NDArray[np.int64]) -> str:
    """A histogram in one word: a blank for no rows, a full block for the most frequent label."""
    blocks = " ▁▂▃▄▅▆▇█"
    top = max(int(counts.max()), 1)
    return "".join(blocks[math.ceil(8 * int(count) / top)] for count in counts)
