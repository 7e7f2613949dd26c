"""Every registered scheduler at once: what the protocol promises; and what each alone does."""

import json
import math
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers import made
from metasched import schedulers
from metasched.errors import ConfigError

NAMES = schedulers.names()
PASSES = [2, 3, 1, 2]
NO_LABELS = jnp.zeros(4, jnp.int32)
VARIANTS = [
    *((name, {}) for name in NAMES),
    ("ucb", {"scale": "fixed"}),
    ("epsilon_greedy", {"epsilon": 0.5, "decay": 0.1}),
    ("thompson", {"model": "beta"}),
    ("exp3", {"explore": 0.2, "scale": "fixed"}),
    ("softmax", {"anneal": True, "scale": "fixed"}),
    ("gittins", {"refresh": 0}),
    ("mdp", {"refresh": 0}),
]
SYMMETRIC = [
    ("ucb", {}),
    ("ucb", {"scale": "fixed"}),
    ("discounted_ucb", {}),
    ("sliding_ucb", {"window": 50}),
    ("epsilon_greedy", {"epsilon": 0.0}),
    ("learning_progress", {"epsilon": 0.0}),
]
"""Schedulers for which a task's number means nothing and chance plays no part."""


@lru_cache
def built(name):
    """One scheduler of each name for four tasks, so that what one test has compiled serves the next."""
    return made(name, num_tasks=4, passes=PASSES)


def choices(scheduler, steps, seed=0, num_tasks=4, jit=False):
    state = scheduler.init(jax.random.key(seed))
    select, update = (jax.jit(scheduler.select), jax.jit(scheduler.update)) if jit else scheduler[1:3]
    labels = jnp.zeros(num_tasks, jnp.int32)
    taken = []
    for step in range(steps):
        task = select(state, labels)
        state = update(state, labels, task, jnp.float32(np.sin(step)))
        taken.append(int(task))
    return taken


def scanned(scheduler, rewards, num_tasks=4, seed=0):
    """Choices when task i pays ``rewards[step, i]`` at that step, as one compiled program."""
    labels = jnp.zeros(num_tasks, jnp.int32)

    @jax.jit
    def run(rewards):
        def step(state, row):
            task = scheduler.select(state, labels)
            return scheduler.update(state, labels, task, row[task]), task

        return jax.lax.scan(step, scheduler.init(jax.random.key(seed)), rewards)[1]

    return np.asarray(run(jnp.asarray(rewards, jnp.float32)))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("num_tasks", [1, 10_000])
def test_always_a_valid_task(name, num_tasks):
    taken = choices(made(name, num_tasks=num_tasks), 30, num_tasks=num_tasks, jit=True)
    assert all(0 <= task < num_tasks for task in taken)


@pytest.mark.parametrize("name", NAMES)
def test_same_key_same_choices(name):
    scheduler = built(name)
    first = choices(scheduler, 40, seed=5, jit=True)
    assert choices(scheduler, 40, seed=5, jit=True) == first


@pytest.mark.parametrize(("name", "options"), VARIANTS)
def test_compiled_scanned_and_mapped_choices_equal_the_eager_ones(name, options):
    scheduler = made(name, num_tasks=4, passes=PASSES, **options) if options else built(name)
    rewards = jnp.asarray(np.sin(np.arange(25)), jnp.float32)

    def run(seed):
        def step(state, reward):
            task = scheduler.select(state, NO_LABELS)
            return scheduler.update(state, NO_LABELS, task, reward), task

        return jax.lax.scan(step, scheduler.init(jax.random.key(seed)), rewards)[1]

    mapped = jax.jit(jax.vmap(run))(jnp.arange(3))
    assert mapped[1].tolist() == choices(scheduler, 25, seed=1, jit=True)
    if options.get("model") != "beta":  # eager gamma variates take a second each
        assert mapped[2].tolist()[:9] == choices(scheduler, 9, seed=2)


@pytest.mark.parametrize(("name", "options"), VARIANTS)
def test_state_is_plain_arrays_that_keep_shape_and_type(name, options):
    scheduler = made(name, num_tasks=4, passes=PASSES, **options)
    state = scheduler.init(jax.random.key(0))
    after = scheduler.update(state, NO_LABELS, jnp.int32(1), jnp.float32(0.5))
    for before, later in zip(jax.tree.leaves(state), jax.tree.leaves(after), strict=True):
        assert np.asarray(before).dtype.kind in "iuf"
        assert (before.shape, before.dtype) == (later.shape, later.dtype)


@pytest.mark.parametrize("name", NAMES)
def test_state_survives_a_round_trip_through_arrays(name):
    scheduler = built(name)
    select, update = jax.jit(scheduler.select), jax.jit(scheduler.update)
    state = scheduler.init(jax.random.key(3))
    for step in range(12):
        state = update(state, NO_LABELS, select(state, NO_LABELS), jnp.float32(np.cos(step)))
    leaves, structure = jax.tree.flatten(state)
    stored = json.dumps([[str(leaf.dtype), leaf.shape, np.asarray(leaf).tobytes().hex()] for leaf in leaves])
    restored = jax.tree.unflatten(
        structure,
        [np.frombuffer(bytes.fromhex(data), dtype).reshape(shape) for dtype, shape, data in json.loads(stored)],
    )
    for step in range(12):
        task = select(state, NO_LABELS)
        assert int(select(restored, NO_LABELS)) == int(task)
        state, restored = (update(one, NO_LABELS, task, jnp.float32(np.sin(step))) for one in (state, restored))


@pytest.mark.parametrize(("name", "options"), SYMMETRIC)
def test_permuting_the_tasks_permutes_the_choices(name, options):
    scheduler = made(name, num_tasks=5, **options)
    random = np.random.default_rng(1)
    permutation = np.array([3, 0, 4, 1, 2], np.int32)
    twice = np.tile(np.arange(5), (8, 2))
    histories = np.concatenate([twice, random.integers(0, 5, (8, 50))], axis=1).astype(np.int32)
    rewards = random.normal(size=histories.shape).astype(np.float32)
    labels = jnp.zeros(5, jnp.int32)

    @jax.jit
    @jax.vmap
    def choices_after(tasks, rewards):
        def step(state, item):
            after = scheduler.update(state, labels, *item)
            return after, scheduler.select(after, labels)

        return jax.lax.scan(step, scheduler.init(jax.random.key(0)), (tasks, rewards))[1][10:]

    plain, permuted = choices_after(histories, rewards), choices_after(permutation[histories], rewards)
    assert set(np.unique(plain)) == set(range(5))
    np.testing.assert_array_equal(permuted, permutation[plain])


@pytest.mark.parametrize("name", ["ucb", "thompson", "softmax", "exp3", "discounted_ucb", "sliding_ucb"])
def test_scale_free_choices_do_not_change_when_rewards_are_shifted_and_stretched(name):
    scheduler = made(name, num_tasks=4)
    rewards = np.random.default_rng(0).normal(size=(200, 4)).astype(np.float32)
    many = np.concatenate([rewards, rewards / 128, rewards * 4 + 2]).reshape(3, 200, 4)

    @jax.jit
    @jax.vmap
    def run(rewards):
        def step(state, row):
            task = scheduler.select(state, NO_LABELS)
            return scheduler.update(state, NO_LABELS, task, row[task]), task

        return jax.lax.scan(step, scheduler.init(jax.random.key(0)), rewards)[1]

    plain, small, moved = run(many)
    np.testing.assert_array_equal(plain, small)
    np.testing.assert_array_equal(plain, moved)


@pytest.mark.parametrize("name", [name for name in NAMES if name not in ("single", "learning_progress")])
def test_rewards_that_are_all_equal_leave_no_task_out(name):
    scheduler = made(name, num_tasks=3)
    taken = scanned(scheduler, np.full((300, 3), 0.1), num_tasks=3)
    assert np.bincount(taken, minlength=3).min() >= 5


def test_cyclic_takes_one_batch_of_each_task_in_turn():
    assert choices(schedulers.make("cyclic", num_tasks=3), 8) == [0, 1, 2, 0, 1, 2, 0, 1]


def test_sequential_finishes_a_task_before_the_next():
    scheduler = schedulers.make("sequential", num_tasks=4, passes=PASSES)
    assert choices(scheduler, 10) == [0, 0, 1, 1, 1, 2, 3, 3, 0, 0]


def test_sequential_in_random_order_finishes_tasks_in_an_order_that_the_seed_draws():
    scheduler = schedulers.make("sequential", num_tasks=4, passes=PASSES, order="random")
    rounds = {seed: choices(scheduler, sum(PASSES), seed=seed) for seed in range(8)}
    orders = {tuple(dict.fromkeys(taken)) for taken in rounds.values()}
    assert len(orders) > 3
    for taken in rounds.values():
        order = list(dict.fromkeys(taken))
        assert taken == [task for task in order for _ in range(PASSES[task])]


def test_uniform_takes_every_task_equally_often():
    taken = choices(schedulers.make("uniform", num_tasks=4), 2000, jit=True)
    expected = 500
    chi_squared = sum((taken.count(task) - expected) ** 2 / expected for task in range(4))
    assert chi_squared < 16.3  # the 99.9 % point with 3 degrees of freedom


def test_uniform_differs_between_keys():
    scheduler = schedulers.make("uniform", num_tasks=4)
    assert choices(scheduler, 20, seed=0) != choices(scheduler, 20, seed=1)


def test_single_always_takes_its_task():
    assert choices(schedulers.make("single", num_tasks=4, task=2), 6) == [2] * 6


class TestUcb:
    # Three tasks, U = 2, ξ = 1.5. Task 0 always pays −1, task 1 in turn 0.5 and 0, task 2 always 0.25. Bounds by hand:
    #  t   task 0           task 1            task 2           choice
    #      one of each, in order                               0, 1, 2
    #  1   −1 + 0           0.5 + 0           0.25 + 0         1    log 1 = 0: the best mean
    #  2   −1 + 2.039       0.25 + 1.442      0.25 + 2.039     2
    #  3   −1 + 2.567       0.25 + 1.815      0.25 + 1.815     1    a tie goes to the lower task
    #  4   −1 + 2.884       0.333 + 1.665     0.25 + 2.039     2
    #  5   −1 + 3.108       0.333 + 1.794     0.25 + 1.794     1
    #  6   −1 + 3.279       0.25 + 1.639      0.25 + 1.893     0
    #  7   −1 + 2.416       0.25 + 1.708      0.25 + 1.973     2
    #  8   −1 + 2.498       0.25 + 1.766      0.25 + 1.766     1
    #  9   −1 + 2.567       0.3 + 1.624       0.25 + 1.815     2
    CHOICES = (0, 1, 2, 1, 2, 1, 2, 1, 0, 2, 1, 2)
    BOUNDS = MappingProxyType(
        {1: (-1, 0.5, 0.25), 4: (1.884, 1.998, 2.289), 6: (2.279, 1.889, 2.143), 9: (1.567, 1.924, 2.065)}
    )

    def test_follows_the_papers_algorithm_for_twelve_steps(self):
        scheduler = schedulers.make("ucb", num_tasks=3, upper=2.0, xi=1.5, scale="fixed")
        pays = [[-1.0], [0.5, 0.0], [0.25]]
        state, visits, labels = scheduler.init(jax.random.key(0)), [0, 0, 0], jnp.zeros(3, jnp.int32)
        for number, expected in enumerate(self.CHOICES):
            task = int(scheduler.select(state, labels))
            assert task == expected, f"choice {number}"
            if (time := number - 2) in self.BOUNDS:
                bounds = [
                    float(state.mean[i]) + 2 * math.sqrt(1.5 * math.log(time) / float(state.visits[i]))
                    for i in range(3)
                ]
                assert bounds == pytest.approx(self.BOUNDS[time], abs=1e-3)
            paid = jnp.float32(pays[task][visits[task] % len(pays[task])])
            state = scheduler.update(state, labels, jnp.int32(task), paid)
            visits[task] += 1

    def test_the_literal_width_swamps_rewards_that_differ_by_hundredths_and_the_spread_does_not(self):
        def share(scale):
            scheduler = schedulers.make("ucb", num_tasks=5, scale=scale)
            noise = np.random.default_rng(1).normal(size=(200, 5))
            return (scanned(scheduler, np.array([0.50, 0.51, 0.54, 0.52, 0.50]) + 0.01 * noise, 5) == 2).mean()

        assert share("fixed") < 0.3
        assert share("spread") > 0.6


def test_learning_progress_prefers_the_task_whose_score_moves():
    scheduler, labels = schedulers.make("learning_progress", num_tasks=3), jnp.zeros(3, jnp.int32)

    def step(state, _):
        task = scheduler.select(state, labels)
        visits = state.seen[task]
        scores = jnp.array([0.9, 0.5, 0.1 + 0.01 * visits])
        return scheduler.update(state, labels, task, scores[task]), task

    taken = jax.lax.scan(step, scheduler.init(jax.random.key(0)), None, length=300)[1]
    assert (np.bincount(taken, minlength=3) / 300)[2] > 0.85


@pytest.mark.parametrize("name", ["cyclic", "ucb", "thompson"])
def test_any_scheduler_can_be_given_one_more_arm(name):
    one_more = schedulers.make(name, num_tasks=3, abstain=True)
    assert choices(one_more, 20, num_tasks=3, jit=True) == choices(built(name), 20, jit=True)


def test_the_arm_that_abstains_shows_label_zero():
    echo = schedulers.Scheduler(
        lambda key: 0, lambda state, labels: labels, lambda state, labels, *_: labels, "control"
    )
    padded, labels = schedulers.with_abstain(echo), jnp.array([2, 1], jnp.int32)
    assert padded.select(0, labels).tolist() == padded.update(0, labels, 2, 0.5).tolist() == [2, 1, 0]
    assert padded.family == "control"


class TestMake:
    def test_suggests_the_nearest_name(self):
        with pytest.raises(ConfigError, match="unknown scheduler 'cyclik'; did you mean 'cyclic'"):
            schedulers.make("cyclik", num_tasks=3)

    def test_refuses_an_option_the_scheduler_does_not_have(self):
        with pytest.raises(ConfigError, match="unknown option 'speed' of scheduler 'cyclic'"):
            schedulers.make("cyclic", num_tasks=3, speed=2)

    def test_refuses_no_tasks(self):
        with pytest.raises(ConfigError, match="num_tasks is 0"):
            schedulers.make("cyclic", num_tasks=0)

    @pytest.mark.parametrize(
        ("name", "options", "message"),
        [
            ("ucb", {"xi": 1.0}, "xi is 1.0; give a number > 1"),
            ("ucb", {"xi": "2"}, "xi is '2'; give a number > 1"),
            ("ucb", {"upper": True}, "upper is True; give a number > 0"),
            ("ucb", {"upper": float("nan")}, "upper is nan; give a number > 0"),
            ("ucb", {"scale": "spred"}, "unknown scale 'spred'; did you mean 'spread'"),
            ("ucb", {"uper": 1.0}, "unknown option 'uper' of scheduler 'ucb'; did you mean 'upper'"),
            ("epsilon_greedy", {"epsilon": 1.5}, "epsilon is 1.5; give a number ≥ 0 and ≤ 1"),
            ("epsilon_greedy", {"decay": -1}, "decay is -1; give a number ≥ 0"),
            ("thompson", {"model": "bet"}, "unknown model 'bet'; did you mean 'beta'"),
            ("thompson", {"model": None}, "unknown model 'None'"),
            ("exp3", {"rate": 0}, "rate is 0; give a number > 0"),
            ("discounted_ucb", {"discount": 1.0}, "discount is 1.0; give a number ≥ 0.5 and < 1"),
            ("sliding_ucb", {"window": 2.5}, "window is 2.5; give a whole number from 1 to 1000000"),
            ("learning_progress", {"rate": 2}, "rate is 2; give a number > 0 and ≤ 1"),
            ("softmax", {"anneal": 1}, "anneal is 1; give True or False"),
            ("softmax", {"temperature": float("inf")}, "temperature is inf"),
            ("single", {"task": 3}, "task is 3; give a whole number from 0 to 2"),
        ],
    )
    def test_refuses_an_option_of_the_wrong_type_or_range(self, name, options, message):
        with pytest.raises(ConfigError) as caught:
            made(name, num_tasks=3, **options)
        assert str(caught.value).startswith(message)

    def test_a_plan_goes_to_those_who_take_one_and_is_no_option(self):
        assert choices(schedulers.make("cyclic", num_tasks=3, plan={"any": "thing"}), 3) == [0, 1, 2]

    def test_abstaining_adds_an_arm_of_one_pass(self):
        scheduler = schedulers.make("sequential", num_tasks=2, passes=[2, 3], abstain=True)
        assert choices(scheduler, 8, num_tasks=2) == [0, 0, 1, 1, 1, 2, 0, 0]

    def test_says_who_needs_a_plan_and_what_kind_each_is(self):
        assert [name for name in NAMES if schedulers.needs_plan(name)] == ["gittins", "mdp"]
        kinds = {name: schedulers.family(name) for name in NAMES}
        static = [name for name, kind in kinds.items() if kind == "static"]
        assert static == ["cyclic", "sequential", "uniform", "proportional"]
        assert [name for name, kind in kinds.items() if kind == "control"] == ["single"]
        assert all(built(name).family == kind for name, kind in kinds.items())
        for ask in (schedulers.needs_plan, schedulers.family):
            with pytest.raises(ConfigError, match="unknown scheduler 'gitins'; did you mean 'gittins'"):
                ask("gitins")

    def test_every_file_that_makes_a_scheduler_is_known_by_its_name(self):
        files = {path.stem for path in Path(schedulers.__file__).parent.glob("*.py")}
        assert files - {"__init__", "base", "arms", "resolve", "rows", "combine"} == set(NAMES)

    @pytest.mark.parametrize("passes", [[1, 2], [1, 0, 2], 3])
    def test_refuses_passes_that_do_not_fit(self, passes):
        with pytest.raises(ConfigError, match="passes is"):
            schedulers.make("sequential", num_tasks=3, passes=passes)
