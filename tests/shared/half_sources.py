"""Sources that know half of the rule of a target each, and sources that mislead."""

import numpy as np

import metasched as ms

NAMES = ("noise", "half", "reversed", "other half")


def make_sources(validation=20, seed=0, regression=False):
    """A target with two rules; two sources know one of them each, one has labels at random and one reversed."""
    random = np.random.default_rng(seed)
    slopes = np.array([2.0, -2.0, 2.0, -2.0])

    def rows(count, kind="target"):
        inputs = random.normal(size=(count, 4))
        if kind == "half":
            inputs[:, 2:] = 0
        if kind == "other half":
            inputs[:, :2] = 0
        values = inputs @ slopes * (-1 if kind == "reversed" else 1)
        if kind == "noise":
            values = random.permutation(values)
        return inputs, values if regression else (values > 0).astype(int)

    make = ms.TaskSet.regression if regression else ms.TaskSet.from_arrays
    return make({name: rows(200, name) for name in NAMES}, validation=rows(validation), test=rows(400))
