"""``metasched predict`` as a user types it."""

import csv
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import metasched as ms
from helpers import make_regression, make_tasks
from metasched.cli import main
from metasched.references.mean import mean_of
from metasched.references.recipes import Recipe, fit_recipe

CONFIG = ms.Joint(batch_size=4, updates=2, batches_per_update=2)


@pytest.fixture
def tasks():
    return make_tasks()


@pytest.fixture
def runs(tmp_path, monkeypatch, tasks):
    """Two seeds below runs/a, the first of them saved once more as a model alone."""
    monkeypatch.chdir(tmp_path)
    run = ms.train(tasks, "uniform", network=ms.networks.mlp(3, (8,)), learner=CONFIG, seeds=(4, 2), out="runs/a")
    run.model(2).save("model")
    ms.datasets.save_npz(tasks, "set.npz")
    return run


def fails(capsys, *words):
    """Run a command that must exit with 2 and one line; return the line."""
    with pytest.raises(SystemExit) as stopped:
        main(["predict", *words])
    assert stopped.value.code == 2
    error = capsys.readouterr().err.strip()
    assert error.startswith("metasched: ")
    assert "\n" not in error
    return error


def test_every_row_is_written_with_its_class_and_the_probability_of_each(runs, tasks, capsys):
    np.savetxt("rows.csv", tasks.test.inputs, delimiter=",")
    main(["predict", "runs/a/seed-4", "rows.csv", "--out", "p.csv"])
    assert capsys.readouterr().out == "30 rows predicted\nPredictions: p.csv\n"
    with Path("p.csv").open() as stream:
        lines = list(csv.DictReader(stream))
    assert [line["row"] for line in lines] == [str(row) for row in range(1, 31)]
    assert [line["prediction"] for line in lines] == runs.model(4).predict(tasks.test.inputs).tolist()
    found = np.array([[float(line[f"p({name})"]) for name in tasks.classes] for line in lines], np.float32)
    np.testing.assert_allclose(found, runs.model(4).predict_proba(tasks.test.inputs), rtol=1e-5)


def test_without_a_file_the_first_rows_are_printed_and_labels_give_the_accuracy_of_the_run(runs, capsys):
    main(["predict", "runs/a/seed-2", "set.npz"])
    said = capsys.readouterr()
    assert len(said.out.splitlines()) == 13
    assert "30 rows predicted; the first 10 are shown, and --out writes all of them" in said.out
    assert f"accuracy {runs.final[2]['test_accuracy']:.4f} on 30 rows with labels" in said.out
    assert said.err == "note: set.npz: the file holds a task set; these are its test rows\n"


@pytest.mark.parametrize(("words", "seed"), [(["runs/a", "--seed", "4"], 4), (["model"], 2), (["runs/a/seed-4"], 4)])
def test_a_seed_a_run_or_a_model_is_taken(runs, capsys, words, seed):
    main(["predict", words[0], "set.npz", *words[1:], "--json"])
    told = json.loads(capsys.readouterr().out)
    assert (told["rows"], told["labelled_rows"]) == (30, 30)
    assert told["accuracy"] == runs.final[seed]["test_accuracy"]
    assert told["predictions"]["prediction"] == runs.model(seed).predict(runs.tasks.test.inputs).tolist()


def test_several_seeds_are_their_mean(runs, capsys):
    main(["predict", "runs/a", "set.npz", "--json"])
    told = json.loads(capsys.readouterr().out)
    inputs, labels = runs.tasks.test.inputs, runs.tasks.test.labels
    chances = np.mean([runs.model(seed).predict_proba(inputs) for seed in (4, 2)], axis=0)
    assert told["accuracy"] == pytest.approx(np.mean(chances.argmax(axis=1) == labels))
    found = [told["predictions"][f"p({name})"] for name in runs.tasks.classes]
    assert np.transpose(found) == pytest.approx(chances, abs=1e-6)


def test_the_folder_of_a_comparison_is_its_final_model(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    tasks = make_tasks()
    ms.datasets.save_npz(tasks, "set.npz")
    learner = ms.Joint(batch_size=4, batches_per_update=2, updates=2)
    found = ms.compare(tasks, ["uniform"], seeds=2, learner=learner, tune=False, references=False, out="runs/c")
    main(["predict", "runs/c", "set.npz", "--out", "p.csv"])
    assert "30 rows predicted" in capsys.readouterr().out
    with Path("p.csv").open() as stream:
        lines = list(csv.DictReader(stream))
    assert [line["prediction"] for line in lines] == found.model.predict(tasks.test.inputs).tolist()


@pytest.mark.parametrize(("metric", "words"), [("log-loss", "log-loss"), ("auc", "AUC")])
def test_the_metric_of_the_run_is_printed_as_people_know_it(tmp_path, monkeypatch, capsys, metric, words):
    monkeypatch.chdir(tmp_path)
    tasks = make_tasks()
    ms.datasets.save_npz(tasks, "set.npz")
    run = ms.train(tasks, "uniform", learner=replace(CONFIG, metric=metric), out="runs/m")
    value = abs(run.final[0]["test_accuracy"])
    assert f"\ntest {words} {value:.3f} on 30 rows" in repr(run)
    main(["predict", "runs/m", "set.npz", "--out", "p.csv"])
    assert f"\n{words} {value:.4f} on 30 rows with labels" in capsys.readouterr().out
    main(["predict", "runs/m", "set.npz", "--json"])
    told = json.loads(capsys.readouterr().out)[metric.replace("-", "_")]
    assert told == pytest.approx(value)


def test_numbers_are_predicted_and_scored_in_regression(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    tasks = make_regression()
    ms.datasets.save_npz(tasks, "set.npz")
    run = ms.train(tasks, "uniform", network=ms.networks.mlp(2, (8,)), learner=CONFIG, out="runs/r")
    main(["predict", "runs/r", "set.npz", "--out", "p.csv"])
    assert f"score {run.final[0]['test_accuracy']:.4f} on 30 rows" in capsys.readouterr().out
    found = np.loadtxt("p.csv", delimiter=",", skiprows=1)
    assert Path("p.csv").read_text().startswith("row,prediction 1,prediction 2\n")
    np.testing.assert_allclose(found[:, 1:], run.model().predict(tasks.test.inputs), rtol=1e-6)


def test_tables_go_from_training_to_prediction_by_the_names_of_their_columns(tmp_path, monkeypatch, capsys):
    pytest.importorskip("pyarrow")
    monkeypatch.chdir(tmp_path)
    random = np.random.default_rng(0)

    def table(path, count):
        kinds = random.integers(0, 2, count)
        lines = [f"{100 * kind + random.normal():.3f},{'ab'[kind]},{['calm', 'storm'][kind]}" for kind in kinds]
        Path(path).write_text("\n".join(["wind,sky,weather", *lines]) + "\n")

    Path("mine").mkdir()
    for name in ("east", "west", "home"):
        table(f"mine/{name}.csv", 40)
    options = ["--data", "target=home", "--data", "target_labels=10", "--data", "label=weather"]
    main(["train", "mine", *options, "--out", "runs/a", "--updates", "2", "--quiet"])
    table("new.csv", 30)
    main(["predict", "runs/a", "new.csv", "--json"])
    before = json.loads(capsys.readouterr().out.split("\n\n")[-1].partition("Run: runs/a\n")[2])
    lines = [line.split(",") for line in Path("new.csv").read_text().splitlines()]
    Path("new.csv").write_text("".join(f"{weather},{sky},{wind}\n" for wind, sky, weather in lines))
    main(["predict", "runs/a", "new.csv", "--json"])
    assert json.loads(capsys.readouterr().out) == before
    right = [line[2] for line in lines[1:]]
    assert before["accuracy"] == np.mean(np.array(before["predictions"]["prediction"]) == right)


def test_predictions_that_were_there_are_replaced_and_that_is_said(runs, tasks, capsys):
    np.savetxt("rows.csv", tasks.test.inputs, delimiter=",")
    Path("p.csv").touch()
    main(["predict", "model", "rows.csv", "--out", "p.csv"])
    assert "in place of" not in capsys.readouterr().out
    main(["predict", "model", "rows.csv", "--out", "p.csv"])
    assert "Predictions: p.csv (replaces the earlier file)" in capsys.readouterr().out
    main(["predict", "model", "rows.csv", "--out", "p.csv", "--json"])
    assert json.loads(capsys.readouterr().out) == {"rows": 30, "out": "p.csv", "replaced": True}


class TestBadInput:
    def test_arrays_by_other_names_are_named_with_those_that_are_read(self, runs, capsys):
        np.savez("sources.npz", **{"tasks/a/inputs": np.zeros((3, 4)), "tasks/a/labels": np.zeros(3, int)})
        error = fails(capsys, "model", "sources.npz")
        assert "only tasks/a/inputs, tasks/a/labels; save the rows to predict as 'inputs': np.savez(" in error

    def test_rows_of_another_width_are_one_line_and_nothing_is_written(self, runs, capsys):
        Path("wide.csv").write_text("1,2,3,4\n1,2,3,4,5\n")
        error = fails(capsys, "model", "wide.csv", "--out", "p.csv")
        assert "wide.csv line 2: has 5 cells, but the model needs 4 numbers" in error
        np.savez("wide.npz", inputs=np.zeros((3, 5)))
        error = fails(capsys, "model", "wide.npz", "--out", "p.csv")
        assert "wide.npz: inputs have shape (3, 5), but the model reads (rows, 4)" in error
        assert not list(Path().glob("p.csv*"))

    @pytest.mark.parametrize("name", ["model.json", "model.safetensors"])
    def test_a_changed_byte_is_one_line(self, runs, capsys, name):
        path = Path("model") / name
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(content)
        assert f"{name}: is damaged" in fails(capsys, "model", "set.npz")

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            (["none", "set.npz"], "none: no such folder"),
            (["empty", "set.npz"], "empty: has no model"),
            (["runs/a", "none.csv"], "none.csv: no such file or folder"),
            (["runs/a", "set.npz", "--seed", "9"], "has no seed 9, only 2 and 4"),
            (["runs", "set.npz", "--out", "set.npz"], "set.npz: is the file with the rows to predict"),
            (
                ["model", "set.npz", "--out", "no/such/p.csv"],
                "p.csv: cannot write (No such file or directory); make its",
            ),
            (
                ["model", "set.npz", "--out", "empty"],
                "empty: is a folder; give --out a file, such as empty/predictions.csv",
            ),
            (["model", "set.npz", "--out", "model/model.json"], "already exists and is not a file of predictions"),
        ],
    )
    def test_what_is_not_there_is_one_line(self, runs, capsys, words, message):
        Path("empty").mkdir()
        assert message in fails(capsys, *words)

    def test_runs_of_several_methods_are_told_apart_by_name(self, runs, tasks, capsys):
        ms.train(tasks, "cyclic", network=ms.networks.mlp(3, (8,)), learner=CONFIG, seeds=(4,), out="runs/b")
        error = fails(capsys, "runs", "set.npz")
        assert "runs: holds 3 runs, of more than one method; name one of them (a/seed-2, a/seed-4, b)" in error

    def test_a_run_that_has_not_ended_says_how_to_go_on(self, runs, capsys):
        Path("runs/a/seed-4/model.json").unlink()
        assert "made by an earlier metasched" in fails(capsys, "runs/a/seed-4", "set.npz")
        Path("runs/a/seed-4/outcome.jsonl").unlink()
        assert "has not ended: metasched resume runs/a/seed-4" in fails(capsys, "runs/a/seed-4", "set.npz")


@pytest.mark.parametrize("kind", ["linear", "majority", "mean"])
def test_a_model_that_is_no_network_predicts_too(kind, runs, tasks, capsys):
    members = [runs.model(2), fit_recipe(Recipe("linear", "pooled"), tasks)]
    model = mean_of(members) if kind == "mean" else fit_recipe(Recipe(kind, "target"), tasks)
    model.save("other")
    main(["predict", "other", "set.npz", "--json"])
    said = json.loads(capsys.readouterr().out)
    assert said["accuracy"] == model.score(*tasks.test)
    assert said["predictions"]["prediction"] == model.predict(tasks.test.inputs).tolist()
