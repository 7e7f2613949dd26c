"""Mixed batches: how schedulers fill them row by row, and how they take in the rewards of rows."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.interpreters.partial_eval import dce_jaxpr

from metasched import schedulers
from metasched.schedulers import arms
from metasched.schedulers.rows import Cursors, by_rows, switch_rows

N, ROWS = 5, 8
LABELS = np.zeros(N, np.int32)
BLIND = Cursors(jnp.zeros(()), lambda position: jnp.asarray(LABELS), lambda position, task: position)
RANDOM = ["uniform", "proportional", "thompson", "softmax", "exp3", "mirror", "epsilon_greedy"]
ONE_BY_ONE = ["cyclic", "sequential", "ucb", "discounted_ucb", "sliding_ucb", "learning_progress"]


def play(name, rewards, batches=40, rows=ROWS, **options):
    """The tasks (batches, rows) that a scheduler chooses when each task always brings the same reward."""
    scheduler = by_rows(schedulers.make(name, num_tasks=N, **options), N)
    state = scheduler.init(jax.random.key(3))
    worth = jnp.asarray(rewards, jnp.float32)

    def batch(state, _):
        tasks, labels = scheduler.choose(state, BLIND, rows)
        return scheduler.tell(state, labels, tasks, worth[tasks]), tasks

    return np.asarray(jax.lax.scan(batch, state, None, length=batches)[1])


@pytest.mark.parametrize("name", RANDOM)
def test_random_schedulers_draw_every_row_on_its_own(name):
    chosen = play(name, np.zeros(N), batches=200, scale="fixed") if name == "softmax" else play(name, np.zeros(N), 200)
    later = chosen[10:]
    alike = (later[:, 1:] == later[:, :1]).mean()
    assert alike < 0.9, f"{name} gives all rows of a batch to one task"


@pytest.mark.parametrize("name", ["ucb", "discounted_ucb", "sliding_ucb"])
def test_a_scheduler_without_chance_counts_the_rows_before_as_open(name):
    first = play(name, np.zeros(N), batches=1)[0]
    assert sorted(first[:N].tolist()) == list(range(N)), f"{name} does not try every task once: {first}"


def test_cyclic_goes_on_from_row_to_row_and_from_batch_to_batch():
    assert play("cyclic", np.zeros(N), batches=2).ravel().tolist() == [row % N for row in range(2 * ROWS)]


@pytest.mark.parametrize("scheduler", [schedulers.make("cyclic", num_tasks=N), schedulers.single(N, 2)])
def test_a_schedule_that_reads_no_rewards_keeps_none_so_that_none_are_computed(scheduler):
    rows = by_rows(scheduler, N)
    state = rows.init(jax.random.key(3))
    tasks, labels = rows.choose(state, BLIND, ROWS)
    told = jax.make_jaxpr(rows.tell)(state, labels, tasks, jnp.ones(ROWS)).jaxpr
    used = dce_jaxpr(told, [True] * len(told.outvars))[1]
    assert not used[-1], "the state depends on rewards"
    np.testing.assert_array_equal(rows.tell(state, labels, tasks, jnp.ones(ROWS)).total, np.zeros(N))


def test_sequential_stays_with_a_task_for_as_many_rows_as_it_has():
    chosen = play("sequential", np.zeros(N), batches=2, passes=[3, 1, 4, 1, 5])
    assert chosen.ravel().tolist() == [0, 0, 0, 1, 2, 2, 2, 2, 3, 4, 4, 4, 4, 4, 0, 0]


@pytest.mark.parametrize("name", ["thompson", "mirror", "ucb", "softmax", "exp3", "epsilon_greedy", "discounted_ucb"])
def test_schedulers_that_learn_find_the_task_that_pays(name):
    late = play(name, [0, 0, 1, 0, 0.1], batches=300)[-50:]
    share = (late == 2).mean()
    assert share > 1.5 / N, f"{name} draws the best task in {share:.0%} of its last rows"


@pytest.mark.parametrize("name", RANDOM)
def test_untried_tasks_have_one_row_each_before_any_is_drawn_again(name):
    if name in ("uniform", "proportional", "exp3"):
        pytest.skip("draws by chance alone from the first row on")
    options = {"explore": 0.0} if name == "thompson" else {"epsilon": 0.0} if name == "epsilon_greedy" else {}
    first = play(name, np.zeros(N), batches=1, rows=3, **options)[0].tolist()
    assert first == [0, 1, 2]


def test_a_task_that_was_forgotten_takes_one_row_and_not_the_whole_batch():
    tried = jnp.array([True, True, False, True, True])
    assert arms.best_rows(tried, jnp.tile(jnp.arange(N, 0.0, -1), (4, 1))).tolist() == [2, 0, 0, 0]


def test_rewards_of_rows_make_the_same_means_and_scatter_as_one_by_one():
    random = np.random.default_rng(0)
    tasks, rewards = random.integers(0, N, 60), random.normal(size=60)
    batched, single = (arms.first(N, jax.random.key(0)) for _ in range(2))
    for begin in range(0, 60, 12):
        batched = arms.observe_rows(batched, jnp.asarray(tasks[begin : begin + 12]), jnp.asarray(rewards[begin:][:12]))
    for task, reward in zip(tasks, rewards, strict=True):
        single = arms.observe(single, task, reward)
    for mine, other in zip(batched[1:], single[1:], strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-5, atol=1e-5)
    for task in range(N):
        np.testing.assert_allclose(batched.mean[task], rewards[tasks == task].mean(), rtol=1e-5, atol=1e-6)


def test_rewards_whose_squares_overflow_leave_no_nan():
    state = arms.observe_rows(arms.first(N, jax.random.key(0)), jnp.array([0, 0, 1]), jnp.array([1e20, 2e20, -1e20]))
    state = arms.observe_rows(state, jnp.array([2, 2, 1]), jnp.zeros(3))
    assert not np.isnan(state.scatter).any()


def test_memory_fades_once_for_each_batch_and_not_for_each_row():
    state = arms.observe_rows(arms.first(N, jax.random.key(0)), jnp.array([0, 0, 1]), jnp.array([1.0, 2.0, 3.0]))
    state = arms.observe_rows(state, jnp.array([2, 2, 2]), jnp.zeros(3), discount=0.5)
    assert state.visits.tolist() == [1, 0.5, 3, 0, 0]
    assert state.mean.tolist() == [1.5, 3, 0, 0, 0]


def test_exp3_weighs_rows_by_the_chances_that_they_were_drawn_with():
    scheduler = schedulers.exp3(2, scale="fixed")
    state = scheduler.init(jax.random.key(0))
    state = scheduler.update_rows(state, None, jnp.array([0, 0, 1]), jnp.array([0.0, 0.5, 0.5]))
    np.testing.assert_allclose(state.loss, [1.5 / 0.5, 0.5 / 0.5], rtol=1e-6)


@pytest.mark.parametrize("names", [["thompson", "cyclic"], ["cyclic", "thompson"]])
def test_one_of_several_decides_as_it_would_alone(names):
    parts = [by_rows(schedulers.make(name, num_tasks=N), N) for name in names]
    both, alone = switch_rows(parts, which=1), parts[1]
    mixed, own = both.init(jax.random.key(1)), alone.init(jax.random.key(1))
    for turn in range(4):
        tasks, labels = both.choose(mixed, BLIND, ROWS)
        expected, _ = alone.choose(own, BLIND, ROWS)
        assert tasks.tolist() == expected.tolist(), f"batch {turn}"
        rewards = jnp.sin(1.0 * tasks)
        mixed, own = both.tell(mixed, labels, tasks, rewards), alone.tell(own, labels, tasks, rewards)


def test_labels_are_those_before_each_row():
    scheduler = by_rows(schedulers.cyclic(2), 2)
    places = Cursors(
        jnp.zeros(2, jnp.int32), lambda position: position, lambda position, task: position.at[task].add(1)
    )
    tasks, labels = scheduler.choose(scheduler.init(jax.random.key(0)), places, 4)
    assert tasks.tolist() == [0, 1, 0, 1]
    assert labels.tolist() == [[0, 0], [1, 0], [1, 1], [2, 1]]


@pytest.mark.parametrize("name", ["thompson", "mirror"])
def test_rewards_that_are_all_alike_lock_onto_no_task(name):
    shares = np.bincount(play(name, np.full(N, 0.3), batches=100).ravel(), minlength=N) / (100 * ROWS)
    assert shares.max() < 0.5, f"{name} draws {shares.round(2)}"


def test_mirror_remembers_what_a_task_was_worth_when_rewards_become_alike():
    scheduler = by_rows(schedulers.mirror(N), N)
    state = scheduler.init(jax.random.key(0))
    for batch in range(400):
        tasks, labels = scheduler.choose(state, BLIND, ROWS)
        rewards = jnp.where(batch < 100, jnp.where(tasks == 1, 1.0, 0.0), 0.0)
        state = scheduler.tell(state, labels, tasks, rewards + 0.01 * jnp.cos(1.0 * jnp.arange(ROWS)))
    assert jax.nn.softmax(state.logits)[1] > 0.5


@pytest.mark.parametrize(("given", "said"), [([1, 2], "start"), ([1] * (N - 1) + [0], "start")])
def test_mirror_refuses_proportions_that_do_not_fit(given, said):
    with pytest.raises(Exception, match=said):
        schedulers.mirror(N, start=given)
