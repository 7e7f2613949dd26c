import msgspec
import pytest

import metasched as ms
from helpers import make_tasks
from metasched.errors import DataError, RunError
from metasched.runs import outcome as outcomes
from metasched.runs import sweep
from metasched.runs.jobs import make_jobs
from metasched.runs.outcome import Final, Outcome


def job_of(scheduler, seed, **options):
    learner = ms.AlgorithmOne(batch_size=4)
    return make_jobs(make_tasks(), scheduler, options=options, network="mlp", learner=learner, seeds=(seed,))[0]


def outcome(scheduler, seed, **options):
    """A finished run of that scheduler, as if it had been run."""
    job = job_of(scheduler, seed, **options)
    told = {key: getattr(job.description, key) for key in ("method", "family", "about", "origin")}
    final = Final(test_accuracy=0.5)
    return Outcome(run=job.description.spec.name, spec=job.description.spec, final=final, **told)


@pytest.fixture
def finished():
    return [*(outcome("epsilon_greedy", seed, epsilon=0.2) for seed in (0, 1)), outcome("ucb", 0)]


def test_what_is_added_after_a_kill_is_not_taken_for_more_of_what_was_there(tmp_path, finished):
    """Rewritten in short, with what neighbours share said once, the file would lend its options to the next line."""
    path = tmp_path / "runs.jsonl"
    lines = [outcomes.encode(each) for each in finished]
    path.write_bytes(lines[0] + lines[1] + lines[2][:100])
    assert sweep._whole_lines(path) == finished[:2]
    with path.open("ab") as stream:
        stream.write(lines[2])
    assert list(outcomes.read(path)) == finished
    assert sweep._whole_lines(path) == finished


def test_a_line_that_is_whole_but_for_its_end_is_run_again(tmp_path, finished):
    path = tmp_path / "runs.jsonl"
    path.write_bytes(outcomes.encode(finished[0]) + outcomes.encode(finished[1])[:-1])
    assert sweep._whole_lines(path) == finished[:1]


def test_a_damaged_line_within_is_named(tmp_path, finished):
    path = tmp_path / "runs.jsonl"
    path.write_bytes(b"{}\n" + outcomes.encode(finished[0]))
    with pytest.raises(DataError, match=r"runs\.jsonl, line 1: is not an outcome"):
        sweep._whole_lines(path)


class Ready:
    """An executor whose runs are finished before they begin."""

    needs_folders = False

    def run(self, jobs, on_outcome, on_counts):
        on_outcome(0, outcome("ucb", 0))


def test_nothing_is_added_behind_a_link(tmp_path, finished):
    there = outcomes.encode(finished[1])
    (tmp_path / "precious").write_bytes(there)
    (tmp_path / "runs.jsonl").symlink_to(tmp_path / "precious")

    with pytest.raises(RunError, match="is a link"):
        sweep.Finished(Ready(), tmp_path / "runs.jsonl").run([job_of("ucb", 0)])
    assert (tmp_path / "precious").read_bytes() == there


def test_outcomes_come_back_exactly(tmp_path, finished):
    outcomes.write(tmp_path / "a.jsonl", finished)
    assert [msgspec.to_builtins(each) for each in outcomes.read(tmp_path / "a.jsonl")] == [
        msgspec.to_builtins(each) for each in finished
    ]


@pytest.mark.parametrize(
    ("finals", "means"),
    [((0.5, None, 0.2, 0.4), (-0.25, 0.3)), ((-40.0, -41.0, None, -39.0), (-40.5, -40.5)), ((None, None), (-1.0,))],
)
def test_a_run_that_diverged_counts_as_less_than_any_other_whatever_the_metric(finals, means):
    known = outcome("ucb", 0)
    runs = [
        msgspec.structs.replace(known, final=None if score is None else Final(test_accuracy=score)) for score in finals
    ]
    assert sweep._mean_finals(runs, 2).tolist() == pytest.approx(list(means))
