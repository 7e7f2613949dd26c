"""The three forms of rewards answer alike."""

import itertools

import numpy as np
import pytest

from metasched.planning import coupled_rewards
from metasched.planning.payoffs import Coupled, Separable, Tabular, as_payoffs

TASKS, LABELS = 4, 3


def forms():
    random = np.random.default_rng(0)
    A = random.normal(size=(TASKS, LABELS, LABELS))
    return [
        Separable(random.normal(size=(TASKS, LABELS))),
        Coupled(A),
        Tabular(random.normal(size=(TASKS,) + (LABELS,) * TASKS)),
    ]


def by_definition(payoffs, state, task):
    if isinstance(payoffs, Separable):
        return payoffs.values[task, state[task]]
    if isinstance(payoffs, Coupled):
        return np.mean([payoffs.values[task, state[task], other] for other in state])
    return payoffs.values[(task, *state)]


STATES = list(itertools.product(range(LABELS), repeat=TASKS))


@pytest.mark.parametrize("payoffs", forms(), ids=lambda form: type(form).__name__)
class TestForms:
    def test_at(self, payoffs):
        want = [[by_definition(payoffs, state, task) for task in range(TASKS)] for state in STATES]
        np.testing.assert_allclose(payoffs.at(np.array(STATES)), want, atol=1e-14)
        np.testing.assert_allclose(payoffs.at(np.array(STATES[7])), want[7], atol=1e-14)

    def test_frozen(self, payoffs):
        together = payoffs.frozen(np.array(STATES))
        for state, rewards in zip(STATES, together, strict=True):
            np.testing.assert_allclose(payoffs.frozen(np.array(state)), rewards, atol=1e-14)
            for task, label in itertools.product(range(TASKS), range(LABELS)):
                moved = (*state[:task], label, *state[task + 1 :])
                assert rewards[task, label] == pytest.approx(by_definition(payoffs, moved, task), abs=1e-14)

    @pytest.mark.parametrize("tasks", [(0, 1, 2, 3), (2, 0), (1, 3, 2), (3,)])
    def test_table(self, payoffs, tasks):
        labels = np.array([1, 2, 0, 1])
        table = payoffs.table(tasks, labels)
        assert table.shape == (len(tasks),) + (LABELS,) * len(tasks)
        for moved in itertools.product(range(LABELS), repeat=len(tasks)):
            state = labels.copy()
            state[list(tasks)] = moved
            for row, task in enumerate(tasks):
                assert table[(row, *moved)] == pytest.approx(by_definition(payoffs, tuple(state), task), abs=1e-14)

    def test_shape_and_scale(self, payoffs):
        assert payoffs.shape == (TASKS, LABELS)
        assert payoffs.scale >= np.abs(payoffs.at(np.array(STATES))).max()


def test_rewards_that_are_all_zero_have_a_scale():
    assert Separable(np.zeros((2, 2))).scale == 1.0


def test_arrays_are_told_apart_by_shape():
    assert isinstance(as_payoffs(np.zeros((3, 2)), (3, 2)), Separable)
    assert isinstance(as_payoffs(np.zeros((3, 2, 2, 2)), (3, 2)), Tabular)
    form = coupled_rewards(np.zeros((3, 2, 2)))
    assert as_payoffs(form, (3, 2)) is form


@pytest.mark.parametrize(
    ("rewards", "says"),
    [
        (np.zeros((3, 3)), r"rewards have shape \(3, 3\)"),
        (np.zeros((3, 2, 2, 3)), r"rewards has shape \(3, 2, 2, 3\); give \(3, 2, 2, 2\)"),
        (np.zeros(3), r"rewards have shape \(3,\)"),
        (np.full((3, 2), np.nan), r"rewards\[0, 0\] is nan"),
        (coupled_rewards(np.zeros((2, 2, 2))), r"rewards are for \(2, 2\)"),
    ],
)
def test_rewards_that_do_not_fit_are_refused(rewards, says):
    with pytest.raises(ValueError, match=says):
        as_payoffs(rewards, (3, 2))


def test_coupled_rewards_refuse_other_shapes():
    with pytest.raises(ValueError, match=r"A has shape \(2, 3, 2\)"):
        coupled_rewards(np.zeros((2, 3, 2)))
    with pytest.raises(ValueError, match=r"A\[1, 0, 1\] is inf"):
        coupled_rewards([[[0, 0], [0, 0]], [[0, np.inf], [0, 0]]])
