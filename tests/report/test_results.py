"""Outcomes and evidence as files: good ones, mixed ones, bad ones, and runs of one's own."""

import json

import pytest

import made_up_results as made
from metasched.errors import DataError
from metasched.report import page
from metasched.report.results import load
from metasched.runs import outcome


def few(**changes):
    return [made.run(name, seed, **changes) for name in ("cyclic", "ucb") for seed in range(3)]


class TestGoodFiles:
    def test_cells_come_in_the_order_of_the_paper(self, everything):
        assert [cell.variant for cell in everything.of("digits", "paper")] == ["B=1", "B=20", "B=100"]
        experiments = ["digits", "digits", "cifar", "weather", "weather-points"]
        assert [cell.experiment for cell in everything.cells[::5]] == experiments
        assert [item.experiment for item in everything.others] == ["digits", "cifar", "weather"]
        assert not everything.faults
        assert not everything.notes

    def test_a_run_may_have_only_its_final_accuracy(self, tmp_path):
        bare = {"updates": (), "samples": (), "test_accuracy": ()}
        ceiling = [made.changed(made.run("supervised", seed), **bare) for seed in range(3)]
        results = made.loaded(tmp_path, few() + ceiling)
        assert results.faults == ()
        assert results.cells[0].methods["supervised"].curves("test_accuracy").shape == (3, 0)
        assert page.build(results).tables

    def test_a_seed_that_diverged_is_named(self, tmp_path):
        results = made.loaded(tmp_path, [*few()[:-1], made.diverged("ucb", 2)])
        assert "ucb diverged with seed 2 (at update 7: loss is not finite)" in results.notes[0]

    def test_only_outcomes_are_read(self, tmp_path):
        made.write(tmp_path, few())
        run = tmp_path / "mine"
        run.mkdir()
        outcome.write(run / "outcome.jsonl", [made.own()])
        for name in ("run.json", "metrics.jsonl", "diary.jsonl", "checkpoint.json"):
            (run / name).write_text("no outcome\n")
        hidden = tmp_path / ".work"
        hidden.mkdir()
        (hidden / "outcomes.jsonl").write_text("no outcome\n")
        (tmp_path / "metrics.jsonl").write_text("no outcome\n")
        results = load([tmp_path])
        assert results.faults == ()
        assert [cell.experiment for cell in results.cells] == ["digits", "mine"]

    def test_a_folder_named_twice_is_read_once(self, tmp_path):
        made.write(tmp_path, few())
        assert load([tmp_path, tmp_path / "digits"]).faults == ()


class TestComparisons:
    def test_the_runs_below_are_those_of_its_final_models_and_no_cells(self, tmp_path):
        run = tmp_path / "runs" / "thompson" / "rate-1-seed-0"
        run.mkdir(parents=True)
        outcome.write(run / "outcome.jsonl", [made.own()])
        (tmp_path / "runs" / "other.jsonl").write_text("no outcome\n")
        results = made.compared(tmp_path)
        assert results.faults == ()
        assert [cell.key for cell in results.cells] == ["coffee 0a joint"]

    def test_earlier_ones_have_runs_alone(self, tmp_path):
        (tmp_path / "comparison.json").write_text('{"methods": {}}')
        made.write(tmp_path / "runs", [made.own()])
        assert [cell.experiment for cell in load([tmp_path]).cells] == ["mine"]

    def test_one_that_has_not_ended_says_so(self, tmp_path):
        made.write(tmp_path, few())
        (tmp_path / "begun").mkdir()
        (tmp_path / "begun" / "comparison.json").write_text('{"format": 2}')
        (fault,) = load([tmp_path]).faults
        assert fault.endswith("begun: the comparison has not ended and is left out; run its command again")

    def test_what_was_asked_may_be_damaged(self, tmp_path):
        made.compared(tmp_path)
        (tmp_path / "comparison.json").write_text("{")
        made.write(tmp_path / "runs", [made.own()])
        assert [cell.key for cell in load([tmp_path]).cells] == ["coffee 0a joint"]


class TestSaysWhatIsMixed:
    def test_versions_and_devices(self, tmp_path):
        old = made.spec("ucb", 2, versions={**made.VERSIONS, "jax": "0.9.0"})
        elsewhere = made.changed(made.ORIGIN, device="cpu: cpu")
        runs = [*few()[:4], made.run("ucb", 1, origin=elsewhere), made.run("ucb", 2, spec=old)]
        notes = made.loaded(tmp_path, runs).notes
        assert "different versions of jax: 0.10.0 (5), 0.9.0 (1)" in notes[0]
        assert "different devices: gpu: NVIDIA H200 (5), cpu: cpu (1)" in notes[1]

    def test_missing_seeds(self, tmp_path):
        assert "ucb lacks seeds 1, 2" in made.loaded(tmp_path, few()[:4]).notes[0]


def spoil(path, change):
    """Change what a file of outcomes says in its first line."""
    first, *lines = path.read_text().splitlines()
    content = json.loads(first)
    change(content)
    path.write_text("\n".join([json.dumps(content), *lines]) + "\n")


class TestBadFiles:
    @pytest.fixture
    def bad(self, tmp_path):
        """A file to be spoilt beside a good one."""
        made.write(tmp_path, few(study=made.study(variant="10 labels")))
        return made.write(tmp_path, few())

    def fault(self, path, message):
        results = load([path.parents[1]])
        assert [cell.variant for cell in results.cells] == ["10 labels"]
        (fault,) = results.faults
        assert str(path) in fault
        assert message in fault
        assert "\n" not in fault

    def test_a_line_cut_short_in_the_middle(self, bad):
        lines = bad.read_text().splitlines()
        lines[2] = lines[2][:30]
        bad.write_text("\n".join(lines) + "\n")
        self.fault(bad, "line 3: is not an outcome of format 3")

    def test_a_last_line_cut_short_is_a_run_that_is_not_there(self, bad):
        bad.write_text(bad.read_text()[:-20])
        results = load([bad])
        assert results.faults == ()
        assert results.cells[0].methods["ucb"].seeds == (0, 1)

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (lambda one: one.update(format=4), "its format is 4"),
            (lambda one: one.pop("format"), "its format is None"),
            (lambda one: one.update(colour="red"), "unknown field `colour`"),
            (lambda one: one["study"].update(threshold="high"), "study.threshold"),
            (lambda one: one["about"].pop("simulated"), "missing required field `simulated`"),
            (lambda one: one.update(updates=[1]), "differ in length"),
            (lambda one: one.update(final=None), "either final or diverged"),
            (lambda one: one["final"].update(test_accuracy=2), "do not fit its tasks and classes"),
            (lambda one: one.update(drawn=[1, 2]), "do not fit its tasks and classes"),
            (lambda one: one.update(schedule=[[1]]), "do not fit its tasks and classes"),
            (lambda one: one["final"].update(test_accuracy_by_class=[1]), "do not fit its tasks and classes"),
            (lambda one: one["final"].update(drawn_by_label=[[1]] * 4 + [[1, 2]]), "do not fit its tasks and classes"),
        ],
    )
    def test_is_named_and_left_out(self, bad, change, message):
        spoil(bad, change)
        self.fault(bad, message)

    def test_other_json_is_nobodys_business(self, bad):
        (bad.parent / "notes.json").write_text("[1, 2]")
        assert load([bad.parent]).faults == ()

    def test_the_same_runs_twice_count_once(self, tmp_path):
        first = made.write(tmp_path / "a", few())
        second = made.write(tmp_path / "b", few())
        results = load([tmp_path])
        assert len(results.cells) == 1
        assert results.faults == (f"{second}: 6 of its runs are left out: cyclic, seed 0, occurs twice",)
        assert first.exists()

    def test_runs_of_a_method_with_other_settings_are_not_mixed(self, tmp_path):
        """Such as a quick run beside a full one."""
        quick = made.run("ucb", 7, spec=made.spec("ucb", 7, settings={"batch_size": 5}))
        path = made.write(tmp_path / "b", [quick])
        made.write(tmp_path / "a", few())
        results = load([tmp_path])
        assert results.cells[0].methods["ucb"].seeds == (0, 1, 2)
        assert results.faults == (
            f"{path}: 1 of its runs are left out: ucb, seed 7, differs in setting batch_size from the runs before it",
        )

    def test_runs_on_other_data_are_not_mixed(self, tmp_path):
        results = made.loaded(tmp_path, [*few(), made.run("ucb", 7, about=made.about(tasks=("a", "b")))])
        assert results.cells[0].methods["ucb"].seeds == (0, 1, 2)
        assert "ucb, seed 7, differs in data" in results.faults[0]

    @pytest.mark.parametrize("name", ["empty", "absent"])
    def test_nothing_at_all_is_an_error(self, tmp_path, name):
        (tmp_path / "empty").mkdir()
        with pytest.raises(DataError, match="no results to report"):
            load([tmp_path / name])

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"scaled_error": {"steps": [1, 2], "by_class": {"3": [1]}}}, "scaled_error of '3' is not a list of 2"),
            ({"order": [{"rows": 3}]}, "missing required field `task`"),
            ({"format": 2}, "not evidence of format 1"),
        ],
    )
    def test_bad_evidence_is_left_out(self, tmp_path, changes, message):
        results = made.loaded(tmp_path, few(), made.evidence(**changes))
        assert results.others == ()
        assert message in results.faults[0]


class TestOwnRuns:
    def test_runs_on_the_same_data_are_one_cell(self, tmp_path):
        (cell,) = made.loaded(
            tmp_path, *([made.own(name, seed)] for name in ("cyclic", "ucb") for seed in (0, 5))
        ).cells
        assert {name: sorted(method.seeds) for name, method in cell.methods.items()} == {
            "cyclic": [0, 5],
            "ucb": [0, 5],
        }
        assert (cell.key, cell.regime, cell.title) == ("mine/own runs", "own runs", "mine, own runs")

    def test_runs_on_other_data_of_the_same_name_are_a_cell_of_their_own(self, tmp_path):
        other = made.own(spec=made.spec(data=made.DataSpec(fingerprint="0b")))
        results = made.loaded(tmp_path, [made.own()], [other])
        assert sorted(cell.key for cell in results.cells) == ["mine/own runs", "mine/own runs (2)"]

    def test_options_of_the_data_tell_cells_apart(self, tmp_path):
        few = made.own(spec=made.spec(data=made.DataSpec(fingerprint="0b", options={"target_labels": 30})))
        assert made.loaded(tmp_path, [few]).cells[0].label == "mine, target_labels=30"

    def test_a_run_with_other_settings_or_options_is_a_method_of_its_own(self, tmp_path):
        first = made.own("cyclic")
        other = made.own("ucb", spec=made.spec(settings={"batch_size": 5}, options={"upper": 0.5}))
        outcome.write(tmp_path / "outcomes.jsonl", [first, other])
        (cell,) = load([tmp_path]).cells
        assert list(cell.methods) == ["cyclic", "ucb (upper 0.5, batch_size 5)"]

    def test_a_run_that_has_not_finished_says_how_to_go_on(self, tmp_path):
        made.write(tmp_path, [made.own()])
        half = tmp_path / "half"
        half.mkdir()
        (half / "run.json").write_text("{}")
        results = load([tmp_path])
        assert results.faults == (
            f"{half}: has no finished run and is left out; continue with 'metasched resume {half}'",
        )
        assert len(results.cells) == 1

    def test_commands_are_told_as_typed(self, tmp_path):
        origin = made.changed(made.ORIGIN, command="/somewhere/bin/metasched train mine")
        assert made.loaded(tmp_path, [made.own(origin=origin)]).cells[0].origin.command == "metasched train mine"
