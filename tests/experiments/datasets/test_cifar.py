import numpy as np
import pytest

import metasched as ms
from metasched.errors import ConfigError
from metasched.experiments.datasets import cifar, cifar100

FILES = [cifar100.LABELS.path, *(cifar100.SUPERCLASS_FILES[name].path for name in (*cifar.TASKS, cifar.TARGET))]


@pytest.fixture
def tasks(needs):
    needs(*FILES)
    return ms.datasets.load("cifar")


def test_four_superclasses_of_500_rows_with_classes_of_their_own(tasks):
    assert tasks.sizes == (500,) * 4
    assert tasks.shape == (32, 32, 3)
    assert not tasks.shared_labels
    assert tasks.tasks[0].classes == ("beaver", "dolphin", "otter", "seal", "whale")
    assert tasks.classes == ("bear", "leopard", "lion", "tiger", "wolf")


def test_rows_are_the_first_of_the_original_file(tasks):
    rows = tasks.provenance["insects"].rows
    assert np.all(np.diff(rows) > 0)
    assert rows[0] == 38
    assert len(tasks.test.labels) == 500


def test_all_others_teach(needs):
    needs(
        *(file.path for file in (cifar100.LABELS, *cifar100.SUPERCLASS_FILES.values(), *cifar100.SAMPLE_FILES.values()))
    )
    tasks = ms.datasets.load("cifar", tasks="all", rows=100)
    assert len(tasks.tasks) == 19
    assert [task.name for task in tasks.tasks] == sorted(set(cifar100.SUPERCLASSES) - {"large_carnivores"})
    assert len({name for task in tasks.tasks for name in task.classes}) == 95
    assert "trees: a sample in a random order" in tasks.summary()
    assert tasks.provenance["insects"].source == "CIFAR-100 train"
    assert tasks.provenance["trees"].source == cifar100.SAMPLE_FILES["trees"].path
    assert ms.datasets.load("cifar", rows=100).test.inputs.shape == tasks.test.inputs.shape


def test_the_target_teaches_itself_nothing():
    with pytest.raises(ConfigError, match="'insects' is both the target and a task"):
        ms.datasets.load("cifar", target="insects")


def test_an_unknown_superclass_is_refused_before_any_file_is_read():
    with pytest.raises(ConfigError, match="did you mean 'insects'"):
        ms.datasets.load("cifar", tasks=("insect",))


def test_counts_and_names_are_options(needs):
    needs(*FILES)
    small = ms.datasets.load("cifar", tasks=("insects",), target="small_mammals", rows=40, validation_rows=10)
    assert small.sizes == (40,)
    assert len(small.validation.labels) == 10
    with pytest.raises(ConfigError, match="rows is 2501"):
        ms.datasets.load("cifar", rows=2501)
