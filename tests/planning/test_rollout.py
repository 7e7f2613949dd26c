"""Rollout, exact and simulated."""

import numpy as np
import pytest

from metasched.planning import coupled_rewards, evaluate_policy, rollout, solve_joint
from metasched.planning.approximate import FrozenIndices
from metasched.planning.policy import Policy, joint_states


def problem(seed, tasks=4, labels=3):
    random = np.random.default_rng(seed)
    chains = 0.8 * np.eye(labels) + 0.2 * random.dirichlet(np.ones(labels), (tasks, labels))
    return chains, coupled_rewards(random.uniform(size=(tasks, labels, labels)))


@pytest.mark.parametrize("discount", [0.0, 0.9, 0.99])
def test_rollout_is_never_worse_than_its_base(discount):
    for seed in range(4):
        chains, payoffs = problem(seed)
        base, better = (
            evaluate_policy(chains, payoffs, discount, solve_joint(chains, payoffs, discount, method))
            for method in ("frozen-gittins", "rollout")
        )
        assert (better >= base - 1e-8).all()


def test_simulated_rollout_improves_on_its_base(monkeypatch):
    monkeypatch.setattr(rollout, "LISTED", 0)
    gains = []
    for seed in range(3):
        chains, payoffs = problem(seed, tasks=3)
        indices = FrozenIndices(chains, payoffs, 0.9)
        choose = rollout.choose_rollout(indices, candidates=3, runs=16, horizon=30)
        base = evaluate_policy(chains, payoffs, 0.9, solve_joint(chains, payoffs, 0.9, "frozen-gittins")).mean()
        best = solve_joint(chains, payoffs, 0.9).value.mean()
        value = evaluate_policy(chains, payoffs, 0.9, Policy((3, 3), choose)).mean()
        assert value >= base - 1e-3 * best
        gains.append((value - base) / best)
    assert np.mean(gains) > 0.002


def test_simulated_choices_repeat(monkeypatch):
    monkeypatch.setattr(rollout, "LISTED", 0)
    chains, payoffs = problem(5)
    chosen = []
    for order in (1, -1):
        choose = rollout.choose_rollout(FrozenIndices(chains, payoffs, 0.9), runs=4, horizon=10)
        states = joint_states(4, 3)[::order]
        chosen.append([choose(state) for state in states][::order])
    assert chosen[0] == chosen[1]


def test_one_draw_is_myopic_among_the_candidates(monkeypatch):
    monkeypatch.setattr(rollout, "LISTED", 0)
    chains, payoffs = problem(6)
    choose = rollout.choose_rollout(FrozenIndices(chains, payoffs, 0.9), candidates=9, runs=1, horizon=1)
    myopic = solve_joint(chains, payoffs, 0.9, "myopic")
    assert all(choose(state) == myopic.action(state) for state in joint_states(4, 3))
