"""The smallest task sets that a test can break in one place."""

import numpy as np

import metasched as ms


def rows(count=6, shape=(2,), label=0, seed=0):
    return np.random.default_rng(seed).normal(size=(count, *shape)), np.full(count, label)


def build(**changes):
    arguments = {
        "tasks": {"a": rows(seed=1), "b": rows(seed=2)},
        "validation": rows(seed=3),
        "test": rows(seed=4),
        "classes": ["x", "y"],
        **changes,
    }
    return ms.TaskSet.from_arrays(arguments.pop("tasks"), **arguments)


def build_regression(**changes):
    def rows(seed, count=6):
        random = np.random.default_rng(seed)
        return random.normal(size=(count, 2)), random.normal(size=count)

    arguments = {"tasks": {"a": rows(1), "b": rows(2)}, "validation": rows(3), "test": rows(4), **changes}
    return ms.TaskSet.regression(arguments.pop("tasks"), **arguments)
