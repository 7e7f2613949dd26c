import jax
import jax.numpy as jnp
import numpy as np
import pytest

import metasched as ms
from helpers import make_regression, make_tasks
from metasched.errors import ConfigError
from metasched.learners import reference_results
from metasched.learners.diagnose import diagnose, stationarity, summarise_errors
from metasched.learners.networks import mlp
from metasched.learners.probe import InitialModel

STICKY = np.full((3, 3), 0.05) + np.eye(3) * 0.85


def tasks_with(labels, own=False):
    random = np.random.default_rng(0)
    rows = {f"task-{number}": (random.normal(size=(len(y), 4)), y) for number, y in enumerate(labels)}
    target = [(random.normal(size=(30, 4)), np.arange(30) % 3) for _ in range(2)]
    classes = {**dict.fromkeys(rows, "pqr"), "target": "xyz"} if own else "xyz"
    return ms.TaskSet.from_arrays(rows, validation=target[0], test=target[1], classes=classes)


def chain(seed, length=300):
    random = np.random.default_rng(seed)
    labels = [0]
    for _ in range(length - 1):
        labels.append(int(random.choice(3, p=STICKY[labels[-1]])))
    return np.array(labels)


def independent(seed, length=300):
    return np.random.default_rng(seed).integers(0, 3, length)


def recommended(labels, own=False):
    return diagnose(tasks_with(labels, own), permutations=499, steps=0)


def together():
    first = chain(1)
    return [first, np.where(np.random.default_rng(0).random(300) < 0.8, first, chain(2)), independent(3)]


def drifting():
    share = np.repeat(np.linspace(0.05, 0.95, 10), 40)
    return [(np.random.default_rng(5).random(400) < share).astype(int), independent(2)]


EVERY = {
    "shuffled": [independent(1), independent(2)],
    "drifting": drifting(),
    "ordered": [chain(1), chain(2), independent(3)],
    "together": together(),
}


@pytest.mark.parametrize("learner", ["joint", "meta"])
@pytest.mark.parametrize("labels", EVERY.values(), ids=list(EVERY))
def test_what_is_recommended_exists_and_is_what_our_results_bear_out(labels, learner):
    result = diagnose(tasks_with(labels), permutations=499, steps=0, learner=learner)
    assert result.recommendation in ms.schedulers.names()
    usual, shown = reference_results.best(learner), reference_results.ORDER[learner].get(result.recommendation)
    assert result.recommendation == usual or shown[usual][1] > 0


@pytest.mark.parametrize("labels", EVERY.values(), ids=list(EVERY))
def test_the_reason_is_one_sentence_with_a_number_of_our_results(labels):
    reason = recommended(labels).reason
    assert reference_results.why("joint") in reason
    assert not reason.endswith(".")
    assert ". " not in reason


def test_shuffled_labels_have_no_order():
    assert "order carries no information here" in recommended(EVERY["shuffled"]).reason


def test_drift_is_told_from_dependence():
    result = recommended(EVERY["drifting"])
    assert "drift" in result.reason
    assert "task-0" in result.reason


def test_order_is_said_and_whether_knowing_it_has_paid():
    reason = recommended(EVERY["ordered"]).reason
    assert "2 of 3 tasks" in reason
    assert "knowing the order is not shown to pay" in reason


def test_tasks_that_move_together_are_named():
    assert "tasks move together (task-0 with task-1)" in recommended(EVERY["together"]).reason


def test_labels_of_their_own_are_never_called_joint():
    result = recommended([chain(1), chain(1)], own=True)
    assert "move together" not in result.reason
    assert result.association is None


def test_p_values_are_corrected_over_tasks():
    result = recommended([independent(seed) for seed in range(4)])
    raw = np.array([order.p_value for order in result.orders])
    assert np.all(result.p_values >= raw)
    assert result.p_values.min() == pytest.approx(min(1, 4 * raw.min()))


def test_the_reward_is_followed_when_asked():
    result = diagnose(make_tasks(), mlp(3, (6,)), ms.AlgorithmOne(batch_size=3), permutations=99, steps=10)
    assert result.stationarity.errors.shape == (3, 10, 3)


def test_says_what_it_does_before_it_does_it():
    steps = []
    config = ms.AlgorithmOne(batch_size=4)
    diagnose(make_tasks(), learner=config, permutations=9, steps=2, on_step=lambda *step: steps.append(step))
    assert steps == [*((n, 4, f"order of task-{n}") for n in range(3)), (3, 4, "reward over 2 steps")]


def test_numbers_to_predict_are_diagnosed_without_the_reward():
    assert diagnose(make_regression(), permutations=9, steps=5).stationarity is None


@pytest.mark.parametrize("seed", [-1, 2**32, 2**63, 1.5])
def test_a_seed_that_repeats_another_is_refused(seed):
    with pytest.raises(ConfigError, match="give a whole number from 0 to 4294967295"):
        diagnose(make_tasks(), permutations=9, steps=0, seed=seed)


# How validation errors fall while one task is trained on, against known powers and plain SGD.


def test_errors_that_fall_like_a_power_give_that_power():
    time = np.arange(1, 121)[:, None]
    errors = 0.9 * time ** -np.array([0.5, 0.25, 1.0])
    result = summarise_errors(errors[None])
    np.testing.assert_allclose(result.exponent, [[0.5, 0.25, 1.0]], atol=1e-12)
    assert result.variation[0, 0] == pytest.approx(0, abs=1e-12)
    assert result.variation[0, 1] > 0.1


def test_errors_of_zero_are_left_out_of_the_fit():
    errors = 0.9 * np.arange(1, 121.0)[:, None] ** -0.5
    errors[50:60] = 0
    assert summarise_errors(errors[None]).exponent[0, 0] == pytest.approx(0.5, abs=1e-9)


def test_a_class_that_is_always_right_or_never_seen_says_nothing():
    errors = np.column_stack([np.zeros(20), np.full(20, np.nan)])
    result = summarise_errors(errors[None])
    assert np.isnan(result.exponent).all()
    assert result.variation[0, 0] == 0
    assert np.isnan(result.variation[0, 1])


def test_following_a_task_is_plain_sgd():
    tasks, network = make_tasks(sizes=(12, 20, 9), validation=40), mlp(3, hidden=(6,))
    weights = network.init(jax.random.key(0), jnp.zeros((1, 4)))

    def loss(weights, inputs, labels, task):
        del task
        return -jax.nn.log_softmax(network.apply(weights, inputs))[jnp.arange(len(labels)), labels].mean()

    def hits(weights):
        return network.apply(weights, tasks.validation.inputs).argmax(axis=1) == tasks.validation.labels

    result = stationarity(InitialModel(loss, hits, None), weights, 0.5, tasks, steps=7, batch_size=2)
    assert result.errors.shape == (3, 7, 3)
    task, fitted, slope = tasks.tasks[2], weights, jax.jit(jax.grad(loss))
    for step in range(7):
        rows = [(2 * step) % 9, (2 * step + 1) % 9]
        gradient = slope(fitted, task.inputs[rows], task.labels[rows], 2)
        fitted = jax.tree.map(lambda w, g: w - 0.5 * g, fitted, gradient)
    right = np.asarray(hits(fitted))
    expected = [1 - right[tasks.validation.labels == label].mean() for label in range(3)]
    np.testing.assert_allclose(result.errors[2, -1], expected)
