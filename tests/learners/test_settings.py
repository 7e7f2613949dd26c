from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers import make_regression, make_tasks
from metasched import AlgorithmOne, Joint
from metasched.errors import ConfigError


@pytest.mark.parametrize(("batching", "batches"), [("mixed", 3), ("per_source", 2)])
def test_batches_per_update_default_to_one_pass_through_the_median_task_or_the_smallest(batching, batches):
    tasks = make_tasks(sizes=(12, 20, 9))
    assert AlgorithmOne(batch_size=4, batching=batching).resolve(tasks).batches_per_update == batches
    assert AlgorithmOne(batch_size=4, batches_per_update=7).resolve(make_tasks()).batches_per_update == 7


def test_a_batch_larger_than_a_task_is_refused_by_name():
    with pytest.raises(ConfigError, match="batch_size is 10, but task 'task-2' has 9 rows; give at most 9"):
        AlgorithmOne(batch_size=10, batching="per_source").resolve(make_tasks(sizes=(12, 20, 9)))


def test_a_mixed_batch_may_be_larger_than_a_task_and_an_update_has_at_least_one():
    assert AlgorithmOne(batch_size=10).resolve(make_tasks(sizes=(12, 20, 9))).batches_per_update == 1


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("batch_size", 0),
        ("batch_size", 2.5),
        ("batch_size", "four"),
        ("batch_size", None),
        ("updates", 0),
        ("updates", True),
        ("batches_per_update", -1),
        ("steps_per_batch", 0),
        ("inner_rate", 0.0),
        ("inner_rate", -0.1),
        ("outer_rate", float("nan")),
        ("rate_decay", float("inf")),
        ("eval_every", 0),
        ("eval_rows", 0),
        ("target_batch", "some"),
        ("cursor", "moving"),
        ("batching", "both"),
        ("reward_rows", 0),
        ("reward_rows", 1.5),
        ("eval_every", True),
        ("balanced_loss", "yes"),
        ("balanced_accuracy", None),
        ("optimiser", "adagrad"),
        ("clip_norm", 0),
        ("clip_norm", -1.0),
        ("clip_norm", float("nan")),
        ("clip_norm", "short"),
        ("heads", "own"),
        ("precision", "float16"),
    ],
)
def test_a_setting_that_makes_no_sense_is_refused_by_name(field, value):
    with pytest.raises(ConfigError, match=f"{field} is "):
        replace(AlgorithmOne(batch_size=4), **{field: value}).resolve(make_tasks())


@pytest.mark.parametrize(("field", "value"), [("learning_rate", 0), ("source_weight", -1.0), ("learning_rate", "fast")])
def test_so_is_one_of_the_joint_learner(field, value):
    with pytest.raises(ConfigError, match=f"{field} is .*; give a number > 0"):
        Joint(batch_size=4, **{field: value}).resolve(make_tasks())


def test_no_batches_at_all_is_the_target_only_control():
    assert AlgorithmOne(batch_size=4, batches_per_update=0).resolve(make_tasks()).batches_per_update == 0


@settings(max_examples=50, deadline=None)
@given(
    batch_size=st.integers(1, 9),
    batches=st.integers(0, 30),
    steps=st.integers(1, 10),
    eval_rows=st.integers(1, 5000),
    updates=st.integers(1, 500),
)
def test_measuring_left_open_takes_at_most_a_tenth_of_the_run(batch_size, batches, steps, eval_rows, updates):
    """In rows passed forward; a differentiated inner step is worth eight passes, the outer gradient three.

    Unless one measurement, which every run ends with, is more than a tenth already.
    """
    tasks = make_tasks(validation=10, test=300)
    config = AlgorithmOne(
        batch_size=batch_size,
        batches_per_update=batches,
        steps_per_batch=steps,
        eval_rows=eval_rows,
        updates=updates,
    ).resolve(tasks)
    training = updates * (8 * batches * steps * batch_size + 3 * min(batch_size, 10))
    one = 2 * min(eval_rows, 300)
    measurements = updates // config.eval_every
    assert 1 <= config.eval_every <= updates
    assert measurements * one <= max(0.1 * training, one)
    if config.eval_every > 1:
        sooner = updates / (config.eval_every - 1)
        assert sooner * one > 0.1 * training, "it could have measured more often"


def test_a_measuring_interval_of_ones_own_stands():
    assert AlgorithmOne(batch_size=4, eval_every=1, eval_rows=30).resolve(make_tasks()).eval_every == 1


@pytest.mark.parametrize(
    ("tasks", "metric", "message"),
    [
        (make_tasks(), "mae", "metric is mae, but these tasks have classes; give accuracy or balanced-accuracy or auc"),
        (make_regression(), "auc", "metric is auc, but these tasks have numbers to predict; give r2 or mae"),
        (make_tasks(), "best", "metric is 'best'; give accuracy or balanced-accuracy or auc or f1 or log-loss or r2"),
    ],
)
def test_a_metric_must_fit_the_answers(tasks, metric, message):
    with pytest.raises(ConfigError, match=message):
        Joint(batch_size=4, metric=metric).resolve(tasks)
