import json

import pytest

import metasched as ms
from helpers import make_tasks
from metasched.errors import RunError
from metasched.runs import folder
from metasched.runs.train import jobs_of


@pytest.fixture(scope="module")
def description():
    return jobs_of(make_tasks(), "mlp", "ucb", ms.TrainConfig(batch_size=4), (0,), {}, learner="meta")[0].description


def test_what_is_created_is_described(tmp_path, description):
    folder.create(tmp_path / "run", description)
    assert folder.describe(tmp_path / "run") == description


def test_a_folder_that_holds_something_is_left_alone(tmp_path, description):
    (tmp_path / "mine.txt").write_text("precious")
    with pytest.raises(RunError, match="already exists and is no run; choose another --out"):
        folder.create(tmp_path, description)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_a_file_in_the_way_is_said(tmp_path, description):
    (tmp_path / "run").write_text("")
    with pytest.raises(RunError, match="already exists"):
        folder.create(tmp_path / "run", description)
    with pytest.raises(RunError, match="cannot write"):
        folder.create(tmp_path / "run" / "below", description)


@pytest.mark.parametrize(
    ("version", "message"),
    [
        (3, r"written by a newer metasched \(format 3, this one reads 2\); upgrade"),
        (1, r"written by an earlier metasched \(format 1, this one reads 2\); start the run again in another folder"),
    ],
)
def test_a_run_of_another_version_is_not_touched(tmp_path, version, message):
    content = json.dumps({"format": version, "surprise": True})
    (tmp_path / "run.json").write_text(content)
    with pytest.raises(RunError, match=message):
        folder.describe(tmp_path)
    assert (tmp_path / "run.json").read_text() == content


@pytest.mark.parametrize(
    "content", ["", "{", "[]", "{}", '{"format": "x"}', '{"format": 2}', '{"format": 2, "spec": 1}']
)
def test_a_damaged_description_is_named(tmp_path, content):
    (tmp_path / "run.json").write_text(content)
    with pytest.raises(RunError, match=r"run\.json: is damaged") as error:
        folder.describe(tmp_path)
    assert "\n" not in str(error.value)


def test_a_folder_that_is_no_run_is_said(tmp_path):
    with pytest.raises(RunError, match="is not a run folder"):
        folder.describe(tmp_path)


def test_runs_are_found_below_a_folder_but_not_inside_each_other(tmp_path, description):
    for name in ("b/seed-1", "b/seed-0", "a", "a/tensorboard/x", ".hidden/c"):
        (tmp_path / name).mkdir(parents=True, exist_ok=True)
        (tmp_path / name / "run.json").write_text("{}")
    found = [str(path.relative_to(tmp_path)) for path in folder.runs_in(tmp_path)]
    assert found == ["a", "b/seed-0", "b/seed-1"]


def test_a_line_cut_short_by_a_kill_is_dropped(tmp_path):
    for update in (1, 2, 3):
        folder.append_records(tmp_path, [{"seed": 0, "update": update}])
    path = tmp_path / "metrics.jsonl"
    path.write_text(path.read_text()[:-5])
    assert [record["update"] for record in folder.read_records(tmp_path)] == [1, 2]
    assert [record["update"] for record in folder.keep_records(tmp_path, 1)] == [1]
    assert path.read_text() == '{"seed":0,"update":1}\n'


def test_metrics_that_lack_lines_are_refused(tmp_path):
    folder.append_records(tmp_path, [{"seed": 0, "update": 1}])
    with pytest.raises(RunError, match="lines are missing"):
        folder.keep_records(tmp_path, 2)


def test_two_processes_cannot_work_on_one_run(tmp_path):
    pytest.importorskip("fcntl")
    second = folder.locked(tmp_path)
    with folder.locked(tmp_path), pytest.raises(RunError, match="another process is working on this run"):
        second.__enter__()
    with folder.locked(tmp_path):
        pass
