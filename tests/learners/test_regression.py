"""Losses of one's own, and numbers to predict in place of labels."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from metasched.meta import loop
from metasched.meta.networks import Network, mlp

import metasched as ms
from helpers import make_regression, make_tasks
from metasched.errors import ConfigError, DataError
from metasched.schedulers.base import Scheduler

LINEAR = Network(
    lambda key, x: {"w": jnp.zeros((x.shape[1], 2)), "b": jnp.zeros(2)},
    lambda weights, x: x @ weights["w"] + weights["b"],
)


def note_taker(length):
    """Draws from task 1 for ever and keeps every reward."""
    return Scheduler(
        lambda key: (jnp.int32(0), jnp.zeros(length)),
        lambda state, labels: jnp.int32(1),
        lambda state, labels, task, reward: (state[0] + 1, state[1].at[state[0]].set(reward)),
    )


class TestOwnLoss:
    def test_scaling_the_inner_loss_is_scaling_the_inner_rate(self):
        def doubled(outputs, label):
            return -2 * jax.nn.log_softmax(outputs)[label]

        def plain(outputs, label):
            return -jax.nn.log_softmax(outputs)[label]

        tasks = make_tasks()
        config = {"batch_size": 4, "meta_updates": 3, "eval_every": 3}
        scaled = ms.train(
            tasks, mlp(3, (6,)), config=ms.TrainConfig(**config, inner_rate=0.05), loss=doubled, target_loss=plain
        )
        usual = ms.train(tasks, mlp(3, (6,)), config=ms.TrainConfig(**config, inner_rate=0.1))
        for found, expected in zip(scaled.records, usual.records, strict=True):
            assert found["loss"] == pytest.approx(expected["loss"], rel=1e-4)
            assert found["tasks"] == expected["tasks"]

    def test_a_target_loss_alone_changes_the_outer_step_only(self):
        tasks = make_tasks()
        config = ms.TrainConfig(batch_size=4, meta_updates=1, validation_batch="all")
        plain = ms.train(tasks, mlp(3, (6,)), config=config)
        other = ms.train(tasks, mlp(3, (6,)), config=config, target_loss=lambda out, label: 7.0 + 0 * out[label])
        assert other.records[0]["loss"] == pytest.approx(7.0)
        assert other.records[0]["validation_accuracy"] == plain.records[0]["validation_accuracy"]

    def test_the_folder_says_that_python_made_it(self, tmp_path):
        tasks = make_tasks()
        config = ms.TrainConfig(batch_size=4, meta_updates=1)
        ms.train(tasks, "mlp", config=config, loss=lambda out, label: -out[label], out=tmp_path / "a")
        with pytest.raises(ms.MetaschedError, match=r"a loss or an optimiser made in Python; call metasched\.train"):
            ms.resume(tmp_path / "a")


class TestRegression:
    def run(self, tasks, **config):
        settings = ms.TrainConfig(
            **{"batch_size": 10, "meta_updates": 60, "inner_rate": 0.2, "outer_rate": 0.1, "eval_every": 60, **config}
        )
        return ms.train(tasks, LINEAR, "cyclic", settings)

    def test_a_linear_function_is_learned(self):
        """Sources without the offsets that make them differ from the target."""
        random = np.random.default_rng(0)
        slopes = random.normal(size=(4, 2))

        def rows(count):
            inputs = random.normal(size=(count, 4))
            return inputs, inputs @ slopes + 1

        tasks = ms.TaskSet.regression({"a": rows(40), "b": rows(30)}, validation=rows(20), test=rows(50))
        run = self.run(tasks)
        assert run.final[0]["test_accuracy"] > 0.99
        assert run.records[0]["loss"] > 10 * run.records[-1]["loss"]

    def test_scores_are_one_minus_the_error_in_units_of_the_validation_variance(self):
        tasks = make_regression()
        settings = ms.TrainConfig(batch_size=10, meta_updates=2, eval_every=1, inner_rate=0.1)
        program = loop.prepare(tasks, LINEAR, ms.schedulers.cyclic(3), settings)
        records = [record for _, chunk in loop.run(program, {0: loop.start(program, 0)}) for record in chunk]
        _, _, last = program.chunk(program.data, program.test, loop.start(program, 0), 0, 2)
        variance = tasks.validation.targets.var(axis=0).sum()
        for weights, name in ((last.adapted, "test_accuracy"), (last.initial, "initial_test_accuracy")):
            error = (np.asarray(LINEAR.apply(weights, tasks.test.inputs)) - tasks.test.targets) ** 2
            assert records[-1]["final"][name] == pytest.approx(1 - error.sum(axis=1).mean() / variance, rel=1e-4)

    def test_the_reward_is_the_papers_with_the_scaled_error(self):
        tasks = make_regression()
        settings = ms.TrainConfig(batch_size=10, meta_updates=1, batches_per_update=3, inner_rate=0.1)
        program = loop.prepare(tasks, LINEAR, note_taker(3), settings)
        state, _, _ = program.chunk(program.data, program.test, loop.start(program, 0), 0, 1)
        task, variance = tasks.tasks[1], tasks.validation.targets.var(axis=0).sum()
        w, b = np.zeros((4, 2)), np.zeros(2)
        for number in range(3):
            rows = [(10 * number + offset) % len(task) for offset in range(10)]
            x, miss = task.inputs[rows], task.inputs[rows] @ w + b - task.targets[rows]
            w, b = w - 0.1 * x.T @ miss / 10, b - 0.1 * miss.mean(axis=0)
            error = ((tasks.validation.inputs @ w + b - tasks.validation.targets) ** 2).sum(axis=1).mean() / variance
            told = float(state.stream.scheduler[1][number])
            assert told == pytest.approx(1 - np.sqrt(number + 1) * error, rel=1e-4)

    def test_schedulers_that_learn_from_rewards_run(self):
        run = ms.train(make_regression(), LINEAR, "ucb", ms.TrainConfig(batch_size=10, meta_updates=2, reward="gain"))
        assert np.isfinite(run.final[0]["test_accuracy"])

    @pytest.mark.parametrize("name", ["gittins", "mdp"])
    def test_a_plan_from_the_initial_model_needs_labels(self, name):
        config = ms.TrainConfig(batch_size=10, meta_updates=2)
        with pytest.raises(ConfigError, match="these tasks have numbers; use a scheduler that learns"):
            ms.train(make_regression(), LINEAR, name, config, scheduler_options={"refresh": 0})

    def test_targets_that_do_not_vary_have_no_unit_for_errors(self):
        random = np.random.default_rng(0)

        def rows(count):
            return random.normal(size=(count, 4)), random.normal(size=(count, 2))

        tasks = ms.TaskSet.regression({"a": rows(20)}, validation=(rows(5)[0], np.ones((5, 2))), test=rows(5))
        with pytest.raises(DataError, match="validation targets are all equal"):
            ms.train(tasks, LINEAR, config=ms.TrainConfig(batch_size=4))
