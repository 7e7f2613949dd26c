"""Gittins and MDP schedulers: the paper's letter, and refreshing ones that leave noise."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import metasched as ms
from helpers import make_tasks
from metasched import schedulers
from metasched.errors import ConfigError
from metasched.learners.networks import mlp


@pytest.fixture(scope="module")
def plan():
    return ms.plan(
        make_tasks(sizes=(40, 50, 30)), learner=ms.AlgorithmOne(batch_size=3, inner_rate=0.5, steps_per_batch=10)
    )


def test_the_papers_gittins_takes_the_largest_index_at_the_cursors(plan):
    scheduler = schedulers.make("gittins", num_tasks=3, plan=plan, refresh=0)
    state = scheduler.init(jax.random.key(0))
    for labels in np.ndindex(3, 3, 3):
        assert int(scheduler.select(state, jnp.array(labels))) == plan.gittins_action(np.array(labels))


def test_the_papers_mdp_follows_the_policy(plan):
    scheduler = schedulers.make("mdp", num_tasks=3, plan=plan, refresh=0)
    state = scheduler.init(jax.random.key(0))
    for labels in np.ndindex(3, 3, 3):
        assert int(scheduler.select(state, jnp.array(labels))) == plan.policy.action(np.array(labels))


def test_a_policy_without_a_table_is_asked_on_the_host(plan):
    frozen = ms.plan(plan.tasks, learner=ms.AlgorithmOne(batch_size=3), method="frozen-gittins")
    scheduler = schedulers.make("mdp", num_tasks=3, plan=frozen, refresh=0)
    select = jax.jit(lambda labels: scheduler.select(scheduler.init(jax.random.key(0)), labels))
    for labels in ([0, 1, 2], [2, 2, 0]):
        assert int(select(jnp.array(labels))) == frozen.policy.action(np.array(labels))


def test_gittins_and_mdp_agree_on_separable_rewards():
    """Gittins' theorem, on random problems: the joint policy never takes a task whose index is not the largest."""
    disagreements = 0
    for seed in range(1000):
        random = np.random.default_rng(seed)
        P, r = random.dirichlet(np.ones(3), (3, 3)), random.normal(size=(3, 3)).round(1)
        policy = ms.planning.solve_joint(P, r, 0.9)
        index = ms.planning.gittins_index(P, r, 0.9)
        for labels in random.integers(0, 3, (3, 3)):
            chosen = index[np.arange(3), labels]
            disagreements += chosen[policy.action(labels)] < chosen.max() - 1e-9
    assert disagreements == 0


def one_good_among_five(seed):
    """One task like the target, two of noise inputs, two with permuted labels."""
    random = np.random.default_rng(seed)

    def rows(count, kind):
        labels = random.integers(0, 4, count)
        inputs = np.eye(4, 12)[labels] * 2 + 0.6 * random.normal(size=(count, 12))
        if kind == "useless":
            inputs = 0.05 * random.normal(size=(count, 12))
        return inputs, random.permutation(labels) if kind == "noisy" else labels

    kinds = ("useless", "noisy", "good", "useless", "noisy")
    return ms.TaskSet.from_arrays(
        {f"{kind}-{number}": rows(200, kind) for number, kind in enumerate(kinds)},
        validation=rows(60, "good"),
        test=rows(100, "good"),
    )


@pytest.mark.parametrize("name", ["ucb", "gittins", "mdp"])
def test_what_learns_from_rewards_gives_the_good_task_most_of_200_draws(name):
    known = {"batch_size": 10, "updates": 10, "batches_per_update": 20, "inner_rate": 0.1, "eval_every": 10}
    config = ms.AlgorithmOne(**known, batching="per_source")
    shares = []
    for seed in range(2):
        run = ms.train(
            one_good_among_five(seed), name, network=mlp(4, hidden=(32,)), learner=config, reward="gain", seeds=(seed,)
        )
        shares.append(np.mean(np.concatenate([record["tasks"] for record in run.records]) == 2))
    assert np.mean(shares) >= 0.6


def test_static_indices_from_misleading_rewards_never_find_the_good_task():
    plan = made_plan_that_prefers_task_0()
    for name in ("gittins", "mdp"):
        scheduler = schedulers.make(name, num_tasks=5, plan=plan, refresh=0)
        state = scheduler.init(jax.random.key(0))
        for _ in range(20):
            task = scheduler.select(state, jnp.zeros(5, jnp.int32))
            assert int(task) == 0
            state = scheduler.update(state, jnp.zeros(5, jnp.int32), task, jnp.float32(-1.0))


def made_plan_that_prefers_task_0():
    random = np.random.default_rng(0)
    rows = {f"task-{number}": (random.normal(size=(8, 2)), np.arange(8) % 2) for number in range(5)}
    target = [(random.normal(size=(4, 2)), [0, 1, 0, 1]) for _ in range(2)]
    tasks = ms.TaskSet.from_arrays(rows, validation=target[0], test=target[1])
    plan = ms.plan(tasks, learner=ms.AlgorithmOne(batch_size=1), rewards="separable")
    accuracy = np.array([[0.9, 0.9]] + [[0.1, 0.1]] * 4)
    plan.__dict__["probe"] = plan.probe._replace(accuracy=accuracy)
    return plan


@pytest.mark.parametrize("name", ["gittins", "mdp"])
def test_a_refreshing_scheduler_credits_the_labels_it_is_told(name, plan):
    scheduler = schedulers.make(name, num_tasks=4, plan=plan)
    state, expected = scheduler.init(jax.random.key(0)), np.zeros((4, 3) if name == "gittins" else (4, 3, 3))
    random = np.random.default_rng(0)
    for task in [0, 2, 2, 3, 1, 2, 0, 0, 0, 3, 2]:
        labels = np.array([*random.integers(0, 3, 3), 0], np.int32)
        expected *= 0.99
        np.add.at(expected, (task, labels[task]) if name == "gittins" else (task, labels[task], labels), 1)
        state = scheduler.update(state, jnp.asarray(labels), jnp.int32(task), jnp.float32(0.1))
    np.testing.assert_allclose(state.weights, expected, rtol=1e-5)


@pytest.mark.parametrize("name", ["gittins", "mdp"])
class TestBadInput:
    def test_without_a_plan_it_says_how_to_make_one(self, name):
        with pytest.raises(ConfigError, match=r"needs a plan; make one with metasched\.plan"):
            schedulers.make(name, num_tasks=3)

    def test_a_plan_for_other_tasks_is_refused(self, name, plan):
        with pytest.raises(ConfigError, match="the plan is for 3 tasks, the scheduler for 5"):
            schedulers.make(name, num_tasks=5, plan=plan)

    def test_abstaining_needs_rewards_to_go_by(self, name, plan):
        with pytest.raises(ConfigError, match="no index for abstaining"):
            schedulers.make(name, num_tasks=4, plan=plan, refresh=0)

    @pytest.mark.parametrize("options", [{"refresh": -1}, {"refresh": 1.5}, {"forget": 0}, {"upper": -1}, {"xi": 1}])
    def test_options_are_checked(self, name, plan, options):
        with pytest.raises(ConfigError, match=f"{next(iter(options))} is"):
            schedulers.make(name, num_tasks=3, plan=plan, **options)


def test_train_makes_the_plan_and_passes_its_options_on():
    tasks = make_tasks()
    config = ms.AlgorithmOne(batch_size=4, updates=2)
    options = {"discount": 0.5, "refresh": 0}
    run = ms.train(tasks, scheduler="mdp", learner=config, options=options)
    assert run.records[-1]["samples"] == 2 * 3 * 4
    with pytest.raises(ConfigError, match="scheduler 'ucb' needs no plan: leave out discount"):
        ms.train(tasks, scheduler="ucb", learner=config, options={"discount": 0.5})


@pytest.mark.parametrize("name", ["gittins", "mdp"])
def test_sources_that_only_hurt_are_left_alone_when_it_may_abstain(name):
    tasks = make_tasks(sizes=(60, 60))
    plan = ms.plan(tasks, learner=ms.AlgorithmOne(batch_size=2))
    scheduler = schedulers.make(name, num_tasks=2, plan=plan, abstain=True)
    labels = jnp.zeros(2, jnp.int32)

    def step(state, _):
        task = scheduler.select(state, labels)
        return scheduler.update(state, labels, task, jnp.where(task == 2, 0.0, -0.1)), task

    taken = jax.lax.scan(step, scheduler.init(jax.random.key(0)), None, length=100)[1]
    assert float((taken == 2).mean()) > 0.6
