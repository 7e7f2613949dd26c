"""Heads, losses and scores, precision: what outputs are worth, against a second calculation."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.metrics import r2_score

import metasched as ms
from helpers import make_own_label_tasks, make_regression, make_tasks
from metasched.errors import DataError
from metasched.learners.losses import (
    Rows,
    objective_of,
    outputs,
    row_losses,
    row_scores,
    score,
    squared_error,
    task_loss,
    unit_of,
)
from metasched.learners.networks import Network, mlp, num_outputs
from metasched.learners.stream import device_data
from scenes import first_of, objective_for, program_for, run_all, start

LINEAR = Network(
    lambda key, x: {"w": jnp.zeros((x.shape[1], 2)), "b": jnp.zeros(2)},
    lambda weights, x: x @ weights["w"] + weights["b"],
)

LINEAR_ONE = LINEAR._replace(init=lambda key, x: {"w": jnp.zeros((x.shape[1], 1)), "b": jnp.zeros(1)})


def skewed(test=60):
    """Tasks and a target in which class 0 is four times as frequent as each of the others."""
    random = np.random.default_rng(4)

    def rows(count):
        labels = random.choice(3, count, p=[2 / 3, 1 / 6, 1 / 6])
        return np.eye(3, 4)[labels] + random.normal(size=(count, 4)), labels

    return ms.TaskSet.from_arrays(
        {"a": rows(24), "b": rows(30)}, validation=rows(20), test=rows(test), classes=["x", "y", "z"]
    )


def set_up(tasks, **config):
    """Objective, data and λ before any training."""
    objective = objective_for(tasks, **config)
    data = device_data(tasks, objective.settings)
    return objective, data, first_of(objective, data)[1].parameters


class TestHeads:
    """Label sets of their own: four, two and three classes."""

    @pytest.fixture(scope="class")
    @classmethod
    def own(cls):
        return set_up(make_own_label_tasks())

    def test_a_class_that_a_head_does_not_have_is_never_predicted(self, own):
        objective, _, parameters = own
        inputs = jax.random.normal(jax.random.key(0), (500, 4)) * 10
        for head, classes in ((0, 4), (1, 2), (2, 3)):
            predicted = outputs(objective, parameters.weights, inputs, head).argmax(axis=1)
            assert set(np.unique(predicted)) <= set(range(classes))
            assert len(np.unique(predicted)) > 1

    def test_accuracy_reads_the_targets_head(self, own):
        objective, data, parameters = own
        raw = objective.network.apply(parameters.weights, data.validation.inputs)
        expected = raw.reshape(30, 3, 4)[:, 2, :3].argmax(axis=1) == data.validation.labels
        np.testing.assert_array_equal(row_scores(objective, parameters.weights, data.validation), expected)

    def test_a_shared_head_reads_all_tasks_from_the_same_outputs(self):
        tasks = make_own_label_tasks()
        objective, data, parameters = set_up(tasks, heads="shared")
        assert num_outputs(tasks, shared=True) == 4
        assert num_outputs(tasks) == 12
        raw = objective.network.apply(parameters.weights, data.validation.inputs)
        for task in range(2):
            head = objective.heads.of_task(jnp.int32(task))
            np.testing.assert_array_equal(outputs(objective, parameters.weights, data.validation.inputs, head), raw)

    def test_a_shared_head_trains_and_draws_as_heads_of_their_own(self):
        tasks = make_own_label_tasks()
        config = {"batch_size": 10, "updates": 25, "inner_rate": 0.1, "outer_rate": 0.02, "eval_every": 25}
        finals = {}
        for heads in ("auto", "shared"):
            network = mlp(num_outputs(tasks, heads == "shared"), (8,))
            run = ms.train(tasks, "cyclic", network=network, learner=ms.AlgorithmOne(**config, heads=heads))
            finals[heads] = run.final[0]
        assert finals["shared"]["test_accuracy"] > 0.8
        assert finals["shared"]["drawn_by_label"] == finals["auto"]["drawn_by_label"]


class TestBalance:
    def test_a_row_weighs_one_over_the_frequency_of_its_label_in_its_task(self):
        tasks = skewed()
        objective, data, parameters = set_up(tasks, balanced_loss=True)
        weights, rows = parameters.weights, np.array([3, 7, 11, 20, 21])
        shares = jax.nn.softmax(data.log_weights[rows])
        found = task_loss(objective, weights, shares, data.sources.take(rows), jnp.int32(0))

        task = tasks.tasks[0]
        counts = np.bincount(task.labels)
        total = share = 0.0
        for row in rows:
            scores = np.asarray(objective.network.apply(weights, task.inputs[row : row + 1])[0], np.float64)
            loss = np.log(np.exp(scores).sum()) - scores[task.labels[row]]
            total += loss / counts[task.labels[row]]
            share += 1 / counts[task.labels[row]]
        assert float(found) == pytest.approx(total / share, rel=1e-5)
        plain = task_loss(objective, weights, None, data.sources.take(rows), jnp.int32(0))
        assert abs(float(found) - float(plain)) > 1e-3

    def test_balanced_accuracy_is_scikit_learns(self):
        metrics = pytest.importorskip("sklearn.metrics")
        tasks = skewed()
        objective, data, parameters = set_up(tasks, balanced_accuracy=True)
        weights = parameters.weights
        predicted = np.asarray(objective.network.apply(weights, data.validation.inputs).argmax(axis=1))
        expected = metrics.balanced_accuracy_score(tasks.validation.labels, predicted)
        assert float(score(objective, weights, data.validation)) == pytest.approx(expected, abs=1e-6)
        assert expected != pytest.approx((predicted == tasks.validation.labels).mean())

    def test_a_class_without_rows_does_not_count(self):
        objective, data, parameters = set_up(skewed(), balanced_accuracy=True)
        rows = data.validation.take(np.flatnonzero(np.asarray(data.validation.labels) != 1))
        predicted = np.asarray(objective.network.apply(parameters.weights, rows.inputs).argmax(axis=1))
        shares = [(predicted[np.asarray(rows.labels) == label] == label).mean() for label in (0, 2)]
        assert float(score(objective, parameters.weights, rows)) == pytest.approx(np.mean(shares))

    def test_a_whole_run_reports_it(self):
        config = ms.AlgorithmOne(
            batch_size=4, updates=3, balanced_accuracy=True, balanced_loss=True, eval_every=3, gradient="first-order"
        )
        final = ms.train(skewed(), "cyclic", network=mlp(3, (6,)), learner=config).final[0]
        assert final["test_accuracy"] == final["balanced_test_accuracy"]
        assert final["balanced_test_accuracy"] == pytest.approx(np.mean(final["test_accuracy_by_class"]))


class TestPrecision:
    def test_outputs_are_float32_within_one_percent_of_the_largest(self):
        tasks = make_tasks()
        plain, data, parameters = set_up(tasks)
        short, _, _ = set_up(tasks, precision="bfloat16")
        exact, rounded = (
            outputs(objective, parameters.weights, data.validation.inputs, 0) for objective in (plain, short)
        )
        assert rounded.dtype == exact.dtype == jnp.float32
        np.testing.assert_allclose(rounded, exact, atol=0.01 * float(jnp.abs(exact).max()))
        assert np.abs(rounded - exact).max() > 0

    def test_it_trains_close_to_float32_and_keeps_float32_weights(self):
        tasks = make_tasks(sizes=(40, 40), validation=20, test=200)
        runs = {}
        for precision in ("float32", "bfloat16"):
            config = ms.AlgorithmOne(
                batch_size=10, updates=20, inner_rate=0.1, outer_rate=0.02, eval_every=20, precision=precision
            )
            runs[precision] = ms.train(tasks, "cyclic", network=mlp(3, (8,)), learner=config)
        leaves = jax.tree.leaves(runs["bfloat16"].parameters[0].weights)
        assert {leaf.dtype for leaf in leaves} == {jnp.dtype("float32")}
        accuracy = {name: run.final[0]["test_accuracy"] for name, run in runs.items()}
        assert accuracy["bfloat16"] > 0.9
        assert accuracy["bfloat16"] == pytest.approx(accuracy["float32"], abs=0.05)
        for short, exact in zip(runs["bfloat16"].records, runs["float32"].records, strict=True):
            assert short["loss"] == pytest.approx(exact["loss"], abs=0.1)


class TestOwnLoss:
    def test_scaling_the_inner_loss_is_scaling_the_inner_rate(self):
        def doubled(outputs, label):
            return -2 * jax.nn.log_softmax(outputs)[label]

        def plain(outputs, label):
            return -jax.nn.log_softmax(outputs)[label]

        tasks = make_tasks()
        config = {"batch_size": 4, "updates": 3, "eval_every": 3}
        halved, whole = (ms.AlgorithmOne(**config, inner_rate=rate) for rate in (0.05, 0.1))
        known = {"scheduler": "cyclic", "network": mlp(3, (6,))}
        scaled = ms.train(tasks, learner=halved, **known, loss=doubled, target_loss=plain)
        usual = ms.train(tasks, learner=whole, **known)
        for found, expected in zip(scaled.records, usual.records, strict=True):
            assert found["loss"] == pytest.approx(expected["loss"], rel=1e-4)
            assert found["drawn"] == expected["drawn"]

    def test_a_target_loss_alone_changes_the_outer_step_only(self):
        tasks = make_tasks()
        config = ms.AlgorithmOne(batch_size=4, updates=1, target_batch="all", gradient="first-order")
        plain, other = (
            ms.train(tasks, "cyclic", network=mlp(3, (6,)), learner=config, target_loss=loss)
            for loss in (None, lambda out, label: 7.0 + 0 * out[label])
        )
        assert other.records[0]["loss"] == pytest.approx(7.0)
        assert other.records[0]["validation_accuracy"] == plain.records[0]["validation_accuracy"]

    def test_the_folder_says_that_python_made_it(self, tmp_path):
        config = ms.AlgorithmOne(batch_size=4, updates=1, gradient="first-order")
        own = {"loss": lambda out, label: -out[label], "out": tmp_path / "a"}
        ms.train(make_tasks(), "cyclic", network=mlp(3, (6,)), learner=config, **own)
        with pytest.raises(ms.MetaschedError, match=r"made in Python \(.*losses.*\); call metasched\.train"):
            ms.resume(tmp_path / "a")


class TestRegression:
    def test_a_linear_function_is_learned(self):
        """Sources without the offsets that make them differ from the target."""
        random = np.random.default_rng(0)
        slopes = random.normal(size=(4, 2))

        def rows(count):
            inputs = random.normal(size=(count, 4))
            return inputs, inputs @ slopes + 1

        tasks = ms.TaskSet.regression({"a": rows(40), "b": rows(30)}, validation=rows(20), test=rows(50))
        config = ms.AlgorithmOne(batch_size=10, updates=60, inner_rate=0.2, outer_rate=0.1, eval_every=60)
        run = ms.train(tasks, "cyclic", network=LINEAR, learner=config)
        assert run.final[0]["test_accuracy"] > 0.99
        assert run.records[0]["loss"] > 10 * run.records[-1]["loss"]

    def test_scores_are_one_minus_the_error_in_units_of_the_validation_variance(self):
        tasks = make_regression()
        program = program_for(tasks, LINEAR, batch_size=10, updates=2, inner_rate=0.1)
        records = run_all(program, {0: start(program)})[0]
        _, _, last = program.chunk(program.rows.data, program.rows.test, start(program), 0, 2)
        variance = tasks.validation.targets.var(axis=0).sum()
        every = np.concatenate([*(task.targets for task in tasks.tasks), tasks.validation.targets])
        centre, scale = every.mean(axis=0), every.std(axis=0)
        for weights, name in ((last.weights, "test_accuracy"), (last.initial, "initial_test_accuracy")):
            said = centre + scale * np.asarray(LINEAR.apply(weights, tasks.test.inputs))
            error = (said - tasks.test.targets) ** 2
            assert records[-1]["final"][name] == pytest.approx(1 - error.sum(axis=1).mean() / variance, rel=1e-4)

    def test_schedulers_that_learn_from_rewards_run(self):
        config = ms.AlgorithmOne(batch_size=10, updates=2, gradient="first-order")
        run = ms.train(make_regression(), "ucb", network=LINEAR, learner=config, reward="gain")
        assert np.isfinite(run.final[0]["test_accuracy"])

    def test_targets_that_do_not_vary_have_no_unit_for_errors(self):
        random = np.random.default_rng(0)

        def rows(count):
            return random.normal(size=(count, 4)), random.normal(size=(count, 2))

        tasks = ms.TaskSet.regression({"a": rows(20)}, validation=(rows(5)[0], np.ones((5, 2))), test=rows(5))
        with pytest.raises(DataError, match="validation targets are all equal"):
            objective_of(tasks, LINEAR, ms.AlgorithmOne(batch_size=4))
        with pytest.raises(DataError, match="validation targets are all equal"):
            ms.train(tasks, network=LINEAR, learner=ms.AlgorithmOne(batch_size=4))

    def prices(self, factor=1.0, shift=0.0):
        """A linear rule whose numbers lie around 230 ± 40, in any unit."""
        random = np.random.default_rng(1)

        def rows(count):
            inputs = random.normal(size=(count, 4))
            return inputs, factor * (230 + 40 * inputs @ [0.6, -0.5, 0.4, 0.48] + random.normal(size=count)) + shift

        sources = {"a": rows(300), "b": rows(300)}
        return ms.TaskSet.regression(sources, validation=rows(40), test=rows(200))

    def test_numbers_far_from_zero_are_learned_with_the_default_settings_in_whatever_unit(self):
        found = []
        for unit in ((1, 0), (1000, 5e4)):
            run = ms.train(self.prices(*unit), "uniform")
            found.append(run.final[0]["test_accuracy"])
            rows = self.prices(*unit).test
            said = run.model().predict(rows.inputs)
            assert found[-1] == pytest.approx(r2_score(rows.targets[:, 0], said), abs=0.15)
            assert run.model().score(rows.inputs, rows.targets) == pytest.approx(found[-1], abs=1e-5)
        assert found[0] > 0.75
        assert found[1] == pytest.approx(found[0], abs=0.01)

    def test_a_loss_of_ones_own_gets_numbers_as_they_are(self):
        seen = objective_of(self.prices(), LINEAR_ONE, ms.Joint(batch_size=4))
        weights = LINEAR_ONE.init(jax.random.key(0), np.zeros((1, 4)))
        rows = Rows(jnp.zeros((1, 4)), jnp.zeros(1, jnp.int32), jnp.float32([[200.0]]))
        (error,) = row_losses(seen, weights, rows, 0, lambda outputs, target: (outputs - target)[0])
        assert float(error) == pytest.approx(seen.unit.centre[0] - 200, rel=1e-4)
        (usual,) = row_losses(seen, weights, rows, 0, squared_error)
        assert float(usual) == pytest.approx(0.5 * (float(error) / seen.unit.scale[0]) ** 2, rel=1e-4)

    def test_a_number_that_is_the_same_everywhere_is_left_unscaled(self):
        tasks = make_regression()
        flat = replace(
            tasks,
            tasks=tuple(replace(task, targets=_constant_second(task.targets)) for task in tasks.tasks),
            validation=tasks.validation._replace(targets=_constant_second(tasks.validation.targets)),
        )
        assert unit_of(flat).scale[1] == 1
        assert unit_of(flat).centre[1] == pytest.approx(7.3)


def _constant_second(targets):
    return np.column_stack([targets[:, 0], np.full(len(targets), 7.3)]).astype(np.float32)
