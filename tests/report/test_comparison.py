"""``ms.compare`` as a user calls it: the verdict, the table, the page, what is off."""

import json
import re
from dataclasses import replace
from html import unescape

import numpy as np
import pytest

import metasched as ms
from metasched.cli import main
from metasched.errors import ConfigError
from metasched.report import results
from metasched.report.results import of_outcomes
from metasched.report.verdict import opening
from metasched.runs import compare as comparing

SMALL = ms.Joint(batch_size=10, batches_per_update=8, updates=25, eval_every=5, learning_rate=0.01)


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


@pytest.fixture(scope="module")
def comparison():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(comparing, "GRIDS", {"joint": ((0.01,),)})
        return ms.compare(sources_that_differ(), seeds=8, learner=SMALL, network=ms.networks.mlp(2, (8,)))


def test_the_verdict_is_one_sentence_about_choosing(comparison):
    assert comparison.verdict == comparison.decision.sentence
    assert comparison.verdict.startswith("Choosing helps here: +.")


def test_the_table_has_every_method_and_the_linear_model_best_first(comparison):
    lines = comparison.table().splitlines()
    names = ("thompson", "uniform", "target-only", "best single: good", "logistic regression alone")
    shown = [line for line in lines if line.startswith(names)][:5]
    assert len(shown) == 5
    accuracies = [float(re.search(r"\d\.\d{3}", line)[0]) for line in shown]
    assert accuracies == sorted(accuracies, reverse=True)


def test_the_table_says_where_the_batches_of_ours_came_from(comparison):
    assert comparison.table().splitlines()[-1].startswith("thompson drew good ")


def test_sources_with_shuffled_labels_are_named_and_the_good_one_is_not(comparison):
    shuffled = {line.split("'")[1] for line in comparison.warnings if "look shuffled" in line}
    assert shuffled
    assert "good" not in shuffled


def test_what_is_off_with_the_rows_comes_first():
    tasks = replace(sources_that_differ(), label_warnings=("label 'Yes' is not in the target",))
    config = ms.Joint(batch_size=10, updates=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(comparing, "GRIDS", {"joint": ((0.01,),)})
        warnings = ms.compare(tasks, ["thompson"], seeds=2, learner=config, network=ms.networks.mlp(2, (4,))).warnings
    assert warnings[0] == "label 'Yes' is not in the target"


def test_the_summary_has_the_numbers_behind_the_sentence(comparison):
    summary = comparison.summary()
    finals = summary["methods"]
    gaps = [finals["thompson"]["test_accuracy"][seed] - finals["uniform"]["test_accuracy"][seed] for seed in range(8)]
    assert summary["methods"]["thompson"]["difference"]["value"] == pytest.approx(np.mean(gaps))
    assert summary["tasks"] == ["spoilt-1", "good", "spoilt-2"]


def test_the_page_is_written_where_it_is_asked_for(comparison, tmp_path):
    for module in ("altair", "jinja2", "vl_convert"):
        pytest.importorskip(module)
    page = comparison.report(tmp_path / "page.html")
    assert "thompson" in page.read_text()


def test_the_page_has_what_the_terminal_says_and_so_has_one_made_from_the_folder_later(tmp_path, monkeypatch, capsys):
    for module in ("altair", "jinja2", "vl_convert"):
        pytest.importorskip(module)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(comparing, "GRIDS", {"joint": ((0.01,),)})
    found = ms.compare(sources_that_differ(), seeds=2, learner=SMALL, network=ms.networks.mlp(2, (8,)), out="runs/a b")
    assert found.warnings
    found.report("first.html")
    main(["report", "runs/a b", "--out", "later.html", "--quiet"])
    said = capsys.readouterr().out
    for name in ("first.html", "later.html"):
        text = unescape((tmp_path / name).read_text())
        opening = text[: text.index('<details class="section"')]
        for line in found.warnings:
            assert line in opening
            assert f"! {line}" in said
        for row in found.table().splitlines()[3:-1]:
            method, accuracy = re.match(r"(.*?)  +(\d\.\d{3}(?: ± \d\.\d{3})?)", row).groups()
            assert method in opening
            assert accuracy in opening
        curves = json.loads(text.split('id="specs">')[1].split("</script>")[0])["runs-1"]["datasets"]
        names = {row["name"] for kind, rows in curves.items() if kind.startswith("names") for row in rows}
        assert names == {"thompson", "uniform", "target-only", "best single: good"}


def test_verdict_table_and_page_read_the_same_runs_so_that_no_statistic_is_made_twice(tmp_path, monkeypatch):
    for module in ("altair", "jinja2", "vl_convert"):
        pytest.importorskip(module)
    ordered, order = [], results._cell
    monkeypatch.setattr(results, "_cell", lambda *given: ordered.append(given) or order(*given))
    tiny = {"seeds": 2, "learner": ms.Joint(batch_size=10, updates=1), "tune": False}
    found = ms.compare(sources_that_differ(), ["thompson"], **tiny)
    found.report(tmp_path / "page.html")
    assert found.table()
    assert len(ordered) == 1


def test_a_better_method_is_named_with_the_command_that_uses_it(tmp_path, monkeypatch):
    monkeypatch.setattr(comparing, "GRIDS", {"joint": ((0.01,),)})
    asked = {"seeds": 3, "learner": SMALL, "network": ms.networks.mlp(2, (8,))}
    words = ["cyclic", "best-single"]
    out = tmp_path / "a b"
    (line,) = [line for line in ms.compare(sources_that_differ(), words, out=out, **asked).warnings if "above" in line]
    assert line.startswith("best single: good ends above cyclic (+0.")
    assert line.endswith(f"; if it stays so on other rows, use it: metasched predict '{out}/runs/best-single' FILE")
    assert (out / "runs" / "best-single" / "seed-0" / "model.json").exists()
    (line,) = [line for line in ms.compare(sources_that_differ(), words, **asked).warnings if "above" in line]
    assert line.endswith("use it: ms.train(tasks, scheduler='single:good')")


def test_the_page_gives_the_verdict_of_the_terminal_whatever_method_it_is_on(monkeypatch):
    monkeypatch.setattr(comparing, "GRIDS", {"joint": ((0.01,),)})
    asked = {"seeds": 2, "learner": ms.Joint(batch_size=10, updates=1), "network": ms.networks.mlp(2, (4,))}
    for words, ours in ((["cyclic", "ucb"], "cyclic"), (["ucb", "epsilon_greedy"], "ucb")):
        found = ms.compare(sources_that_differ(), words, **asked)
        assert found.ours == ours
        assert opening(of_outcomes(found.outcomes)).title == found.verdict


def test_the_verdict_may_be_on_the_best_single_source(monkeypatch):
    monkeypatch.setattr(comparing, "GRIDS", {"joint": ((0.01,),)})
    config = ms.Joint(batch_size=10, updates=1)
    assert ms.compare(sources_that_differ(), ["best-single"], seeds=2, learner=config).ours.startswith("best single: ")


def test_the_verdict_is_on_the_method_with_the_role_ours(monkeypatch):
    monkeypatch.setattr(comparing, "GRIDS", {"joint": ((0.01,),)})
    methods = ["thompson", ms.Method("wide", "ucb", {"upper": 2.0}, role="ours"), ms.Method("narrow", "ucb")]
    config = ms.Joint(batch_size=10, updates=1)
    found = ms.compare(sources_that_differ(), methods, seeds=2, learner=config, tune=False)
    assert found.ours == "wide"
    assert list(found.summary()["methods"]) == ["thompson", "wide", "narrow", "uniform", "target-only"]
    assert sum(found.sources().values()) == pytest.approx(1)


def test_the_old_name_of_methods_works_with_a_warning_that_names_the_new_one(monkeypatch):
    config = ms.Joint(batch_size=10, updates=1)
    with pytest.warns(DeprecationWarning, match=r"compare\(methods=…\)"):
        found = ms.compare(sources_that_differ(), schedulers=["cyclic"], seeds=2, learner=config, tune=False)
    assert found.ours == "cyclic"


def test_controls_are_always_there_and_a_source_smaller_than_a_batch_makes_batches_smaller(monkeypatch):
    monkeypatch.setattr(comparing, "GRIDS", {"joint": ((0.01,),)})
    tasks = sources_that_differ()
    small = {"small": (tasks.tasks[1].inputs[:7], tasks.tasks[1].labels[:7])}
    few = ms.TaskSet.from_arrays(small, validation=tasks.validation, test=tasks.test)
    config = ms.Joint(updates=2, eval_every=1, batching="per_source")
    found = ms.compare(few, ["cyclic"], seeds=[3, 5], learner=config, network=ms.networks.mlp(2, (3,)))
    assert list(found.cell.methods) == ["cyclic", "uniform", "target-only"]
    assert found.ours == "cyclic"
    assert (
        found.verdict == "Too few seeds to tell whether cyclic is better than uniform or target-only: give at least 7"
    )
    assert "source 'small' has 7 rows, fewer than a batch of 20" in found.warnings[0]
    assert found.outcomes[0].spec.settings["batch_size"] == 7


@pytest.mark.parametrize("seeds", [0, 1, True])
def test_one_seed_compares_nothing(seeds):
    with pytest.raises(ConfigError, match="a comparison needs at least 2"):
        ms.compare(sources_that_differ(), seeds=seeds)


def test_a_misspelt_scheduler_is_said_before_anything_else():
    with pytest.raises(ConfigError, match="unknown scheduler 'unifrom'; did you mean 'uniform'"):
        ms.compare(sources_that_differ(), ["thompson", "unifrom"], seeds=1)


def test_the_single_task_that_did_best_on_test_rows_is_refused():
    with pytest.raises(ConfigError, match="chosen on test rows; give best-single"):
        ms.compare(sources_that_differ(), ["oracle-best-single"], seeds=2)
