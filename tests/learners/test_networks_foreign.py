"""Networks of other libraries, with the code that docs/training.md shows."""

import re
from pathlib import Path

import jax
import numpy as np
import pytest

import metasched as ms
from helpers import make_tasks
from metasched.learners.networks import Network

PAGE = Path(__file__).parent.parent.parent / "docs" / "training.md"


def example(library, tasks):
    """The page's example for one library, run on small tasks; what it defines."""
    section = PAGE.read_text().partition("## A network of your own\n")[2]
    setting, *rest = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    (code,) = (block for block in rest if library in block)
    replaced = 'tasks = ms.datasets.load("demo")'
    assert replaced in setting
    names = {"tasks": tasks}
    exec(setting.replace(replaced, ""), names)
    exec(code, names)
    return names


def images(**options):
    return make_tasks(sizes=(60, 60), shape=(28, 28), **options)


def own_labels():
    tasks = images()
    return ms.TaskSet.from_arrays(
        {task.name: (task.inputs, task.labels) for task in tasks.tasks},
        validation=tasks.validation,
        test=tasks.test,
        classes={"task-0": "abc", "task-1": "def", "target": "ghi"},
    )


@pytest.fixture(params=["flax", "equinox"])
def library(request):
    return pytest.importorskip(request.param).__name__


@pytest.mark.parametrize("make", [images, own_labels])
def test_the_example_trains(library, make):
    names = example(library, make())
    records = names["run"].records
    assert [record["update"] for record in records] == [1, 2]
    assert all(np.isfinite(record["loss"]) for record in records)
    assert records[-1]["samples"] == 120


def test_what_is_learnt_are_weights_of_that_network(library):
    names = example(library, images())
    network, learnt = names["network"], names["run"].parameters[0].weights
    assert isinstance(network, Network)
    fresh = network.init(jax.random.key(0), np.zeros((1, 28, 28), np.float32))
    assert jax.tree.structure(learnt) == jax.tree.structure(fresh)
    matrices = [leaf for leaf in jax.tree.leaves(learnt) if leaf.ndim == 2]
    assert sorted(matrix.size for matrix in matrices) == [64 * 3, 784 * 64]
    assert network.apply(learnt, np.zeros((5, 28, 28), np.float32)).shape == (5, 3)


def test_a_run_goes_on_with_the_same_network(library, tmp_path):
    names = example(library, images())
    whole = names["run"].records

    class Stop(BaseException):
        pass

    def stop(record):
        raise Stop

    arguments = {"scheduler": "ucb", "network": names["network"], "learner": names["learner"], "out": tmp_path / "a"}
    with pytest.raises(Stop):
        ms.train(names["tasks"], **arguments, on_record=stop, checkpoint_seconds=0)
    assert ms.train(names["tasks"], **arguments).records == whole
