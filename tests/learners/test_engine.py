"""Chunks of meta-updates as one compiled program, many runs side by side, and what they write down."""

import jax
import numpy as np
import pytest

from helpers import make_own_label_tasks, make_tasks
from metasched.learners import engine, evaluation
from metasched.learners.networks import mlp
from scenes import program_for, records_of, run_all, start

SETTINGS = {"batches_per_update": 4, "eval_every": 4, "eval_rows": 50}
TOLD = ("scaled", "gain")

REPLICAS = {
    "plain": {},
    "another seed": {"seed": 7},
    "another reward": {"seed": 7, "reward": 1},
    "other rates": {"seed": 2, "inner_rate": 0.2, "outer_rate": 0.01},
}


@pytest.fixture(scope="module")
def program():
    """Six meta-updates of four batches, measured on 50 of 205 test rows after the fourth and the last."""
    return program_for(make_tasks(sizes=(12, 20, 9), test=205), told=TOLD, **SETTINGS)


@pytest.fixture(scope="module")
def records(program):
    return records_of(program)


@pytest.fixture(scope="module")
def three(program):
    """The same with three replicas side by side."""
    return program_for(program.rows.tasks, told=TOLD, together=3, **SETTINGS)


def test_learns_separable_classes():
    program = program_for(make_tasks(test=200), mlp(3, (16,)), updates=40, inner_rate=0.1, outer_rate=0.01)
    records = records_of(program)
    assert records[0]["test_accuracy"] < 0.7
    assert records[-1]["final"]["test_accuracy"] > 0.9


def test_records_count_updates_samples_and_rows_by_task(records):
    assert [record["update"] for record in records] == [1, 2, 3, 4, 5, 6]
    assert [record["samples"] for record in records] == [16, 32, 48, 64, 80, 96]
    assert records[-1]["drawn"] == [32, 32, 32]
    assert records[0]["tasks"] == [0, 1, 2, 0]
    assert ["final" in record for record in records] == [False] * 5 + [True]
    assert records[-1]["final"]["test_rows"] == 205


def test_measures_every_so_often_on_a_subset_and_at_the_end_on_everything(records):
    assert ["test_accuracy" in record for record in records] == [False, False, False, True, False, True]
    assert records[3]["test_rows"] == 50
    assert records[-1]["test_rows"] == 50
    assert records[-1]["final"]["test_rows"] == 205


def test_accuracy_in_chunks_equals_accuracy_at_once(program, records, monkeypatch):
    monkeypatch.setattr(evaluation, "ROWS_AT_ONCE", 32)
    assert records_of(program)[-1]["final"] == records[-1]["final"]


def test_the_same_seed_gives_the_same_numbers_and_another_seed_others(program, records):
    assert records_of(program, 0) == records
    assert records_of(program, 4) != records


def test_continuing_from_any_state_gives_the_same_records(program, records):
    chunks = list(engine.run(program, {0: start(program)}))
    assert len(chunks) > 1
    for number, (middle, _) in enumerate(chunks[:-1], start=1):
        done = sum(len(lines) for _, lines in chunks[:number])
        states = {replica: state for replica, (state, _) in middle().items()}
        assert run_all(program, states)[0] == records[done:]


class TestDivergence:
    def test_a_loss_that_is_no_longer_finite_ends_the_seed_with_the_setting_to_change(self, program):
        (record,) = records_of(program, inner_rate=1e30)
        assert record["update"] == 1
        assert "the inner loop overflowed at rate 1e+30; lower inner_rate" in record["diverged"]

    def test_an_inner_rate_that_grew_is_named_with_the_outer_rate(self, program):
        last = records_of(program, outer_rate=1e9)[-1]
        assert "the inner rate grew from 0.01 to inf; lower outer_rate (now 1e+09)" in last["diverged"]

    def test_it_ends_one_replica_and_its_neighbours_do_not_notice(self, three):
        alone = run_all(three, {"a": start(three, 0), "c": start(three, 2)})
        beside = run_all(three, {"a": start(three, 0), "b": start(three, 1, inner_rate=1e30), "c": start(three, 2)})
        assert "the inner loop overflowed" in beside["b"][-1]["diverged"]
        assert len(beside["b"]) == 1
        assert {replica: beside[replica] for replica in "ac"} == alone

    def test_a_replica_that_ended_before_stays_ended(self, program):
        assert list(engine.run(program, {0: start(program)}, ended={0})) == []


def test_label_sets_of_their_own_train_too():
    program = program_for(make_own_label_tasks(), mlp(12, (16,)), updates=40, inner_rate=0.1, outer_rate=0.02)
    assert records_of(program)[-1]["final"]["test_accuracy"] > 0.9


class TestSideBySide:
    """Replicas with seeds, rates and rewards of their own: together as if alone."""

    def states(self, program):
        return {replica: start(program, **own) for replica, own in REPLICAS.items()}

    def last(self, program):
        """State and models of every replica at its end."""
        found = {}
        for moved, _ in engine.run(program, self.states(program)):
            found |= moved()
        return found

    def test_the_last_states_and_models_are_close_to_those_alone(self, program, three):
        alone, beside = self.last(program), self.last(three)
        assert list(beside) == list(REPLICAS)
        for replica, expected in alone.items():
            jax.tree.map(
                lambda a, b, replica=replica: np.testing.assert_allclose(a, b, atol=1e-5, rtol=1e-5, err_msg=replica),
                beside[replica],
                expected,
            )

    def test_records_are_close_to_those_alone(self, program, three):
        alone, beside = (run_all(one, self.states(one)) for one in (program, three))
        for replica, records in alone.items():
            assert len(beside[replica]) == len(records) == 6
            for found, expected in zip(beside[replica], records, strict=True):
                assert found.keys() == expected.keys()
                assert found["tasks"] == expected["tasks"]
                assert found["drawn"] == expected["drawn"]
                for name in ("loss", "validation_accuracy", "inner_rate"):
                    assert found[name] == pytest.approx(expected[name], abs=1e-5), (replica, expected["update"], name)
            accuracies = [replicas[replica][-1]["final"]["test_accuracy"] for replicas in (beside, alone)]
            assert accuracies[0] == pytest.approx(accuracies[1], abs=1e-5)

    def test_only_lanes_that_have_made_as_many_updates_run_together(self, three):
        states = {"first": start(three, 0), "second": start(three, 1)}
        further, _ = next(iter(engine.run(three, states)))
        ahead = {replica: state for replica, (state, _) in further().items()}
        mixed = {"first": ahead["first"], "second": states["second"]}
        found, whole = run_all(three, mixed), run_all(three, states)
        assert found["first"] == whole["first"][1:]
        assert found["second"] == whole["second"]


class TestRefill:
    def test_other_rows_in_a_program_equal_a_program_of_their_own_bit_for_bit(self, program):
        other = make_tasks(sizes=(12, 20, 9), test=205, seed=5)
        refilled, fresh = engine.refill(program, other), program_for(other, told=TOLD, **SETTINGS)
        for seed in (0, 3):
            assert records_of(refilled, seed) == records_of(fresh, seed)
        (states, models), (expected, expected_models) = (
            one.chunk(one.rows.data, one.rows.test, start(one), 0, 6)[::2] for one in (refilled, fresh)
        )
        jax.tree.map(np.testing.assert_array_equal, (states, models), (expected, expected_models))

    def test_the_program_that_was_refilled_is_as_before(self, program, records):
        other = make_tasks(sizes=(12, 20, 9), test=205, seed=5)
        assert records_of(engine.refill(program, other)) != records
        assert records_of(program) == records
