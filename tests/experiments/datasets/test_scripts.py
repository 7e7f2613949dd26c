from functools import cache

import numpy as np
import pytest

import metasched as ms
from helpers import nearest_mean
from metasched.errors import ConfigError
from metasched.experiments.datasets import glyphs, mnist, scripts, uci

FILES = (
    *uci.SEMEION,
    *uci.OPTDIGITS,
    mnist.FILES["t10k-images"],
    mnist.FILES["t10k-labels"],
    *(file for own in glyphs.FILES.values() for file in own),
)


@pytest.fixture
def needed(needs):
    needs(*(file.path for file in FILES))


@cache
def loaded():
    return ms.datasets.load("scripts")


@pytest.fixture
def tasks(needed):
    return loaded()


def test_twelve_sources_of_1400_rows_teach_usps(tasks):
    assert [task.name for task in tasks.tasks] == list(scripts.SOURCES)
    assert tasks.sizes == (1400,) * 12
    assert tasks.shape == (28, 28)
    assert tasks.shared_labels
    assert np.bincount(tasks.validation.labels).tolist() == [3] * 10
    assert np.bincount(tasks.test.labels).tolist() == [1097] * 10
    assert tasks.useful == ("semeion", "optical", "mnist")
    assert "197 blank images of Thai drawings left out" in tasks.summary()


def test_ink_is_bright_and_set_as_in_mnist(tasks):
    for name, part, _ in tasks.parts():
        assert part.inputs.min() == 0, name
        assert part.inputs.max() <= 1
        assert part.inputs[:, 4:24, 4:24].sum() == pytest.approx(part.inputs.sum(dtype=np.float64), rel=1e-5)
        inked = part.inputs >= 0.05
        sides = [
            28 - own.argmax(axis=1) - own[:, ::-1].argmax(axis=1) for own in (inked.any(axis=2), inked.any(axis=1))
        ]
        assert np.mean(np.maximum(*sides) >= 19) > 0.95, name


def test_provenance_has_the_rows_of_the_files(needed):
    tasks = ms.datasets.load("scripts", sources=["farsi", "bangla"], rows=200)
    _, labels = glyphs.read("farsi")
    np.testing.assert_array_equal(labels[tasks.provenance["farsi"].rows], tasks.tasks[0].labels)
    _, labels = glyphs.read("bangla")
    np.testing.assert_array_equal(labels[tasks.provenance["bangla"].rows], tasks.tasks[1].labels)
    assert tasks.useful == ()
    assert np.bincount(tasks.tasks[0].labels).tolist() == [20] * 10


def test_file_order_is_an_option_and_the_seed_draws_the_targets_labels_only(needed):
    shuffled = ms.datasets.load("scripts", sources=["semeion"], rows=500)
    filed = ms.datasets.load("scripts", sources=["semeion"], rows=500, order="file", seed=1)
    assert np.all(np.diff(filed.provenance["semeion"].rows) > 0)
    assert sorted(shuffled.provenance["semeion"].rows) == filed.provenance["semeion"].rows.tolist()
    assert not np.array_equal(shuffled.provenance["validation"].rows, filed.provenance["validation"].rows)


def test_only_the_same_digits_teach_without_learning(tasks):
    right = {task.name: nearest_mean(task, tasks.test) for task in tasks.tasks}
    assert min(right[name] for name in tasks.useful) > 0.3
    assert max(own for name, own in right.items() if name not in tasks.useful) < 0.2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"order": "random"}, "order is 'random'"),
        ({"sources": ["bengali"]}, "unknown source 'bengali' of 'scripts'"),
    ],
)
def test_an_unknown_choice_is_refused(options, message):
    with pytest.raises(ConfigError, match=message):
        ms.datasets.load("scripts", **options)


def test_more_rows_than_a_source_has_are_refused(needs):
    needs(uci.SEMEION[0].path)
    with pytest.raises(ConfigError, match="rows is 1594; Semeion has 1593"):
        ms.datasets.load("scripts", sources=["semeion"], rows=1594)


LABELS = np.repeat(np.arange(4, dtype=np.int32), 25)


def test_a_source_has_the_same_rows_in_either_order():
    in_order, shuffled = (scripts.drawn_rows(LABELS, 40, "a", shuffled) for shuffled in (False, True))
    assert np.all(np.diff(in_order) > 0)
    assert not np.all(np.diff(shuffled) > 0)
    assert sorted(shuffled) == in_order.tolist()
    assert np.bincount(LABELS[in_order]).tolist() == [10] * 4
    assert not np.array_equal(in_order, scripts.drawn_rows(LABELS, 40, "b", False))


@pytest.mark.parametrize("count", [0, 101])
def test_more_rows_than_there_are_is_refused(count):
    with pytest.raises(ConfigError, match=f"rows is {count}; a has 100"):
        scripts.drawn_rows(LABELS, count, "a", False)
