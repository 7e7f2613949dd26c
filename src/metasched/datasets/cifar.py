"""Meta-CIFAR-100: four superclasses as tasks, a fifth as the target; every superclass has classes of its own."""

from collections.abc import Sequence

from metasched.datasets import cifar100
from metasched.errors import ConfigError
from metasched.tasks import TEST, VALIDATION, Provenance, Split, Task, TaskSet, from_pixels

TASKS = ("aquatic_mammals", "medium_mammals", "small_mammals", "insects")
TARGET = "large_carnivores"


def load(
    *,
    tasks: Sequence[str] = TASKS,
    target: str = TARGET,
    rows: int = 500,
    validation_rows: int = 500,
) -> TaskSet:
    """The first ``rows`` training rows of each task's superclass, in the order of the original file.

    Validation is the first ``validation_rows`` training rows of the target's superclass; test is all of its 500 rows
    in the official test file. Inputs are (32, 32, 3) in [0, 1].
    """
    superclasses = cifar100.read(*tasks, target)
    available = min(len(superclass.train.labels) for superclass in superclasses)
    for option, count in (("rows", rows), ("validation_rows", validation_rows)):
        if not 1 <= count <= available:
            raise ConfigError(f"{option} is {count}; a superclass has {available} training rows: give 1 … {available}")
    provenance = {
        name: Provenance("CIFAR-100 train", superclass.train.rows[:rows], superclass.files)
        for name, superclass in zip(tasks, superclasses, strict=False)
    }
    *sources, goal = superclasses
    provenance[VALIDATION] = Provenance("CIFAR-100 train", goal.train.rows[:validation_rows], goal.files)
    provenance[TEST] = Provenance("CIFAR-100 test", goal.test.rows, goal.files)
    return TaskSet(
        name="cifar",
        tasks=tuple(
            Task(name, from_pixels(source.train.images[:rows]), source.train.labels[:rows], source.classes)
            for name, source in zip(tasks, sources, strict=True)
        ),
        validation=Split(from_pixels(goal.train.images[:validation_rows]), goal.train.labels[:validation_rows]),
        test=Split(from_pixels(goal.test.images), goal.test.labels),
        classes=goal.classes,
        provenance=provenance,
    )
