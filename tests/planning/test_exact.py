"""The solver's certificate, against a Bellman operator written out in full."""

import itertools

import numpy as np
import pytest

from metasched.planning.bellman import numpy_bellman
from metasched.planning.exact import optimal, value_of
from metasched.planning.payoffs import Coupled, Tabular

WEATHER = np.array(  # the transition matrix in the paper's appendix
    [
        [0.721, 0.256, 0.020, 0.003],
        [0.052, 0.901, 0.033, 0.014],
        [0.004, 0.037, 0.939, 0.020],
        [0.000, 0.017, 0.454, 0.529],
    ]
)


def problem(tasks, labels, seed, concentration=1.0):
    random = np.random.default_rng(seed)
    chains = random.dirichlet(np.full(labels, concentration), (tasks, labels))
    return chains, Coupled(random.uniform(size=(tasks, labels, labels)))


def written_out(chains, payoffs):
    """Transition matrices (N, S, S) and rewards (N, S), entry by entry."""
    tasks, labels, _ = chains.shape
    states = list(itertools.product(range(labels), repeat=tasks))
    P = np.zeros((tasks, len(states), len(states)))
    for task in range(tasks):
        for row, state in enumerate(states):
            for label in range(labels):
                column = states.index((*state[:task], label, *state[task + 1 :]))
                P[task, row, column] = chains[task, state[task], label]
    return P, payoffs.at(np.array(states)).T


@pytest.mark.parametrize("shape", [(1, 4), (2, 3), (3, 3), (4, 2)])
def test_the_operator_is_the_one_written_out(shape):
    chains, payoffs = problem(*shape, seed=0)
    P, r = written_out(chains, payoffs)
    bellman = numpy_bellman(chains, payoffs, 0.9)
    V = np.random.default_rng(1).normal(size=P.shape[1])
    values = r + 0.9 * P @ V
    np.testing.assert_allclose(bellman.sweep(V, None), values.max(axis=0), atol=1e-14)
    actions = bellman.greedy(V, bellman.sweep(V, None), 1e-13)
    np.testing.assert_array_equal(actions, values.argmax(axis=0))
    each = np.arange(P.shape[1])
    np.testing.assert_allclose(bellman.follow(actions)(V, None), 0.9 * (P @ V)[actions, each], atol=1e-14)
    np.testing.assert_allclose(bellman.rewards(actions), r[actions, each], atol=1e-14)
    assert bellman.lowest == pytest.approx(r.max(axis=0).min())


@pytest.mark.parametrize("discount", [0.0, 0.5, 0.9, 0.99, 0.9999, 1 - 1e-7])
@pytest.mark.parametrize("concentration", [0.1, 1.0])
def test_the_residual_is_certified(discount, concentration):
    chains, payoffs = problem(3, 4, seed=2, concentration=concentration)
    P, r = written_out(chains, payoffs)
    solution = optimal(numpy_bellman(chains, payoffs, discount), discount, 1e-9, 100_000)
    again = np.abs((r + discount * P @ solution.value).max(axis=0) - solution.value).max()
    rounding = 1e-14 / (1 - discount)
    assert solution.residual <= max(1e-9, rounding)
    assert again == pytest.approx(solution.residual, abs=rounding)
    policy = P[solution.actions, np.arange(P.shape[1])]
    exact = np.linalg.solve(np.eye(len(policy)) - discount * policy, r[solution.actions, np.arange(P.shape[1])])
    np.testing.assert_allclose(solution.value, exact, rtol=1e-7, atol=2e-9 / (1 - discount))


def test_weather_chains_at_every_discount():
    chains = np.stack([WEATHER / WEATHER.sum(axis=1, keepdims=True)] * 5)
    payoffs = Coupled(np.random.default_rng(3).uniform(size=(5, 4, 4)))
    for discount in (0.9, 0.99, 0.999, 0.99999, 1 - 1e-9):
        solution = optimal(numpy_bellman(chains, payoffs, discount), discount, 1e-8, 100_000)
        assert solution.residual <= max(1e-8, 1e-14 / (1 - discount))
        assert solution.iterations < 2000


def test_stopping_early_reports_the_residual_it_has():
    chains, payoffs = problem(3, 4, seed=4)
    solution = optimal(numpy_bellman(chains, payoffs, 0.99), 0.99, 1e-12, 5)
    assert solution.residual > 1e-3
    assert solution.iterations <= 7


def test_periodic_chains_converge():
    random = np.random.default_rng(5)
    chains = np.stack([np.eye(4)[random.permutation(4)] for _ in range(3)])
    bellman = numpy_bellman(chains, Coupled(random.uniform(size=(3, 4, 4))), 0.999)
    assert optimal(bellman, 0.999, 1e-8, 100_000).residual <= 1e-8


@pytest.mark.parametrize("discount", [0.0, 0.9, 0.9999])
def test_the_value_of_a_policy_solves_its_equations(discount):
    chains, payoffs = problem(3, 3, seed=6)
    P, r = written_out(chains, payoffs)
    actions = np.random.default_rng(7).integers(3, size=27)
    each = np.arange(27)
    want = np.linalg.solve(np.eye(27) - discount * P[actions, each], r[actions, each])
    solution = value_of(numpy_bellman(chains, payoffs, discount), discount, actions)
    np.testing.assert_allclose(solution.value, want, rtol=1e-8, atol=1e-8)
    assert solution.residual <= 1e-10


def test_the_best_value_beats_any_other_policy():
    chains, payoffs = problem(3, 3, seed=8)
    bellman = numpy_bellman(chains, payoffs, 0.95)
    best = optimal(bellman, 0.95, 1e-10, 100_000).value
    random = np.random.default_rng(9)
    for _ in range(20):
        assert (value_of(bellman, 0.95, random.integers(3, size=27)).value <= best + 1e-8).all()


class TestJax:
    """The same operator, compiled."""

    @pytest.mark.parametrize("long", [1, 3, 10**9])
    def test_it_agrees_with_numpy(self, long, monkeypatch):
        jax = pytest.importorskip("jax")
        from metasched.planning import bellman

        monkeypatch.setattr(bellman, "LONG", long)
        jax.clear_caches()
        chains, _ = problem(3, 3, seed=10)
        payoffs = Tabular(np.random.default_rng(11).normal(size=(3, 3, 3, 3)))
        here = numpy_bellman(chains, payoffs, 0.97)
        V, x = np.random.default_rng(12).normal(size=(2, 27))
        with jax.enable_x64(True):
            there = bellman.jax_bellman(chains, payoffs, 0.97)
            swept = there.sweep(V, None)
            actions = there.greedy(V, swept, 1e-12)
            np.testing.assert_allclose(np.asarray(swept), here.sweep(V, None), rtol=0, atol=1e-14)
            np.testing.assert_array_equal(np.asarray(actions), here.greedy(V, here.sweep(V, None), 1e-12))
            followed = np.asarray(there.follow(actions)(x, None))
            np.testing.assert_allclose(followed, here.follow(np.asarray(actions))(x, None), atol=1e-14)
            np.testing.assert_allclose(
                np.asarray(there.rewards(actions)), here.rewards(np.asarray(actions)), atol=1e-15
            )
            assert there.lowest == pytest.approx(here.lowest)
        jax.clear_caches()
