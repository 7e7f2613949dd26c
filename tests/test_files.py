import errno
import json
import os
import stat
from pathlib import Path

import pytest

from metasched.errors import RunError
from metasched.files import append, make_folder, natural_order, write_json, write_whole


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
        RunError, match=r"a\.json: no space left on the disk; free some and continue with 'metasched resume"
    ):
        write_json(tmp_path / "a.json", {"x": 2})
    assert json.loads((tmp_path / "a.json").read_text()) == {"x": 1}
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


def test_a_missing_folder_is_one_sentence(tmp_path):
    with pytest.raises(RunError, match=r"a: cannot write \(.*\); make its parent folder first"):
        write_whole(Path(tmp_path / "none" / "a"), b"")


def test_a_folder_in_place_of_a_file_is_one_sentence(tmp_path):
    with pytest.raises(RunError, match=r"cannot write \(.*\); there is a folder of that name; choose another"):
        write_whole(tmp_path, b"")


def test_neither_a_link_nor_one_in_place_of_the_temporary_file_is_written_through(tmp_path):
    (tmp_path / "precious").write_text("mine")
    for name in ("a", "a.part"):
        (tmp_path / name).symlink_to(tmp_path / "precious")
    write_whole(tmp_path / "a", b"new")
    assert (tmp_path / "precious").read_text() == "mine"
    assert (tmp_path / "a").read_bytes() == b"new"
    assert not (tmp_path / "a").is_symlink()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "precious"]


def test_a_temporary_file_that_a_kill_left_is_replaced(tmp_path):
    (tmp_path / "a.part").write_bytes(b"half of someth")
    write_whole(tmp_path / "a", b"whole")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_adding_goes_to_the_end_and_through_no_link(tmp_path):
    append(tmp_path / "a", b"one,")
    append(tmp_path / "a", b"two", durable=True)
    assert (tmp_path / "a").read_bytes() == b"one,two"
    (tmp_path / "b").symlink_to(tmp_path / "a")
    with pytest.raises(RunError, match="b: is a link, and metasched does not write through links; remove it"):
        append(tmp_path / "b", b"three")
    assert (tmp_path / "a").read_bytes() == b"one,two"


def test_a_name_is_flushed_after_what_it_names(tmp_path, monkeypatch):
    """A power cut must not find the new name with the old content behind it, nor lose a name that was told of."""
    events = []
    real = {name: getattr(os, name) for name in ("fsync", "replace")}

    def fsync(descriptor):
        events.append("names" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "content")
        real["fsync"](descriptor)

    def replace(*paths):
        events.append("rename")
        real["replace"](*paths)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "replace", replace)
    write_whole(tmp_path / "a", b"x")
    assert events == ["content", "rename", "names"]


def test_a_file_in_place_of_a_folder_is_one_sentence(tmp_path):
    (tmp_path / "a").write_text("")
    with pytest.raises(RunError, match=r"a: cannot write \(.*\); there is a file of that name; choose another"):
        make_folder(tmp_path / "a")


def test_numbers_in_names_are_sorted_by_their_value():
    names = ["frame10b", "frame10", "B=100", "a", "frame2", "B=20", "frame007", "B=1"]
    ordered = ["B=1", "B=20", "B=100", "a", "frame2", "frame007", "frame10", "frame10b"]
    assert sorted(names, key=natural_order) == ordered
    assert sorted(["x" + "9" * 5000, "x" + "8" * 5001], key=natural_order)[0] == "x" + "9" * 5000
