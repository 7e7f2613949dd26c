"""W&B offline: the file that ``wandb sync`` would send, read back with W&B's own messages."""

import json
import struct

import pytest

import metasched as ms
from metasched.learners.networks import mlp

CONFIG = ms.AlgorithmOne(batch_size=4, updates=5)


@pytest.fixture(autouse=True)
def _offline(monkeypatch):
    monkeypatch.setenv("WANDB_MODE", "offline")
    pytest.importorskip("wandb")


def train(tasks, out, **options):
    options = {"trackers": ["wandb"], **options}
    return ms.train(tasks, "uniform", network=mlp(3, hidden=(8,)), learner=CONFIG, seeds=(0, 7), out=out, **options)


def history(path):
    """(step, values) of every history message; the file is a LevelDB log behind a header of seven bytes."""
    from wandb.proto.wandb_internal_pb2 import Record

    content = path.read_bytes()
    assert len(content) < 32768, "one block is all that this reads"
    place = 7
    while place < len(content):
        _, length, kind = struct.unpack_from("<IHB", content, place)
        assert kind == 1, "a message in one piece"
        message = Record.FromString(content[place + 7 : place + 7 + length])
        place += 7 + length
        if message.WhichOneof("record_type") == "history":
            values = {
                (item.key or "/".join(item.nested_key)): json.loads(item.value_json) for item in message.history.item
            }
            yield message.history.step.num or values["_step"], values


def of_seed(out, seed):
    paths = sorted((out / "wandb").glob(f"offline-run-*-{seed}/*.wandb"))
    return [entry for path in paths for entry in history(path)]


def test_numbers_come_back_at_their_steps(tasks, tmp_path, caplog):
    result = train(tasks, tmp_path / "a")
    assert "failed" not in caplog.text
    for seed in (0, 7):
        records = [record for record in result.records if record["seed"] == seed]
        entries = of_seed(tmp_path / "a", seed)
        assert [step for step, _ in entries] == [1, 2, 3, 4, 5]
        for (_, values), record in zip(entries, records, strict=True):
            assert values["loss"] == record["loss"]
            assert values["drawn/task-2"] == record["drawn"][2]
        assert entries[-1][1]["final/test_accuracy"] == records[-1]["final"]["test_accuracy"]


def test_a_run_cut_off_and_continued_has_every_step_once(tasks, tmp_path):
    def stop(record):
        if record["update"] == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(tasks, tmp_path / "a", on_record=stop)
    train(tasks, tmp_path / "a")
    assert [step for step, _ in of_seed(tmp_path / "a", 0)] == [1, 2, 3, 4, 5]
