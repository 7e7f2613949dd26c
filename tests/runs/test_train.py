"""A run may be stopped at any moment and ends with the numbers of one that never was."""

import json
import re
from dataclasses import replace

import jax
import numpy as np
import pytest

import metasched as ms
from helpers import Stop, make_tasks, stop_after
from metasched.errors import ConfigError, RunError
from metasched.learners import model_file, reference_results
from metasched.learners.networks import mlp
from metasched.runs import checkpoint, records

CONFIG = ms.AlgorithmOne(batch_size=4, updates=6)
JOINT = ms.Joint(batch_size=4, updates=6)
LEARNERS = {"meta": CONFIG, "joint": JOINT}


def small(tasks):
    return mlp(len(tasks.classes), hidden=(8,))


def run(tasks, **options):
    known = {"network": small(tasks), "scheduler": "cyclic", "learner": CONFIG}
    return ms.train(tasks, **{**known, **options})


class TestTrain:
    def test_a_number_of_seeds_counts_from_zero(self, tasks):
        assert list(run(tasks, seeds=2).final) == [0, 1]
        assert list(run(tasks).final) == [0]

    @pytest.mark.parametrize("seeds", [0, -1, True, 1.5, "2", None, 2**32, [2**32], [2**63], [-1], [], [1, 1]])
    def test_what_is_no_number_and_no_list_of_seeds_is_refused(self, tasks, seeds):
        with pytest.raises(ConfigError, match=r"^seed"):
            run(tasks, seeds=seeds)

    def test_is_shown_as_three_lines(self, tasks, tmp_path):
        what, accuracy, where = repr(run(tasks, scheduler="uniform", seeds=2, out=tmp_path / "a")).splitlines()
        assert what == "Run of uniform on arrays, learner meta, 2 seeds"
        assert re.fullmatch(r"test accuracy 0\.\d{3} \([01]\.\d{3} to [01]\.\d{3}\) on 30 rows", accuracy)
        assert where == f"in {tmp_path / 'a'}"
        assert repr(run(tasks)).endswith("\nin memory only (give out= to keep it)")
        assert repr(run(tasks.variant(target_labels=3))).splitlines()[-1].startswith("! the target has 3 labelled rows")

    def test_returns_records_and_meta_parameters_by_seed(self, tasks):
        result = run(tasks, scheduler="uniform", seeds=(3, 5))
        assert [(record["seed"], record["update"]) for record in result.records] == [
            (seed, update) for seed in (3, 5) for update in range(1, 7)
        ]
        assert set(result.final) == set(result.parameters) == {3, 5}
        assert result.parameters[3].weights[0]["w"].shape == (4, 8)

    def test_a_folder_changes_nothing_about_the_numbers(self, tasks, tmp_path):
        assert run(tasks, out=tmp_path / "a").records == run(tasks).records

    def test_target_only_draws_nothing_from_the_sources(self, tasks):
        records = run(tasks, scheduler="target-only").records
        assert records[-1]["samples"] == 0
        assert records[-1]["final"]["test_accuracy"] == records[-1]["final"]["initial_test_accuracy"]

    @pytest.mark.parametrize("learner", ["joint", "meta"])
    def test_auto_takes_what_did_best_with_the_learner_and_says_why(self, tasks, tmp_path, learner):
        found = run(tasks, scheduler="auto", learner=LEARNERS[learner], out=tmp_path / "a")
        said = json.loads((tmp_path / "a" / "run.json").read_text())
        assert said["method"] == "auto"
        assert said["spec"]["scheduler"] == reference_results.best(learner)
        assert found.reason == said["reason"] == reference_results.why(learner)
        assert run(tasks, scheduler=reference_results.best(learner), learner=LEARNERS[learner]).records == found.records

    def test_left_to_itself_it_trains_jointly_and_chooses_by_transfer(self, tasks):
        left = ms.train(tasks, learner=JOINT)
        spec = left.outcomes[0].spec
        assert (spec.learner, spec.scheduler, spec.options) == ("joint", "thompson", {})
        assert spec.reward == "adam_transfer"
        asked = ms.train(tasks, "thompson", network="auto", learner=JOINT, reward="adam_transfer")
        assert left.records == asked.records

    def test_a_scheduler_of_ones_own_is_taken(self, tasks):
        assert run(tasks, scheduler=ms.schedulers.cyclic(3)).records == run(tasks, scheduler="cyclic").records

    def test_the_folder_says_what_ran(self, tasks, tmp_path):
        run(tasks, scheduler="sequential", seeds=(2,), out=tmp_path / "a")
        description = json.loads((tmp_path / "a" / "run.json").read_text())
        assert description["format"] == 3
        assert (description["method"], description["family"]) == ("sequential", "static")
        spec = description["spec"]
        assert (spec["seed"], spec["scheduler"], spec["own"]) == (2, "sequential", ["network"])
        assert spec["settings"]["batches_per_update"] == 3
        assert spec["data"]["fingerprint"] == tasks.fingerprint
        assert {"python", "jax", "numpy", "metasched"} <= set(spec["versions"])
        lines = (tmp_path / "a" / "metrics.jsonl").read_text().splitlines()
        assert [json.loads(line)["update"] for line in lines] == [1, 2, 3, 4, 5, 6]

    def test_a_finished_run_is_not_run_again(self, tasks, tmp_path):
        first = run(tasks, out=tmp_path / "a")
        before = (tmp_path / "a" / "metrics.jsonl").read_bytes()
        again = run(tasks, out=tmp_path / "a")
        assert again.records == first.records
        assert (tmp_path / "a" / "metrics.jsonl").read_bytes() == before

    @pytest.mark.parametrize(
        ("change", "what"),
        [
            ({"scheduler": "uniform"}, r"with another scheduler \(cyclic, not uniform\)"),
            ({"seeds": (1,)}, r"with another seed \(0, not 1\)"),
            ({"learner": replace(CONFIG, inner_rate=0.5)}, r"with another setting inner_rate \(0.01, not 0.5\)"),
            ({"network": "mlp"}, r"with another network \(own, not mlp\)"),
            ({"tasks": make_tasks(seed=1)}, r"on other rows: .* \(checksum \w{12}, not \w{12}\)"),
        ],
    )
    def test_the_folder_of_another_run_is_refused_with_the_difference_named(self, tmp_path, change, what):
        known = {"tasks": make_tasks(), "scheduler": "cyclic", "out": tmp_path / "a"}
        run(**known)
        with pytest.raises(RunError, match=f"holds a run {what}"):
            run(**{**known, **change})

    def test_more_seeds_in_the_folder_of_one_are_refused(self, tasks, tmp_path):
        run(tasks, out=tmp_path / "a")
        with pytest.raises(RunError, match="holds another run"):
            run(tasks, seeds=(0, 1), out=tmp_path / "a")

    def test_every_seed_is_a_run_in_a_folder_of_its_own(self, tasks, tmp_path):
        run(tasks, seeds=(3, 5), out=tmp_path / "a")
        assert sorted(path.name for path in (tmp_path / "a").iterdir()) == ["seed-3", "seed-5"]
        assert {path.name for path in (tmp_path / "a" / "seed-3").iterdir()} >= {
            *("run.json", "metrics.jsonl", "checkpoint.safetensors", "outcome.jsonl")
        }

    def test_a_reward_of_ones_own_is_told(self, tasks):
        told = run(tasks, scheduler="ucb", reward=lambda objective, turn: turn.was.loss - turn.now.loss)
        assert told.records == run(tasks, scheduler="ucb", reward="gain").records
        assert told.outcomes[0].spec.own == ("network", "reward")

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"scheduler": "cyclick"}, "did you mean 'cyclic'"),
            ({"learner": replace(CONFIG, batch_size=100, batching="per_source")}, "batch_size is 100"),
            ({"seeds": ()}, "seeds are"),
            ({"seeds": (1, 1)}, "seeds are"),
            ({"seeds": (-1,)}, "seed is -1"),
            ({"seeds": (2**32,)}, "seed is 4294967296; give a whole number from 0 to 4294967295"),
            ({"reward": "gian"}, "did you mean 'gain'"),
            ({"learner": replace(CONFIG, gradient="exact")}, "unknown gradient 'exact'"),
            ({"learner": "joynt"}, "unknown learner 'joynt'; did you mean 'joint'"),
            ({"learner": 3}, "learner is 3; give joint, meta"),
            ({"scheduler": 3}, "scheduler is 3; give a name or a Scheduler"),
            ({"abstain": 1}, "abstain is 1; give True or False"),
            ({"options": {"speed": 1}}, "unknown option"),
            ({"network": "rnn"}, "unknown network"),
        ],
    )
    def test_bad_settings_leave_no_folder_behind(self, tasks, tmp_path, options, message):
        with pytest.raises(ConfigError, match=message):
            run(tasks, out=tmp_path / "a", **options)
        assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("checkpoint_seconds", [0, 1000])
@pytest.mark.parametrize("count", [1, 5, 6, 8])
def test_a_run_cut_off_and_continued_ends_with_the_same_numbers(tasks, tmp_path, count, checkpoint_seconds):
    whole = run(tasks, scheduler="uniform", seeds=(0, 1), out=tmp_path / "whole")
    options = {"scheduler": "uniform", "seeds": (0, 1), "out": tmp_path / "cut"}
    with pytest.raises(Stop):
        run(tasks, **options, on_record=stop_after(count), checkpoint_seconds=checkpoint_seconds)
    result = run(tasks, **options)
    assert result.records == whole.records
    for seed in ("seed-0", "seed-1"):
        for name in ("metrics.jsonl", "checkpoint.safetensors", "model.safetensors", "model.json"):
            found, expected = ((tmp_path / out / seed / name).read_bytes() for out in ("cut", "whole"))
            assert found == expected, f"{seed}/{name}"
    for a, b in zip(jax.tree.leaves(result.parameters), jax.tree.leaves(whole.parameters), strict=True):
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()


@pytest.mark.parametrize("name", ["gittins", "mdp"])
def test_schedulers_that_learn_and_may_abstain_resume_exactly_too(name, tmp_path):
    tasks = make_tasks(sizes=(60, 50, 40))
    options = {"scheduler": name, "reward": "gain", "abstain": True}
    whole = run(tasks, **options)
    with pytest.raises(Stop):
        run(tasks, **options, out=tmp_path / "cut", on_record=stop_after(3), checkpoint_seconds=0)
    assert run(tasks, **options, out=tmp_path / "cut").records == whole.records


def test_ctrl_c_keeps_the_work_so_far(tasks, tmp_path):
    def interrupt(record):
        if record["update"] == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(tasks, out=tmp_path / "a", on_record=interrupt, checkpoint_seconds=1000)
    assert checkpoint.updates(tmp_path / "a") >= 4


def test_a_run_whose_newest_checkpoint_is_cut_in_half_goes_on_from_the_one_before(tasks, tmp_path):
    whole = run(tasks, out=tmp_path / "whole")
    with pytest.raises(Stop):
        run(tasks, out=tmp_path / "cut", on_record=stop_after(4), checkpoint_seconds=0)
    path = tmp_path / "cut" / "checkpoint.safetensors"
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    assert run(tasks, out=tmp_path / "cut").records == whole.records


class TestModel:
    def accuracy(self, model, tasks):
        return np.mean(model.predict(tasks.test.inputs) == np.array(tasks.classes)[tasks.test.labels])

    def test_every_seed_has_the_model_that_was_measured_and_its_folder_keeps_it(self, tasks, tmp_path):
        result = run(tasks, scheduler="uniform", seeds=(3, 5), out=tmp_path / "a")
        for seed in (3, 5):
            for model in (result.model(seed), ms.load_model(tmp_path / "a" / f"seed-{seed}")):
                assert self.accuracy(model, tasks) == result.final[seed]["test_accuracy"]
        weights = [np.asarray(result.model(seed).weights[0]["w"]) for seed in (3, 5)]
        assert not np.array_equal(*weights)

    @pytest.mark.parametrize("learner", ["meta", "joint"])
    def test_it_is_the_adapted_model_not_what_the_next_update_would_start_from(self, tasks, learner):
        result = run(tasks, learner=replace(CONFIG, inner_rate=0.5) if learner == "meta" else JOINT)
        same = np.array_equal(result.model().weights[0]["w"], result.parameters[0].weights[0]["w"])
        assert same == (learner == "joint")

    def test_seeds_side_by_side_have_the_models_of_seeds_alone(self, tasks):
        together = run(tasks, seeds=(0, 1, 2), seeds_at_once=3)
        alone = run(tasks, seeds=(2,)).model()
        assert np.array_equal(together.model(2).weights[0]["w"], alone.weights[0]["w"])

    def test_one_seed_need_not_be_named_and_others_are_refused(self, tasks):
        two = run(tasks, seeds=(3, 5))
        assert repr(run(tasks, seeds=(3,)).model()) == "Model(mlp trained on arrays: inputs (4,) to one of c0, c1, c2)"
        with pytest.raises(ConfigError, match=r"models of seeds 3, 5; say which: model\(seed=3\)"):
            two.model()
        with pytest.raises(ConfigError, match="no seed 4; this run has 3, 5"):
            two.model(4)

    def test_a_finished_run_gives_its_model_again(self, tasks, tmp_path):
        first = run(tasks, out=tmp_path / "a").model()
        again = run(tasks, out=tmp_path / "a")
        assert np.array_equal(again.model().weights[0]["w"], first.weights[0]["w"])

    def test_a_network_of_ones_own_need_not_be_given_to_the_run_that_has_it(self, tasks, tmp_path):
        plain = small(tasks)
        own = plain._replace(apply=lambda weights, inputs: 3 * plain.apply(weights, inputs))
        run(tasks, network=own, out=tmp_path / "a")
        again = run(tasks, network=own, out=tmp_path / "a")
        assert self.accuracy(again.model(), tasks) == again.final[0]["test_accuracy"]
        with pytest.raises(RunError, match="network made in Python"):
            ms.load_model(tmp_path / "a")

    @pytest.mark.parametrize("moment", ["write_whole", "flush"])
    def test_a_kill_or_ctrl_c_around_the_last_checkpoint_loses_no_model(self, tasks, tmp_path, monkeypatch, moment):
        """The last checkpoint alone could not give the adapted model back: the model must be there before it is."""
        places = {"write_whole": model_file, "flush": records}
        real = getattr(places[moment], moment)

        def interrupted(path, *content):
            if moment == "flush" or path.name == "model.json":
                monkeypatch.setattr(places[moment], moment, real)
                raise KeyboardInterrupt
            real(path, *content)

        options = {"out": tmp_path / "a", "checkpoint_seconds": 1000}
        monkeypatch.setattr(places[moment], moment, interrupted)
        with pytest.raises(KeyboardInterrupt):
            run(tasks, **options)
        result = run(tasks, **options)
        assert self.accuracy(result.model(), tasks) == result.final[0]["test_accuracy"]
        assert result.records == run(tasks).records


class TestResume:
    @pytest.fixture
    def recipe(self, tmp_path):
        ms.datasets.save_npz(make_tasks(), tmp_path / "set.npz")
        return tmp_path / "set.npz"

    def test_rebuilds_everything_from_the_folder(self, recipe, tmp_path):
        options = {"network": "mlp", "scheduler": "uniform", "learner": CONFIG, "seeds": (4,)}
        whole = ms.train(ms.datasets.load(recipe, target_labels=5), **options)
        tasks = ms.datasets.load(recipe, target_labels=5)
        with pytest.raises(Stop):
            ms.train(tasks, **options, out=tmp_path / "a", on_record=stop_after(3), checkpoint_seconds=0)
        assert ms.resume(tmp_path / "a").records == whole.records
        finished = ms.resume(tmp_path / "a").model(seed=4)
        assert finished.score(tasks.test.inputs, tasks.test.labels) == whole.final[4]["test_accuracy"]

    def test_all_runs_below_a_folder_go_on(self, recipe, tmp_path):
        options = {"network": "mlp", "scheduler": "uniform", "learner": CONFIG, "seeds": (4, 6)}
        tasks = ms.datasets.load(recipe)
        whole = ms.train(tasks, **options)
        with pytest.raises(Stop):
            ms.train(tasks, **options, out=tmp_path / "a", on_record=stop_after(3), checkpoint_seconds=0)
        assert ms.resume(str(tmp_path / "a")).records == whole.records

    def test_data_that_changed_meanwhile_are_refused(self, recipe, tmp_path):
        ms.train(ms.datasets.load(recipe), network="mlp", learner=CONFIG, out=tmp_path / "a")
        ms.datasets.save_npz(make_tasks(seed=9), recipe)
        with pytest.raises(RunError, match="are not those with which the run started"):
            ms.resume(tmp_path / "a")

    def test_a_run_made_of_python_objects_says_how_to_go_on(self, tasks, tmp_path):
        run(tasks, out=tmp_path / "a")
        with pytest.raises(RunError, match=r"call metasched\.train"):
            ms.resume(tmp_path / "a")


@pytest.mark.parametrize("useful", [None, (), ("task 0",)])
def test_an_outcome_names_the_tasks_known_to_be_useful(tasks, useful):
    known = useful and (tasks.tasks[0].name,)
    (outcome,) = run(replace(tasks, useful=known)).outcomes
    assert outcome.about.useful == (known or ())


def test_a_run_counts_how_often_it_abstained(tasks):
    config = ms.AlgorithmOne(batch_size=4, updates=2, batches_per_update=8)
    by_batch = replace(config, batching="per_source")
    run, alone = (ms.train(tasks, "cyclic", learner=each, abstain=True) for each in (config, by_batch))
    assert [record["abstained"] for record in run.records] == [8, 16], "rows"
    assert [record["abstained"] for record in alone.records] == [2, 4], "batches"
    assert alone.records[-1]["tasks"] == [0, 1, 2, 3, 0, 1, 2, 3]
    assert run.records[-1]["drawn"] == alone.records[-1]["drawn"] == [16, 16, 16]
    plain = ms.train(tasks, scheduler="cyclic", learner=ms.AlgorithmOne(batch_size=4, updates=1))
    assert plain.records[0]["abstained"] == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"config": CONFIG}, r"train: config is now learner=ms.Joint\(…\) or learner=ms.AlgorithmOne\(…\)"),
        ({"scheduler_options": {}}, "train: scheduler_options is now options"),
        ({"gradient": "scan"}, r"train: gradient is a setting: learner=ms.AlgorithmOne\(gradient=…\)"),
        ({"optimiser": "sgd"}, r"train: optimiser is a setting: learner=ms.Joint\(optimiser=…\)"),
        ({"sheduler": "ucb"}, "unknown argument 'sheduler' of train; did you mean 'scheduler'"),
    ],
)
def test_an_argument_that_has_gone_is_one_line_with_the_new_one(tasks, arguments, message):
    with pytest.raises(ConfigError, match=message):
        ms.train(tasks, **arguments)


def test_too_many_arguments_without_names_are_one_line(tasks):
    with pytest.raises(ConfigError, match="train: too many positional arguments; after tasks and the scheduler"):
        ms.train(tasks, "mlp", "ucb", CONFIG)


class TestLoadModel:
    @pytest.fixture
    def seeds(self, tasks, tmp_path):
        return ms.train(tasks, scheduler="uniform", learner=JOINT, seeds=(3, 5), out=tmp_path / "a")

    def weights(self, model):
        return np.asarray(model.weights[0]["w"])

    def test_several_seeds_are_their_mean_unless_one_is_named(self, seeds, tasks):
        inputs = tasks.test.inputs
        chances = np.mean([seeds.model(seed).predict_proba(inputs) for seed in (3, 5)], axis=0)
        assert ms.load_model(seeds.out).predict_proba(inputs) == pytest.approx(chances, abs=1e-6)
        assert np.array_equal(self.weights(ms.load_model(seeds.out, seed=5)), self.weights(seeds.model(5)))
        assert np.array_equal(self.weights(ms.load_model(seeds.out / "seed-5")), self.weights(seeds.model(5)))

    def test_a_seed_that_is_not_there_is_refused_with_those_that_are(self, seeds):
        with pytest.raises(RunError, match="has no seed 4, only 3 and 5"):
            ms.load_model(seeds.out, seed=4)
        with pytest.raises(RunError, match="has no seed 4, only 5"):
            ms.load_model(seeds.out / "seed-5", seed=4)

    def test_runs_of_several_methods_are_told_apart_by_their_folders(self, tasks, seeds):
        ms.train(tasks, scheduler="cyclic", learner=JOINT, seeds=(3, 5), out=seeds.out.parent / "b")
        with pytest.raises(RunError, match=r"holds 4 runs, of more than one method; name one of them \(a/seed-3"):
            ms.load_model(seeds.out.parent)

    def test_a_model_is_read_without_what_its_run_says(self, seeds):
        (seeds.out / "seed-3" / "run.json").write_text("{}")
        assert ms.load_model(seeds.out / "seed-3").classes == seeds.tasks.classes

    def test_a_folder_that_is_not_there_is_one_line(self, tmp_path):
        with pytest.raises(RunError, match="nowhere: no such folder"):
            ms.load_model(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"meta_updates": 2}, r"train: meta_updates is a setting: learner=ms.Joint\(updates=…\)"),
        ({"batch_size": 2}, r"train: batch_size is a setting: learner=ms.Joint\(batch_size=…\)"),
        ({"inner_rate": 0.1}, r"train: inner_rate is a setting: learner=ms.AlgorithmOne\(inner_rate=…\)"),
    ],
)
def test_a_setting_given_as_an_argument_is_answered_with_where_it_belongs(tasks, given, message):
    with pytest.raises(ConfigError, match=message):
        ms.train(tasks, **given)


def test_the_settings_of_the_last_version_are_answered_with_the_new_ones():
    with pytest.raises(AttributeError, match="now ms"):
        ms.TrainConfig  # noqa: B018
