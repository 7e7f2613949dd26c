import os

import pytest

from metasched.errors import RunError
from metasched.files import write_json
from metasched.runs.lease import LEASE, STALE_SECONDS, Lease
from metasched.runs.status import FAILURE, STATES, failure, state_of, survey


def make(place, state):
    """A run folder in that state, as its files tell."""
    place.mkdir(parents=True)
    (place / "run.json").write_text("{}")
    if state in ("running", "stale"):
        Lease(place).take()
    if state == "stale":
        then = (place / LEASE).stat().st_mtime - STALE_SECONDS - 1
        os.utime(place / LEASE, (then, then))
    if state == "failed":
        write_json(place / FAILURE, {"error": "ValueError: no", "tries": 3})
    if state == "done":
        (place / "outcome.jsonl").write_text("{}\n")
    return place


@pytest.mark.parametrize("state", STATES)
def test_a_folder_tells_its_state(tmp_path, state):
    assert state_of(make(tmp_path / "run", state)) == state


def test_a_run_that_failed_and_is_tried_again_runs_and_then_waits(tmp_path):
    place = make(tmp_path / "run", "failed")
    assert failure(place).error == "ValueError: no"
    Lease(place).take()
    assert state_of(place) == "running"
    (place / LEASE).unlink()
    (place / FAILURE).unlink()
    assert state_of(place) == "waiting"


def test_a_survey_counts_by_folder_and_names_what_needs_attention(tmp_path):
    for number, state in enumerate(STATES):
        make(tmp_path / "runs" / "ours" / f"seed-{number}", state)
    (make(tmp_path / ".work" / "tuning" / "0a", "running") / "metrics.jsonl").write_text('{"update":1}\n')
    (tmp_path / ".work" / "tuning.jsonl").write_text('{"run":1}\n{"run":2}\n{"run":3')
    groups = {group.name: group for group in survey(tmp_path)}
    assert list(groups) == ["tuning", "runs/ours"]
    assert groups["runs/ours"].counts == dict.fromkeys(STATES, 1)
    assert [each.name for each in groups["runs/ours"].stale] == ["seed-2"]
    assert [each.name for each in groups["runs/ours"].failed] == ["seed-3"]
    assert groups["tuning"].counts == {**dict.fromkeys(STATES, 0), "running": 1, "done": 2}


@pytest.mark.parametrize("place", ["absent", "."])
def test_a_folder_without_runs_is_refused(tmp_path, place):
    with pytest.raises(RunError, match="give"):
        survey(tmp_path / place)
