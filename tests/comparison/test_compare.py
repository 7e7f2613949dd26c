"""A whole comparison: what decides what, what is written, and how it goes on wherever it was interrupted."""

import csv
import json
import shutil
from dataclasses import replace

import numpy as np
import optax
import pytest
from sklearn import metrics as sklearn_metrics

import metasched as ms
from helpers import Stop, make_own_label_tasks, make_regression, make_tasks
from metasched.comparison import bench as benches
from metasched.comparison import prepare, references
from metasched.comparison.answer import OUTCOMES
from metasched.comparison.budget import FEWEST_STEPS, FOR_NETWORKS, WITHOUT_TREES
from metasched.comparison.predictions import PREDICTIONS
from metasched.comparison.stored import StoredOutputs
from metasched.errors import ConfigError, DataError, RunError
from metasched.references.recipes import fit_recipe
from metasched.runs import folder, records, runner
from metasched.runs import outcome as outcomes
from metasched.runs.folder import COMPARISON
from metasched.runs.outcome import outputs_of
from metasched.runs.status import survey
from tiny_comparison import LEARNER, NETWORK, compared, divided, numbers

JUDGING = ".work/judging.jsonl"


def contents(place):
    return {
        str(path.relative_to(place)): path.read_bytes()
        for path in sorted(place.rglob("*"))
        if path.is_file() and path.name not in (".lock", ".lease")
    }


@pytest.fixture
def made(monkeypatch):
    """What is fitted: method and seed of runs that are trained, keys of reference models that are kept."""
    found, run, append, write = [], runner.run, records.append, StoredOutputs.add

    def counting_run(jobs, **how):
        found.extend((job.description.method, job.spec.seed) for job in jobs if job.folder is None)
        return run(jobs, **how)

    def counting_append(place, lines):
        about = folder.describe(place)
        found.append((about.method, about.spec.seed))
        append(place, lines)

    def counting_write(self, key, outputs):
        found.append(key)
        write(self, key, outputs)

    monkeypatch.setattr(runner, "run", counting_run)
    monkeypatch.setattr(records, "append", counting_append)
    monkeypatch.setattr(StoredOutputs, "add", counting_write)
    return found


def stopped_in(word, after):
    """What to give as ``on_progress`` so that a comparison stops in a step, after so many calls."""
    seen = []

    def on_progress(what, done, total):
        if what.startswith(word):
            seen.append(done)
            if len(seen) == after:
                raise Stop

    return on_progress


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """The smallest comparison with a folder."""
    out = tmp_path_factory.mktemp("small") / "a"
    return out, compared(divided(), tune=False, out=out)


def shares(chances):
    """In double precision they sum to 1 as exactly as scikit-learn wants it."""
    return chances.astype(float) / chances.astype(float).sum(axis=1, keepdims=True)


def judged_by(metric, tasks, width, out):
    """A comparison by a metric, and the stored runs of one of its methods."""
    found = compared(
        tasks, seeds=4, metric=metric, tune=False, network=ms.networks.mlp(width, (4,)), references=True, out=out
    )
    return found, [run for run in outcomes.read(out / JUDGING) if run.method == "uniform"]


class TestScores:
    def test_a_method_is_judged_by_the_mean_prediction_of_its_runs(self, finished):
        tasks = divided()
        stored = list(outcomes.read(finished.out / JUDGING))
        scores = {line.name: line.score.value for line in finished.found.remarks.table}
        for method in ("thompson", "uniform", "target-only"):
            by_seed = []
            for seed in range(4):
                own = [outputs_of(run) for run in stored if (run.method, run.spec.seed) == (method, seed)]
                assert len(own) == 3
                by_seed.append(np.mean(np.mean(own, axis=0).argmax(axis=1) == tasks.redrawn(seed).test.labels))
            assert scores[method] == pytest.approx(np.mean(by_seed))

    def test_outcomes_have_every_network_method_with_every_seed(self, finished):
        found = [(run.method, run.spec.seed) for run in finished.found.outcomes]
        assert found == [(name, seed) for name in ("thompson", "uniform", "target-only") for seed in range(4)]
        assert numbers(outcomes.read(finished.out / OUTCOMES)) == numbers(finished.found.outcomes)

    def test_curves_end_where_the_table_says_however_many_rows_judge(self):
        found = compared(make_tasks(test=1200), tune=False)
        table = {line.name: line.score.value for line in found.remarks.table}
        for name in ("uniform", "target-only"):
            ends = [run.test_accuracy[-1] for run in found.outcomes if run.method == name]
            assert np.mean(ends) == pytest.approx(table[name], abs=1e-6)

    def test_ours_is_named_before_the_runs(self, finished):
        assert {run.method: run.role for run in finished.found.outcomes}["thompson"] == "ours"

    def test_target_only_makes_as_many_steps_as_the_others(self, finished):
        runs = {run.method: run for run in finished.found.outcomes}
        assert runs["target-only"].updates == runs["uniform"].updates
        assert runs["target-only"].abstained == LEARNER.updates * LEARNER.batches_per_update * LEARNER.batch_size

    @pytest.mark.parametrize(
        ("name", "score"),
        [
            ("auc", lambda labels, chances: sklearn_metrics.roc_auc_score(labels, chances[:, 1])),
            ("log-loss", lambda labels, chances: -sklearn_metrics.log_loss(labels, shares(chances))),
        ],
    )
    def test_a_metric_flows_into_table_verdict_and_sentences(self, name, score, tmp_path):
        tasks = make_tasks(classes=2)
        found, stored = judged_by(name, tasks, 2, tmp_path / "a")
        expected = np.mean([score(tasks.test.labels, outputs_of(run)) for run in stored])
        line = next(line for line in found.remarks.table if line.name == "uniform")
        assert line.score.value == pytest.approx(expected, abs=1e-4)
        word = found.metric.word
        assert found.metric.name == name
        assert word in found.table()
        assert word in found.remarks.final
        assert word in found.remarks.first
        scores = [line.score.value for line in found.remarks.table]
        assert scores == sorted(scores, reverse=True)

    @pytest.mark.parametrize(("metric", "alike"), [("balanced-accuracy", True), ("f1", True), ("auc", False)])
    def test_reference_models_weigh_classes_alike_where_the_metric_does(self, metric, alike, monkeypatch):
        asked = []

        def fit(*given, balanced=False, **options):
            asked.append(balanced)
            return fit_recipe(*given, balanced=balanced, **options)

        monkeypatch.setattr(references, "fit_recipe", fit)
        compared(make_tasks(classes=2), metric=metric, tune=False, network="mlp", references=True, seeds=2)
        assert set(asked) == {alike}

    @pytest.mark.parametrize("name", [None, "mae"])
    def test_numbers_to_predict_are_compared(self, name, tmp_path):
        tasks = make_regression(numbers=1)
        found, stored = judged_by(name, tasks, 1, tmp_path / "a")
        errors = [np.abs(outputs_of(run) - tasks.test.targets) for run in stored]
        # R² is in units of the variance of the labelled rows, so that it means the same on other test rows.
        variance = tasks.validation.targets.var()
        scores = [-error.mean() if name else 1 - (error**2).mean() / variance for error in errors]
        line = next(line for line in found.remarks.table if line.name == "uniform")
        assert line.score.value == pytest.approx(np.mean(scores), rel=1e-3)
        assert "mean of the labels" in found.table()
        assert found.remarks.table[0].name.startswith("ridge regression")
        assert np.isfinite(found.model.predict(tasks.test.inputs)).all()

    @pytest.mark.parametrize(
        ("tasks", "metric", "message"),
        [
            (make_tasks(), "mae", "these tasks have classes; give accuracy or balanced-accuracy or auc"),
            (make_regression(), "auc", "these tasks have numbers to predict; give r2 or mae"),
            (make_tasks(), "luck", "metric is 'luck'; give accuracy or"),
        ],
    )
    def test_a_metric_of_the_wrong_kind_is_refused(self, tasks, metric, message, tmp_path):
        with pytest.raises(ConfigError, match=message):
            compared(tasks, metric=metric, network="mlp", out=tmp_path / "a")
        assert not (tmp_path / "a").exists()

    def test_a_good_source_among_spoilt_ones_is_found(self):
        learner = ms.Joint(batch_size=10, batches_per_update=8, updates=25, eval_every=25, learning_rate=0.01)
        found = compared(
            sources_that_differ(), None, seeds=6, learner=learner, network=ms.networks.mlp(2, (8,)), references=True
        )
        assert found.decision.case == "helps"
        assert found.verdict.startswith("Choosing helps here: +.")
        words = {line.name: line.word for line in found.sources()}
        assert words["good"] == "keep"
        assert "harmful" in (words["spoilt-1"], words["spoilt-2"])
        assert all(f"'{name}'" in " ".join(found.warnings) for name, word in words.items() if word == "harmful")
        weights = found.source_weights()
        assert max(weights, key=weights.get) == "good"


def sources_that_differ(seed=0):
    """One source with the target's rule, two with shuffled labels."""
    random = np.random.default_rng(seed)
    rule = random.normal(size=6)

    def rows(count):
        inputs = random.normal(size=(count, 6))
        return inputs, (inputs @ rule > 0).astype(int)

    def spoilt(count):
        inputs, labels = rows(count)
        return inputs, random.permutation(labels)

    return ms.TaskSet.from_arrays(
        {"spoilt-1": spoilt(200), "good": rows(200), "spoilt-2": spoilt(200)},
        validation=rows(24),
        test=rows(300),
        classes=["no", "yes"],
        name="differ",
    )


class TestGoingOn:
    def test_wherever_it_is_interrupted_it_ends_with_the_same_numbers(self, finished, tmp_path):
        out = tmp_path / "b"
        asked = {"tasks": divided(), "methods": None, "seeds": 4, "references": True, "out": out}
        for step, after in (
            ("folds", 9),
            ("judging", 5),
            ("judging", 20),
            ("reference", 7),
            ("final", 1),
            ("final", 9),
        ):
            with pytest.raises(Stop):
                compared(**asked, on_progress=stopped_in(step, after))
        again = compared(**asked)
        assert numbers(again.outcomes) == numbers(finished.found.outcomes)
        assert again.remarks == finished.found.remarks
        inputs = divided().test.inputs
        assert np.array_equal(again.model.predict_proba(inputs), finished.found.model.predict_proba(inputs))

    def test_a_line_that_a_kill_cut_short_is_made_again(self, finished, tmp_path, made):
        out = tmp_path / "b"
        shutil.copytree(finished.out, out)
        for name in (".work/references.jsonl", JUDGING):
            path = out / name
            path.write_bytes(path.read_bytes()[:-9])
        again = compared(divided(), None, seeds=4, references=True, out=out)
        assert len(made) == 2
        assert again.remarks == finished.found.remarks

    def test_a_finished_comparison_is_not_run_again(self, finished, made):
        before = contents(finished.out)
        again = compared(divided(), None, seeds=4, references=True, out=finished.out)
        assert made == []
        assert again.remarks == finished.found.remarks
        assert again.outcomes == finished.found.outcomes
        after = contents(finished.out)
        assert {name for name in before if before[name] != after.get(name)} <= {OUTCOMES}

    def test_seeds_are_added_and_nothing_is_run_twice(self, small, tmp_path, made):
        out = tmp_path / "grown"
        shutil.copytree(small[0], out)
        seeds = (0, 1, 7)
        grown = compared(divided(), tune=False, out=out, seeds=seeds)
        assert set(made) == {("uniform", 7), ("target-only", 7)}
        fresh = compared(divided(), tune=False, seeds=seeds)
        assert numbers(grown.outcomes) == numbers(fresh.outcomes)
        assert grown.remarks == fresh.remarks
        assert json.loads((out / COMPARISON).read_text())["seeds"] == list(seeds)

    @pytest.mark.parametrize(
        ("changes", "difference"),
        [
            ({"learner": replace(LEARNER, updates=5)}, r"with another setting updates \(2, not 5\)"),
            ({"methods": ["uniform", "cyclic"]}, "without the method 'cyclic'"),
            ({"tune": True}, r"with another setting tune \(False, not True\)"),
            ({"references": True}, r"with another setting references \(False, not True\)"),
            ({"tasks": divided(seed=1)}, r"on other rows: .* \(checksum \w{12}, not \w{12}\)"),
            ({"network": "mlp"}, r"with another network \(own, not mlp\)"),
            ({"seeds": [0, 5]}, r"with 2 seeds; give at least these \(seeds 0, 1\)"),
        ],
    )
    def test_another_comparison_in_the_folder_is_refused_naming_the_difference(self, small, changes, difference):
        before = contents(small[0])
        with pytest.raises(RunError, match=f"holds a comparison {difference}"):
            compared(**{"tasks": divided(), "tune": False, "out": small[0], **changes})
        assert contents(small[0]) == before

    def test_the_folder_of_another_version_is_refused_in_one_line(self, tmp_path):
        (tmp_path / COMPARISON).write_text(json.dumps({"data": "0" * 64, "seeds": [0, 1], "methods": {}}))
        with pytest.raises(
            RunError, match="holds a comparison of another version of metasched, which this version cannot continue"
        ):
            compared(out=tmp_path)

    @pytest.mark.parametrize(
        "damage", [lambda line: b'{"key": 3}', lambda line: line.replace(b'"outputs":"', b'"outputs":"AAAA')]
    )
    def test_damaged_predictions_of_reference_models_say_what_to_do(self, finished, tmp_path, damage):
        out = tmp_path / "b"
        shutil.copytree(finished.out, out)
        lines = (out / benches.OUTPUTS).read_bytes().splitlines()
        (out / benches.OUTPUTS).write_bytes(b"".join(damage(line) + b"\n" for line in lines))
        with pytest.raises(
            RunError, match=r"references\.jsonl: is damaged; remove it, and its models will be fitted again"
        ):
            compared(divided(), None, seeds=4, references=True, out=out)


@pytest.fixture
def pace(monkeypatch):
    """Seconds of one update, as long as the test wants."""
    told = [0.01]
    monkeypatch.setattr(runner, "seconds_per_update", lambda jobs, count: [told[0]] * len(jobs))
    return told


@pytest.mark.parametrize("update", [0.01, 10.0])
def test_a_first_run_that_is_timed_decides_whether_auto_takes_workers(pace, update, monkeypatch, tmp_path):
    pace[0], expected = update, []

    def executing(machines, folder, seconds, own):
        expected.append(seconds)
        raise KeyboardInterrupt

    monkeypatch.setattr(prepare, "executing", executing)
    with pytest.raises(KeyboardInterrupt):
        compared(tune=False, out=tmp_path / "a")
    runs = 2 * (2 + 5 + 3)
    assert expected == [pytest.approx(runs * LEARNER.updates * update)]


class TestBudget:
    LONG = replace(LEARNER, updates=4, batches_per_update=100)

    def test_a_short_one_gives_fewer_steps_and_a_rerun_keeps_them(self, pace, tmp_path):
        asked = {"learner": self.LONG, "budget": 0.4, "tune": False, "out": tmp_path / "a"}
        found = compared(**asked)
        runs = 2 * (2 + 5 + 3)
        steps = {run.spec.settings["batches_per_update"] * 4 for run in found.outcomes}
        assert steps == {round(FOR_NETWORKS * 0.4 / (0.01 * runs) * 100)}
        pace[0] = 10.0
        again = compared(**asked)
        assert numbers(again.outcomes) == numbers(found.outcomes)

    def test_one_that_is_too_short_is_refused_before_anything_is_written(self, pace, tmp_path):
        pace[0] = 100.0
        line = r"of 60 s is too short even for 20 runs \(2 seeds\) of 50 steps; give 25m"
        with pytest.raises(ConfigError, match=line):
            compared(learner=self.LONG, budget="1m", tune=False, out=tmp_path / "a")
        assert not (tmp_path / "a").exists()

    def test_a_very_short_one_leaves_out_seeds_and_a_rerun_and_a_longer_one_agree_with_what_is_said(
        self, pace, tmp_path, made
    ):
        notes = []
        asked = {"tasks": divided(), "learner": self.LONG, "seeds": 6, "references": True, "tune": False}
        asked |= {"out": tmp_path / "a", "on_note": notes.append}
        pace[0] = 10.0
        least = 2 * (4 + 5 + 3) * 4 * 10.0 * FEWEST_STEPS / 400
        short = 1.05 * least / WITHOUT_TREES
        found = compared(**asked, budget=short)
        assert {run.spec.seed for run in found.outcomes} == {0, 1, 2, 3}
        assert notes[1:] == [
            "the budget is too short for forests and boosting; they are left out",
            "the budget is too short for all seeds: 4 of 6 are run",
        ]
        assert not [line.name for line in found.remarks.table if line.name.startswith(("forest", "boosting"))]
        goes_on = "with a longer --budget and the same --out, the command continues and adds what is missing"
        assert [line for line in found.warnings if "budget" in line] == [
            f"the budget left no time to judge 'forest, target only', 'boosting, target only' and 5 more; {goes_on}",
            f"the budget left time for 4 of 6 seeds; {goes_on}",
        ]
        made.clear()
        again = compared(**asked, budget=short)
        assert made == []
        assert again.remarks == found.remarks
        longer = compared(**asked, budget=6000)
        assert {run.spec.seed for run in longer.outcomes} == set(range(6))
        assert {run.spec.settings["batches_per_update"] for run in longer.outcomes} == {
            run.spec.settings["batches_per_update"] for run in found.outcomes
        }
        assert any(line.name.startswith("forest") for line in longer.remarks.table)
        assert not any("budget" in line for line in longer.warnings)

    def test_a_model_that_the_budget_left_half_judged_is_marked_and_no_rerun_judges_it_further(
        self, monkeypatch, tmp_path, made
    ):
        asked = {"tasks": divided(), "seeds": 4, "references": True, "tune": False, "out": tmp_path / "a"}
        # All fits on folds of 12 models, the 5 quick ones that judge, and two fits of the first slow one.
        ends = iter([0.0] * (12 * 5 + 5 * 4 + 2))
        monkeypatch.setattr(benches, "monotonic", lambda: next(ends, float("inf")))
        monkeypatch.setattr(references, "FEWEST_PARALLEL", 10**9)
        found = compared(**asked, budget=600)
        (line,) = (line for line in found.remarks.table if line.cut)
        assert (line.units, line.planned) == (2, 4)
        assert f"{line.name} (2 of 4 fits)" in found.table(200)
        assert line.name.lower() not in found.remarks.first.lower()
        made.clear()
        monkeypatch.setattr(benches, "monotonic", lambda: 0.0)
        again = compared(**asked, budget=600)
        assert made == []
        assert again.remarks == found.remarks
        assert not any(line.cut for line in compared(**asked, budget=601).remarks.table)

    def test_what_a_budget_leaves_out_counts_no_longer(self, monkeypatch, tmp_path):
        progress = []
        monkeypatch.setattr(benches, "monotonic", lambda: float("inf"))
        for _ in range(2):
            compared(
                budget="1h",
                tune=False,
                references=True,
                out=tmp_path / "a",
                on_progress=lambda *each: progress.append(each),
            )
            assert progress[-1][1] == progress[-1][2] == sum(group.counts["done"] for group in survey(tmp_path / "a"))

    def test_of_the_reference_models_only_slow_ones_are_left_out(self, pace, monkeypatch):
        monkeypatch.setattr(benches, "monotonic", lambda: float("inf"))
        found = compared(budget="1h", tune=False, references=True)
        named = {line.name.partition(",")[0] for line in found.remarks.table if line.kind == "reference"}
        assert named == {"majority class", "logistic regression"}
        assert "the final model" in {line.name for line in found.remarks.table}


class TestBeforeItStarts:
    def test_a_line_says_how_many_runs_and_about_how_long(self, finished):
        (note,) = finished.notes
        runs = 3 * 3 * (4 + 5 + 3)
        beside = (1 + 5 + 5 + 4) * (4 + 5)  # majority, linear, forest and boosting
        assert note.startswith(
            f"{runs + beside} fits: {runs} networks of 4 steps (3 methods, 3 learning rates) and {beside} reference "
            "models, about "
        )
        assert note.endswith("; --budget limits the time")

    def test_the_line_the_progress_and_the_status_count_the_same_fits(self, finished):
        said = int(finished.notes[0].partition(" ")[0].replace(",", ""))
        done = sum(group.counts["done"] for group in survey(finished.out))
        assert finished.progress[0][2] == said
        assert finished.progress[-1][1:] == (done, done)
        stopped_early = finished.found.outcomes[0].spec.settings["updates"] < LEARNER.updates
        assert done == said + stopped_early * 3 * 3 * 5

    def test_in_a_cross_validation_a_fit_counts_once(self, tmp_path):
        notes, progress = [], []
        told = {"on_progress": lambda *each: progress.append(each), "on_note": notes.append}
        tasks = make_tasks(validation=17, test=3).all_labelled()
        learner = replace(LEARNER, updates=1)  # so that nothing stops earlier
        compared(tasks, tune=False, references=True, out=tmp_path / "a", learner=learner, **told)
        said = int(notes[0].partition(" ")[0].replace(",", ""))
        done = sum(group.counts["done"] for group in survey(tmp_path / "a"))
        assert [counts for _, *counts in progress][-1] == [said, said] == [done, done]

    def test_progress_counts_every_fit_to_the_last(self, finished):
        counts = [done for _, done, _ in finished.progress]
        assert counts == sorted(counts)
        assert {what.partition(":")[0] for what, _, _ in finished.progress} == {
            "folds",
            "judging",
            "reference models",
            "final models",
        }
        *_, (_, done, total) = finished.progress
        assert done == total

    @pytest.mark.parametrize("seeds", [0, 1, True, 2.5, None, "12", (3,), (3, 3), (0, -1)])
    def test_seeds_that_compare_nothing_are_refused(self, seeds):
        with pytest.raises(ConfigError, match="seed"):
            compared(seeds=seeds)

    @pytest.mark.parametrize(
        ("asked", "message"),
        [
            ({"methods": ["unifrom"]}, "did you mean 'uniform'"),
            ({"methods": [ms.Method("a", "ucb", {"uper": 1})]}, "did you mean 'upper'"),
            ({"learner": "joynt"}, "did you mean 'joint'"),
            ({"budget": "soon"}, "give a time such as 90s"),
            ({"executor": "cloud"}, "executor"),
            ({"methods": [ms.Method("a", "best-single")], "tasks": make_tasks(validation=8)}, "too few labelled rows"),
        ],
    )
    def test_what_cannot_run_is_refused_before_anything_is_written(self, asked, message, tmp_path):
        with pytest.raises(ConfigError, match=message):
            compared(**{**asked, "out": tmp_path / "c"})
        assert not (tmp_path / "c" / OUTCOMES).exists()

    def test_cross_validation_of_fewer_than_ten_rows_is_refused_in_one_line(self, tmp_path):
        with pytest.raises(DataError, match=r"the target has 9 labelled rows .* label at least 10$"):
            compared(make_tasks(validation=7, test=2).all_labelled(), out=tmp_path / "c")
        assert not (tmp_path / "c").exists()

    def test_the_old_name_of_methods_works_with_a_warning_that_names_the_new_one(self):
        with (
            pytest.warns(DeprecationWarning, match=r"compare\(methods=…\)"),
            pytest.raises(ConfigError, match="unifrom"),
        ):
            ms.compare(make_tasks(), schedulers=["unifrom"])


class TestKinds:
    def test_unlabelled_rows_are_predicted_under_their_names(self, tmp_path):
        tasks = make_tasks(validation=17, test=3).all_labelled()
        inputs = make_tasks(seed=5).test.inputs[:3]
        names = ("mine.csv line 2", "mine.csv line 3", "mine.csv line 9")
        rows = ms.Unlabelled(inputs, ms.Provenance("mine.csv", np.arange(3)), names)
        found = compared(replace(tasks, unlabelled=rows), tune=False, out=tmp_path / "a")
        with (tmp_path / "a" / PREDICTIONS).open(newline="") as stream:
            read = list(csv.DictReader(stream))
        assert [row["row"] for row in read] == list(names)
        assert [row["prediction"] for row in read] == list(found.model.predict(inputs))
        assert found.remarks.judged.startswith("2 times 5-fold cross-validation on 20 labelled rows")

    def test_without_unlabelled_rows_there_is_no_such_file(self, small):
        assert not (small[0] / PREDICTIONS).exists()

    def test_sources_with_labels_of_their_own_are_neither_pooled_nor_left_out(self):
        found = compared(make_own_label_tasks(), None, tune=False, references=True, network="mlp")
        named = [line.name for line in found.remarks.table if line.kind == "reference"]
        assert {name.partition(", ")[2] for name in named} == {"", "target only"}
        assert {line.lost for line in found.sources()} == {None}

    def test_without_scikit_learn_trees_are_left_out_with_a_warning(self, monkeypatch):
        monkeypatch.setattr(references, "available", lambda module: False)
        found = compared(tune=False, references=True)
        assert not any("forest" in line.name or "boosting" in line.name for line in found.remarks.table)
        assert any("pip install 'metasched[references]'" in line for line in found.warnings)

    def test_what_was_made_in_python_is_compared_and_goes_on(self, tmp_path):
        own = ms.schedulers.make("cyclic", num_tasks=3)
        asked = {
            "methods": [ms.Method("mine", own), ms.Method("again", "cyclic")],
            "learner": replace(LEARNER, optimiser=optax.sgd(0.1)),
            "tune": False,
            "out": tmp_path / "a",
        }
        found = compared(**asked)
        finals = {run.method: run.final for run in found.outcomes if run.spec.seed == 0}
        assert finals["mine"] == finals["again"]
        assert compared(**asked).remarks == found.remarks
        assert np.array_equal(
            ms.load_model(tmp_path / "a", network=NETWORK).predict(make_tasks().test.inputs),
            found.model.predict(make_tasks().test.inputs),
        )

    def test_batches_of_one_source_are_as_small_as_the_smallest_source(self):
        tasks = make_tasks(sizes=(12, 3))
        found = compared(tasks, learner=replace(LEARNER, batching="per_source"), tune=False)
        assert {run.spec.settings["batch_size"] for run in found.outcomes} == {3}
        assert any("'task-1' has 3 rows, fewer than a batch of 4" in line for line in found.warnings)

    def test_best_single_is_the_source_of_the_folds(self, tmp_path):
        found = compared(make_tasks(validation=12), ["best-single"], tune=False, out=tmp_path / "a")
        stored = [run for run in outcomes.read(tmp_path / "a/.work/folds.jsonl") if "single" in run.spec.scheduler]
        scores = {}
        for run in stored:
            scores.setdefault(run.spec.scheduler, []).append(run.final.test_accuracy)
        best = max(scores, key=lambda word: np.mean(scores[word]))
        assert len(scores) == 3
        assert found.ours.startswith("best single: task-")
        assert next(run for run in found.outcomes if run.method == found.ours).spec.scheduler == best

    def test_with_runs_that_all_diverge_the_final_model_knows_nothing(self):
        tasks = make_tasks()
        found = compared(tasks, tune=False, learner=replace(LEARNER, learning_rate=1e30))
        assert all(run.diverged for run in found.outcomes)
        assert found.remarks.final.startswith("The final model is majority class")
        counts = np.bincount(tasks.validation.labels)
        assert set(found.model.predict(tasks.test.inputs)) == {tasks.classes[counts.argmax()]}
        line = next(line for line in found.remarks.table if line.name == "uniform")
        assert line.score.value == pytest.approx(np.mean(tasks.test.labels == 0))

    def test_seeds_that_folds_have_too_are_seeds_like_any_other(self):
        found = compared(divided(), seeds=(1001, 1002), tune=False, references=True)
        assert {run.spec.seed for run in found.outcomes} == {1001, 1002}
        assert "logistic regression, pooled" in found.table()
