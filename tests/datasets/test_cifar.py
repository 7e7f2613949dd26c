import numpy as np
import pytest

import metasched as ms
from metasched.datasets import cifar, cifar100
from metasched.errors import ConfigError

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


def test_counts_and_names_are_options(needs):
    needs(*FILES)
    small = ms.datasets.load("cifar", tasks=("insects",), target="small_mammals", rows=40, validation_rows=10)
    assert small.sizes == (40,)
    assert len(small.validation.labels) == 10
    with pytest.raises(ConfigError, match="rows is 2501"):
        ms.datasets.load("cifar", rows=2501)
