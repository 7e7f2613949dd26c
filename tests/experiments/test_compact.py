import msgspec
import pytest

from metasched.experiments.compact import POINTS, compact, thinned
from metasched.runs.outcome import About, Final, Origin, Outcome
from metasched.runs.spec import DataSpec, RunSpec


@pytest.fixture
def outcome():
    spec = RunSpec(
        data=DataSpec(fingerprint="0a"),
        network="mlp",
        learner="joint",
        settings={},
        scheduler="ucb",
        reward="gain",
        seed=0,
    )
    return Outcome(
        run=spec.name,
        spec=spec,
        method="ucb",
        family="active",
        about=About(name="made up", simulated=False, tasks=("a",), source_rows=9, target_rows=3, test_rows=5),
        origin=Origin(created="", command="", device=""),
        updates=tuple(range(1, 61)),
        samples=tuple(range(20, 1220, 20)),
        test_accuracy=tuple(0.123456 + number / 1000 for number in range(60)),
        final=Final(
            test_accuracy=0.654321,
            balanced_test_accuracy=0.33333,
            test_accuracy_by_class=(0.55555, None),
            test_rows=5,
            drawn_by_label=((600, 600),),
        ),
        drawn=(1200,),
        schedule=((1, 0),) * 60,
    )


def test_curves_keep_their_ends_and_few_points(outcome):
    small = compact(outcome, by_label=True, schedule=True)
    assert len(small.updates) == len(small.samples) == len(small.test_accuracy) <= POINTS
    assert (small.updates[0], small.updates[-1]) == (1, 60)
    assert small.samples[-1] == 1200
    assert small.test_accuracy[-1] == round(outcome.test_accuracy[-1], 3)
    assert (small.final.test_accuracy, small.final.balanced_test_accuracy) == (0.6543, 0.3333)
    assert small.final.test_accuracy_by_class == (0.556, None)
    assert (small.final.test_rows, small.final.drawn_by_label) == (5, ((600, 600),))
    assert small.schedule == outcome.schedule


def test_details_that_no_table_shows_are_left_out(outcome):
    small = compact(outcome, by_label=False, schedule=False)
    assert small.final.test_accuracy_by_class is small.final.drawn_by_label is small.schedule is None
    assert small.drawn == (1200,)


def test_twice_is_once(outcome):
    once = compact(outcome, by_label=True, schedule=True)
    assert compact(once, by_label=True, schedule=True) == once


def test_a_short_curve_is_kept_whole(outcome):
    assert thinned(5) == [0, 1, 2, 3, 4]
    diverged = msgspec.structs.replace(outcome, updates=(), samples=(), test_accuracy=(), final=None)
    assert compact(diverged, by_label=True, schedule=True).updates == ()
