"""Heads, balanced losses and scores, precision: what outputs are worth, against a second calculation."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from metasched.meta.inner import device_data
from metasched.meta.networks import mlp, num_outputs
from metasched.meta.objective import Learner, heads_of, judge, outputs, score, task_loss
from metasched.meta.outer import first_state, tuned

import metasched as ms
from helpers import make_tasks
from metasched import schedulers


def skewed(test=60):
    """Tasks and a target in which class 0 is four times as frequent as each of the others."""
    random = np.random.default_rng(4)

    def rows(count):
        labels = random.choice(3, count, p=[2 / 3, 1 / 6, 1 / 6])
        return np.eye(3, 4)[labels] + random.normal(size=(count, 4)), labels

    return ms.TaskSet.from_arrays(
        {"a": rows(24), "b": rows(30)}, validation=rows(20), test=rows(test), classes=["x", "y", "z"]
    )


def own_labels():
    random = np.random.default_rng(0)

    def rows(count, classes):
        labels = random.integers(0, classes, count)
        return np.eye(4)[labels] + 0.1 * random.normal(size=(count, 4)), labels

    return ms.TaskSet.from_arrays(
        {"a": rows(40, 4), "b": rows(40, 2)},
        validation=rows(30, 3),
        test=rows(100, 3),
        classes={"a": "pqrs", "b": "tu", "target": "xyz"},
    )


def set_up(tasks, **config):
    settings = ms.TrainConfig(**{"batch_size": 4, **config}).resolve(tasks)
    network = mlp(num_outputs(tasks, settings.heads == "shared"), hidden=(6,))
    learner = Learner(network, schedulers.cyclic(len(tasks.tasks)), settings, heads_of(tasks, settings))
    data = device_data(tasks, settings)
    return learner, data, first_state(learner, data, seed=0)


class TestSharedHead:
    def test_tasks_with_label_sets_of_their_own_are_read_from_the_same_outputs(self):
        tasks = own_labels()
        learner, data, state = set_up(tasks, heads="shared")
        assert num_outputs(tasks, shared=True) == 4
        assert num_outputs(tasks) == 12
        weights = state.parameters.weights
        raw = learner.network.apply(weights, data.validation.inputs)
        for task in range(2):
            head = learner.heads.of_task(jnp.int32(task))
            np.testing.assert_array_equal(outputs(learner, weights, data.validation.inputs, head), raw)

    def test_it_trains_and_draws_as_with_heads_of_their_own(self):
        tasks = own_labels()
        config = ms.TrainConfig(batch_size=10, meta_updates=25, inner_rate=0.1, outer_rate=0.02, eval_every=25)
        finals = {}
        for heads in ("auto", "shared"):
            settings = ms.TrainConfig(**{**vars(config), "heads": heads})
            run = ms.train(tasks, mlp(num_outputs(tasks, heads == "shared"), (8,)), "cyclic", settings)
            finals[heads] = run.final[0]
        assert finals["shared"]["test_accuracy"] > 0.8
        assert finals["shared"]["drawn_by_label"] == finals["auto"]["drawn_by_label"]


class TestBalance:
    def test_a_row_weighs_one_over_the_frequency_of_its_label_in_its_task(self):
        tasks = skewed()
        learner, data, state = set_up(tasks, balanced_loss=True)
        weights, rows = state.parameters.weights, np.array([3, 7, 11, 20, 21])
        emphasis = tuned(data, state.parameters).emphasis[rows]
        found = task_loss(learner, weights, emphasis, data.sources.take(rows), jnp.int32(0))

        task = tasks.tasks[0]
        counts = np.bincount(task.labels)
        total = share = 0.0
        for row in rows:
            scores = np.asarray(learner.network.apply(weights, task.inputs[row : row + 1])[0], np.float64)
            loss = np.log(np.exp(scores).sum()) - scores[task.labels[row]]
            total += loss / counts[task.labels[row]]
            share += 1 / counts[task.labels[row]]
        assert float(found) == pytest.approx(total / share, rel=1e-5)
        plain = task_loss(learner, weights, None, data.sources.take(rows), jnp.int32(0))
        assert abs(float(found) - float(plain)) > 1e-3

    def test_labels_are_counted_within_each_task(self):
        tasks = skewed()
        _, data, _ = set_up(tasks, balanced_loss=True)
        for task, start in zip(tasks.tasks, np.asarray(data.starts), strict=True):
            mine = np.exp(np.asarray(data.emphasis[start : start + len(task)], np.float64))
            np.testing.assert_allclose(mine, 1 / np.bincount(task.labels)[task.labels], rtol=1e-5)

    def test_balanced_accuracy_is_scikit_learns(self):
        metrics = pytest.importorskip("sklearn.metrics")
        tasks = skewed()
        learner, data, state = set_up(tasks, balanced_accuracy=True)
        weights = state.parameters.weights
        predicted = np.asarray(learner.network.apply(weights, data.validation.inputs).argmax(axis=1))
        expected = metrics.balanced_accuracy_score(tasks.validation.labels, predicted)
        assert float(score(learner, weights, data.validation)) == pytest.approx(expected, abs=1e-6)
        assert expected != pytest.approx((predicted == tasks.validation.labels).mean())

    def test_a_class_without_rows_does_not_count(self):
        learner, data, state = set_up(skewed(), balanced_accuracy=True)
        rows = data.validation.take(np.flatnonzero(np.asarray(data.validation.labels) != 1))
        predicted = np.asarray(learner.network.apply(state.parameters.weights, rows.inputs).argmax(axis=1))
        shares = [(predicted[np.asarray(rows.labels) == label] == label).mean() for label in (0, 2)]
        assert float(score(learner, state.parameters.weights, rows)) == pytest.approx(np.mean(shares))

    def test_a_whole_run_reports_it(self):
        config = ms.TrainConfig(batch_size=4, meta_updates=3, balanced_accuracy=True, balanced_loss=True, eval_every=3)
        run = ms.train(skewed(), mlp(3, (6,)), config=config)
        final = run.final[0]
        assert final["test_accuracy"] == final["balanced_test_accuracy"]
        assert final["balanced_test_accuracy"] == pytest.approx(np.mean(final["test_accuracy_by_class"]))


class TestRewardRows:
    def test_rewards_are_measured_on_a_fixed_subset(self):
        tasks = make_tasks(validation=20)
        learner, data, state = set_up(tasks, reward_rows=5)
        assert data.judged.inputs.shape == (5, 4)
        everyone = {row.tobytes() for row in np.asarray(data.validation.inputs)}
        mine = [row.tobytes() for row in np.asarray(data.judged.inputs)]
        assert len(set(mine)) == 5
        assert set(mine) <= everyone
        again = device_data(tasks, learner.config)
        np.testing.assert_array_equal(again.judged.inputs, data.judged.inputs)
        weights = state.parameters.weights
        predicted = learner.network.apply(weights, data.judged.inputs).argmax(axis=1)
        assert float(judge(learner, weights, data.judged).score) == pytest.approx(
            float((predicted == data.judged.labels).mean())
        )

    def test_more_rows_than_there_are_means_all(self):
        tasks = make_tasks(validation=10)
        _, data, _ = set_up(tasks, reward_rows=50)
        np.testing.assert_array_equal(data.judged.inputs, tasks.validation.inputs)

    def test_only_what_schedulers_are_told_changes(self):
        tasks = make_tasks(validation=20)
        config = {"batch_size": 4, "meta_updates": 3, "eval_every": 3}
        runs = [
            ms.train(tasks, mlp(3, (6,)), "cyclic", ms.TrainConfig(**config, reward_rows=rows)) for rows in (None, 5)
        ]
        assert runs[0].records == runs[1].records


class TestPrecision:
    def test_outputs_are_float32_within_one_percent_of_the_largest(self):
        tasks = make_tasks()
        plain, data, state = set_up(tasks)
        short, _, _ = set_up(tasks, precision="bfloat16")
        weights = state.parameters.weights
        exact, rounded = (outputs(learner, weights, data.validation.inputs, 0) for learner in (plain, short))
        assert rounded.dtype == exact.dtype == jnp.float32
        np.testing.assert_allclose(rounded, exact, atol=0.01 * float(jnp.abs(exact).max()))
        assert np.abs(rounded - exact).max() > 0

    def test_it_trains_close_to_float32_and_keeps_float32_weights(self):
        tasks = make_tasks(sizes=(40, 40), validation=20, test=200)
        runs = {}
        for precision in ("float32", "bfloat16"):
            config = ms.TrainConfig(
                batch_size=10, meta_updates=20, inner_rate=0.1, outer_rate=0.02, eval_every=20, precision=precision
            )
            runs[precision] = ms.train(tasks, mlp(3, (8,)), "cyclic", config)
        leaves = jax.tree.leaves(runs["bfloat16"].parameters[0].weights)
        assert {leaf.dtype for leaf in leaves} == {jnp.dtype("float32")}
        accuracy = {name: run.final[0]["test_accuracy"] for name, run in runs.items()}
        assert accuracy["bfloat16"] > 0.9
        assert accuracy["bfloat16"] == pytest.approx(accuracy["float32"], abs=0.05)
        for short, exact in zip(runs["bfloat16"].records, runs["float32"].records, strict=True):
            assert short["loss"] == pytest.approx(exact["loss"], abs=0.1)
