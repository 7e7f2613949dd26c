"""Policies past tabular size: the same choices as from scratch, and how close to the optimum they come."""

import numpy as np
import pytest

from metasched.planning import approximate, coupled_rewards, evaluate_policy, gittins_index, solve_joint
from metasched.planning.approximate import FrozenIndices, choose_frozen, choose_top, frozen_indices
from metasched.planning.payoffs import Coupled, Separable, Tabular
from metasched.planning.policy import Policy, first_best, joint_states


def sticky(random, tasks, classes):
    """Chains that mostly stay, as the paper's weather matrix does."""
    return 0.8 * np.eye(classes) + 0.2 * random.dirichlet(np.ones(classes), (tasks, classes))


def walk(chains, labels, choose, draws, random):
    """The labels before each of ``draws`` decisions of a policy, and its choices."""
    for _ in range(draws):
        task = choose(labels)
        yield labels.copy(), task
        labels[task] = random.choice(chains.shape[1], p=chains[task, labels[task]])


def forms(random, tasks, classes):
    yield Separable(random.uniform(size=(tasks, classes)))
    yield Coupled(random.uniform(size=(tasks, classes, classes)))
    if classes**tasks < 10_000:
        yield Tabular(random.uniform(size=(tasks,) + (classes,) * tasks))


@pytest.mark.parametrize("discount", [0.0, 0.9, 0.99])
@pytest.mark.parametrize("shape", [(3, 4), (40, 5)])
def test_lazy_indices_choose_as_indices_from_scratch(shape, discount):
    random = np.random.default_rng(0)
    chains = random.dirichlet(np.ones(shape[1]), shape)
    for payoffs in forms(random, *shape):
        lazy = FrozenIndices(chains, payoffs, discount)
        labels = random.integers(shape[1], size=shape[0])
        for state, task in walk(chains, labels, choose_frozen(lazy), 150, random):
            assert task == first_best(frozen_indices(chains, payoffs, discount, state), lazy.tie)
        for state in random.integers(shape[1], size=(50, shape[0])):  # and after jumps
            assert lazy.leaders(state, 1)[0] == first_best(frozen_indices(chains, payoffs, discount, state), lazy.tie)


def test_lazy_leaders_are_the_largest_indices_in_order():
    random = np.random.default_rng(1)
    chains, payoffs = random.dirichlet(np.ones(4), (30, 4)), Coupled(random.uniform(size=(30, 4, 4)))
    lazy = FrozenIndices(chains, payoffs, 0.9)
    for state in random.integers(4, size=(100, 30)):
        index = frozen_indices(chains, payoffs, 0.9, state)
        assert lazy.leaders(state, 5) == tuple(np.argsort(-index, kind="stable")[:5])


def test_lazy_indices_recompute_few():
    random = np.random.default_rng(2)
    chains, payoffs = random.dirichlet(np.ones(6), (60, 6)), Coupled(random.uniform(size=(60, 6, 6)))
    lazy = FrozenIndices(chains, payoffs, 0.9)
    draws = list(walk(chains, random.integers(6, size=60), choose_frozen(lazy), 300, random))
    assert lazy.recomputed < 0.1 * 60 * len(draws)


def test_ties_go_to_the_lower_task():
    random = np.random.default_rng(3)
    chain, scores = random.dirichlet(np.ones(4), 4), random.uniform(size=(4, 4))
    chains, payoffs = np.stack([chain] * 5), Coupled(np.stack([scores] * 5))
    policy = solve_joint(chains, payoffs, 0.9, "frozen-gittins")
    for label in range(4):
        assert policy.action(np.full(5, label)) == 0
    names = np.array([2, 0, 3, 1])
    renamed = Separable(np.stack([scores[0], scores[0][names]]))
    policy = solve_joint(np.stack([chain, chain[np.ix_(names, names)]]), renamed, 0.9, "frozen-gittins")
    assert all(policy.action([names[label], label]) == 0 for label in range(4))  # the same label under two names


def test_frozen_indices_of_separable_rewards_are_gittins_indices():
    random = np.random.default_rng(4)
    chains, r = random.dirichlet(np.ones(4), (3, 4)), random.normal(size=(3, 4))
    labels = joint_states(3, 4)
    want = gittins_index(chains, r, 0.9)[np.arange(3), labels]
    np.testing.assert_allclose(frozen_indices(chains, Separable(r), 0.9, labels), want, rtol=0, atol=1e-13)
    policy = solve_joint(chains, r, 0.9, "frozen-gittins")
    best = solve_joint(chains, r, 0.9, tolerance=1e-10).value
    np.testing.assert_allclose(evaluate_policy(chains, r, 0.9, policy), best, rtol=0, atol=1e-7)


@pytest.mark.parametrize(("discount", "frozen", "rollout"), [(0.9, 0.98, 0.995), (0.99, 0.92, 0.975)])
def test_how_close_to_the_optimum(discount, frozen, rollout):
    shares = {method: [] for method in ("frozen-gittins", "rollout", "top-k", "myopic")}
    for seed in range(12):
        random = np.random.default_rng(seed)
        tasks, classes = [(3, 4), (4, 3), (5, 3)][seed % 3]
        chains = sticky(random, tasks, classes)
        payoffs = coupled_rewards(random.uniform(size=(tasks, classes, classes)))
        best = solve_joint(chains, payoffs, discount).value
        for method, found in shares.items():
            value = evaluate_policy(chains, payoffs, discount, solve_joint(chains, payoffs, discount, method, top=2))
            assert (value <= best + 1e-6).all()
            found.append(value.mean() / best.mean())
    mean = {method: np.mean(found) for method, found in shares.items()}
    assert mean["frozen-gittins"] >= frozen
    assert mean["rollout"] >= rollout
    assert mean["rollout"] >= mean["frozen-gittins"] >= mean["myopic"]
    assert mean["top-k"] >= mean["frozen-gittins"]


def test_top_of_all_tasks_is_the_optimum():
    random = np.random.default_rng(5)
    chains, payoffs = random.dirichlet(np.ones(3), (3, 3)), coupled_rewards(random.uniform(size=(3, 3, 3)))
    best = solve_joint(chains, payoffs, 0.95)
    wide = solve_joint(chains, payoffs, 0.95, "top-k", top=9)
    assert all(wide.action(state) == best.action(state) for state in joint_states(3, 3))


def test_top_one_is_frozen_gittins():
    random = np.random.default_rng(6)
    chains, payoffs = random.dirichlet(np.ones(3), (4, 3)), coupled_rewards(random.uniform(size=(4, 3, 3)))
    one = solve_joint(chains, payoffs, 0.9, "top-k", top=1)
    frozen = solve_joint(chains, payoffs, 0.9, "frozen-gittins")
    assert all(one.action(state) == frozen.action(state) for state in joint_states(4, 3))


def test_top_does_not_depend_on_what_was_asked_before():
    random = np.random.default_rng(7)
    chains, payoffs = random.dirichlet(np.ones(4), (12, 4)), Coupled(random.uniform(size=(12, 4, 4)))
    states = random.integers(4, size=(80, 12))
    lazy = FrozenIndices(chains, payoffs, 0.9)
    choose = choose_top(lazy, 2)
    first = [choose(state) for state in states]
    fresh = [choose_top(FrozenIndices(chains, payoffs, 0.9), 2)(state) for state in states]
    assert first == fresh


def test_myopic_takes_the_largest_reward():
    random = np.random.default_rng(8)
    A = random.uniform(size=(4, 3, 3))
    policy = solve_joint(random.dirichlet(np.ones(3), (4, 3)), coupled_rewards(A), 0.9, "myopic")
    for state in joint_states(4, 3):
        now = [np.mean(A[task, state[task], state]) for task in range(4)]
        assert policy.action(state) == int(np.argmax(now))


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
    monkeypatch.setattr(approximate, "LISTED", 0)
    gains = []
    for seed in range(3):
        chains, payoffs = problem(seed, tasks=3)
        indices = FrozenIndices(chains, payoffs, 0.9)
        choose = approximate.choose_rollout(indices, candidates=3, runs=16, horizon=30)
        base = evaluate_policy(chains, payoffs, 0.9, solve_joint(chains, payoffs, 0.9, "frozen-gittins")).mean()
        best = solve_joint(chains, payoffs, 0.9).value.mean()
        value = evaluate_policy(chains, payoffs, 0.9, Policy((3, 3), choose)).mean()
        assert value >= base - 1e-3 * best
        gains.append((value - base) / best)
    assert np.mean(gains) > 0.002


def test_simulated_choices_repeat(monkeypatch):
    monkeypatch.setattr(approximate, "LISTED", 0)
    chains, payoffs = problem(5)
    chosen = []
    for order in (1, -1):
        choose = approximate.choose_rollout(FrozenIndices(chains, payoffs, 0.9), runs=4, horizon=10)
        states = joint_states(4, 3)[::order]
        chosen.append([choose(state) for state in states][::order])
    assert chosen[0] == chosen[1]


def test_one_draw_is_myopic_among_the_candidates(monkeypatch):
    monkeypatch.setattr(approximate, "LISTED", 0)
    chains, payoffs = problem(6)
    choose = approximate.choose_rollout(FrozenIndices(chains, payoffs, 0.9), candidates=9, runs=1, horizon=1)
    myopic = solve_joint(chains, payoffs, 0.9, "myopic")
    assert all(choose(state) == myopic.action(state) for state in joint_states(4, 3))
