import contextlib
import shutil

import numpy as np
import pytest

from metasched.errors import RunError
from metasched.runs import checkpoint


def save(folder, step):
    checkpoint.save(folder, {"a": np.full(50, step, np.float32)}, {"step": step})


def loaded_step(folder):
    tensors, facts = checkpoint.load(folder)
    assert np.all(tensors["a"] == facts["step"])
    return facts["step"]


def test_there_is_none_before_the_first(tmp_path):
    assert checkpoint.load(tmp_path) is None


def test_the_newest_comes_back_exactly(tmp_path):
    for step in (1, 2, 3):
        save(tmp_path, step)
        assert loaded_step(tmp_path) == step
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "checkpoint.json",
        "checkpoint.safetensors",
        "previous.json",
        "previous.safetensors",
    ]


@pytest.mark.parametrize("keep", [0, 0.5, 0.99])
def test_a_checkpoint_cut_in_half_falls_back_to_the_one_before(tmp_path, keep):
    save(tmp_path, 1)
    save(tmp_path, 2)
    path = tmp_path / "checkpoint.safetensors"
    path.write_bytes(path.read_bytes()[: int(keep * path.stat().st_size)])
    assert loaded_step(tmp_path) == 1


def test_a_flipped_bit_falls_back_too(tmp_path):
    save(tmp_path, 1)
    save(tmp_path, 2)
    path = tmp_path / "checkpoint.safetensors"
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(bytes(content))
    assert loaded_step(tmp_path) == 1


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"step": 2}'])
def test_a_damaged_description_falls_back_too(tmp_path, content):
    save(tmp_path, 1)
    save(tmp_path, 2)
    (tmp_path / "checkpoint.json").write_text(content)
    assert loaded_step(tmp_path) == 1


def test_a_kill_between_any_two_file_operations_loses_at_most_the_new_checkpoint(tmp_path, monkeypatch):
    """Stop the save after its 1st, 2nd, … rename; whatever is left must load as the old or the new checkpoint."""
    base = tmp_path / "base"
    base.mkdir()
    save(base, 1)
    save(base, 2)
    path_type = type(base)
    real = path_type.replace
    for survived in range(7):
        folder = tmp_path / f"killed-{survived}"
        shutil.copytree(base, folder)
        count = 0

        def replace(self, target, survived=survived):
            nonlocal count
            if count == survived:
                raise KeyboardInterrupt
            count += 1
            return real(self, target)

        monkeypatch.setattr(path_type, "replace", replace)
        with contextlib.suppress(KeyboardInterrupt):
            save(folder, 3)
        monkeypatch.setattr(path_type, "replace", real)
        assert loaded_step(folder) in (2, 3)
        save(folder, 4)
        assert loaded_step(folder) == 4


def test_when_nothing_is_whole_it_says_so(tmp_path):
    save(tmp_path, 1)
    (tmp_path / "checkpoint.safetensors").write_bytes(b"x")
    with pytest.raises(RunError, match="no checkpoint is whole"):
        checkpoint.load(tmp_path)
