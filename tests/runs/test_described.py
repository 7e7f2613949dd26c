import json
from copy import deepcopy

import pytest

import metasched as ms
from helpers import make_tasks
from metasched.errors import RunError
from metasched.runs import folder
from metasched.runs.described import stored_job
from metasched.runs.train import jobs_of

CONFIG = ms.TrainConfig(batch_size=4, batches_per_update=2, meta_updates=2)
STRANGE = [None, True, -1, 2**70, 1.5, "", "x", [], {}, [[1]], {"x": 1}]


@pytest.fixture(scope="module")
def tasks():
    return make_tasks()


@pytest.fixture
def written(tmp_path, tasks):
    """What ``run.json`` holds, of a run that takes options."""
    jobs = jobs_of(tasks, "mlp", "epsilon_greedy", CONFIG, (0,), {"epsilon": 0.2}, out=tmp_path / "a")
    folder.create({tmp_path / "a": jobs[0].description})
    return tmp_path / "a", json.loads((tmp_path / "a" / "run.json").read_text())


def leaves(value, path=()):
    """The path of every value that holds no others, and of every object."""
    yield path
    if isinstance(value, dict):
        for key, inside in value.items():
            yield from leaves(inside, (*path, key))


def with_value(content, path, value):
    changed = deepcopy(content)
    inside = changed
    for key in path[:-1]:
        inside = inside[key]
    inside[path[-1]] = value
    return changed


def test_what_was_begun_can_be_gone_on_with(written, tasks):
    where, _ = written
    job = stored_job(where, folder.describe(where), tasks)
    assert (job.description, job.folder) == (folder.describe(where), where)


def test_no_value_of_another_type_anywhere_is_more_than_one_line(written, tasks):
    where, content = written
    paths = [path for path in leaves(content) if path]
    assert ("spec", "config", "batch_size") in paths
    said = []
    for number, path in enumerate(paths):
        for value in (STRANGE[number % len(STRANGE)], STRANGE[(number + 5) % len(STRANGE)]):
            (where / "run.json").write_text(json.dumps(with_value(content, path, value)))
            try:
                stored_job(where, folder.describe(where), tasks)
            except RunError as error:
                said.append(str(error))
    assert len(said) > len(paths)
    assert [each for each in said if "\n" in each or str(where) not in each] == []


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        (("spec", "seed"), 2**40, "describes no run .*seed.* 1099511627776"),
        (("spec", "seed"), -1, r"is damaged .*\$\.spec\.seed"),
        (("spec", "surprise"), 1, "is damaged .*unknown field `surprise`"),
        (("spec", "config", "surprise"), 1, "a setting 'surprise' that this metasched does not know"),
        (("spec", "config", "batch_size"), "4", "describes no run .*batch_size is '4'"),
        (("spec", "config", "reward"), "fame", "describes no run .*unknown reward 'fame'"),
        (("spec", "learner"), "nobody", "describes no run .*unknown learner 'nobody'"),
        (("spec", "network"), "rnn", "describes no run"),
        (("spec", "scheduler"), "fate", "describes no run .*unknown scheduler 'fate'"),
        (("spec", "scheduler"), "single:x", "describes no run"),
        (("spec", "options"), {"epsilon": "much"}, "describes no run"),
        (("about", "tasks"), ["one"], "names 1 tasks, the data have 3"),
    ],
)
def test_what_is_wrong_is_named(written, tasks, path, value, said):
    where, content = written
    (where / "run.json").write_text(json.dumps(with_value(content, path, value)))
    with pytest.raises(RunError, match=said):
        stored_job(where, folder.describe(where), tasks)
