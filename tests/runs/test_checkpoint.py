import os

import numpy as np
import pytest
from safetensors.numpy import save as format_tensors

from metasched.errors import RunError
from metasched.runs import checkpoint

SIZE = 200


def save(folder, update):
    checkpoint.save(folder, {"a": np.full(50, update, np.float32)}, update)


def loaded_update(folder):
    tensors, update = checkpoint.load(folder, SIZE)
    assert np.all(tensors["a"] == update)
    return update


def test_there_is_none_before_the_first(tmp_path):
    assert checkpoint.load(tmp_path, SIZE) is None


def test_the_newest_comes_back_exactly(tmp_path):
    for update in (1, 2, 3):
        save(tmp_path, update)
        assert loaded_update(tmp_path) == update
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "checkpoint.safetensors",
        "previous.safetensors",
    ]
    checkpoint.remove(tmp_path / checkpoint.PREVIOUS)
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint.safetensors"]


@pytest.mark.parametrize("keep", [0, 0.5, 0.99])
def test_a_checkpoint_cut_in_half_falls_back_to_the_one_before(tmp_path, keep):
    save(tmp_path, 1)
    save(tmp_path, 2)
    path = tmp_path / "checkpoint.safetensors"
    path.write_bytes(path.read_bytes()[: int(keep * path.stat().st_size)])
    assert loaded_update(tmp_path) == 1


def test_a_flipped_bit_falls_back_too(tmp_path):
    save(tmp_path, 1)
    save(tmp_path, 2)
    path = tmp_path / "checkpoint.safetensors"
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(bytes(content))
    assert loaded_update(tmp_path) == 1


@pytest.mark.parametrize(
    "metadata", [None, {}, {"checkpoint": "{"}, {"checkpoint": "[]"}, {"checkpoint": '{"update": "2"}'}]
)
def test_a_header_that_lacks_its_facts_falls_back_too(tmp_path, metadata):
    save(tmp_path, 1)
    save(tmp_path, 2)
    (tmp_path / "checkpoint.safetensors").write_bytes(format_tensors({"a": np.full(50, 2, np.float32)}, metadata))
    assert loaded_update(tmp_path) == 1


def test_another_update_in_the_header_is_noticed(tmp_path):
    save(tmp_path, 1)
    save(tmp_path, 2)
    path = tmp_path / "checkpoint.safetensors"
    path.write_bytes(path.read_bytes().replace(b'\\"update\\":2', b'\\"update\\":3'))
    assert loaded_update(tmp_path) == 1


def test_equal_states_are_equal_bytes(tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        checkpoint.save(tmp_path / name, {key: np.ones(3) for key in "abcdef"}, 7)
    one, two = ((tmp_path / name / "checkpoint.safetensors").read_bytes() for name in ("one", "two"))
    assert one == two


def test_a_damaged_checkpoint_never_takes_the_place_of_a_whole_one(tmp_path, monkeypatch):
    """The next save moves what is newest aside: were that the damaged one, a kill would leave nothing whole."""
    save(tmp_path, 1)
    save(tmp_path, 2)
    (tmp_path / "checkpoint.safetensors").write_bytes(b"x")
    assert loaded_update(tmp_path) == 1

    def killed(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(checkpoint, "write_whole", killed)
    with pytest.raises(KeyboardInterrupt):
        save(tmp_path, 2)
    assert loaded_update(tmp_path) == 1


def test_one_larger_than_its_run_can_have_is_not_read(tmp_path):
    save(tmp_path, 1)
    with (tmp_path / "checkpoint.safetensors").open("ab") as stream:
        stream.truncate(2**40)  # sparse: a terabyte that takes no space
    with pytest.raises(RunError, match="has no complete checkpoint"):
        checkpoint.load(tmp_path, SIZE)


def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "checkpoint.safetensors")
    with pytest.raises(RunError, match="has no complete checkpoint"):
        checkpoint.load(tmp_path, SIZE)
    assert checkpoint.updates(tmp_path) == 0


def test_updates_are_told_without_reading_arrays(tmp_path):
    assert checkpoint.updates(tmp_path) == 0
    save(tmp_path, 1)
    save(tmp_path, 2)
    assert checkpoint.updates(tmp_path) == 2
    (tmp_path / "checkpoint.safetensors").write_bytes(b"x")
    assert checkpoint.updates(tmp_path) == 1


def test_when_nothing_is_whole_it_says_so(tmp_path):
    save(tmp_path, 1)
    (tmp_path / "checkpoint.safetensors").write_bytes(b"x")
    with pytest.raises(RunError, match="has no complete checkpoint"):
        checkpoint.load(tmp_path, SIZE)
