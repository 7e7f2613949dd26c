"""Event files, read back with TensorBoard's own reader."""

import pytest

import metasched as ms
from metasched.learners.networks import mlp

pytest.importorskip("tensorboard")

CONFIG = ms.AlgorithmOne(batch_size=4, updates=5)


def train(tasks, out, **options):
    known = {"seeds": (0, 7), "out": out, "trackers": ["tensorboard"]}
    return ms.train(tasks, "uniform", network=mlp(3, hidden=(8,)), learner=CONFIG, **known, **options)


def read(folder):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    return EventAccumulator(str(folder)).Reload()


def test_scalars_come_back_at_their_steps(tasks, tmp_path):
    result = train(tasks, tmp_path / "a")
    for seed in (0, 7):
        events = read(tmp_path / "a" / "tensorboard" / f"seed-{seed}")
        records = [record for record in result.records if record["seed"] == seed]
        for name in ("loss", "validation_accuracy", "test_accuracy", "inner_rate", "samples"):
            scalars = events.Scalars(name)
            assert [scalar.step for scalar in scalars] == [1, 2, 3, 4, 5]
            assert [scalar.value for scalar in scalars] == pytest.approx([record[name] for record in records])
        drawn = [events.Scalars(f"drawn/task-{number}")[-1].value for number in range(3)]
        assert drawn == records[-1]["drawn"]
        (final,) = events.Scalars("final/test_accuracy")
        assert final.value == pytest.approx(records[-1]["final"]["test_accuracy"])


def test_the_text_page_says_what_ran(tasks, tmp_path):
    train(tasks, tmp_path / "a")
    events = read(tmp_path / "a" / "tensorboard" / "seed-0")
    (tag,) = events.PluginTagToContent("text")
    (event,) = events.Tensors(tag)
    assert '"batch_size": 4' in event.tensor_proto.string_val[0].decode()


def test_a_run_cut_off_and_continued_has_every_step_once(tasks, tmp_path):
    def stop(record):
        if record["update"] == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(tasks, tmp_path / "a", on_record=stop)
    train(tasks, tmp_path / "a")
    events = read(tmp_path / "a" / "tensorboard" / "seed-0")
    assert [scalar.step for scalar in events.Scalars("loss")] == [1, 2, 3, 4, 5]
