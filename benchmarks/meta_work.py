"""The works that `meta.py` measures: what is trained on which rows, the same numbers for every side."""

from dataclasses import dataclass, replace

import numpy as np

import metasched as ms

CLASSES, TASKS, INNER_RATE, OUTER_RATE = 10, 5, 0.01, 1e-3
UCB_WIDTH, UCB_XI = 0.2, 1.1
"""Of UCB in W3, the paper's formula: μ + U·√(ξ·log t / V)."""


@dataclass(frozen=True)
class Work:
    """One meta-update: ``steps`` batches of ``rows`` rows, then the outer loss on ``outer_rows`` rows.

    ``validation`` rows are there to draw the outer ones from and, with ``scheduler`` ucb, to measure accuracy on after
    every step.
    """

    name: str
    network: str
    shape: tuple[int, ...]
    steps: int
    rows: int
    validation: int
    outer_rows: int
    scheduler: str

    @property
    def rewarded(self) -> bool:
        """Whether every step is followed by a measurement on all validation rows."""
        return self.scheduler != "cyclic"


W1 = Work("W1", "mlp", (784,), steps=70, rows=20, validation=100, outer_rows=100, scheduler="cyclic")
W2 = Work("W2", "cnn", (32, 32, 3), steps=50, rows=10, validation=100, outer_rows=100, scheduler="cyclic")
W3 = replace(W1, name="W3", validation=1400, outer_rows=20, scheduler="ucb")


def tasks_of(work: Work) -> ms.TaskSet:
    """Five tasks of random rows around one centre a class."""
    random = np.random.default_rng(0)
    centres = random.normal(size=(CLASSES, *work.shape))

    def rows(count):
        labels = random.integers(0, CLASSES, count)
        return (0.3 * centres[labels] + random.normal(size=(count, *work.shape))).astype("float32"), labels

    sources = {f"task-{number}": rows(work.steps * work.rows) for number in range(TASKS)}
    classes = [str(label) for label in range(CLASSES)]
    return ms.TaskSet.from_arrays(sources, validation=rows(work.validation), test=rows(100), classes=classes)
