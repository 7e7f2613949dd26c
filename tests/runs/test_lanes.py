"""Many methods through one program: every lane is the run that ``ms.train`` makes alone."""

from dataclasses import replace

import numpy as np
import pytest

import metasched as ms
from helpers import make_tasks
from metasched.experiments.methods import DISCOUNT, methods
from metasched.runs import lanes
from metasched.runs.lanes import Lane

CONFIG = ms.TrainConfig(batch_size=5, meta_updates=4, batches_per_update=7, eval_every=2, validation_batch="all")
INNER, OUTER = 0.05, 3e-3
NAMES = ("cyclic", "target-only", "single:2", "ucb", "gittins", "mdp", "gittins-refresh", "ucb-gain+abstain")
METHODS = {method.name: method for method in methods(3) if method.name in NAMES}


def source(seed=0):
    return make_tasks(sizes=(60, 50, 40), validation=12, test=80, seed=seed)


def together(bench, wanted):
    """Records by lane."""
    records = {}
    for number, record in lanes.run(bench, wanted):
        records.setdefault(number, []).append(record)
    return records


def alone(method, seed, tasks):
    """The same run through the public function."""
    config = replace(CONFIG, inner_rate=INNER, outer_rate=OUTER, reward=method.reward, abstain=method.abstain)
    if method.name == "target-only":
        return ms.train(tasks, "mlp", "target-only", replace(config, abstain=False), seeds=(seed,)).records
    options = dict(method.options)
    if ms.schedulers.needs_plan(method.scheduler):
        options["discount"] = DISCOUNT
    return ms.train(tasks, "mlp", method.scheduler, config, seeds=(seed,), scheduler_options=options).records


@pytest.fixture(scope="module")
def bench():
    return lanes.prepare(source(), "mlp", CONFIG, tuple(METHODS.values()), together=1)


@pytest.fixture(scope="module")
def found(bench):
    wanted = [Lane(method, seed, INNER, OUTER) for method in METHODS.values() for seed in (3,)]
    return dict(zip(METHODS, together(bench, wanted).values(), strict=True))


@pytest.mark.parametrize("name", NAMES)
def test_a_lane_is_the_run_of_its_method_alone(found, name):
    mine, expected = found[name], alone(METHODS[name], 3, source())
    assert len(mine) == len(expected) == CONFIG.meta_updates
    for lane, run in zip(mine, expected, strict=True):
        if name != "target-only":
            assert lane["tasks"] == run["tasks"]
            assert lane["abstained"] == run["abstained"]
        assert lane["drawn"] == run["drawn"]
        assert lane["loss"] == pytest.approx(run["loss"], abs=1e-5)
        for measured in ("validation_accuracy", "test_accuracy", "initial_test_accuracy"):
            assert lane.get(measured) == pytest.approx(run.get(measured), abs=1e-6), measured
    assert mine[-1]["final"]["drawn_by_label"] == expected[-1]["final"]["drawn_by_label"]
    assert mine[-1]["final"]["test_accuracy"] == pytest.approx(expected[-1]["final"]["test_accuracy"], abs=1e-6)


def test_methods_differ_in_what_they_draw(found):
    drawn = {name: tuple(records[-1]["drawn"]) for name, records in found.items()}
    assert drawn["target-only"] == (0, 0, 0)
    assert drawn["single:2"] == (0, 140, 0)
    assert found["target-only"][-1]["abstained"] == 28
    assert len({drawn["cyclic"], drawn["ucb"], drawn["gittins-refresh"], drawn["single:2"]}) == 4


def test_rates_are_a_lanes_own(bench):
    method = METHODS["cyclic"]
    slow, fast = together(bench, [Lane(method, 0, 0.01, 1e-3), Lane(method, 0, 0.1, 1e-2)]).values()
    assert slow[0]["inner_rate"] == pytest.approx(0.01)
    assert fast[0]["inner_rate"] == pytest.approx(0.1)
    moved = [abs(np.log(records[1]["inner_rate"] / records[0]["inner_rate"])) for records in (slow, fast)]
    assert moved == pytest.approx([1e-3, 1e-2], rel=1e-2)  # the first step of Adam moves by the rate


def test_other_rows_in_the_same_program_are_a_program_for_them(bench):
    other = source(seed=1)
    wanted = [Lane(METHODS[name], 2, INNER, OUTER) for name in ("cyclic", "gittins", "mdp", "gittins-refresh")]
    refilled = together(lanes.refill(bench, other), wanted)
    fresh = together(lanes.prepare(other, "mlp", CONFIG, tuple(METHODS.values()), together=1), wanted)
    assert refilled == fresh
    assert refilled != together(bench, wanted)


def test_side_by_side_they_are_the_same_lanes():
    chosen = tuple(METHODS[name] for name in ("cyclic", "ucb", "target-only"))
    wanted = [Lane(method, seed, INNER, OUTER) for method in chosen for seed in (0, 1)][:5]
    one, three = (
        together(lanes.prepare(source(), "mlp", CONFIG, chosen, together=number), wanted) for number in (1, 3)
    )
    assert set(one) == set(three) == set(range(5))
    for number, records in one.items():
        for mine, other in zip(three[number], records, strict=True):
            assert mine["tasks"] == other["tasks"]
            assert mine["loss"] == pytest.approx(other["loss"], abs=1e-5)
            assert mine.get("test_accuracy") == pytest.approx(other.get("test_accuracy"), abs=1e-6)


def test_a_lane_that_diverges_ends_alone(bench):
    method = METHODS["cyclic"]
    good, bad = together(bench, [Lane(method, 0, INNER, OUTER), Lane(method, 0, 1e30, OUTER)]).values()
    assert "final" in good[-1]
    assert bad[0]["update"] == 1
    assert "inner loop overflowed at rate 1e+30" in bad[0]["diverged"]


def test_timing_a_lane_gives_seconds(bench):
    assert 0 < lanes.seconds_per_update(bench, Lane(METHODS["gittins"], 0, INNER, OUTER)) < 10


def test_rows_by_task_and_label_are_averaged_over_runs():
    assert lanes.mean_drawn([[[1, 2], [0, 0]], [[2, 2], [0, 1]]]) == [[1.5, 2.0], [0.0, 0.5]]
