import json

import pytest

from metasched.errors import RunError
from metasched.runs import folder


def test_a_folder_that_holds_something_is_left_alone(tmp_path):
    (tmp_path / "mine.txt").write_text("precious")
    with pytest.raises(RunError, match="already exists; choose another --out"):
        folder.create(tmp_path, {})
    folder.create(tmp_path / "run", {})
    with pytest.raises(RunError, match="go on with 'metasched resume"):
        folder.create(tmp_path / "run", {})


def test_a_file_in_the_way_is_said(tmp_path):
    (tmp_path / "run").write_text("")
    with pytest.raises(RunError, match="already exists"):
        folder.create(tmp_path / "run", {})
    with pytest.raises(RunError, match="cannot write"):
        folder.create(tmp_path / "run" / "below", {})


def test_a_run_of_a_newer_version_is_not_touched(tmp_path):
    folder.create(tmp_path / "run", {})
    newer = json.dumps({"format": folder.FORMAT + 1, "surprise": True})
    (tmp_path / "run" / "run.json").write_text(newer)
    with pytest.raises(RunError, match=r"written by a newer metasched \(format 2, this one reads up to 1\); upgrade"):
        folder.describe(tmp_path / "run")
    assert (tmp_path / "run" / "run.json").read_text() == newer


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"format": "x"}'])
def test_a_damaged_description_is_named(tmp_path, content):
    (tmp_path / "run.json").write_text(content)
    with pytest.raises(RunError, match=r"run\.json: is damaged"):
        folder.describe(tmp_path)


def test_a_folder_that_is_no_run_is_said(tmp_path):
    with pytest.raises(RunError, match="is not a run folder"):
        folder.describe(tmp_path)


def test_a_line_cut_short_by_a_kill_is_dropped(tmp_path):
    for update in (1, 2, 3):
        folder.append_records(tmp_path, [{"seed": 0, "update": update}])
    path = tmp_path / "metrics.jsonl"
    path.write_text(path.read_text()[:-5])
    assert [record["update"] for record in folder.read_records(tmp_path)] == [1, 2]
    assert [record["update"] for record in folder.keep_records(tmp_path, {0: 1})] == [1]
    assert path.read_text() == '{"seed":0,"update":1}\n'


def test_metrics_that_lack_lines_are_refused(tmp_path):
    folder.append_records(tmp_path, [{"seed": 0, "update": 1}])
    with pytest.raises(RunError, match="lines of seed 0 are missing"):
        folder.keep_records(tmp_path, {0: 2})


def test_two_processes_cannot_work_on_one_run(tmp_path):
    pytest.importorskip("fcntl")
    second = folder.locked(tmp_path)
    with folder.locked(tmp_path), pytest.raises(RunError, match="another process is working on this run"):
        second.__enter__()
    with folder.locked(tmp_path):
        pass
