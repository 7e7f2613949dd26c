"""A comparison from its folds to its outcomes: alike for all, no test row in tuning, and interrupted anywhere."""

import json
import math
import shutil
from dataclasses import asdict, replace

import msgspec
import numpy as np
import pytest
from metasched.runs.compare import FOLDS, fold_sets, methods_of, run_methods

import metasched as ms
from helpers import Stop, make_regression, make_tasks
from metasched.errors import ConfigError, DataError, RunError
from metasched.runs import compare as comparing
from metasched.runs import outcome as outcomes
from metasched.runs import records as metrics
from metasched.runs import runner as engine
from metasched.runs.sweep import Setup

LEARNER = ms.Joint(batch_size=4, batches_per_update=3, updates=4, eval_every=1)
NETWORK = ms.networks.mlp(3, (5,))
SEEDS = (0, 1)
MORE = (0, 1, 7)


@pytest.fixture(autouse=True)
def _small_grid(monkeypatch):
    monkeypatch.setattr(comparing, "GRIDS", {"joint": ((1e-3,), (0.03,)), "meta": ((0.01, 1e-3),)})


def compared(words=comparing.DEFAULT, out=None, on_progress=None, tasks=None, seeds=SEEDS, tuned=True, **changes):
    setup = Setup(**{"network": NETWORK, "learner": LEARNER, **changes})
    asked = {"tuned": tuned, "out": out, "on_progress": on_progress}
    return run_methods(setup, tasks or make_tasks(), methods_of(words), seeds, **asked)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(comparing, "GRIDS", {"joint": ((1e-3,), (0.03,))})
        out = tmp_path_factory.mktemp("compared") / "a"
        progress = []
        found = compared(out=out, on_progress=lambda *told: progress.append(told))
    return out, found, progress


@pytest.fixture(scope="module")
def more():
    """A comparison that had all seeds from the start."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(comparing, "GRIDS", {"joint": ((1e-3,), (0.03,))})
        return compared(out=None, seeds=MORE)


@pytest.fixture
def counted(monkeypatch):
    """Method and seed of every run that is trained."""
    trained, real = [], metrics.append

    def append(place, records):
        described = engine.folder.describe(place)
        trained.append((described.method, described.spec.seed))
        real(place, records)

    monkeypatch.setattr(metrics, "append", append)
    return trained


def numbers(runs):
    """All that runs give but how long they took and where they were made."""
    return [msgspec.structs.replace(run, origin=None, seconds=None, scheduling_seconds=None) for run in runs]


def contents(place):
    return {
        str(path.relative_to(place)): path.read_bytes()
        for path in sorted(place.rglob("*"))
        if path.is_file() and path.name not in (".lock", ".lease")
    }


class TestFolds:
    def test_a_fold_holds_out_labelled_rows_and_no_test_row(self):
        tasks = make_tasks(validation=11)
        parts = fold_sets(tasks)
        assert len(parts) == FOLDS
        labelled = {row.tobytes() for row in tasks.validation.inputs}
        for part in parts:
            held, rest = ({row.tobytes() for row in split.inputs} for split in (part.test, part.validation))
            assert held | rest == labelled
            assert not held & rest
            assert part.tasks is tasks.tasks
        assert {(len(part.validation.labels), len(part.test.labels)) for part in parts} == {(9, 2)}

    def test_too_few_labelled_rows_are_refused_with_the_number_that_will_do(self):
        with pytest.raises(
            DataError, match="has 7 labelled rows; rates are tuned on 4 folds of them: label at least 8"
        ):
            fold_sets(make_tasks(validation=7))


class TestOutcomes:
    def test_every_method_has_every_seed(self, finished):
        _, found, _ = finished
        single = found[-1].method
        assert single.startswith("best single: task-")
        names = ["thompson", "uniform", "target-only", single]
        assert [(run.method, run.spec.seed) for run in found] == [(name, seed) for name in names for seed in SEEDS]

    def test_ours_is_named_before_the_runs(self, finished):
        assert {run.method: run.role for run in finished[1]}["thompson"] == "ours"

    def test_target_only_makes_as_many_steps_as_the_others(self, finished):
        runs = {run.method: run for run in finished[1]}
        steps = ["updates", "batches_per_update", "batch_size"]
        alone, uniform = ([runs[name].spec.settings[key] for key in steps] for name in ("target-only", "uniform"))
        assert alone == uniform
        assert runs["target-only"].abstained == math.prod(alone)

    def test_rates_are_those_that_did_best_on_the_folds(self, finished):
        out, found, _ = finished
        tried = list(outcomes.read(out / comparing.TUNING))
        for run in found:
            mine = [other for other in tried if other.spec.scheduler == run.spec.scheduler]
            scores = {}
            for other in mine:
                scores.setdefault(other.spec.settings["learning_rate"], []).append(other.final.test_accuracy)
            means = {rate: np.mean(values) for rate, values in scores.items()}
            assert {len(values) for values in scores.values()} == {FOLDS}
            assert set(means) == {1e-3, 0.03}
            assert means[run.spec.settings["learning_rate"]] == max(means.values())

    def test_the_best_single_source_is_that_of_the_folds(self, finished):
        out, found, _ = finished
        tried = [run for run in outcomes.read(out / comparing.TUNING) if run.spec.settings["learning_rate"] == 1e-3]
        means = {
            number: np.mean([run.final.test_accuracy for run in tried if run.spec.scheduler == f"single:{number}"])
            for number in (1, 2, 3)
        }
        assert found[-1].spec.scheduler == f"single:{max(means, key=means.get)}"

    def test_progress_counts_every_run_to_the_last(self, finished):
        counts = [(done, total) for _, done, total in finished[2]]
        total = (3 * 2 + 3 + 1) * FOLDS + 4 * len(SEEDS)
        assert counts[0] == (0, total)
        assert counts[-1] == (total, total)
        assert counts == sorted(counts)

    def test_test_rows_decide_nothing_but_the_measurements(self, finished):
        tasks = make_tasks()
        other = replace(tasks, test=tasks.test._replace(labels=(tasks.test.labels + 1) % 3))
        chosen = [run.spec.settings["learning_rate"] for run in compared(tasks=other)]
        assert chosen == [run.spec.settings["learning_rate"] for run in finished[1]]

    def test_numbers_to_predict_are_compared_by_their_scores(self, monkeypatch):
        monkeypatch.setattr(comparing, "FOLDS", 2)
        tasks = make_regression(validation=16)
        short = replace(LEARNER, updates=2)
        found = compared(["uniform"], tasks=tasks, network=ms.networks.mlp(2, (5,)), learner=short)
        assert len(found) == 4
        assert all(run.final.test_accuracy <= 1 for run in found)


class TestFolder:
    def test_a_comparison_cut_off_while_tuning_or_measuring_ends_with_the_same_numbers(
        self, finished, tmp_path, monkeypatch
    ):
        real, left = engine.run, [7]

        def run(jobs, *, on_outcome, **how):
            def counted(number, outcome):
                on_outcome(number, outcome)
                left[0] -= 1
                if not left[0]:
                    raise Stop

            return real(jobs, on_outcome=counted, **how)

        monkeypatch.setattr(engine, "run", run)
        for after in (7, 36):
            left[0] = after
            with pytest.raises(Stop):
                compared(out=tmp_path / "b")
        left[0] = 0
        again = compared(out=tmp_path / "b")
        assert [(run.method, run.final, run.test_accuracy) for run in again] == [
            (run.method, run.final, run.test_accuracy) for run in finished[1]
        ]

    def test_a_finished_comparison_is_not_run_again(self, finished, monkeypatch):
        out, found, _ = finished
        monkeypatch.setattr(engine.engine, "run", lambda *_, **__: iter(()))
        assert compared(out=out) == found

    @pytest.mark.parametrize(
        ("changes", "difference"),
        [
            ({"learner": replace(LEARNER, updates=5)}, r"with another setting updates \(\d+, not 5\)"),
            ({"words": [*comparing.DEFAULT, "cyclic"]}, "without the method 'cyclic'"),
            ({"words": ["thompson"]}, "with the method 'best-single', which you leave out now"),
            ({"words": [ms.Method("thompson", "ucb")]}, r"with another scheduler of 'thompson' \(thompson, not ucb\)"),
            ({"tuned": False}, r"with another setting tune \(True, not False\)"),
            ({"tasks": make_tasks(seed=1)}, r"on other rows: .* \(checksum \w{12}, not \w{12}\)"),
        ],
    )
    def test_another_comparison_in_the_folder_is_refused_naming_the_difference(self, finished, changes, difference):
        with pytest.raises(RunError, match=f"holds a comparison {difference}"):
            compared(out=finished[0], **changes)

    def test_seeds_are_added_to_a_finished_comparison_and_nothing_is_run_twice(self, finished, more, tmp_path, counted):
        out = tmp_path / "grown"
        shutil.copytree(finished[0], out)
        before = contents(out)
        told = []
        grown = compared(out=out, on_progress=lambda *told_now: told.append(told_now), seeds=MORE)
        assert numbers(grown) == numbers(more)
        assert set(counted) == {(run.method, 7) for run in grown}
        assert {path: contents(out)[path] for path in before if path != comparing.COMPARISON} == {
            path: content for path, content in before.items() if path != comparing.COMPARISON
        }
        assert json.loads((out / comparing.COMPARISON).read_text())["seeds"] == list(MORE)
        assert told[-1][1:] == (10 * FOLDS + 12, 10 * FOLDS + 12)

    @pytest.mark.parametrize("after", [1, 3])
    def test_a_comparison_cut_off_while_it_grows_ends_with_the_numbers_of_one_that_had_all_seeds(
        self, finished, more, tmp_path, monkeypatch, after
    ):
        out = tmp_path / "grown"
        shutil.copytree(finished[0], out)
        real, left = engine.run, [2 * len(comparing.DEFAULT) + after]

        def run(jobs, *, on_outcome, **how):
            def one(number, outcome):
                on_outcome(number, outcome)
                left[0] -= 1
                if not left[0]:
                    raise Stop

            return real(jobs, on_outcome=one, **how)

        monkeypatch.setattr(engine, "run", run)
        with pytest.raises(Stop):
            compared(out=out, seeds=MORE)
        assert numbers(compared(out=out, seeds=MORE)) == numbers(more)

    def test_a_comparison_killed_when_its_new_seeds_are_described_goes_on(self, finished, more, tmp_path, monkeypatch):
        out = tmp_path / "grown"
        shutil.copytree(finished[0], out)

        def stop(*_):
            raise Stop

        with monkeypatch.context() as patch:
            patch.setattr(comparing, "claim_folders", stop)
            with pytest.raises(Stop):
                compared(out=out, seeds=MORE)
        (out / comparing.RUNS / "uniform" / "seed-7").mkdir()
        assert numbers(compared(out=out, seeds=MORE)) == numbers(more)

    @pytest.mark.parametrize("seeds", [(0,), (0, 5, 6), ()])
    def test_seeds_that_the_folder_has_are_never_left_out(self, finished, seeds):
        mark = finished[0] / comparing.COMPARISON
        before = mark.read_bytes()
        with pytest.raises(
            (RunError, ConfigError), match=r"holds a comparison with 2 seeds, . among them|one or more different"
        ):
            compared(out=finished[0], seeds=seeds)
        assert mark.read_bytes() == before

    def test_to_one_seed_none_is_added(self, tmp_path):
        out = tmp_path / "one"
        out.mkdir()
        asked = {"data": make_tasks().fingerprint, "learner": "joint", "network": "own", "methods": {}}
        (out / comparing.COMPARISON).write_text(json.dumps({**asked, "seeds": [0], "settings": asdict(LEARNER)}))
        with pytest.raises(RunError, match="one seed, to which none can be added"):
            compared(["uniform"], out)

    def test_a_folder_that_holds_something_else_is_left_alone(self, tmp_path):
        (tmp_path / "letter.txt").write_text("dear")
        with pytest.raises(RunError, match="already exists"):
            compared(["uniform"], tmp_path)
        assert [path.name for path in tmp_path.iterdir()] == ["letter.txt"]

    def test_a_damaged_comparison_says_so(self, tmp_path):
        (tmp_path / comparing.COMPARISON).write_text("{")
        with pytest.raises(RunError, match="is damaged"):
            compared(["uniform"], tmp_path)

    def test_what_was_asked_is_written_down(self, finished):
        asked = json.loads((finished[0] / comparing.COMPARISON).read_text())
        assert list(asked["methods"]) == list(comparing.DEFAULT)
        assert asked["seeds"] == [0, 1]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "give one or more"),
        (["uniform", "uniform"], "two methods are called 'uniform'"),
        ([ms.Method("wide", "ucb"), ms.Method("Wide", "cyclic")], "two methods are called 'Wide'"),
        ([ms.Method("../wide", "ucb")], "a method is called '../wide'; use letters"),
        ([ms.Method("uniform", "ucb")], "'uniform' is the name of a control"),
        ([ms.Method("a", "ucb", role="ours"), ms.Method("b", "ucb", role="ours")], "a and b both have the role"),
        ([ms.Method("a", "ucb", {"uper": 1})], "did you mean 'upper'"),
        ([ms.Method("a", 3)], "the scheduler of 'a' is 3; give a word or a Scheduler"),
        ([3], "a method is 3; give a word, or ms.Method"),
        (["oracle-best-single"], "chosen on test rows; give best-single"),
        (["unifrom"], "did you mean 'uniform'"),
    ],
)
def test_bad_words_are_refused_before_anything_is_written(words, message, tmp_path):
    with pytest.raises(ConfigError, match=message):
        compared(words, tmp_path / "c")
    assert not (tmp_path / "c").exists()


def test_two_settings_of_one_scheduler_are_two_methods(tmp_path):
    wide, narrow = ms.Method("wide", "ucb", {"upper": 2.0}), ms.Method("narrow ucb", "ucb", {"upper": 0.5}, "gain")
    found = compared([wide, narrow], tmp_path / "two")
    names = ["wide", "narrow ucb", "uniform", "target-only"]
    assert [(run.method, run.spec.seed) for run in found] == [(name, seed) for name in names for seed in SEEDS]
    specs = {run.method: run.spec for run in found}
    assert specs["wide"].options == {"upper": 2.0}
    assert (specs["narrow ucb"].options, specs["narrow ucb"].reward) == ({"upper": 0.5}, "gain")
    assert {run.method: run.role for run in found}["wide"] == "ours"
    assert (tmp_path / "two" / "runs" / "narrow-ucb" / "seed-1" / "outcome.jsonl").exists()
    assert list(found[0].study.tuning["chosen"]) == names
    (alone,) = ms.train(
        make_tasks(),
        "ucb",
        options={"upper": 2.0},
        network=NETWORK,
        learner=replace(LEARNER, learning_rate=specs["wide"].settings["learning_rate"]),
    ).outcomes
    assert alone.final == found[0].final
    with pytest.raises(RunError, match=r"holds a comparison with another option upper of 'wide' \(2.0, not 3.0\)"):
        compared([ms.Method("wide", "ucb", {"upper": 3.0}), narrow], tmp_path / "two")


def test_a_scheduler_object_and_one_method_under_two_names_are_methods_too():
    own = ms.schedulers.make("cyclic", num_tasks=3)
    found = compared([ms.Method("mine", own), "cyclic", ms.Method("again", "cyclic")], tuned=False)
    finals = {run.method: run.final for run in found if run.spec.seed == 0}
    assert finals["mine"] == finals["cyclic"] == finals["again"]


def test_without_tuning_every_method_has_the_rates_of_the_settings_and_the_best_source_is_still_found(tmp_path):
    progress = []
    found = compared(["thompson", "best-single"], tmp_path / "a", lambda *told: progress.append(told), tuned=False)
    assert {run.spec.settings["learning_rate"] for run in found} == {LEARNER.learning_rate}
    assert found[0].study.tuning is None
    assert any(run.method.startswith("best single: task-") for run in found)
    assert progress[-1][1:] == (3 * FOLDS + 4 * len(SEEDS),) * 2
    tuned = compared(["thompson"], tuned=False)
    assert numbers(tuned)[:2] == numbers(found)[:2]


def test_an_unknown_learner_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="unknown learner"):
        ms.compare(make_tasks(), ["uniform"], learner="joynt", out=tmp_path / "c")


@pytest.mark.parametrize("methods", ["ucb", [("w", "ucb", {"upper": 2.0})], 3])
def test_methods_of_another_type_are_one_line(methods):
    with pytest.raises(ConfigError, match=r"give a (list of )?words?"):
        ms.compare(make_tasks(), methods, seeds=2)


def test_a_method_without_a_reward_has_that_of_the_comparison():
    found = comparing.methods_of(
        ["thompson", ms.Method("own", "ucb", reward="gain"), ms.Method("plain", "ucb")], "alignment"
    )
    assert {method.name: method.reward for method in found if method.scheduler != "uniform"} == {
        "thompson": "alignment",
        "own": "gain",
        "plain": "alignment",
        "target-only": "alignment",
    }
