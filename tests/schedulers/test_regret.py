"""Regret on bandits whose rates are known: 10,000 steps, many seeds, one compiled program each."""

from math import log, sqrt

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from metasched import schedulers

STEPS = 10_000
SEEDS = 8
MEANS = (0.3, 0.4, 0.7, 0.5, 0.45)
SWITCH = 5_000


def gaussian(key, mean):
    return mean + 0.1 * jax.random.normal(key)


def bernoulli(key, mean):
    return (jax.random.uniform(key) < mean).astype(jnp.float32)


def play(name, options, reward, before=MEANS, after=None):
    """Regret of every step, (seeds, steps); the means change from ``before`` to ``after`` half way."""
    before = jnp.array(before)
    after = before if after is None else jnp.array(after)
    scheduler = schedulers.make(name, num_tasks=len(before), **options)
    labels = jnp.zeros(len(before), jnp.int32)

    def run(seed):
        policy, world = jax.random.split(jax.random.key(seed))

        def step(state, time):
            means = jnp.where(time < SWITCH, before, after)
            task = scheduler.select(state, labels)
            paid = reward(jax.random.fold_in(world, time), means[task])
            return scheduler.update(state, labels, task, paid), means.max() - means[task]

        return jax.lax.scan(step, scheduler.init(policy), jnp.arange(STEPS))[1]

    return np.asarray(jax.jit(jax.vmap(run))(jnp.arange(SEEDS)))


def at(regret, steps):
    """Mean over seeds of the regret up to a step."""
    return regret[:, :steps].sum(axis=1).mean()


@pytest.mark.parametrize(
    ("name", "options", "reward"),
    [
        ("ucb", {}, gaussian),
        ("ucb", {}, bernoulli),
        ("thompson", {"forget": 1.0}, gaussian),
        ("thompson", {"forget": 1.0}, bernoulli),
        ("thompson", {"model": "beta"}, bernoulli),
        ("epsilon_greedy", {"epsilon": 1.0, "decay": 0.1}, bernoulli),
        ("softmax", {"anneal": True}, bernoulli),
    ],
)
def test_regret_grows_logarithmically(name, options, reward):
    regret = play(name, options, reward)
    # UCB1's bound for rewards in [0, 1]: Σ 8·log T / Δ_i + (1 + π²/3)·Σ Δ_i; all of these stay far below it.
    gaps = [max(MEANS) - mean for mean in MEANS if mean < max(MEANS)]
    assert at(regret, STEPS) < sum(8 * log(STEPS) / gap for gap in gaps) / 5
    # A tenfold time adds a constant: under log² t growth of regret the ratio is (log 10⁴ / log 10³)² = 1.8.
    assert at(regret, STEPS) / at(regret, STEPS // 10) < 2.4
    assert regret[:, -1000:].mean() < 0.01


def test_the_papers_literal_ucb_is_logarithmic_where_gaps_are_as_wide_as_its_bound_expects():
    regret = play("ucb", {"upper": 2.0, "scale": "fixed"}, bernoulli, before=(0.05, 0.95))
    assert at(regret, STEPS) / at(regret, STEPS // 10) < 2.2
    assert at(regret, STEPS) < 4 * 2.0**2 * 1.1 * log(STEPS) / 0.9 + 2


@pytest.mark.parametrize(
    ("name", "options"), [("uniform", {}), ("epsilon_greedy", {}), ("softmax", {}), ("discounted_ucb", {})]
)
def test_exploration_that_never_ends_costs_linear_regret(name, options):
    regret = play(name, options, bernoulli)
    assert at(regret, STEPS) / at(regret, STEPS // 10) > 5


@pytest.mark.parametrize(("reward", "scale"), [(gaussian, "spread"), (bernoulli, "spread"), (bernoulli, "fixed")])
def test_exp3_stays_below_its_bound_in_the_square_root_of_time(reward, scale):
    regret = play("exp3", {"scale": scale}, reward)
    for steps in (100, 1_000, STEPS):
        assert at(regret, steps) < 2 * sqrt(steps * len(MEANS) * log(len(MEANS)))
    assert at(regret, STEPS) / at(regret, STEPS // 100) < 10 * 1.1


def test_exp3_keeps_its_bound_when_the_rewards_change_against_it():
    regret = play("exp3", {}, bernoulli, before=(0.6, 0.5), after=(0.1, 0.9))
    # In hindsight the best single task is the second, which is 0.1 behind the best of its time before the switch.
    against_it = at(regret, STEPS) - 0.1 * SWITCH
    assert against_it < 2 * sqrt(STEPS * 2 * log(2))


@pytest.mark.parametrize("reward", [gaussian, bernoulli])
def test_a_best_task_that_turns_bad_is_left_by_those_that_forget_and_not_by_ucb(reward):
    def share_of_best(name):
        late = play(name, {}, reward, before=(0.9, 0.5), after=(0.1, 0.5))[:, SWITCH + 500 : SWITCH + 2500]
        return float((late == 0).mean())

    assert share_of_best("discounted_ucb") > 0.8
    assert share_of_best("sliding_ucb") > 0.8
    assert share_of_best("ucb") < 0.2


def test_with_ten_thousand_tasks_the_first_choices_are_one_of_each():
    scheduler, labels = schedulers.make("ucb", num_tasks=10_000), jnp.zeros(10_000, jnp.int32)

    def step(state, _):
        task = scheduler.select(state, labels)
        return scheduler.update(state, labels, task, task / 10_000), task

    taken = jax.lax.scan(step, scheduler.init(jax.random.key(0)), None, length=10_050)[1]
    np.testing.assert_array_equal(taken[:10_000], np.arange(10_000))
    assert min(taken[10_000:].tolist()) > 9_000
