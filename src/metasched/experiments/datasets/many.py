"""Twenty digit sources, fifteen of them spoilt: the five of ``digits`` unchanged and in three misleading ways."""

from dataclasses import replace
from typing import Literal

import numpy as np

from metasched.experiments.datasets import digits
from metasched.seeds import check_seed
from metasched.tasks import TEST, VALIDATION, TaskSet


def load(
    *,
    resizing: Literal["centred", "plain"] = "centred",
    validation: Literal["mnist", "sources"] = "mnist",
    target_labels: int = 30,
    seed: int = 0,
) -> TaskSet:
    """The five tasks of ``digits`` four times each, in an order drawn from ``seed``.

    ``semeion-1`` and so on are unchanged. Tasks with ``-shuffled`` have shuffled labels and teach nothing. Tasks with
    ``-wrong`` always have one digit for another, each task in its own way, and mislead. Tasks with ``-odd`` have
    scrambled inputs, each task in its own way: they can be learned, but help no other task. ``seed`` also draws these
    and the ``target_labels`` validation rows. ``resizing`` and ``validation`` are those of ``digits``.
    """
    random = np.random.default_rng(check_seed(seed))
    good = digits.load(resizing=resizing, validation=validation).variant(target_labels=target_labels, seed=seed)
    names = [task.name for task in good.tasks]
    shuffled = good.variant(noise=dict.fromkeys(names, 1.0), seed=seed)
    wrong = odd = good
    for name in names:
        wrong = wrong.with_wrong_labels(name, shift=int(random.integers(1, len(good.classes))))
        odd = odd.with_irrelevant(name, seed=int(random.integers(1 << 31)))
    versions = {"": good, "-shuffled": shuffled, "-wrong": wrong, "-odd": odd}
    tasks = [
        (replace(task, name=task.name + suffix), version.provenance[task.name])
        for suffix, version in versions.items()
        for task in version.tasks
    ]
    placed = [tasks[number] for number in random.permutation(len(tasks))]
    return replace(
        good,
        name="many",
        tasks=tuple(task for task, _ in placed),
        provenance={
            **{task.name: origin for task, origin in placed},
            VALIDATION: good.provenance[VALIDATION],
            TEST: good.provenance[TEST],
        },
    )
