import sys

import pytest

from helpers import make_tasks
from metasched import Joint, compare
from metasched.errors import ConfigError
from metasched.runs.executors import FEWEST_SECONDS, Machines, executing


@pytest.mark.parametrize(
    ("machines", "message"),
    [
        (Machines("rey"), "unknown executor 'rey'; did you mean 'ray'"),
        (Machines("local", 0), "workers is 0; give a whole number"),
        (Machines("in-process", 2), "'in-process' has no workers"),
        (Machines("local", 2, "auto"), "address is for executor 'ray'"),
    ],
)
def test_what_does_not_fit_together_is_refused_before_anything_is_written(machines, message, tmp_path):
    with pytest.raises(ConfigError, match=message):
        compare(make_tasks(), seeds=2, out=tmp_path / "out", **machines._asdict())
    assert not (tmp_path / "out").exists()


def test_without_ray_one_line_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ConfigError, match=r"pip install 'metasched\[ray\]'"), executing(Machines("ray"), tmp_path, 1):
        pass


def named(seconds, own=False):
    with executing(Machines(), None, seconds, own) as executor:
        return executor.name


def test_auto_takes_other_processes_only_where_there_is_much_to_do(monkeypatch):
    monkeypatch.setattr("metasched.runs.executors.cores", lambda: 4)
    assert named(FEWEST_SECONDS - 1) == "in-process"
    assert named(FEWEST_SECONDS) == "local"
    assert named(FEWEST_SECONDS, own=True) == "in-process"
    monkeypatch.setattr("metasched.runs.executors.cores", lambda: 1)
    assert named(FEWEST_SECONDS) == "in-process"


def test_the_name_of_the_last_version_works_and_says_the_new_one():
    warned = pytest.warns(FutureWarning, match="'here' is now called 'in-process'")
    with warned, executing(Machines("here"), None, 1) as executor:
        assert executor.name == "in-process"
    with pytest.raises(ConfigError, match="'in-process' has no workers"):
        Machines("here", 2).check()


def test_without_a_folder_nothing_is_left_behind(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    tasks = make_tasks(validation=16)
    learner = Joint(updates=2, batches_per_update=2, batch_size=4)
    compare(tasks, ["uniform"], seeds=2, learner=learner, tune=False, executor="local", workers=1)
    assert list(tmp_path.iterdir()) == []
