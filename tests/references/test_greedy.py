"""Sources are chosen one after another."""

import numpy as np
import pytest

import metasched as ms
from half_sources import NAMES, make_sources
from metasched.references.grams import SHARES, Grams
from metasched.references.greedy import greedy_sources


@pytest.mark.parametrize("seed", range(5))
def test_a_source_that_helps_is_chosen_first_and_one_that_misleads_never(seed):
    tasks = make_sources(seed=seed)
    found = greedy_sources(Grams.of(tasks), tasks.validation)
    assert found[0] in ("half", "other half")
    assert "reversed" not in found


def test_in_regression_target_rows_without_noise_are_enough():
    tasks = make_sources(regression=True)
    assert not {"reversed", "noise"} & set(greedy_sources(Grams.of(tasks), tasks.validation))


def test_every_choice_lowers_the_error_most_until_none_lowers_it():
    tasks = make_sources(seed=3)
    grams = Grams.of(tasks)
    known = grams.known(tasks.validation)

    def error(names):
        return grams.held_out_errors(known, [NAMES.index(name) for name in names]).min()

    found = list(greedy_sources(grams, tasks.validation))
    assert found
    for count in range(len(found)):
        errors = {name: error([*found[:count], name]) for name in NAMES if name not in found[:count]}
        assert min(errors, key=errors.get) == found[count]
        assert errors[found[count]] < error(found[:count])
    assert all(error([*found, name]) >= error(found) for name in NAMES if name not in found)
    assert len(grams.held_out_errors(known, [])) == len(SHARES)


def test_sources_that_mislead_leave_the_target_alone():
    tasks = make_sources(validation=200)
    only = ms.TaskSet.from_arrays(
        {"reversed": (tasks.tasks[2].inputs, tasks.tasks[2].labels)},
        validation=tuple(tasks.validation),
        test=tuple(tasks.test),
    )
    assert greedy_sources(Grams.of(only), only.validation) == ()


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_few_target_rows_are_enough_to_choose(count):
    tasks = make_sources()
    few = tasks.validation.take(np.arange(count))
    assert set(greedy_sources(Grams.of(tasks), few)) <= set(NAMES)
