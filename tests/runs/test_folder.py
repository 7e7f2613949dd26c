import json
import os

import pytest

import metasched as ms
from helpers import make_line as line
from helpers import make_tasks
from metasched.errors import RunError
from metasched.runs import folder, records
from metasched.runs.jobs import make_jobs


@pytest.fixture(scope="module")
def description():
    return make_jobs(make_tasks(), "ucb", network="mlp", learner=ms.AlgorithmOne(batch_size=4), seeds=(0,))[
        0
    ].description


def test_what_is_created_is_described(tmp_path, description):
    folder.create({tmp_path / "run": description})
    assert folder.describe(tmp_path / "run") == description


def test_a_folder_that_holds_something_is_left_alone(tmp_path, description):
    (tmp_path / "mine.txt").write_text("precious")
    with pytest.raises(RunError, match="already exists and is not a run; choose another --out"):
        folder.create({tmp_path: description})
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_a_file_in_the_way_is_said(tmp_path, description):
    (tmp_path / "run").write_text("")
    with pytest.raises(RunError, match="already exists"):
        folder.create({tmp_path / "run": description})
    with pytest.raises(RunError, match="cannot write"):
        folder.create({tmp_path / "run" / "below": description})


@pytest.mark.parametrize(
    ("version", "message"),
    [
        (4, r"written by a newer metasched \(format 4, this one reads 3\); install a newer"),
        (1, r"written by an earlier metasched \(format 1, this one reads 3\); start the run again in another folder"),
    ],
)
def test_a_run_of_another_version_is_not_touched(tmp_path, version, message):
    content = json.dumps({"format": version, "surprise": True})
    (tmp_path / "run.json").write_text(content)
    with pytest.raises(RunError, match=message):
        folder.describe(tmp_path)
    assert (tmp_path / "run.json").read_text() == content


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", "{}", "\udcff", "[" * 9999, '{"format": "x"}', '{"format": 3}', '{"format": 3, "spec": 1}'],
)
def test_a_damaged_description_is_named(tmp_path, content):
    (tmp_path / "run.json").write_bytes(content.encode(errors="surrogateescape"))
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


def test_links_are_not_followed_to_runs(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "run.json").write_text("{}")
    (tmp_path / "sent").mkdir()
    (tmp_path / "sent" / "seed-0").symlink_to(tmp_path / "elsewhere")
    assert list(folder.runs_in(tmp_path / "sent")) == []


def test_a_line_cut_short_by_a_kill_is_dropped(tmp_path):
    records.append(tmp_path, [line(1), line(2), line(3)])
    path = tmp_path / "metrics.jsonl"
    path.write_text(path.read_text()[:-5])
    assert records.read(tmp_path) == [line(1), line(2)]
    assert records.read(tmp_path, 1) == [line(1)]
    records.keep(tmp_path, [line(1)])
    assert [json.loads(each) for each in path.read_text().splitlines()] == [line(1)]


class TestKilledWhileBeginning:
    def test_the_rest_of_a_description_is_replaced(self, tmp_path, description):
        (tmp_path / "run").mkdir()
        (tmp_path / "run" / "run.json.part").write_text('{"format": 2, "sp')
        folder.create({tmp_path / "run": description})
        assert folder.describe(tmp_path / "run") == description
        assert sorted(path.name for path in (tmp_path / "run").iterdir()) == [".lock", "run.json"]

    def test_folders_of_seeds_without_runs_are_as_good_as_none(self, tmp_path, description):
        (tmp_path / "run" / "seed-0").mkdir(parents=True)
        (tmp_path / "run" / "seed-1").mkdir()
        (tmp_path / "run" / "seed-1" / "run.json.part").write_text("{")
        folder.refuse_content(tmp_path / "run")
        folder.create({tmp_path / "run" / "seed-0": description})

    def test_what_never_began_says_so(self, tmp_path):
        (tmp_path / "run.json.part").write_text("{")
        with pytest.raises(RunError, match="if a run was to start there, run the same command again"):
            folder.describe(tmp_path)

    def test_all_seeds_have_folders_before_the_first_has_a_run(self, tmp_path, description, monkeypatch):
        def killed(*_):
            raise KeyboardInterrupt

        monkeypatch.setattr(folder, "write_whole", killed)
        with pytest.raises(KeyboardInterrupt):
            folder.create({tmp_path / "seed-0": description, tmp_path / "seed-1": description})
        assert sorted(path.name for path in tmp_path.iterdir()) == ["seed-0", "seed-1"]

    def test_a_seed_that_never_began_is_not_passed_over(self, tmp_path, description):
        folder.create({tmp_path / "seed-0": description})
        (tmp_path / "seed-1").mkdir()
        with pytest.raises(
            RunError, match="seed-1: this run had not started; run again the command that started the others"
        ):
            folder.refuse_unbegun(list(folder.runs_in(tmp_path)))


OURS = ("run.json", "metrics.jsonl", "checkpoint.safetensors", "previous.safetensors", "outcome.jsonl", "model.json")


class TestLinks:
    @pytest.mark.parametrize("name", [".lock", "anything", *OURS, *(f"{name}.part" for name in OURS)])
    def test_a_folder_with_a_link_is_not_written_to(self, tmp_path, name):
        (tmp_path / "precious").write_text("mine")
        (tmp_path / "run").mkdir()
        (tmp_path / "run" / name).symlink_to(tmp_path / "precious")
        with pytest.raises(RunError, match="is a link; remove it"), folder.locked(tmp_path / "run"):
            pass
        assert (tmp_path / "precious").read_text() == "mine"

    def test_a_link_on_the_way_to_a_run_is_refused_and_one_to_all_runs_is_the_users_own(self, tmp_path):
        (tmp_path / "disk" / "a").mkdir(parents=True)
        (tmp_path / "runs").symlink_to(tmp_path / "disk")
        folder.refuse_linked(tmp_path / "runs" / "a", tmp_path / "runs")
        (tmp_path / "disk" / "b").symlink_to(tmp_path)
        with pytest.raises(RunError, match="runs/b: is a link"):
            folder.refuse_linked(tmp_path / "runs" / "b" / "c", tmp_path / "runs")

    def test_records_are_never_added_behind_a_link(self, tmp_path):
        (tmp_path / "precious").write_text("mine")
        (tmp_path / "metrics.jsonl").symlink_to(tmp_path / "precious")
        with pytest.raises(RunError, match="is a link"):
            records.append(tmp_path, [line(1)])
        assert (tmp_path / "precious").read_text() == "mine"


def test_a_lock_that_others_left_keeps_its_content(tmp_path):
    (tmp_path / ".lock").write_text("theirs")
    with folder.locked(tmp_path):
        pass
    assert (tmp_path / ".lock").read_text() == "theirs"


def test_a_pipe_for_a_lock_is_refused_and_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / ".lock")
    with pytest.raises(RunError, match=r"\.lock: is not a file"), folder.locked(tmp_path):
        pass


def test_a_deleted_folder_is_one_sentence(tmp_path):
    gone = tmp_path / "gone"
    for work in (lambda: records.append(gone, [line(1)]), lambda: records.flush(gone)):
        with pytest.raises(RunError, match=r"metrics\.jsonl: cannot write"):
            work()
    with pytest.raises(RunError, match="gone: cannot write"), folder.locked(gone):
        pass


def test_two_processes_cannot_work_on_one_run(tmp_path):
    pytest.importorskip("fcntl")
    second = folder.locked(tmp_path)
    with folder.locked(tmp_path), pytest.raises(RunError, match="another process is working on this run"):
        second.__enter__()
    with folder.locked(tmp_path):
        pass
