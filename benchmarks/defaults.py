"""Settings of joint training on made-up tables: five sources of 500 rows, one shuffled, 40 labelled target rows.

Prints, for each kind of table and each setting, the final accuracy of Thompson sampling on transfer (two seeds, two
streams of data), beside logistic regression on the target's labelled rows alone.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

import metasched as ms
from metasched.references.baseline import baseline

ROWS, FEATURES, LABELLED, TEST, SOURCES = 500, 40, 40, 1000, 5
USUAL = ms.Joint()
SETTINGS = {
    "defaults": USUAL,
    "all target rows in a step": replace(USUAL, target_batch="all"),
    "10 updates": replace(USUAL, updates=10),
    "90 updates": replace(USUAL, updates=90),
    "batches of 40": replace(USUAL, batch_size=40),
    "sources weigh half": replace(USUAL, source_weight=0.5),
}
Rows = tuple[np.ndarray, np.ndarray]


def linear(random: np.random.Generator, classes: int, noise: float) -> tuple[list[Rows], Rows]:
    """A linear rule that differs a little from source to source; inputs are shifted."""
    rule = random.normal(size=(FEATURES, classes)) / np.sqrt(FEATURES) * 2

    def rows(count: int, rule: np.ndarray) -> Rows:
        shift = random.normal(size=FEATURES) * 0.5
        inputs = random.normal(size=(count, FEATURES)) + shift
        return inputs, (inputs @ rule + noise * random.gumbel(size=(count, classes))).argmax(axis=1)

    sources = []
    for place in range(SOURCES):
        inputs, labels = rows(ROWS, rule + random.normal(size=rule.shape) / np.sqrt(FEATURES) * 2 * 0.3)
        sources.append((inputs, labels if place else random.permutation(labels)))
    return sources, rows(LABELLED + TEST, rule)


def curved(random: np.random.Generator, classes: int) -> tuple[list[Rows], Rows]:
    """A rule through 30 units of tanh and sine, whose weights differ a little from source to source."""
    units = random.normal(size=(FEATURES, 30)) / np.sqrt(FEATURES) * 1.5
    rule = random.normal(size=(30, classes))

    def rows(count: int, units: np.ndarray, shift: np.ndarray) -> Rows:
        inputs = random.normal(size=(count, FEATURES)) + shift
        hidden = np.tanh(inputs @ units) + 0.5 * np.sin(2 * inputs @ units)
        return inputs, (hidden @ rule / 2 + 0.5 * random.gumbel(size=(count, classes))).argmax(axis=1)

    sources = []
    for place in range(SOURCES):
        other = units + 0.3 * random.normal(size=units.shape) / np.sqrt(FEATURES)
        inputs, labels = rows(ROWS, other, 0.3 * random.normal(size=FEATURES))
        sources.append((inputs, labels if place else random.permutation(labels)))
    return sources, rows(LABELLED + TEST, units, 0.3 * random.normal(size=FEATURES))


def clusters(random: np.random.Generator, classes: int = 4) -> tuple[list[Rows], Rows]:
    """Clusters, rotated further from source to source."""
    centres = random.normal(size=(classes, FEATURES)) * 0.5

    def rows(count: int, turn: np.ndarray) -> Rows:
        labels = random.integers(0, classes, count)
        return (centres[labels] + random.normal(size=(count, FEATURES))) @ turn, labels

    sources = []
    for place in range(SOURCES):
        tilt = (0.2 + 0.4 * place) * random.normal(size=(FEATURES, FEATURES)) / np.sqrt(FEATURES)
        turn = np.linalg.qr(np.eye(FEATURES) + tilt)[0]
        inputs, labels = rows(ROWS, turn * np.sign(np.diag(turn)))
        sources.append((inputs, labels if place else random.permutation(labels)))
    return sources, rows(LABELLED + TEST, np.eye(FEATURES))


TABLES: dict[str, tuple[Callable[..., tuple[list[Rows], Rows]], tuple[float, ...]]] = {
    "linear, 2 classes": (linear, (2, 1.0)),
    "linear, 4 classes": (linear, (4, 0.5)),
    "curved, 2 classes": (curved, (2,)),
    "curved, 4 classes": (curved, (4,)),
    "clusters, 4 classes": (clusters, ()),
}


def task_set(name: str, stream: int) -> ms.TaskSet:
    """The made-up table of that name."""
    make, options = TABLES[name]
    sources, (inputs, labels) = make(np.random.default_rng(stream), *options)
    return ms.TaskSet.from_arrays(
        {f"source-{place}": rows for place, rows in enumerate(sources, 1)},
        validation=(inputs[:LABELLED], labels[:LABELLED]),
        test=(inputs[LABELLED:], labels[LABELLED:]),
        name=name,
    )


def final(tasks: ms.TaskSet, config: ms.Joint) -> float:
    """Mean final accuracy of two seeds."""
    settings = replace(config, eval_every=config.updates)
    fade = {"forget": 0.98 ** (1 / 35)}
    run = ms.train(tasks, "thompson", options=fade, learner=settings, seeds=(0, 1))
    return float(np.mean([end["test_accuracy"] for end in run.final.values()]))


def main() -> None:
    """Print a table in Markdown."""
    print("| | logistic regression |", " | ".join(SETTINGS), "|")
    print("|---" * (2 + len(SETTINGS)) + "|")
    for name in TABLES:
        sets = [task_set(name, stream) for stream in (0, 1)]
        means = [np.mean([baseline(tasks).score for tasks in sets])]
        means += [np.mean([final(tasks, config) for tasks in sets]) for config in SETTINGS.values()]
        print(f"| {name} |", " | ".join(f"{mean:.3f}" for mean in means), "|", flush=True)


if __name__ == "__main__":
    main()
