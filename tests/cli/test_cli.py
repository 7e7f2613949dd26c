"""The command as a user types it: exit codes, one clear line, nothing half written."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import metasched as ms
from helpers import make_tasks
from metasched.cli import demo, main
from metasched.cli.common import stdout
from metasched.learners import reference_results
from metasched.runs import checkpoint

SMALL = ["--batch-size", "4", "--updates", "4", "--quiet"]


@pytest.fixture
def saved(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ms.datasets.save_npz(make_tasks(), tmp_path / "set.npz")
    return "set.npz"


def fails(capsys, *words):
    """Run a command that must exit with 2 and one line; return the line."""
    with pytest.raises(SystemExit) as stopped:
        main(words)
    assert stopped.value.code == 2
    error = capsys.readouterr().err.strip()
    assert error.startswith("metasched: ")
    assert "\n" not in error
    return error


class TestTrain:
    def test_trains_and_names_the_run(self, saved, capsys):
        main(["train", saved, "--scheduler", "uniform", "--seed", "11", "--out", "runs/a", *SMALL])
        printed = capsys.readouterr().out
        assert "seed 11: test accuracy" in printed
        assert "Run: runs/a" in printed
        assert "initial model" not in printed

    def test_algorithm_1_is_held_against_its_initial_model(self, saved, capsys):
        main(["train", saved, "--scheduler", "uniform", "--learner", "meta", "--out", "runs/a", *SMALL])
        assert "(initial model 0." in capsys.readouterr().out

    def test_auto_says_what_it_chose_and_why(self, saved, capsys):
        main(["train", saved, "--out", "runs/a", *SMALL])
        name, why = reference_results.best("joint"), reference_results.why("joint")
        assert f"auto chose {name}: {why}" in capsys.readouterr().out.replace("\n", " ")

    def test_json_is_one_line_for_every_meta_update_and_a_last_one_with_the_result(self, saved, capsys):
        main(["train", saved, "--out", "runs/a", "--seeds", "2", "--json", *SMALL])
        *records, result = (json.loads(line) for line in capsys.readouterr().out.splitlines())
        assert [(record["seed"], record["update"]) for record in records] == [
            (seed, update) for seed in (0, 1) for update in (1, 2, 3, 4)
        ]
        lines = [line for seed in (0, 1) for line in Path(f"runs/a/seed-{seed}/metrics.jsonl").read_text().splitlines()]
        assert records == list(map(json.loads, lines))
        assert result == {"final": {str(r["seed"]): r["final"] for r in records if "final" in r}, "out": "runs/a"}

    @pytest.mark.slow
    def test_json_comes_as_it_happens(self, saved):
        words = ["train", saved, "--out", "runs/a", "--batch-size", "4", "--updates", "100000", "--json"]
        process = subprocess.Popen(
            [sys.executable, "-m", "metasched", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        try:
            first, second = (json.loads(process.stdout.readline()) for _ in range(2))
            assert (first["update"], second["update"]) == (1, 2)
            assert process.poll() is None
        finally:
            process.kill()
            process.communicate()

    def test_without_a_terminal_progress_is_a_plain_line_on_standard_error(self, saved, capsys):
        words = ["--out", "runs/a", "--batch-size", "4", "--updates", "2", "--json"]
        main(["train", saved, "--scheduler", "cyclic", *words])
        said = capsys.readouterr()
        assert said.err.startswith("cyclic: 2 of 2 updates, 24 rows drawn, accuracy 0.")
        assert len(said.err.splitlines()) == 1
        assert len(said.out.splitlines()) == 3

    def test_quiet_is_no_progress_at_all(self, saved, capsys):
        main(["train", saved, "--out", "runs/a", *SMALL])
        assert capsys.readouterr().err == ""

    def test_trackers_are_named_on_the_command_line(self, saved, capsys):
        pytest.importorskip("tensorboard")
        main(["train", saved, "--out", "runs/a", "--tracker", "tensorboard", *SMALL])
        assert list(Path("runs/a/tensorboard/seed-0").glob("events.out.tfevents.*"))
        main(["train", saved, "--out", "runs/b", *SMALL])
        main(["resume", "runs/b", "--tracker", "tensorboard", "--quiet"])
        assert json.loads(Path("runs/b/tensorboard/logged.json").read_text()) == {"0": 4}

    def test_a_tracker_whose_package_is_missing_names_the_extra(self, saved, capsys, monkeypatch):
        monkeypatch.setitem(sys.modules, "wandb", None)
        error = fails(capsys, "train", saved, "--out", "runs/a", "--tracker", "wandb", *SMALL)
        assert "this needs wandb; install it with: pip install 'metasched[wandb]'" in error
        assert not Path("runs").exists()

    def test_options_of_the_data_set_are_words(self, saved, capsys):
        options = ["--data", "target_labels=5", "--data", "noise={'task-0': 1.0}"]
        main(["train", saved, *options, "--out", "runs/a", *SMALL])
        description = json.loads(Path("runs/a/run.json").read_text())
        assert description["spec"]["data"]["options"] == {"target_labels": 5, "noise": {"task-0": 1.0}}

    def test_false_is_false(self, saved, capsys):
        main(["data", "show", saved, "--data", "shuffle_order=false"])
        assert "shuffled" not in capsys.readouterr().out
        main(["data", "show", saved, "--data", "shuffle_order=true"])
        assert "task-0: order shuffled" in capsys.readouterr().out

    def test_resume_after_the_end_prints_the_same_result(self, saved, capsys):
        main(["train", saved, "--out", "runs/a", "--json", *SMALL])
        first = capsys.readouterr().out
        main(["resume", "runs/a", "--json", "--quiet"])
        assert capsys.readouterr().out == first

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            (["train", "digit"], "did you mean 'digits'"),
            (["train", "no/such.npz"], "no such file"),
            (["train", "set.npz", "--scheduler", "cyclick"], "did you mean 'cyclic'"),
            (
                ["train", "set.npz", "--batch-size", "13", "--batching", "per_source"],
                "batch_size is 13, but task 'task-2' has 9 rows",
            ),
            (["train", "set.npz", "--data", "target_labels"], "expected key=value"),
            (["train", "set.npz", "--data", "target_labels=many"], "target_labels is 'many'; give a whole number"),
            (["train", "set.npz", "--data", "noise=0.4"], "noise is 0.4; give such as noise={'NAME': 0.4}"),
            (["diagnose", "set.npz", "--seed", "-1"], "seed is -1; give a whole number from 0 to 4294967295"),
            (["diagnose", "set.npz", "--seed", "4294967296"], "seed is 4294967296; give a whole number from 0"),
            (
                ["plan", "set.npz", "--batch-size", "4", "--seed", "9223372036854775808"],
                "seed is 9223372036854775808; give",
            ),
            (["train", "set.npz", "--seed", "4294967296", "--batch-size", "4"], "seed is 4294967296; give"),
            (["train", "set.npz", "--data", "colour=red"], "unknown option 'colour' of data set 'set.npz'"),
            (["train", "set.npz", "--option", "speed=2", "--batch-size", "4"], "unknown option 'speed' of scheduler"),
            (["train", "set.npz", "--seeds", "0"], "seeds is 0"),
            (["train", "set.npz", "--tracker", "tensorbord"], "did you mean 'tensorboard'"),
            (["train", "set.npz", "--seed", "-1", "--batch-size", "4"], "seed is -1; give"),
            (["train", "set.npz", "--network", "cnn", "--batch-size", "4"], "a cnn needs inputs"),
            (["train", "set.npz", "--batch-size", "4", "--gradient", "scan"], "or give --learner meta"),
            (["resume", "nowhere"], "is not a run folder"),
        ],
    )
    def test_bad_input_is_one_line_and_writes_nothing(self, saved, capsys, words, message):
        assert message in fails(capsys, *words)
        assert [path.name for path in Path().iterdir()] == ["set.npz"]

    def test_a_newer_run_folder_is_refused(self, saved, capsys):
        main(["train", saved, "--out", "runs/a", *SMALL])
        path = Path("runs/a/run.json")
        path.write_text(json.dumps({**json.loads(path.read_text()), "format": 99}))
        capsys.readouterr()
        assert "newer metasched (format 99" in fails(capsys, "resume", "runs/a")

    def test_another_run_in_the_folder_is_refused(self, saved, capsys):
        main(["train", saved, "--scheduler", "cyclic", "--out", "runs/a", *SMALL])
        capsys.readouterr()
        assert "another scheduler" in fails(capsys, "train", saved, "--out", "runs/a", "--scheduler", "uniform", *SMALL)


class TestData:
    def test_list_names_every_set(self, capsys):
        main(["data", "list"])
        printed = capsys.readouterr().out
        assert all(name in printed for name in ms.datasets.names())
        main(["data", "list", "--json"])
        assert "demo" in json.loads(capsys.readouterr().out)["sets"]

    def test_verify_counts_good_absent_and_damaged(self, tmp_path, monkeypatch, capsys):
        monkeypatch.setenv("METASCHED_DATA", str(tmp_path))
        main(["data", "verify", "--json"])
        result = json.loads(capsys.readouterr().out)
        assert result["good"] == result["damaged"] == 0
        assert result["absent"] == len(result["files"]) > 80
        assert {"gas/batch9.dat", "reviews/books.task.train", "scripts/usps/usps_all.mat"} <= set(result["files"])
        (tmp_path / "semeion").mkdir()
        (tmp_path / "semeion" / "semeion.data").write_text("1 2 3")
        assert "semeion.data: has 5 bytes, expected 2,889,702" in fails(capsys, "data", "verify", "--json")

    def test_path_tells_where_files_are(self, tmp_path, monkeypatch, capsys):
        monkeypatch.setenv("METASCHED_DATA", str(tmp_path))
        main(["data", "path"])
        assert capsys.readouterr().out.splitlines()[0] == str(tmp_path)
        assert "is in none of" in fails(capsys, "data", "path", "semeion/semeion.data")
        assert "did you mean 'semeion/semeion.data'" in fails(capsys, "data", "path", "semeion.data")
        (tmp_path / "semeion").mkdir()
        (tmp_path / "semeion" / "semeion.data").write_text("")
        main(["data", "path", "semeion/semeion.data"])
        assert capsys.readouterr().out.strip() == str(tmp_path / "semeion" / "semeion.data")

    def test_fetch_says_what_cannot_be_fetched(self, tmp_path, monkeypatch, capsys):
        monkeypatch.setenv("METASCHED_DATA", str(tmp_path))
        assert "did you mean 'mnist'" in fails(capsys, "data", "fetch", "mnst")
        assert "climatenet has no public download; put climatenet/" in fails(capsys, "data", "fetch", "climatenet")
        said = fails(capsys, "data", "fetch", "activity")
        assert "(it is from GitHub bhumeshchopda/WISDM_Challenge); put activity/WISDM_ar_v1.1_" in said
        assert "or set METASCHED_DATA to the folder that has it" in said
        assert "nothing to fetch; give" in fails(capsys, "data", "fetch")

    def test_show_prints_the_summary(self, saved, capsys):
        main(["data", "show", saved, "--data", "target_labels=4"])
        assert "set: 3 tasks, 41 rows" in capsys.readouterr().out

    def test_simulate_weather_writes_a_file_that_loads(self, tmp_path, monkeypatch, capsys):
        pytest.importorskip("h5py")
        monkeypatch.chdir(tmp_path)
        main(["data", "simulate-weather", "w.h5", "--images", "12", "--height", "64", "--width", "96", "--quiet"])
        assert "simulated" in capsys.readouterr().out
        main(["data", "show", "weather", "--data", "path=w.h5"])
        assert "SIMULATED" in capsys.readouterr().out
        assert "exists and is not overwritten" in fails(capsys, "data", "simulate-weather", "w.h5", "--quiet")


class TestTables:
    @pytest.fixture
    def shops(self, tmp_path, monkeypatch):
        pytest.importorskip("pyarrow")
        monkeypatch.chdir(tmp_path)
        for number in (1, 2, 3):
            rows = [f"{row * number},{'' if row == 5 else row},{'yes' if row % 3 else 'no'}" for row in range(12)]
            path = tmp_path / "shops" / f"shop{number}.csv"
            path.parent.mkdir(exist_ok=True)
            path.write_text("\n".join(["age,visits,bought", *rows]))
        return ["shops", "--target", "shop3", "--label", "bought"]

    def test_flags_say_which_rows_and_what_to_predict(self, shops, capsys):
        main(["data", "show", *shops, "--target-labels", "4", "--missing", "mean", "--data", "seed=3"])
        printed = capsys.readouterr().out
        assert "classes: no, yes" in printed
        assert "4 of 12 rows are for validation, drawn at random (seed 3)" in printed

    def test_columns_are_dropped_and_kept_by_flags(self, shops, capsys):
        main(["data", "show", *shops, "--drop", "visits"])
        assert "inputs 1," in capsys.readouterr().out
        for path in Path("shops").iterdir():
            lines = path.read_text().splitlines()
            path.write_text("\n".join(f"{'id' if row == 0 else row},{line}" for row, line in enumerate(lines)))
        main(["data", "show", *shops, "--missing", "mean"])
        printed = capsys.readouterr().out
        assert "inputs 2," in printed
        assert "to learn from it: --keep id (keep=['id'])" in printed
        main(["data", "show", *shops, "--missing", "mean", "--keep", "id"])
        assert "inputs 3," in capsys.readouterr().out

    def test_whole_numbers_are_amounts_or_classes_as_a_flag_says(self, shops, capsys):
        for path in Path("shops").iterdir():
            path.write_text("\n".join(["age,cups", *(f"{row * 1.5},{row % 3}" for row in range(12))]))
        words = ["data", "show", "shops", "--target", "shop3", "--label", "cups", "--data", "allow_overlap=True"]
        main([*words, "--regression"])
        assert "targets of 1 number" in capsys.readouterr().out
        main([*words, "--no-regression"])
        assert "classes (shared)" in capsys.readouterr().out
        assert "cannot both be given" in fails(capsys, *words, "--regression", "--no-regression")

    def test_a_flag_and_an_option_are_the_same(self, shops, capsys):
        main(["data", "show", *shops, "--missing", "mean"])
        printed = capsys.readouterr().out
        main(["data", "show", "shops", "--data", "target=shop3", "--data", "label=bought", "--data", "missing=mean"])
        assert capsys.readouterr().out == printed

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            ([], "shop1.csv line 7: column 'visits' is empty (1 such row); fill it, or give --missing mean"),
            (["--missing", "mean", "--target-labels", "12"], "leave some of the 12 rows for test"),
            (["--missing", "mean", "--label", "sold"], "has no column 'sold' to predict"),
        ],
    )
    def test_what_does_not_fit_is_one_line_and_leaves_nothing(self, shops, capsys, words, message):
        assert message in fails(capsys, "train", *shops, *words, "--out", "runs/a")
        assert not Path("runs").exists()

    def test_a_misspelt_label_is_shown_before_training_and_after_it(self, shops, capsys):
        path = Path("shops/shop1.csv")
        path.write_text(path.read_text().replace("8,8,yes", "8,8,Yes"))
        line = "! label 'Yes' (shops/shop1.csv line 10, 1 row; did you mean 'yes'?) is not in the target;"
        main(["data", "show", *shops, "--missing", "mean"])
        assert line in capsys.readouterr().out
        main(["data", "show", *shops, "--missing", "mean", "--json"])
        assert json.loads(capsys.readouterr().out)["warnings"][0].startswith(line[2:])
        main(["train", *shops, "--missing", "mean", "--quiet", "--out", "runs/a", *SMALL])
        assert line in capsys.readouterr().out

    def test_a_target_of_three_rows_is_doubted(self, shops, capsys):
        path = Path("shops/shop3.csv")
        path.write_text("\n".join(path.read_text().splitlines()[:4]))
        main(["train", *shops, "--missing", "mean", "--quiet", "--out", "runs/a", *SMALL])
        assert "! the target has 1 labelled row and 2 test rows: with fewer than 8" in capsys.readouterr().out

    def test_a_ragged_row_is_one_line(self, shops, capsys):
        with Path("shops/shop2.csv").open("a") as stream:
            stream.write("\n1,2,yes,no")
        assert "shops/shop2.csv line 14: has 4 cells, the first line names 3" in fails(capsys, "diagnose", *shops)


class TestDemo:
    def test_its_methods_a_verdict_and_a_page(self, tmp_path, monkeypatch, capsys):
        pytest.importorskip("mlxtend")
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(demo, "LEARNER", ms.Joint(updates=2, batches_per_update=4, eval_every=1))
        main(["demo", "--seeds", "2", "--out", "d"])
        said = capsys.readouterr()
        own = [method.name for method in demo.METHODS]
        names = [*own, "logistic regression, pooled", "boosting, target only", "the final model"]
        assert all(any(line.startswith(name) for line in said.out.splitlines()) for name in names)
        assert "Too few seeds to tell whether choosing is better than uniform or target-only" in said.out
        assert "Page: d/page.html" in said.out
        assert "useful alone: uniform over angle-0 and angle-30" in said.out
        page = Path("d/page.html").read_text()
        assert all(f">{name}<" in page for name in names)

        main(["demo", "--seeds", "2", "--json", "--quiet", "--out", "d"])
        result = json.loads(capsys.readouterr().out)
        assert {name for name, line in result["methods"].items() if line["kind"] == "network"} == set(own)
        assert {"angle-0", "angle-30"} < set(result["sources"])
        assert result["page"] == "d/page.html"


def test_a_wrong_flag_is_exit_code_2():
    with pytest.raises(SystemExit) as stopped:
        main(["train", "demo", "--batch-size", "many"])
    assert stopped.value.code == 2


@pytest.mark.slow
def test_ctrl_c_is_exit_code_130_with_the_work_kept(saved, tmp_path):
    words = ["train", saved, "--out", "runs/a", "--batch-size", "4", "--updates", "100000"]
    # A process begun in the background may inherit that Ctrl-C is ignored: listen to it again, as at a terminal.
    code = "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); "
    code += "from metasched.cli import main; main(sys.argv[1:])"
    process = subprocess.Popen(
        [sys.executable, "-c", code, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    metrics = tmp_path / "runs" / "a" / "metrics.jsonl"
    deadline = time.monotonic() + 600
    sizes = set()  # of a second chunk of updates, too: the first is no state yet while its lines are written
    while len(sizes) < 4 and time.monotonic() < deadline:
        sizes.add(metrics.stat().st_size if metrics.exists() else 0)
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=600)
    assert process.returncode == 130
    assert "Traceback" not in error
    assert "metasched resume runs/a" in error
    assert checkpoint.updates(tmp_path / "runs" / "a") > 0


def test_a_closed_pipe_is_no_stack(tmp_path):
    command = f"{sys.executable} -m metasched data list | head -1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True)
    assert "Traceback" not in done.stderr


class TestDiagnose:
    def test_prints_verdicts_and_a_recommendation(self, saved, capsys):
        main(["diagnose", saved, "--permutations", "99", "--steps", "0"])
        printed = capsys.readouterr().out
        assert "task-1: no sign that order carries information" in printed
        name = reference_results.best("joint")
        assert printed.startswith(f"set: Use --scheduler {name}: order carries no information here")

    def test_json_and_a_chart(self, saved, capsys):
        pytest.importorskip("altair")
        main(["diagnose", saved, "--permutations", "99", "--steps", "0", "--json", "--out", "t.svg"])
        assert json.loads(capsys.readouterr().out)["tasks"][2]["name"] == "task-2"
        assert Path("t.svg").read_text().startswith("<svg")

    def test_a_chart_that_cannot_be_written_is_said_first(self, saved, capsys):
        assert "cannot write a chart as '.doc'" in fails(capsys, "diagnose", saved, "--out", "t.doc")


class TestPlan:
    def test_prints_indices_and_what_would_be_drawn(self, saved, capsys):
        main(["plan", saved, "--batch-size", "3", "--batches", "20", "--batching", "per_source"])
        printed = capsys.readouterr().out
        assert printed.startswith("set: From the initial model, gittins would draw most on task-")
        assert printed.index("Gittins index") < printed.index("  reward      validation accuracy")
        assert "Rows drawn in 20 batches of 3 by mdp" in printed
        main(["plan", saved, "--batch-size", "3", "--json", "--method", "lp"])
        assert json.loads(capsys.readouterr().out)["joint"]["method"] == "lp"

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            (["--discount", "1"], "discount is 1"),
            (["--method", "magic"], "unknown method 'magic'"),
            (["--batches", "0"], "batches is 0; give 1 … 1,000,000"),
            (["--batches", "10000000000"], "batches is 10000000000; give 1 … 1,000,000"),
        ],
    )
    def test_bad_options_are_one_line(self, saved, capsys, words, message):
        assert message in fails(capsys, "plan", saved, "--batch-size", "3", *words)


class TestNamesFromElsewhere:
    """Names come from files of anybody; none of them steers the terminal."""

    RED, WIPE = "\x1b[31m", "\x1b[2J\x1b]0;owned\x07"

    def test_names_of_tasks_and_classes_are_shown_escaped(self, tmp_path, monkeypatch, capsys):
        monkeypatch.chdir(tmp_path)
        plain = make_tasks()
        arrays = {f"{task.name}{self.RED}": (task.inputs, task.labels) for task in plain.tasks}
        names = [f"{name}{self.WIPE}" for name in plain.classes]
        odd = ms.TaskSet.from_arrays(arrays, validation=plain.validation, test=plain.test, classes=names)
        ms.datasets.save_npz(odd, "odd.npz")
        main(["data", "show", "odd.npz"])
        main(["train", "odd.npz", "--scheduler", "uniform", "--out", "runs/a", *SMALL])
        main(["diagnose", "odd.npz", "--steps", "0", "--permutations", "10", "--quiet"])
        printed = capsys.readouterr()
        assert "task-0\\x1b[31m" in printed.out
        assert "\x1b" not in printed.out + printed.err
        assert "\x07" not in printed.out + printed.err

    def test_so_are_names_of_files_in_the_one_line_of_an_error(self, tmp_path, monkeypatch, capsys):
        monkeypatch.chdir(tmp_path)
        line = fails(capsys, "data", "show", f"no{self.WIPE}\nsuch.npz")
        assert "\x1b" not in line
        assert r"no\x1b[2J\x1b]0;owned\x07\x0asuch.npz: no such file" in line

    def test_a_name_that_is_no_text_is_printed_all_the_same(self, tmp_path, monkeypatch, capsys):
        monkeypatch.chdir(tmp_path)
        Path("\udcff.npz").write_bytes(b"no archive")
        assert r"\udcff.npz" in fails(capsys, "data", "show", "\udcff.npz")

    def test_on_a_terminal_only_our_own_styles_remain(self, monkeypatch):
        monkeypatch.setenv("FORCE_COLOR", "1")
        monkeypatch.setenv("TERM", "xterm-256color")
        console = stdout()
        with console.capture() as captured:
            console.print(f"a{self.WIPE}b", style="red", markup=False, highlight=False)
        assert captured.get().startswith("\x1b[31ma\\x1b[2J\\x1b]0;owned")
        assert captured.get().count("\x1b") == 2


@pytest.mark.parametrize("words", [["--seed", "4294967296"], ["--seed", str(2**63)], ["--seed", "-1"]])
@pytest.mark.parametrize("command", ["train", "diagnose", "plan"])
def test_a_seed_outside_its_range_is_refused_alike(saved, capsys, command, words):
    assert f"seed is {words[1]}; give a whole number from 0 to 4294967295" in fails(capsys, command, saved, *words)
    assert not Path("runs").exists()


def test_so_many_seeds_are_refused_before_a_list_is_made_of_them(saved, capsys):
    assert "seeds is 4000000000; give how many, from 1 to 100,000" in fails(
        capsys, "train", saved, "--seeds", "4000000000"
    )


@pytest.mark.parametrize("value", ["false", "False", "FALSE"])
def test_an_option_that_says_false_is_false(saved, capsys, value):
    main(["data", "show", saved, "--json"])
    plain = capsys.readouterr().out
    main(["data", "show", saved, "--json", "--data", f"shuffle_order={value}"])
    assert capsys.readouterr().out == plain
