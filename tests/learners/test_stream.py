"""The rows a learner may see, and the schedule through them: the compiled loop's is the one that ask/tell gives."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import metasched as ms
from helpers import make_tasks
from metasched import schedulers
from metasched.learners.networks import mlp
from metasched.learners.stream import advance, device_data, first_stream, next_batch
from metasched.schedulers.base import Scheduler
from metasched.schedulers.rows import by_rows
from scenes import follow, objective_for, program_for, start

UPDATES, BATCHES = 3, 9
CONFIG = {"batch_size": 4, "batches_per_update": BATCHES, "inner_rate": 0.1}
CASES = {name: {} for name in schedulers.names()} | {
    f"{name} by the letter": {"refresh": 0} for name in schedulers.names() if schedulers.needs_plan(name)
}
STAY = ("single", "gittins by the letter", "mdp by the letter")
"""Schedulers that may never leave a task."""


def from_fixed_key(scheduler):
    """The same scheduler with chance that does not depend on who starts it."""
    return scheduler._replace(init=lambda key: scheduler.init(jax.random.key(3)))


def with_notes(scheduler):
    """The same scheduler, which also keeps every reward it is told."""
    length = UPDATES * BATCHES

    def update(state, labels, task, reward):
        told = scheduler.update(state[0], labels, task, reward)
        return told, state[1] + 1, state[2].at[state[1]].set(reward)

    return Scheduler(
        lambda key: (scheduler.init(key), jnp.int32(0), jnp.zeros(length)),
        lambda state, labels: scheduler.select(state[0], labels),
        update,
    )


@pytest.fixture(scope="module")
def rows():
    return make_tasks(sizes=(60, 50, 40))


@pytest.fixture(scope="module")
def made(rows):
    """Every scheduler; those that need a plan with one, once as they are and once by the paper's letter."""
    plan = ms.plan(rows, mlp(3, (4,)), ms.AlgorithmOne(**CONFIG))
    return {
        case: from_fixed_key(schedulers.make(case.split()[0], num_tasks=3, plan=plan, passes=(2, 3, 1), **options))
        for case, options in CASES.items()
    }


@pytest.fixture(scope="module", params=["rested", "global"])
def program(request, rows, made):
    """One program for all of them: who decides is part of the state."""
    several = with_notes(schedulers.switch(list(made.values())))
    config = {**CONFIG, "updates": UPDATES, "gradient": "first-order", "cursor": request.param}
    return program_for(rows, mlp(3, (4,)), several, told=("gain",), **config)


@pytest.mark.parametrize("case", CASES)
def test_ask_and_tell_repeat_the_compiled_loops_draws(rows, made, program, case):
    state = start(program)
    scheduler, *notes = state.stream.scheduler
    scheduler = scheduler._replace(which=jnp.int32(list(CASES).index(case)))
    state = state._replace(stream=state.stream._replace(scheduler=(scheduler, *notes)))
    state, log, _ = program.chunk(program.rows.data, program.rows.test, state, 0, UPDATES)
    rewards = np.asarray(state.stream.scheduler[2])
    drawn = np.asarray(log.tasks[:UPDATES]).ravel()

    chooser = ms.Chooser(made[case], rows, 4, batching="per_source", cursor=program.objective.settings.cursor)
    seen = np.zeros((3, 3), int)
    for turn, (task, reward) in enumerate(zip(drawn, rewards, strict=True)):
        draw = chooser.ask()
        assert draw.task == task, f"turn {turn}"
        seen[task] += np.bincount(rows.tasks[task].labels[draw.rows], minlength=3)
        chooser.tell(draw, float(reward))
    assert seen.tolist() == np.asarray(state.stream.drawn).tolist()
    assert case in STAY or len(set(drawn.tolist())) == 3
    assert len(set(rewards.tolist())) > 20


@pytest.mark.parametrize("cursor", ["rested", "global"])
@pytest.mark.parametrize("abstain", [False, True])
@pytest.mark.parametrize("name", ["thompson", "mirror", "ucb", "cyclic", "gittins"])
def test_mixed_batches_hold_the_rows_that_a_chooser_draws(rows, name, abstain, cursor):
    plan = ms.plan(rows, mlp(3, (4,)), ms.AlgorithmOne(**CONFIG)) if name == "gittins" else None
    scheduler = schedulers.make(name, num_tasks=3, plan=plan, abstain=abstain)
    by_row, data = by_rows(scheduler, 3 + abstain), device_data(rows)
    objective = objective_for(rows, cursor=cursor, abstain=abstain, batch_size=6)
    stream = first_stream(by_row, data, 3, jax.random.key(3))
    chooser = ms.Chooser(scheduler, rows, 6, seed=3, cursor=cursor, abstain=abstain)
    choose = jax.jit(lambda stream: next_batch(by_row, objective, data, stream))
    told = jax.jit(lambda stream, batch, reward: advance(by_row, objective.settings, data, stream, batch, reward))
    for turn in range(15):
        batch, draw = choose(stream), chooser.ask()
        trains = np.asarray(batch.trains)
        assert draw.tasks.tolist() == batch.chosen[trains].tolist(), f"turn {turn}"
        assert (np.asarray(data.starts)[draw.tasks] + draw.rows).tolist() == batch.rows[trains].tolist(), f"turn {turn}"
        rewards = np.where(trains, np.sin(2.0 * batch.chosen + turn + 0.1 * np.arange(6)), 0).astype(np.float32)
        chooser.tell(draw, rewards[trains])
        stream = told(stream, batch, rewards)


class TestBatches:
    """Rows by hand: tasks of 12, 20 and 9 rows, batches of four."""

    def walk(self, order, cursor="rested", abstain=False):
        """The batches of a fixed schedule, and the stream after them."""
        tasks = make_tasks(sizes=(12, 20, 9))
        objective = objective_for(tasks, cursor=cursor, abstain=abstain)
        data, scheduler = device_data(tasks), follow(order)
        stream = first_stream(scheduler, data, 3, jax.random.key(0))
        batches = []
        for number in range(len(order)):
            batches.append(next_batch(scheduler, objective, data, stream))
            stream = advance(scheduler, objective.settings, data, stream, batches[-1], jnp.float32(number))
        return tasks, batches, stream

    def test_a_batch_is_the_tasks_rows_from_its_cursor_on_and_wraps(self):
        tasks, batches, stream = self.walk([2, 0, 2, 2])
        assert [batch.rows.tolist() for batch in batches] == [
            [32, 33, 34, 35],
            [0, 1, 2, 3],
            [36, 37, 38, 39],
            [40, 32, 33, 34],
        ]
        assert all(batch.trains for batch in batches)
        assert stream.cursors.tolist() == [4, 0, 3]
        assert stream.drawn[0].tolist() == np.bincount(tasks.tasks[0].labels[:4], minlength=3).tolist()
        assert stream.drawn.sum(axis=1).tolist() == [4, 0, 12]

    def test_labels_are_those_at_the_cursors_when_the_batch_was_drawn(self):
        tasks, batches, _ = self.walk([2, 0, 2])
        for batch, places in zip(batches, ([0, 0, 0], [0, 0, 4], [4, 0, 4]), strict=True):
            expected = [task.labels[place] for task, place in zip(tasks.tasks, places, strict=True)]
            assert batch.labels.tolist() == expected

    def test_the_scheduler_is_told_each_reward_in_its_turn(self):
        _, _, stream = self.walk([2, 0, 1])
        assert stream.scheduler[1].tolist() == [0, 1, 2]

    @pytest.mark.parametrize("cursor", ["rested", "global"])
    def test_abstaining_names_no_rows_that_count_and_moves_nothing(self, cursor):
        _, batches, stream = self.walk([3, 2, 3], cursor, abstain=True)
        _, _, plain = self.walk([2], cursor)
        assert [bool(batch.trains) for batch in batches] == [False, True, False]
        assert [int(batch.chosen) for batch in batches] == [3, 2, 3]
        assert stream.cursors.tolist() == plain.cursors.tolist()
        assert stream.drawn.tolist() == plain.drawn.tolist()


class TestRewardRows:
    def test_rewards_are_measured_on_a_fixed_subset(self):
        tasks = make_tasks(validation=20)
        config = ms.AlgorithmOne(reward_rows=5)
        data = device_data(tasks, config)
        assert data.reward_rows.inputs.shape == (5, 4)
        labels = tasks.validation.labels
        everyone = {row.tobytes(): label for row, label in zip(tasks.validation.inputs, labels, strict=True)}
        mine = [row.tobytes() for row in np.asarray(data.reward_rows.inputs)]
        assert len(set(mine)) == 5
        assert [everyone[row] for row in mine] == data.reward_rows.labels.tolist()
        np.testing.assert_array_equal(device_data(tasks, config).reward_rows.inputs, data.reward_rows.inputs)

    def test_more_rows_than_there_are_means_all(self):
        tasks = make_tasks(validation=10)
        data = device_data(tasks, ms.AlgorithmOne(reward_rows=50))
        np.testing.assert_array_equal(data.reward_rows.inputs, tasks.validation.inputs)

    def test_only_what_schedulers_are_told_changes(self):
        tasks = make_tasks(validation=20)
        config = {"batch_size": 4, "updates": 3, "eval_every": 3, "gradient": "first-order"}
        runs = [
            ms.train(tasks, "cyclic", network=mlp(3, (6,)), learner=ms.AlgorithmOne(**config, reward_rows=rows))
            for rows in (None, 5)
        ]
        assert runs[0].records == runs[1].records


def test_with_a_balanced_loss_labels_are_counted_within_each_task():
    tasks = make_tasks()
    data = device_data(tasks, ms.AlgorithmOne(balanced_loss=True))
    for task, begin in zip(tasks.tasks, np.asarray(data.starts), strict=True):
        mine = np.exp(np.asarray(data.log_weights[begin : begin + len(task)], np.float64))
        np.testing.assert_allclose(mine, 1 / np.bincount(task.labels)[task.labels], rtol=1e-5)
    assert device_data(tasks).log_weights is None


def test_all_tasks_lie_end_to_end_and_test_rows_stay_behind():
    tasks = make_tasks(sizes=(12, 20, 9))
    data = device_data(tasks)
    for task, begin, size in zip(tasks.tasks, data.starts.tolist(), data.sizes.tolist(), strict=True):
        rows = data.sources.take(slice(begin, begin + size))
        np.testing.assert_array_equal(rows.inputs, task.inputs)
        np.testing.assert_array_equal(rows.labels, task.labels)
    held = {row.tobytes() for rows in (data.sources, data.validation) for row in np.asarray(rows.inputs)}
    assert held.isdisjoint(row.tobytes() for row in tasks.test.inputs)
