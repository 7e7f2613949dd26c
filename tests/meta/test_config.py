from dataclasses import replace

import pytest

from helpers import make_tasks
from metasched import TrainConfig
from metasched.errors import ConfigError


def test_batches_per_update_defaults_to_one_pass_through_the_smallest_task():
    assert TrainConfig(batch_size=4).resolve(make_tasks(sizes=(12, 20, 9))).batches_per_update == 2
    assert TrainConfig(batch_size=4, batches_per_update=7).resolve(make_tasks()).batches_per_update == 7


def test_a_batch_larger_than_a_task_is_refused_by_name():
    with pytest.raises(ConfigError, match="batch_size is 10, but task 'task-2' has 9 rows; give at most 9"):
        TrainConfig(batch_size=10).resolve(make_tasks(sizes=(12, 20, 9)))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("batch_size", 0),
        ("batch_size", 2.5),
        ("meta_updates", 0),
        ("meta_updates", True),
        ("batches_per_update", -1),
        ("steps_per_batch", 0),
        ("inner_rate", 0.0),
        ("inner_rate", -0.1),
        ("outer_rate", float("nan")),
        ("outer_decay", float("inf")),
        ("eval_every", 0),
        ("eval_rows", 0),
        ("validation_batch", "some"),
        ("cursor", "moving"),
        ("reward", "money"),
    ],
)
def test_a_setting_that_makes_no_sense_is_refused_by_name(field, value):
    with pytest.raises(ConfigError, match=f"{field} is "):
        replace(TrainConfig(batch_size=4), **{field: value}).resolve(make_tasks())


def test_no_batches_at_all_is_the_target_only_control():
    assert TrainConfig(batch_size=4, batches_per_update=0).resolve(make_tasks()).batches_per_update == 0
