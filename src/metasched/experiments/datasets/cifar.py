"""Meta-CIFAR-100: superclasses as tasks and another as the target. Every superclass has its own classes."""

from collections.abc import Sequence
from typing import Literal

from metasched.errors import ConfigError
from metasched.experiments.datasets import cifar100
from metasched.experiments.datasets.build import Rows, task_set
from metasched.experiments.datasets.cifar100 import Superclass
from metasched.tasks import Provenance, TaskSet, from_pixels

TASKS = ("aquatic_mammals", "medium_mammals", "small_mammals", "insects")
TARGET = "large_carnivores"


def load(
    *,
    tasks: Sequence[str] | Literal["all"] = TASKS,
    target: str = TARGET,
    rows: int = 500,
    validation_rows: int = 500,
) -> TaskSet:
    """The first ``rows`` training rows of each task's superclass, in the order of the original file.

    Validation is the first ``validation_rows`` training rows of the target's superclass; test is all of its 500 rows
    in the official test file. Inputs are (32, 32, 3) in [0, 1].

    ``tasks="all"`` uses the 19 superclasses other than the target. Without the official archive ten of them come from a
    sample, with 1000 training rows each in random order. The provenance then numbers the rows in the file of the
    sample.
    """
    tasks = [name for name in cifar100.SUPERCLASSES if name != target] if tasks == "all" else list(tasks)
    if target in tasks:
        raise ConfigError(f"'{target}' is both the target and a task; remove it from one of them")
    superclasses = cifar100.read(*tasks, target)
    available = min(len(superclass.train.labels) for superclass in superclasses)
    for option, count in (("rows", rows), ("validation_rows", validation_rows)):
        if not 1 <= count <= available:
            raise ConfigError(f"{option} is {count}; a superclass has {available} training rows: give 1 … {available}")
    *sources, goal = superclasses
    return task_set(
        "cifar",
        {name: _rows(source, "train", rows) for name, source in zip(tasks, sources, strict=True)},
        _rows(goal, "train", validation_rows),
        _rows(goal, "test"),
    )


def _rows(superclass: Superclass, part: Literal["train", "test"], count: int | None = None) -> Rows:
    """The first rows of a superclass."""
    images, labels, rows = (array[:count] for array in getattr(superclass, part))
    origin = Provenance(f"CIFAR-100 {part}", rows, superclass.files)
    if superclass.sample:
        origin = Provenance(superclass.sample, rows, superclass.files, "a sample in a random order")
    return Rows(from_pixels(images), labels, origin, superclass.classes)
