"""What schedulers are told: rewards by name and of one's own, against a second calculation."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import metasched as ms
from helpers import as_float64, make_own_label_tasks, make_regression, make_tasks
from metasched.errors import ConfigError
from metasched.learners import gradients, rewards
from metasched.learners.inner import Scene, Schedule, Start
from metasched.learners.losses import goodness, row_scores
from metasched.learners.networks import Network, mlp
from metasched.learners.rewards import Evaluation, Turn, evaluate
from metasched.learners.stream import device_data
from metasched.schedulers.base import Scheduler
from scenes import first_of, follow, objective_for, program_for, start

ORDER = [1, 2, 0]
RATE = 0.3


def turn_of(number=1, was=(0.0, 0.0), now=(0.0, 0.0)):
    """A turn with nothing in it but its number, and loss and score of the model before and after."""
    was, now = (Evaluation(*map(jnp.float32, judged)) for judged in (was, now))
    return Turn(jnp.int32(number), None, None, was, now, None, None, jnp.bool_(True), None, None)


CALLS = {
    "find": rewards.find,
    "argument": lambda name: ms.train(make_tasks(), learner=ms.AlgorithmOne(batch_size=4), reward=name),
}


class TestRegistry:
    def test_every_name_is_a_function(self):
        assert rewards.names() == ("scaled", "accuracy", "gain", "transfer", "adam_transfer", "alignment")
        assert ms.rewards.names() == rewards.names()
        assert [rewards.find(name) for name in rewards.names()] == [
            *(rewards.scaled, rewards.accuracy, rewards.gain),
            *(rewards.transfer, rewards.adam_transfer, rewards.alignment),
        ]

    @pytest.mark.parametrize("call", CALLS)
    def test_an_unknown_name_is_one_clear_line(self, call):
        with pytest.raises(ConfigError) as error:
            CALLS[call]("gains")
        wanted = f"unknown reward 'gains'; did you mean 'gain'? Known: {', '.join(sorted(rewards.names()))}"
        assert str(error.value) == wanted

    @pytest.mark.parametrize("odd", [3, ["gain"], 0.5])
    def test_what_is_neither_a_name_nor_a_function_is_refused(self, odd):
        with pytest.raises(ConfigError, match="give a name or a function of an objective and a turn"):
            ms.train(make_tasks(), learner=ms.AlgorithmOne(batch_size=4), reward=odd)

    def test_a_function_of_ones_own_is_handed_back(self):
        def own(objective, turn):
            return turn.now.loss

        assert rewards.find(own) is own


class TestByHand:
    def test_scaled_is_the_papers(self):
        scaled = [(0.75, 1, 0.75), (0.75, 16, 0.0), (1.0, 100, 1.0)]
        for score, number, expected in scaled:
            found = rewards.scaled(None, turn_of(number, now=(0.0, score)))
            assert float(found) == pytest.approx(expected), (score, number)

    def test_accuracy_is_the_score_after_the_batch(self):
        assert float(rewards.accuracy(None, turn_of(was=(1.0, 0.25), now=(2.0, 0.5)))) == 0.5

    def test_gain_is_the_loss_that_the_batch_saved(self):
        assert float(rewards.gain(None, turn_of(was=(2.0, 0.1), now=(0.5, 0.2)))) == 1.5


class TestOneOf:
    def test_the_number_decides_when_the_program_runs(self):
        known = (rewards.scaled, rewards.accuracy, rewards.gain)
        turn = turn_of(4, (2.0, 0.1), (0.5, 0.75))
        chosen = jax.jit(lambda which: rewards.one_of(known, which, None, turn))
        for number, reward in enumerate(known):
            assert float(chosen(number)) == float(reward(None, turn))
        assert len({float(chosen(number)) for number in range(len(known))}) == len(known)

    def test_a_whole_number_is_told_as_a_float(self):
        known = (lambda objective, turn: turn.number, lambda objective, turn: 7)
        for which, expected in enumerate((4.0, 7.0)):
            told = rewards.one_of(known, jnp.int32(which), None, turn_of(4))
            assert told.dtype == jnp.float32
            assert float(told) == expected
        assert rewards.one_of(known[1:], jnp.int32(0), None, turn_of(4)).dtype == jnp.float32


def loss_before(objective, turn):
    return rewards.evaluate(objective, turn.before, turn.target).loss


def step_length(objective, turn):
    """How far the batch moved the weights."""
    return sum(((a - b) ** 2).sum() for a, b in zip(*map(jax.tree.leaves, (turn.after, turn.before)), strict=True))


def batch_checksum(objective, turn):
    """Tells which rows the batch had."""
    return (turn.batch.inputs.sum(axis=1) * jnp.arange(1, 5)).sum() + 100 * turn.batch.labels.sum()


KNOWN = (*map(rewards.find, rewards.names()), loss_before, step_length, batch_checksum)


class Told:
    """Three batches of a fixed schedule in one compiled program, in which any of ``KNOWN`` may be told."""

    def __init__(self):
        self.tasks = make_tasks(sizes=(12, 20, 9))
        objective = objective_for(self.tasks, batches_per_update=len(ORDER))
        data = device_data(self.tasks, objective.settings)
        _, state = first_of(objective, data, follow(ORDER))
        self.first, schedule = state.parameters.weights, Schedule(follow(ORDER), KNOWN)

        @jax.jit
        def told(which):
            scene = Scene(objective, schedule, data, data.validation, state.stream, which)
            return gradients.scanned(scene, Start(self.first, jnp.float32(RATE))).stream.scheduler[1]

        self.network, self.told = objective.network, told

    def of(self, reward):
        return np.asarray(self.told(KNOWN.index(reward)))

    def loss(self, weights, x, y):
        return -jax.nn.log_softmax(self.network.apply(weights, x))[jnp.arange(len(y)), y].mean()

    def walk(self):
        """Weights before and after each batch and its rows, on the host."""
        weights, slope = self.first, jax.jit(jax.grad(self.loss))
        for number in ORDER:
            task = self.tasks.tasks[number]
            x, y = task.inputs[:4], task.labels[:4]
            after = jax.tree.map(lambda w, g: w - RATE * g, weights, slope(weights, x, y))
            yield weights, after, x, y
            weights = after


@pytest.fixture(scope="module")
def told():
    return Told()


@pytest.fixture(scope="module")
def turns(told):
    return list(told.walk())


class TestInTheLoop:
    """Each against a second calculation, all in one program."""

    def accuracies(self, told, turns):
        x, y = told.tasks.validation.inputs, told.tasks.validation.labels
        return [
            float((np.asarray(told.network.apply(after, x)).argmax(axis=1) == y).mean()) for _, after, _, _ in turns
        ]

    def losses(self, told, turns, which):
        x, y = told.tasks.validation.inputs, told.tasks.validation.labels
        return np.array([float(told.loss(turn[which], x, y)) for turn in turns])

    def test_accuracy_is_that_of_the_validation_rows(self, told, turns):
        np.testing.assert_allclose(told.of(rewards.accuracy), self.accuracies(told, turns), atol=1e-6)

    def test_scaled_counts_batches_from_one(self, told, turns):
        expected = [1 - t**0.5 * (1 - score) for t, score in enumerate(self.accuracies(told, turns), start=1)]
        np.testing.assert_allclose(told.of(rewards.scaled), expected, atol=1e-6)

    def test_gain_is_by_how_much_the_batch_lowered_the_validation_loss(self, told, turns):
        expected = self.losses(told, turns, 0) - self.losses(told, turns, 1)
        np.testing.assert_allclose(told.of(rewards.gain), expected, atol=1e-6)
        assert np.abs(expected).min() > 1e-3

    def test_a_turn_has_the_weights_before_and_after_and_the_targets_rows(self, told, turns):
        np.testing.assert_allclose(told.of(loss_before), self.losses(told, turns, 0), atol=1e-6)
        moved = [
            sum(float(((a - b) ** 2).sum()) for a, b in zip(*map(jax.tree.leaves, turn[:2]), strict=True))
            for turn in turns
        ]
        np.testing.assert_allclose(told.of(step_length), moved, atol=1e-6)

    def test_a_turn_has_the_batch(self, told, turns):
        expected = [(x.sum(axis=1) * [1, 2, 3, 4]).sum() + 100 * y.sum() for _, _, x, y in turns]
        np.testing.assert_allclose(told.of(batch_checksum), expected, rtol=1e-5)


def test_rewards_let_no_gradient_through():
    tasks = make_tasks()
    objective = objective_for(tasks)
    data = device_data(tasks)
    _, state = first_of(objective, data)
    slope = jax.grad(lambda weights: sum(evaluate(objective, weights, data.reward_rows)))(state.parameters.weights)
    assert all(not np.any(leaf) for leaf in jax.tree.leaves(slope))


def test_judging_counts_the_rows_kept_for_it():
    tasks = make_tasks(validation=20)
    objective = objective_for(tasks, reward_rows=5)
    data = device_data(tasks, objective.settings)
    _, state = first_of(objective, data)
    weights = state.parameters.weights
    predicted = objective.network.apply(weights, data.reward_rows.inputs).argmax(axis=1)
    assert len(predicted) == 5
    expected = float((predicted == data.reward_rows.labels).mean())
    assert float(evaluate(objective, weights, data.reward_rows).score) == pytest.approx(expected)


def test_a_function_of_ones_own_is_what_the_scheduler_of_a_run_is_told():
    """A scheduler that draws the task it was last told, and a reward that tells 1, 2, 0 by the number of the batch."""
    obedient = Scheduler(
        lambda key: jnp.int32(0),
        lambda state, labels: state,
        lambda state, labels, task, reward: jnp.round(reward).astype(jnp.int32),
    )

    def counted(objective, turn):
        return turn.number % 3

    known = {"batch_size": 4, "batches_per_update": 5, "updates": 2, "gradient": "first-order", "eval_every": 2}
    config = ms.AlgorithmOne(**known, batching="per_source")
    run = ms.train(make_tasks(), obedient, network=mlp(3, (6,)), learner=config, reward=counted)
    assert [record["tasks"] for record in run.records] == [[0, 1, 2, 0, 1], [2, 1, 2, 0, 1]]


def test_in_regression_the_reward_is_the_papers_with_the_scaled_error():
    linear = Network(
        lambda key, x: {"w": jnp.zeros((x.shape[1], 2)), "b": jnp.zeros(2)},
        lambda weights, x: x @ weights["w"] + weights["b"],
    )
    tasks = make_regression()
    config = {"batch_size": 10, "updates": 1, "batches_per_update": 3, "inner_rate": 0.1}
    program = program_for(tasks, linear, follow([1, 1, 1]), **config, gradient="first-order")
    state, _, _ = program.chunk(program.rows.data, program.rows.test, start(program), 0, 1)
    task, variance = tasks.tasks[1], tasks.validation.targets.var(axis=0).sum()
    every = np.concatenate([*(own.targets for own in tasks.tasks), tasks.validation.targets])
    centre, scale = every.mean(axis=0), every.std(axis=0)
    w, b = np.zeros((4, 2)), np.zeros(2)
    for number in range(3):
        rows = [(10 * number + offset) % len(task) for offset in range(10)]
        x, miss = task.inputs[rows], task.inputs[rows] @ w + b - (task.targets[rows] - centre) / scale
        w, b = w - 0.1 * x.T @ miss / 10, b - 0.1 * miss.mean(axis=0)
        said = centre + scale * (tasks.validation.inputs @ w + b)
        error = ((said - tasks.validation.targets) ** 2).sum(axis=1).mean() / variance
        told = float(state.stream.scheduler[1][number])
        assert told == pytest.approx(1 - np.sqrt(number + 1) * error, rel=1e-4)


class TestTransfer:
    """r = ⟨∇a(w; S), ∇a(w; T)⟩ / ‖∇a(w; T)‖, and the facts that it rests on."""

    def turn(self, objective, weights, rows, target, head=0, trains=True):
        slope = rewards.target_slope(objective, weights, target)
        return Turn(jnp.int32(1), weights, weights, None, None, rows, jnp.int32(head), jnp.bool_(trains), target, slope)

    def told(self, objective, weights, rows, target, **more):
        return float(rewards.transfer(objective, self.turn(objective, weights, rows, target, **more)))

    @pytest.fixture
    def scene(self):
        tasks = make_tasks(sizes=(400, 20, 9), validation=30)
        objective = objective_for(tasks, hidden=(8,))
        data = device_data(tasks, objective.settings)
        weights = objective.network.init(jax.random.key(0), data.validation.inputs[:1])
        return objective, weights, data.sources.take(slice(0, 400)), data.validation

    @pytest.mark.usefixtures("_float64")
    @pytest.mark.parametrize("kind", ["classes", "balanced", "numbers"])
    def test_it_is_how_fast_the_target_rises_on_the_way_that_the_batch_wants(self, kind):
        """Central differences: a(w + ε·∇a(w; S); T) along the batch's slope, over the length of the target's."""
        tasks = make_regression() if kind == "numbers" else make_tasks(validation=30)
        objective = objective_for(tasks, hidden=(8,), balanced_accuracy=kind == "balanced")
        data = as_float64(device_data(tasks, objective.settings))
        weights = as_float64(objective.network.init(jax.random.key(0), data.validation.inputs[:1]))
        rows, target = data.sources.take(slice(0, 9)), data.validation

        def value(weights, rows):
            return goodness(objective, weights, rows, 0)

        way, step = jax.grad(value)(weights, rows), 1e-5
        ahead, back = (jax.tree.map(lambda w, d, s=s: w + s * d, weights, way) for s in (step, -step))
        rise = (value(ahead, target) - value(back, target)) / (2 * step)
        length = sum((g**2).sum() for g in jax.tree.leaves(jax.grad(value)(weights, target))) ** 0.5
        assert abs(rise) > 1e-4
        assert self.told(objective, weights, rows, target) == pytest.approx(float(rise / length), rel=1e-5)

    def test_the_targets_own_rows_earn_the_length_of_its_slope(self, scene):
        objective, weights, _, target = scene
        slope = jax.tree.leaves(rewards.target_slope(objective, weights, target))
        length = float(sum((g**2).sum() for g in slope) ** 0.5)
        assert self.told(objective, weights, target, target) == pytest.approx(length, rel=1e-5)

    def test_the_same_distribution_earns_most_shuffled_labels_nothing_and_wrong_ones_less(self, scene):
        objective, weights, rows, target = scene
        good = self.told(objective, weights, rows, target)
        wrong = self.told(objective, weights, rows._replace(labels=(rows.labels + 1) % 3), target)
        orders = [np.random.default_rng(seed).permutation(400) for seed in range(30)]
        shuffled = [self.told(objective, weights, rows._replace(labels=rows.labels[order]), target) for order in orders]
        assert good > 0.1
        assert wrong < 0
        assert abs(np.mean(shuffled)) < 0.1 * good

    def test_rows_already_learned_and_hopeless_ones_earn_nothing(self, scene):
        objective, weights, rows, target = scene
        good = self.told(objective, weights, rows, target)
        certain = jax.tree.map(lambda w: 1000 * w, weights)
        right = np.flatnonzero(row_scores(objective, certain, rows) > 0)
        wrong = np.flatnonzero(row_scores(objective, certain, rows) == 0)
        slope = rewards.target_slope(objective, weights, target)
        for chosen in (right, wrong):
            turn = self.turn(objective, certain, rows.take(chosen), target)._replace(slope=slope)
            assert abs(float(rewards.transfer(objective, turn))) < 1e-3 * good

    def test_abstaining_is_worth_zero_and_so_is_a_target_that_is_learned(self, scene):
        objective, weights, rows, target = scene
        assert self.told(objective, weights, rows, target, trains=False) == 0
        turn = self.turn(objective, weights, rows, target)
        flat = turn._replace(slope=jax.tree.map(jnp.zeros_like, turn.slope))
        assert float(rewards.transfer(objective, flat)) == 0
        assert float(rewards.alignment(objective, turn._replace(trains=jnp.bool_(False)))) == 0

    def test_tasks_with_heads_of_their_own_are_compared_by_what_they_share(self):
        tasks = make_own_label_tasks()
        objective = objective_for(tasks, hidden=(8,))
        data = device_data(tasks, objective.settings)
        weights = objective.network.init(jax.random.key(0), data.validation.inputs[:1])
        turn = self.turn(objective, weights, data.sources.take(slice(0, 40)), data.validation, head=0)
        body = [jax.grad(goodness, argnums=1)(objective, weights, turn.batch, 0)[0], turn.slope[0]]
        mine, target = (jnp.concatenate([layer["w"].ravel(), layer["b"]]) for layer in body)
        expected = float(mine @ target / jnp.linalg.norm(target))
        assert float(rewards.transfer(objective, turn)) == pytest.approx(expected, rel=1e-4)

    def test_alignment_is_the_cosine_of_the_two_loss_gradients(self, scene):
        objective, weights, rows, target = scene
        turn = self.turn(objective, weights, rows, target)

        def flat(rows):
            def loss(weights):
                scores = jax.nn.log_softmax(objective.network.apply(weights, rows.inputs))
                return -scores[jnp.arange(len(rows.labels)), rows.labels].mean()

            return jax.flatten_util.ravel_pytree(jax.grad(loss)(weights))[0]

        a, b = flat(rows), flat(target)
        expected = float(a @ b / jnp.linalg.norm(a) / jnp.linalg.norm(b))
        assert float(rewards.alignment(objective, turn)) == pytest.approx(expected, abs=1e-5)

    @pytest.mark.parametrize("learner", ["meta", "joint"])
    def test_the_targets_slope_may_be_kept_for_some_batches(self, learner):
        tasks = make_tasks(sizes=(60, 50, 40))
        known = {"batch_size": 4, "updates": 2, "batches_per_update": 6}
        made = {
            "meta": partial(ms.AlgorithmOne, inner_rate=0.3, outer_rate=0.05),
            "joint": partial(ms.Joint, learning_rate=0.05),
        }
        drawn = {}
        for every in (1, 3):
            settings = made[learner](**known, slope_every=every)
            run = ms.train(tasks, follow([0, 1, 2]), network=mlp(3, (8,)), learner=settings)
            drawn[every] = run.records[-1]["loss"]
        assert drawn[1] == drawn[3], "the slope decides rewards, never the training"

    def test_a_bandit_told_it_draws_from_the_sources_that_help(self):
        tasks = make_tasks(sizes=(60, 60, 60), validation=20).variant(noise={"task-0": 1.0, "task-1": 1.0})
        config = ms.AlgorithmOne(batch_size=10, updates=6, batches_per_update=20, outer_rate=3e-3)
        run = ms.train(tasks, "thompson", network=mlp(3, (8,)), learner=config, reward="transfer")
        drawn = run.records[-1]["drawn"]
        assert drawn[2] > 0.6 * sum(drawn)
