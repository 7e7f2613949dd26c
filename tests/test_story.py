"""A first hour, whole: five files of one's own, does choosing help, and a model that is used."""

import csv
import json
import shutil
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import numpy as np
import pytest

import browser
import metasched as ms
from metasched.cli import main

pytestmark = pytest.mark.slow
NAMES = ("calm", "rain", "storm")
FEATURES = 6
LABELLED = 24
QUICK = ["--updates", "6", "--batches-per-update", "10", "--seeds", "2", "--methods", "thompson,uniform"]


def table(path, rows, random, shuffled=False):
    """Rows of three kinds of weather, told apart by a few numbers and a word."""
    labels = random.integers(0, len(NAMES), rows)
    numbers = random.normal(size=(rows, FEATURES)) + 1.5 * np.eye(len(NAMES), FEATURES)[labels]
    skies = np.where(labels == 2, "dark", "bright")
    told = random.permutation(labels) if shuffled else labels
    with path.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow([*(f"sensor {place}" for place in range(FEATURES)), "sky", "label"])
        for row in range(rows):
            writer.writerow([*np.round(numbers[row], 4), skies[row], NAMES[told[row]]])


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with five stations, one of them labelled at random, and rows that nobody has seen."""
    folder = tmp_path_factory.mktemp("story")
    random = np.random.default_rng(5)
    (folder / "stations").mkdir()
    for number in range(1, 6):
        table(folder / "stations" / f"station{number}.csv", 160, random, shuffled=number == 2)
    table(folder / "new.csv", 50, random)
    return folder


@pytest.fixture(scope="module")
def compared(place):
    """What a first comparison prints."""
    said = StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(said):
        patch.chdir(place)
        words = ["--target", "station5", "--target-labels", str(LABELLED), "--out", "runs/a", "--quiet"]
        main(["compare", "stations", *words, *QUICK])
    return said.getvalue()


def test_the_comparison_says_which_source_is_off_and_where_its_page_is(compared, place):
    lines = compared.splitlines()
    verdicts = ("Choosing", "Too few", "Sources do not help")
    assert any(line.startswith(verdicts) for line in lines[:2])
    assert [line for line in lines if line.startswith("! labels of 'station2' look shuffled")]
    assert not [line for line in lines if "station3' look shuffled" in line]
    assert lines[-1] == "Page: runs/a/page.html"
    assert (place / "runs/a/page.html").stat().st_size > 10_000


def test_its_models_predict_what_was_reported_and_rows_that_nobody_has_seen(compared, place, monkeypatch, capsys):
    del compared
    monkeypatch.chdir(place)
    run = Path("runs/a/runs/thompson/rate-0.001-seed-0")
    outcome = json.loads((run / "outcome.jsonl").read_text().splitlines()[0])
    reported = outcome["final"]["test_accuracy"]
    main(["predict", str(run), "stations/station5.csv", "--json"])
    everything = json.loads(capsys.readouterr().out)
    with Path("stations/station5.csv").open() as stream:
        labels = [row["label"] for row in csv.DictReader(stream)]
    right = np.array(everything["predictions"]["prediction"]) == np.array(labels)
    test = outcome["about"]["test_rows"]
    assert test == len(labels) - LABELLED
    assert right.sum() - LABELLED <= round(reported * test) <= right.sum()
    main(["predict", str(run), "new.csv", "--out", "predictions.csv"])
    assert "accuracy" in capsys.readouterr().out
    with Path("predictions.csv").open() as stream:
        predictions = list(csv.DictReader(stream))
    assert len(predictions) == 50
    assert {row["prediction"] for row in predictions} <= set(NAMES)


def test_the_model_scores_the_test_rows_exactly_as_the_run_did(compared, place, monkeypatch):
    del compared
    monkeypatch.chdir(place)
    tasks = ms.datasets.load("stations", target="station5", target_labels=LABELLED)
    for seed in (0, 1):
        run = Path(f"runs/a/runs/thompson/rate-0.001-seed-{seed}")
        reported = json.loads((run / "outcome.jsonl").read_text().splitlines()[0])["final"]["test_accuracy"]
        predicted = ms.load_model(run).predict(tasks.test.inputs)
        assert np.mean(predicted == np.array(tasks.classes)[tasks.test.labels]) == pytest.approx(reported, abs=1e-12)


@pytest.mark.skipif(browser.find() is None, reason="needs chromium on the PATH")
def test_the_page_opens_with_the_verdict(compared, place):
    pytest.importorskip("websocket")
    with browser.started() as new_tab:
        tab = new_tab()
        tab.resize(390, 844, phone=True)
        tab.open(place / "runs/a/page.html")
        title = tab.evaluate("document.querySelector('h1').textContent.trim()")
        bottom = tab.evaluate("document.querySelector('h1').getBoundingClientRect().bottom")
        assert title in compared.splitlines()[:2]  # a line on another kind of model may come before the verdict
        assert bottom < 844
        assert tab.errors() == []


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("ragged", ["stations/station1.csv", "line 4"]),
        ("columns", ["station3", "sky"]),
    ],
)
def test_bad_files_are_one_line_that_names_file_and_row(change, words, place, tmp_path, monkeypatch, capsys):
    shutil.copytree(place / "stations", tmp_path / "stations")
    monkeypatch.chdir(tmp_path)
    path = Path("stations") / {"ragged": "station1.csv", "columns": "station3.csv"}[change]
    lines = path.read_text().splitlines()
    if change == "ragged":
        lines[3] += ",7"
    else:
        lines[0] = lines[0].replace("sky", "heaven")
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises(SystemExit) as stopped:
        main(["compare", "stations", "--target", "station5", "--target-labels", str(LABELLED), "--out", "runs/b"])
    said = capsys.readouterr().err.strip()
    assert stopped.value.code == 2
    assert len(said.splitlines()) == 1, said
    assert all(word in said for word in words), said
    assert not Path("runs/b").exists()
