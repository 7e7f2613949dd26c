"""``metasched compare`` as a user types it."""

import json
import re
from pathlib import Path

import pytest

import metasched as ms
from helpers import make_tasks
from metasched.cli import main
from metasched.cli.compare import parsed

SMALL = [
    "--batch-size",
    "4",
    "--updates",
    "2",
    "--batches-per-update",
    "2",
    "--seeds",
    "2",
    "--no-references",
    "--methods",
    "uniform",
]


@pytest.fixture
def saved(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ms.datasets.save_npz(make_tasks(), tmp_path / "set.npz")
    return "set.npz"


def test_ends_with_the_verdict_tables_the_model_and_the_page_and_again_after_that_with_the_same(saved, capsys):
    words = [word for word in SMALL if word != "--no-references"]
    main(["compare", saved, *words, "--out", "runs/a"])
    said = capsys.readouterr()
    lines = said.out.splitlines()
    start = next(place for place, line in enumerate(lines) if line.startswith("Too few seeds"))
    assert lines[start] == (
        "Too few seeds to tell whether choosing is better than uniform or target-only: give at least 4"
    )
    for name in ("logistic regression, pooled", "uniform", "target-only", "the final model", "task-1"):
        assert any(line.startswith(name) for line in lines)
    assert lines[-2].startswith("The final model is ")
    assert lines[-2].endswith(". Use it: metasched predict runs/a FILE")
    assert lines[-1] == "Page: runs/a/page.html"
    assert Path("runs/a/page.html").exists()
    assert "networks of 4 steps (2 methods, 3 learning rates) and " in said.err
    main(["compare", saved, *words, "--out", "runs/a", "--quiet"])
    again = capsys.readouterr()
    assert again.out == said.out
    assert again.err == ""


def test_without_held_out_rows_the_line_on_the_model_has_one_full_stop(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    ms.datasets.save_npz(make_tasks(validation=8), tmp_path / "few.npz")
    main(["compare", "few.npz", *SMALL, "--no-tune", "--out", "a", "--quiet"])
    shown = capsys.readouterr().out
    assert re.search(
        r"^The final model is uniform; its accuracy in the table is [\d.]+\. Use it: metasched predict a FILE$",
        shown,
        re.M,
    )


def test_columns_that_are_left_out_are_named_before_the_fits(tmp_path, monkeypatch, capsys):
    pytest.importorskip("pyarrow")
    monkeypatch.chdir(tmp_path)
    Path("shops").mkdir()
    for name in ("east", "west"):
        rows = [f"{row},{row % 5},{'no' if row % 2 else 'yes'}" for row in range(40)]
        Path(f"shops/{name}.csv").write_text("\n".join(["id,age,label", *rows]))
    main(["compare", "shops", "--target", "west", "--data", "allow_overlap=true", *SMALL, "--out", "a"])
    said = capsys.readouterr()
    assert "note: column 'id' only identifies rows (no value occurs twice in a file), so it is left out" in said.err
    assert "! 'east' is the only source, so there is nothing to choose\n" in said.out


def test_resume_names_the_command_that_goes_on_with_a_comparison(saved, capsys, monkeypatch):
    words = ["compare", saved, *SMALL, "--out", "runs/a", "--quiet"]
    monkeypatch.setattr("sys.argv", ["/somewhere/bin/metasched", *words])
    main(words)
    alone = Path("runs/a/runs/uniform")
    for place, named in (("runs/a", "runs/a"), ("runs/a/runs", str(Path("runs/a").absolute())), ("runs", "runs/a")):
        capsys.readouterr()
        with pytest.raises(SystemExit) as stopped:
            main(["resume", place])
        assert stopped.value.code == 2
        said = capsys.readouterr()
        assert said.out == ""
        assert said.err == (
            f"metasched: {named}: is a comparison; to continue it, run its own command again: metasched "
            f"{' '.join(words)}\n"
        )
    main(["resume", str(alone), "--quiet"])
    assert "seed 1: test accuracy" in capsys.readouterr().out


def test_resume_of_a_comparison_that_was_killed_while_tuning_says_so_too(saved, capsys):
    Path("runs/a").mkdir(parents=True)
    Path("runs/a/comparison.json").write_text("{}")
    with pytest.raises(SystemExit):
        main(["resume", "runs/a"])
    assert capsys.readouterr().err == (
        "metasched: runs/a: is a comparison; to continue it, run its own command again\n"
    )


def test_json_is_one_object_for_programs(saved, capsys):
    main(["compare", saved, *SMALL, "--out", "runs/a", "--quiet", "--json"])
    found = json.loads(capsys.readouterr().out)
    assert found["case"] == "too few seeds"
    assert set(found["methods"]) == {"uniform", "target-only", "the final model"}
    assert set(found["sources"]) == {"task-0", "task-1", "task-2"}
    assert found["out"] == "runs/a"


def test_methods_with_options_are_compared_under_their_names(saved, capsys):
    two = ["--method", "wide=ucb:upper=2.0,reward=gain", "--method", "some=uniform:tasks=[1,2],abstain=true"]
    main(["compare", saved, *SMALL, "--no-tune", *two, "--out", "runs/a", "--quiet", "--json"])
    found = json.loads(capsys.readouterr().out)["methods"]
    assert set(found) == {"uniform", "wide", "some", "target-only", "the final model"}
    wide, some = (
        json.loads(Path(f"runs/a/runs/{name}/rate-0.001-seed-1/run.json").read_text())["spec"]
        for name in ("wide", "some")
    )
    assert (wide["scheduler"], wide["options"], wide["reward"]) == ("ucb", {"upper": 2.0}, "gain")
    assert (some["options"], some["abstain"]) == ({"tasks": [0, 1]}, True)


def test_the_old_flag_works_with_a_line_that_names_the_new_one(saved, capsys):
    words = ["compare", saved, *SMALL[:-2], "--schedulers", "cyclic", "--no-tune", "--out", "runs/a", "--json"]
    main([*words, "--quiet"])
    said = capsys.readouterr()
    assert said.err == "metasched: --schedulers is now --methods; the next version will not accept the old name\n"
    assert "cyclic" in json.loads(said.out)["methods"]


def test_a_source_alone_is_a_method():
    assert parsed("one=single:2").scheduler == "single:2"
    assert parsed("one=single:2").options == {}
    assert parsed("one=single:task=2").options == {"task": 2}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["no/such.npz"], "no such file"),
        (["set.npz", "--methods", "unifrom"], "did you mean 'uniform'"),
        (["set.npz", "--method", "unifrom"], "--method unifrom: expected NAME=SCHEDULER"),
        (["set.npz", "--method", "ucb:upper=2"], "--method ucb:upper=2: expected NAME=SCHEDULER"),
        (["set.npz", "--methods", "ucb", "--schedulers", "ucb"], "give --methods alone"),
        (["set.npz", "--method", "a=ucb:upper"], "--method upper: expected key=value"),
        (["set.npz", "--method", "a=ucb:uper=2"], "did you mean 'upper'"),
        (["set.npz", "--method", "a=ucb", "--method", "a=cyclic"], "two methods are called 'a'"),
        (["set.npz", "--method", "a=ucb:reward=luck"], "unknown reward 'luck'"),
        (["set.npz", "--seeds", "1"], "needs at least 2"),
        (["set.npz", "--learner", "joynt"], "did you mean 'joint'"),
        (["set.npz", "--metric", "mae"], "these tasks have classes; give accuracy or"),
        (["set.npz", "--budget", "soon"], "give a time such as 90s, 2m or 1h30m"),
        (["set.npz", "--budget", "0.001s"], "is too short even for"),
    ],
)
def test_bad_input_is_one_line_and_nothing_is_written(saved, capsys, words, message):
    with pytest.raises(SystemExit) as stopped:
        main(["compare", *words, "--batch-size", "4"])
    assert stopped.value.code == 2
    error = capsys.readouterr().err.strip()
    assert message in error
    assert "\n" not in error
    assert not Path("runs").exists()
