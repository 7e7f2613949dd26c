import numpy as np
import pytest

import metasched as ms
from metasched.errors import ConfigError
from metasched.experiments.datasets import mnist, uci


@pytest.fixture
def needed(needs):
    needs(*(file.path for file in (*uci.SEMEION, *uci.OPTDIGITS, *mnist.FILES.values())))


def test_every_source_of_digits_as_it_is_and_spoilt_in_three_ways(needed):
    digits, many = ms.datasets.load("digits"), ms.datasets.load("many")
    assert len(many.tasks) == 20
    assert many.useful == digits.useful
    assert len(many.validation.labels) == 30
    own = {task.name: task for task in many.tasks}
    orders = set()
    for task in digits.tasks:
        good, shuffled, wrong, odd = (own[task.name + suffix] for suffix in ("", "-shuffled", "-wrong", "-odd"))
        np.testing.assert_array_equal(good.inputs, task.inputs)
        np.testing.assert_array_equal(good.labels, task.labels)
        assert 0.02 < np.mean(shuffled.labels == task.labels) < 0.2
        np.testing.assert_array_equal(np.bincount(shuffled.labels), np.bincount(task.labels))
        (shift,) = set((wrong.labels - task.labels) % 10)
        assert shift
        np.testing.assert_array_equal(odd.labels, task.labels)
        np.testing.assert_allclose(odd.inputs.sum(axis=(1, 2)), task.inputs.sum(axis=(1, 2)), rtol=1e-4)
        orders.add(odd.inputs[0].tobytes())
        np.testing.assert_array_equal(many.provenance[odd.name].rows, digits.provenance[task.name].rows)
    assert len(orders) == 5


def test_the_seed_draws_the_order_and_what_is_spoilt(needed):
    first, again, other = (ms.datasets.load("many", seed=seed) for seed in (0, 0, 1))
    for task, twin in zip(first.tasks, again.tasks, strict=True):
        assert task.name == twin.name
        np.testing.assert_array_equal(task.inputs, twin.inputs)
        np.testing.assert_array_equal(task.labels, twin.labels)
    assert [task.name for task in first.tasks] != [task.name for task in other.tasks]
    assert {task.name for task in first.tasks} == {task.name for task in other.tasks}


def test_a_negative_seed_is_refused():
    with pytest.raises(ConfigError, match="seed is -1"):
        ms.datasets.load("many", seed=-1)
