import errno
import json
from pathlib import Path

import pytest

from metasched.errors import RunError
from metasched.files import write_json, write_whole


def test_a_file_is_replaced_whole(tmp_path):
    write_whole(tmp_path / "a", b"first")
    write_whole(tmp_path / "a", b"second")
    assert (tmp_path / "a").read_bytes() == b"second"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_a_full_disk_leaves_the_old_file_and_no_scraps(tmp_path, monkeypatch):
    write_json(tmp_path / "a.json", {"x": 1})

    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(
        RunError, match=r"a\.json: no space left on the disk; free some and go on with 'metasched resume"
    ):
        write_json(tmp_path / "a.json", {"x": 2})
    assert json.loads((tmp_path / "a.json").read_text()) == {"x": 1}
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


def test_a_missing_folder_is_one_sentence(tmp_path):
    with pytest.raises(RunError, match="cannot write"):
        write_whole(Path(tmp_path / "none" / "a"), b"")
