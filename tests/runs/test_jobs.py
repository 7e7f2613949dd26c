"""Jobs from what a user asks for, and from what a folder describes: words, options, and everything checked."""

import json
from copy import deepcopy
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import metasched as ms
from helpers import make_tasks
from metasched.cli import main
from metasched.errors import ConfigError, RunError
from metasched.learners import reference_results
from metasched.learners.networks import mlp
from metasched.runs import folder
from metasched.runs import train as runs
from metasched.runs.jobs import make_jobs, stored_job
from metasched.runs.spec import first_in_words
from metasched.schedulers import resolve

CONFIG = ms.AlgorithmOne(batch_size=4, updates=3, eval_every=3, inner_rate=0.2)
JOINT = ms.Joint(batch_size=4, batches_per_update=2, updates=2)
NETWORK = mlp(3, (8,))


def run(tasks, scheduler, **options):
    return ms.train(tasks, scheduler, network=NETWORK, learner=CONFIG, **options)


def chosen(word, learner=CONFIG, **options):
    """The description of a run that was asked for by that word."""
    return make_jobs(make_tasks(), word, options=options, learner=learner)[0].description


def test_every_method_says_what_family_it_is():
    families = {name: resolve.family(name) for name in (*resolve.methods(), "single:2")}
    static = {"cyclic", "sequential", "uniform", "proportional"}
    assert {name for name, family in families.items() if family == "static"} == static
    assert {name for name, family in families.items() if family == "control"} == {"single", "target-only", "single:2"}


def test_target_only_has_no_batches_in_algorithm_1_and_abstains_from_each_in_joint_training():
    assert chosen("target-only").spec.settings["batches_per_update"] == 0
    (job,) = make_jobs(make_tasks(), "target-only", learner=JOINT)
    assert (job.spec.settings["batches_per_update"], job.spec.abstain) == (2, True)
    assert job.scheduler.select(job.scheduler.init(jax.random.key(0)), jnp.zeros(3, jnp.int32)) == 3
    with pytest.raises(ConfigError, match="takes no options: leave out upper"):
        run(make_tasks(), "target-only", options={"upper": 1})


@pytest.mark.parametrize("learner", [CONFIG, JOINT])
def test_auto_takes_what_did_best_with_the_learner_and_says_why(learner):
    description = chosen("auto", learner)
    assert description.spec.scheduler == reference_results.best(learner.name)
    assert f"{description.spec.scheduler} ended 0." in description.reason


def test_plan_options_need_a_scheduler_that_plans():
    assert chosen("gittins", discount=0.9).spec.options == {"discount": 0.9}
    with pytest.raises(ConfigError, match="scheduler 'ucb' needs no plan: leave out discount"):
        chosen("ucb", discount=0.9)
    assert chosen("discounted_ucb", discount=0.9).spec.options == {"discount": 0.9}


class TestSingle:
    @pytest.mark.parametrize(("word", "number"), [("task-1", 1), ("2", 1), ("1", 0), ("task-2", 2)])
    def test_a_task_is_named_by_name_or_by_number_from_one(self, tasks, word, number):
        found = run(tasks, f"single:{word}")
        drawn = found.records[-1]["drawn"]
        assert [task for task, rows in enumerate(drawn) if rows] == [number]
        assert found.outcomes[0].spec.scheduler == f"single:{number + 1}"

    def test_a_task_whose_name_is_a_number_goes_by_name(self):
        sources = {name: (task.inputs, task.labels) for name, task in zip("231", make_tasks().tasks, strict=True)}
        target = make_tasks()
        tasks = ms.TaskSet.from_arrays(
            sources,
            validation=(target.validation.inputs, target.validation.labels),
            test=(target.test.inputs, target.test.labels),
            classes=target.classes,
        )
        assert make_jobs(tasks, "single:1", learner=JOINT)[0].spec.scheduler == "single:3"

    @pytest.mark.parametrize("word", ["task-9", "0", "4", "-1", "", "1.0"])
    def test_a_task_that_is_not_there_is_refused_by_name(self, tasks, tmp_path, word):
        with pytest.raises(ConfigError, match=f"unknown task '{word}'.*nown: task-0, task-1, task-2"):
            run(tasks, f"single:{word}", out=tmp_path / "a")
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize(("option", "number"), [({}, 1), ({"task": 2}, 2), ({"task": "task-2"}, 3)])
    def test_an_option_names_the_task_alike(self, option, number):
        assert chosen("single", **option).spec.scheduler == f"single:{number}"

    @pytest.mark.parametrize("task", [0, 4, "task-9", 1.5, None, True])
    def test_an_option_that_names_no_task_is_refused(self, task):
        with pytest.raises(ConfigError, match=r"unknown task .* or give a number from 1 to 3"):
            chosen("single", task=task)

    def test_resume_knows_the_task_again(self, tmp_path):
        ms.datasets.save_npz(make_tasks(), tmp_path / "set.npz")
        tasks = ms.datasets.load(tmp_path / "set.npz")
        whole = ms.train(tasks, "single:task-1", network="mlp", learner=CONFIG, out=tmp_path / "a")
        (tmp_path / "a" / "metrics.jsonl").write_bytes(b"")
        (tmp_path / "a" / "checkpoint.safetensors").unlink()
        assert ms.resume(tmp_path / "a").records == whole.records


@pytest.mark.parametrize(("given", "indices"), [([1, 3], [0, 2]), (["task-1", 1], [1, 0]), ("task-2", [2]), (2, [1])])
def test_uniform_draws_on_the_tasks_that_a_user_names_or_numbers_from_one(given, indices):
    assert chosen("uniform", tasks=given).spec.options == {"tasks": indices}


def test_uniform_refuses_a_task_number_zero():
    with pytest.raises(ConfigError, match="unknown task '0'"):
        chosen("uniform", tasks=[0, 1])


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("mdp", {"method": 5}, "unknown method '5'"),
        ("mdp", {"smoothing": "x"}, "smoothing is 'x'"),
        ("sequential", {"passes": 3}, "passes is 3; give one whole number"),
        ("sequential", {"passes": "x"}, "passes is x; give one whole number"),
        ("sequential", {"passes": [1, 2**40, 1]}, "give one whole number from 1"),
        ("ucb", {"num_tasks": 3}, "option num_tasks of scheduler 'ucb' is set by metasched; leave it out"),
        ("gittins", {"plan": 3}, "option plan of scheduler 'gittins' is set by metasched; leave it out"),
        ("sliding_ucb", {"window": 10**11}, "window is 100000000000; give a whole number from 1"),
    ],
)
def test_ill_typed_options_are_one_line(name, options, message):
    with pytest.raises(ConfigError, match=message):
        chosen(name, **options)


def test_sequential_takes_the_passes_that_a_user_gives():
    assert chosen("sequential", passes=[1, 2, 3]).spec.options == {"passes": [1, 2, 3]}


class TestBestSingle:
    def test_the_best_of_all_single_tasks_is_handed_back(self, tmp_path):
        tasks = make_tasks().variant(noise={"task-0": 1.0, "task-2": 1.0})
        best = run(tasks, "oracle-best-single", out=tmp_path / "best", seeds=(0, 1))
        singles = [run(tasks, f"single:{number}", seeds=(0, 1)) for number in (1, 2, 3)]
        means = [np.mean([final["test_accuracy"] for final in single.final.values()]) for single in singles]
        assert len(set(means)) > 1
        assert best.records == singles[int(np.argmax(means))].records
        assert best.out == tmp_path / "best" / f"single-{int(np.argmax(means)) + 1}"
        for number, single in enumerate(singles, start=1):
            own = tmp_path / "best" / f"single-{number}"
            lines = [
                line for seed in (0, 1) for line in (own / f"seed-{seed}" / "metrics.jsonl").read_text().splitlines()
            ]
            assert [json.loads(line) for line in lines] == list(single.records)

    def test_interrupted_it_goes_on(self, tasks, tmp_path):
        def interrupt(record):
            if record["drawn"][1]:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            run(tasks, "oracle-best-single", out=tmp_path / "a", on_record=interrupt)
        assert not (tmp_path / "a" / "single-3").exists()
        resumed = run(tasks, "oracle-best-single", out=tmp_path / "a")
        assert resumed.records == run(tasks, "oracle-best-single").records

    def test_options_are_refused(self, tasks):
        for name in ("oracle-best-single", "single:1"):
            with pytest.raises(ConfigError, match="takes no options: leave out task"):
                run(tasks, name, options={"task": 2})

    def test_on_the_command_line(self, tmp_path, monkeypatch, capsys):
        monkeypatch.chdir(tmp_path)
        ms.datasets.save_npz(make_tasks(), tmp_path / "set.npz")
        words = ["--batch-size", "4", "--updates", "2", "--out", "a", "--quiet"]
        main(["train", "set.npz", "--scheduler", "oracle-best-single", *words])
        printed = capsys.readouterr().out
        assert "seed 0: test accuracy" in printed
        assert "Run: a/single-" in printed

    def test_interrupted_on_the_command_line_it_says_how_to_go_on(self, tmp_path, monkeypatch, capsys):
        monkeypatch.chdir(tmp_path)
        ms.datasets.save_npz(make_tasks(), tmp_path / "set.npz")

        def interrupted(*arguments, on_record, **options):
            raise KeyboardInterrupt

        monkeypatch.setattr(runs, "train", interrupted)
        with pytest.raises(SystemExit) as stopped:
            main(
                ["train", "set.npz", "--scheduler", "oracle-best-single", "--batch-size", "4", "--out", "a", "--quiet"]
            )
        assert stopped.value.code == 130
        assert "Continue with: the same command again" in capsys.readouterr().err


# Jobs from the description in a folder.

STRANGE = [None, True, -1, 2**70, 1.5, "", "x", [], {}, [[1]], {"x": 1}]


@pytest.fixture
def written(tmp_path, tasks):
    """What ``run.json`` holds, of a run that takes options."""
    jobs = make_jobs(
        tasks, "epsilon_greedy", options={"epsilon": 0.2}, network="mlp", learner=JOINT, seeds=(0,), out=tmp_path / "a"
    )
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
    assert ("spec", "settings", "batch_size") in paths
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
        (("spec", "seed"), 2**40, "does not describe a run .*seed.* 1099511627776"),
        (("spec", "seed"), -1, r"is damaged .*\$\.spec\.seed"),
        (("spec", "surprise"), 1, "is damaged .*unknown field `surprise`"),
        (("spec", "settings", "surprise"), 1, "does not describe a run .*unknown argument 'surprise' of Joint"),
        (("spec", "settings", "batch_size"), "4", "does not describe a run .*batch_size is '4'"),
        (("spec", "reward"), "fame", "does not describe a run .*unknown reward 'fame'"),
        (("spec", "learner"), "nobody", "does not describe a run .*unknown learner 'nobody'"),
        (("spec", "network"), "rnn", "does not describe a run"),
        (("spec", "scheduler"), "fate", "does not describe a run .*unknown scheduler 'fate'"),
        (("spec", "scheduler"), "single:x", "does not describe a run"),
        (("spec", "options"), {"epsilon": "much"}, "does not describe a run"),
        (("about", "tasks"), ["one"], "names 1 tasks, but the data have 3"),
    ],
)
def test_what_is_wrong_is_named(written, tasks, path, value, said):
    where, content = written
    (where / "run.json").write_text(json.dumps(with_value(content, path, value)))
    with pytest.raises(RunError, match=said):
        stored_job(where, folder.describe(where), tasks)


def test_a_metric_that_nobody_gives_leaves_the_name_of_a_run_as_it_was_and_another_is_kept(tmp_path):
    plain, auc = (make_jobs(make_tasks(), "ucb", learner=replace(JOINT, metric=metric))[0] for metric in (None, "auc"))
    assert "metric" not in plain.spec.settings
    assert auc.spec.settings["metric"] == "auc"
    assert plain.spec.name != auc.spec.name
    assert stored_job(tmp_path, plain.description, make_tasks()).settings.metric is None
    assert stored_job(tmp_path, auc.description, make_tasks()).settings.metric == "auc"
    assert first_in_words(plain.spec.differences(auc.spec)) == "with another setting metric (none, not auc)"
