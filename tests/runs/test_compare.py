"""A comparison from its folds to its outcomes: alike for all, no test row in tuning, and interrupted anywhere."""

import json
import shutil
from dataclasses import asdict, replace

import msgspec
import numpy as np
import pytest

import metasched as ms
from helpers import Stop, make_regression, make_tasks
from metasched.errors import ConfigError, DataError, RunError
from metasched.runs import compare as comparing
from metasched.runs import outcome as outcomes
from metasched.runs import runner as engine
from metasched.runs import tuning
from metasched.runs.compare import Grid, run_methods
from metasched.runs.tuning import FOLDS, fold_sets

CONFIG = ms.Joint(batch_size=4, batches_per_update=3, updates=4, eval_every=1)
NETWORK = ms.networks.mlp(3, (5,))
SEEDS = (0, 1)
MORE = (0, 1, 7)


@pytest.fixture(autouse=True)
def _small_grid(monkeypatch):
    monkeypatch.setattr(comparing, "GRIDS", {"joint": ((1e-3,), (0.03,)), "meta": ((0.01, 1e-3),)})


def grid(tasks=None, **changes):
    given = {"network": NETWORK, "settings": CONFIG, "seeds": SEEDS, **changes}
    return Grid(tasks or make_tasks(), **given)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(comparing, "GRIDS", {"joint": ((1e-3,), (0.03,))})
        out = tmp_path_factory.mktemp("compared") / "a"
        progress = []
        found = run_methods(grid(), comparing.DEFAULT, out, lambda *told: progress.append(told))
    return out, found, progress


@pytest.fixture(scope="module")
def more():
    """A comparison that had all seeds from the start."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(comparing, "GRIDS", {"joint": ((1e-3,), (0.03,))})
        return run_methods(grid(seeds=MORE), comparing.DEFAULT, None, None)


@pytest.fixture
def counted(monkeypatch):
    """Method and seed of every run that is trained."""
    trained, real = [], engine.folder.append_records

    def append(place, records):
        described = engine.folder.describe(place)
        trained.append((described.method, described.spec.seed))
        real(place, records)

    monkeypatch.setattr(engine.folder, "append_records", append)
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
        steps = ["updates", "batches_per_update"]
        alone, uniform = ([runs[name].spec.settings[key] for key in steps] for name in ("target-only", "uniform"))
        assert alone == uniform
        assert runs["target-only"].abstained == alone[0] * alone[1]

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
        chosen = [run.spec.settings["learning_rate"] for run in run_methods(grid(other), comparing.DEFAULT, None, None)]
        assert chosen == [run.spec.settings["learning_rate"] for run in finished[1]]

    def test_numbers_to_predict_are_compared_by_their_scores(self, monkeypatch):
        for module in (tuning, comparing):
            monkeypatch.setattr(module, "FOLDS", 2)
        tasks = make_regression(validation=16)
        found = run_methods(
            grid(tasks, network=ms.networks.mlp(2, (5,)), settings=replace(CONFIG, updates=2)),
            ["uniform"],
            None,
            None,
        )
        assert len(found) == 2
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
                run_methods(grid(), comparing.DEFAULT, tmp_path / "b", None)
        left[0] = 0
        again = run_methods(grid(), comparing.DEFAULT, tmp_path / "b", None)
        assert [(run.method, run.final, run.test_accuracy) for run in again] == [
            (run.method, run.final, run.test_accuracy) for run in finished[1]
        ]

    def test_a_finished_comparison_is_not_run_again(self, finished, monkeypatch):
        out, found, _ = finished
        monkeypatch.setattr(engine.engine, "run", lambda *_, **__: iter(()))
        assert run_methods(grid(), comparing.DEFAULT, out, None) == found

    @pytest.mark.parametrize(
        ("changes", "difference"),
        [
            ({"settings": replace(CONFIG, updates=5)}, r"with another settings.updates \(\d+, not 5\)"),
            ({"tasks": make_tasks(seed=1)}, r"on other rows: .* \(checksum \w{12}, not \w{12}\)"),
        ],
    )
    def test_another_comparison_in_the_folder_is_refused_naming_the_difference(self, finished, changes, difference):
        with pytest.raises(RunError, match=f"holds a comparison {difference}"):
            run_methods(grid(**changes), comparing.DEFAULT, finished[0], None)

    def test_seeds_are_added_to_a_finished_comparison_and_nothing_is_run_twice(self, finished, more, tmp_path, counted):
        out = tmp_path / "grown"
        shutil.copytree(finished[0], out)
        before = contents(out)
        told = []
        grown = run_methods(grid(seeds=MORE), comparing.DEFAULT, out, lambda *told_now: told.append(told_now))
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
            run_methods(grid(seeds=MORE), comparing.DEFAULT, out, None)
        assert numbers(run_methods(grid(seeds=MORE), comparing.DEFAULT, out, None)) == numbers(more)

    def test_a_comparison_killed_when_its_new_seeds_are_described_goes_on(self, finished, more, tmp_path, monkeypatch):
        out = tmp_path / "grown"
        shutil.copytree(finished[0], out)

        def stop(*_):
            raise Stop

        with monkeypatch.context() as patch:
            patch.setattr(comparing, "begun", stop)
            with pytest.raises(Stop):
                run_methods(grid(seeds=MORE), comparing.DEFAULT, out, None)
        (out / comparing.RUNS / "uniform" / "seed-7").mkdir()
        assert numbers(run_methods(grid(seeds=MORE), comparing.DEFAULT, out, None)) == numbers(more)

    @pytest.mark.parametrize("seeds", [(0,), (0, 5, 6), ()])
    def test_seeds_that_the_folder_has_are_never_left_out(self, finished, seeds):
        mark = finished[0] / comparing.COMPARISON
        before = mark.read_bytes()
        with pytest.raises(
            (RunError, ConfigError), match=r"holds a comparison with 2 seeds, . among them|one or more different"
        ):
            run_methods(grid(seeds=seeds), comparing.DEFAULT, finished[0], None)
        assert mark.read_bytes() == before

    def test_to_one_seed_none_is_added(self, tmp_path):
        out = tmp_path / "one"
        out.mkdir()
        asked = {"data": make_tasks().fingerprint, "learner": "joint", "network": "own", "schedulers": ["uniform"]}
        asked |= {"seeds": [0], "settings": asdict(CONFIG), "reward": "transfer", "abstain": False}
        (out / comparing.COMPARISON).write_text(json.dumps(asked))
        with pytest.raises(RunError, match="one seed, to which none can be added"):
            run_methods(grid(), ["uniform"], out, None)

    def test_a_folder_that_holds_something_else_is_left_alone(self, tmp_path):
        (tmp_path / "letter.txt").write_text("dear")
        with pytest.raises(RunError, match="already exists"):
            run_methods(grid(), ["uniform"], tmp_path, None)
        assert [path.name for path in tmp_path.iterdir()] == ["letter.txt"]

    def test_a_damaged_comparison_says_so(self, tmp_path):
        (tmp_path / comparing.COMPARISON).write_text("{")
        with pytest.raises(RunError, match="is damaged"):
            run_methods(grid(), ["uniform"], tmp_path, None)

    def test_what_was_asked_is_written_down(self, finished):
        asked = json.loads((finished[0] / comparing.COMPARISON).read_text())
        assert asked["schedulers"] == list(comparing.DEFAULT)
        assert asked["seeds"] == [0, 1]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "give one or more"),
        (["uniform", "uniform"], "each once"),
        (["oracle-best-single"], "chosen on test rows; give best-single"),
        (["unifrom"], "did you mean 'uniform'"),
    ],
)
def test_bad_words_are_refused_before_anything_is_written(words, message, tmp_path):
    with pytest.raises(ConfigError, match=message):
        run_methods(grid(), words, tmp_path / "c", None)
    assert not (tmp_path / "c").exists()


def test_an_unknown_learner_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="unknown learner"):
        ms.compare(make_tasks(), ["uniform"], learner="joynt", out=tmp_path / "c")
